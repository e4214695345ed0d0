// The exponentials of attention. Include inside an anonymous namespace.

// e^v for v <= 0 as 2^n 2^f with f = t - n, n = round(t), t = v / ln 2: 2^f = 1 + f q(f) on
// |f| <= 1/2, q fitted with relative error 2e-9. Below 2^-126 the result is 0; NaN stays NaN.
template <class V>
inline V exp2_not_positive(V t) {
  const V n = round(t), f = t - n;
  V q = V::set(1.53533634e-4F);
  q = fma(q, f, V::set(1.3398875e-3F));
  q = fma(q, f, V::set(9.61843692e-3F));
  q = fma(q, f, V::set(5.55033237e-2F));
  q = fma(q, f, V::set(0.240226477F));
  q = fma(q, f, V::set(0.693147182F));
  const V power = add_exponent(fma(q, f, V::set(1.0F)), n);
  return select(less(t, V::set(-126.0F)), V::set(0.0F), power);
}

template <class V>
float row_maximum(const float* x, std::size_t n) {
  constexpr float kLowest = -3.402823466e38F;
  constexpr std::size_t kLanes = V::kLanes;
  V top = V::set(kLowest), other = top;
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    top = max(top, V::load(x + i));
    other = max(other, V::load(x + i + kLanes));
  }
  top = max(top, other);
  for (; i < n; i += kLanes) top = max(top, V::load_part(x + i, n - i).keep(n - i, kLowest));
  return largest(top);
}

// Keeps n values from column i of a row on, and returns what the sum of the row counts.
template <class V>
struct PlainExps {
  [[gnu::always_inline]] static V store(V e, float* row, std::size_t i, std::size_t n) {
    if (n < V::kLanes)
      e.store_part(row + i, n);
    else
      e.store(row + i);
    return e;
  }
};

// The difference is taken before the scale, so a large common part costs no accuracy. All maxima
// first: each is a chain that the next row's need not wait for. What is stored lies where values
// were read before.
template <class V, class Exps = PlainExps<V>>
void exp_rows(float* x, std::size_t stride, std::size_t rows, std::size_t count, std::size_t growth,
              float scale, float* totals) {
  constexpr std::size_t kLanes = V::kLanes;
  for (std::size_t row = 0; row < rows; ++row)
    totals[row] = row_maximum<V>(x + row * stride, count + row * growth);
  const V factor = V::set(scale * 1.44269504F);
  for (std::size_t row = 0; row < rows; ++row) {
    float* values = x + row * stride;
    const std::size_t n = count + row * growth;
    const V shift = V::set(totals[row]);
    V acc = V::set(0.0F);
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const V e = exp2_not_positive((V::load(values + i) - shift) * factor);
      acc = acc + Exps::store(e, values, i, kLanes);
    }
    if (i < n) {
      const V part = V::load_part(values + i, n - i);
      const V e = exp2_not_positive((part - shift) * factor).keep(n - i, 0.0F);
      acc = acc + Exps::store(e, values, i, n - i);
    }
    totals[row] = sum(acc);
  }
}
