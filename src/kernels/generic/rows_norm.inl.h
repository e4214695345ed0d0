// LayerNorm and RMSNorm of one row, forward and backward. Included by rows.inl.h.

// The sum of term(load) over the vectors of a row of n values, where load(p) gives the vector of
// row p at hand; lanes beyond the row count as 0. Four sums, as each addition waits for the one
// before.
template <class V, class Term>
float row_total(std::size_t n, const Term& term) {
  constexpr std::size_t kLanes = V::kLanes;
  const auto at = [&](std::size_t first) {
    return term([first](const float* p) { return V::load(p + first); });
  };
  V acc = V::set(0.0F), second = acc, third = acc, fourth = acc;
  std::size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    acc = acc + at(i);
    second = second + at(i + kLanes);
    third = third + at(i + 2 * kLanes);
    fourth = fourth + at(i + 3 * kLanes);
  }
  acc = (acc + second) + (third + fourth);
  for (; i + kLanes <= n; i += kLanes) acc = acc + at(i);
  if (i < n) {
    const std::size_t rest = n - i;
    acc = acc +
          term([i, rest](const float* p) { return V::load_part(p + i, rest); }).keep(rest, 0.0F);
  }
  return sum(acc);
}

// y = value(load) over the vectors of a row of n values.
template <class V, class Value>
void write_row(float* y, std::size_t n, const Value& value) {
  std::size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes)
    value([i](const float* p) { return V::load(p + i); }).store(y + i);
  if (i < n) {
    const std::size_t rest = n - i;
    value([i, rest](const float* p) { return V::load_part(p + i, rest); }).store_part(y + i, rest);
  }
}

// A row without spread and eps = 0 has no scale: it becomes beta, not 0 * inf.
inline float norm_scale(float spread) {
  return spread == 0.0F ? 0.0F : 1.0F / __builtin_sqrtf(spread);
}

template <class V>
struct Normalised {
  V shift, rest, scale;

  explicit Normalised(NormStatistics s)
      : shift(V::set(s.shift)), rest(V::set(s.rest)), scale(V::set(s.scale)) {}
  V operator()(V x) const { return ((x - shift) - rest) * scale; }
};

// The mean is taken twice: the second pass adds the mean of what the first one missed, so values of
// 1e7 with a spread of 1 keep their spread and a constant row gives exactly beta. E[x^2] - E[x]^2
// is never formed.
template <class V>
NormStatistics layer_norm_statistics(const float* x, std::size_t n, float eps) {
  const float count = static_cast<float>(n);
  const float shift = row_total<V>(n, [&](auto load) { return load(x); }) / count;
  const float rest = row_total<V>(n, [&](auto load) { return load(x) - V::set(shift); }) / count;
  const float variance = row_total<V>(n,
                                      [&](auto load) {
                                        const V centred = (load(x) - V::set(shift)) - V::set(rest);
                                        return centred * centred;
                                      }) /
                         count;
  return {shift, rest, norm_scale(variance + eps)};
}

template <class V>
void layer_norm(const float* x, const float* gamma, const float* beta, float* y, std::size_t n,
                float eps) {
  const Normalised<V> normalised(layer_norm_statistics<V>(x, n, eps));
  write_row<V>(y, n, [&](auto load) { return fma(normalised(load(x)), load(gamma), load(beta)); });
}

template <class V>
NormStatistics rms_norm_statistics(const float* x, std::size_t n, float eps) {
  const float squares = row_total<V>(n, [&](auto load) { return load(x) * load(x); });
  return {0.0F, 0.0F, norm_scale(squares / static_cast<float>(n) + eps)};
}

// To the nearest bf16 value, ties to even; a NaN stays one.
inline void round_row_to_bf16(float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = __builtin_bit_cast(std::uint32_t, y[i]);
    const std::uint32_t near = (bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U;
    const std::uint32_t nan = (bits | 0x400000U) & 0xFFFF0000U;
    y[i] = __builtin_bit_cast(float, (bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : near);
  }
}

enum class Rounding { none, before_gamma, after_gamma };

template <class V, Rounding kRounding>
void rms_norm(const float* x, const float* gamma, float* y, std::size_t n, float eps) {
  const V scale = V::set(rms_norm_statistics<V>(x, n, eps).scale);
  if constexpr (kRounding == Rounding::before_gamma) {
    write_row<V>(y, n, [&](auto load) { return load(x) * scale; });
    round_row_to_bf16(y, n);
    write_row<V>(y, n, [&](auto load) { return load(y) * load(gamma); });
  } else {
    write_row<V>(y, n, [&](auto load) { return load(x) * scale * load(gamma); });
  }
  if constexpr (kRounding != Rounding::none) round_row_to_bf16(y, n);
}

// With g = dy gamma and h the normalised x: dx = scale (g - mean(g) - h mean(g h)); the mean of g
// only where the norm takes the mean of x away, and in two parts as there.
template <class V, bool kCentred>
void norm_backward(const float* x, NormStatistics statistics, const float* gamma, const float* dy,
                   float* dx, std::size_t n) {
  const Normalised<V> normalised(statistics);
  const float count = static_cast<float>(n);
  float shift = 0.0F, rest = 0.0F;
  if constexpr (kCentred) {
    shift = row_total<V>(n, [&](auto load) { return load(dy) * load(gamma); }) / count;
    rest =
        row_total<V>(n, [&](auto load) { return load(dy) * load(gamma) - V::set(shift); }) / count;
  }
  const auto gradient = [&](auto load) {
    const V g = load(dy) * load(gamma);
    if constexpr (kCentred) return (g - V::set(shift)) - V::set(rest);
    return g;
  };
  const V along = V::set(
      row_total<V>(n, [&](auto load) { return gradient(load) * normalised(load(x)); }) / count);
  write_row<V>(dx, n, [&](auto load) {
    return (gradient(load) - normalised(load(x)) * along) * normalised.scale;
  });
}

template <class V>
void norm_gamma(const float* x, NormStatistics statistics, const float* dy, float* dgamma,
                std::size_t n) {
  const Normalised<V> normalised(statistics);
  write_row<V>(dgamma, n,
               [&](auto load) { return fma(load(dy), normalised(load(x)), load(dgamma)); });
}
