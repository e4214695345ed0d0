// Row kernels: norms, softmax, sums of rows. One routine per row, so a row's bits depend on its
// length only. Include inside an anonymous namespace, after activation.inl.h.
#include "kernels/generic/rows_norm.inl.h"

// Largest value first, so exp never overflows; a NaN reaches every value through the sum.
template <class V>
void softmax(float* x, std::size_t n, float scale) {
  constexpr float kLowest = -3.402823466e38F;
  const V factor = V::set(scale);
  V top = V::set(kLowest);
  std::size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) top = max(top, V::load(x + i) * factor);
  if (i < n) top = max(top, (V::load_part(x + i, n - i) * factor).keep(n - i, kLowest));
  const V shift = V::set(largest(top));
  const auto exponential = [&](V v) {
    const Exp<V> e = exp_parts(Pair<V>{v * factor - shift, V::set(0.0F)});
    return scale_pow2(e.m.high, e.n);
  };
  V acc = V::set(0.0F);
  for (i = 0; i + V::kLanes <= n; i += V::kLanes) {
    const V e = exponential(V::load(x + i));
    e.store(x + i);
    acc = acc + e;
  }
  if (i < n) {
    const V e = exponential(V::load_part(x + i, n - i)).keep(n - i, 0.0F);
    e.store_part(x + i, n - i);
    acc = acc + e;
  }
  const V divisor = V::set(sum(acc));
  for (i = 0; i + V::kLanes <= n; i += V::kLanes) (V::load(x + i) / divisor).store(x + i);
  if (i < n) (V::load_part(x + i, n - i) / divisor).store_part(x + i, n - i);
}

template <class V>
void softmax_backward(const float* p, float* dp, std::size_t n, float scale) {
  const V mean = V::set(row_total<V>(n, [&](auto load) { return load(p) * load(dp); }));
  const V factor = V::set(scale);
  write_row<V>(dp, n, [&](auto load) { return load(p) * (load(dp) - mean) * factor; });
}

// a * b + c; plain code multiplies, then adds, like its matrix product.
template <class V>
inline V multiply_add(V a, V b, V c) {
  if constexpr (V::kLanes == 1) return a * b + c;
  return fma(a, b, c);
}

// Four vectors of sums at a time stay in registers over all rows.
template <class V>
void weighted_rows(const float* weights, std::size_t stride, const float* rows, std::size_t count,
                   float* sums) {
  constexpr std::size_t kLanes = V::kLanes;
  for (std::size_t column = 0; column < kPanel; column += 4 * kLanes) {
    float* to = sums + column;
    V a = V::load(to), b = V::load(to + kLanes), c = V::load(to + 2 * kLanes),
      d = V::load(to + 3 * kLanes);
    for (std::size_t k = 0; k < count; ++k) {
      const V weight = V::set(weights[k * stride]);
      const float* row = rows + k * kPanel + column;
      a = multiply_add(weight, V::load(row), a);
      b = multiply_add(weight, V::load(row + kLanes), b);
      c = multiply_add(weight, V::load(row + 2 * kLanes), c);
      d = multiply_add(weight, V::load(row + 3 * kLanes), d);
    }
    a.store(to);
    b.store(to + kLanes);
    c.store(to + 2 * kLanes);
    d.store(to + 3 * kLanes);
  }
}

template <class V>
void add_row(const float* x, float* y, std::size_t n) {
  write_row<V>(y, n, [&](auto load) { return load(y) + load(x); });
}

template <class V>
constexpr RowKernels make_row_kernels() {
  return {layer_norm<V>,
          layer_norm_statistics<V>,
          norm_backward<V, true>,
          {rms_norm<V, Rounding::none>, rms_norm<V, Rounding::before_gamma>,
           rms_norm<V, Rounding::after_gamma>},
          rms_norm_statistics<V>,
          norm_backward<V, false>,
          norm_gamma<V>,
          softmax<V>,
          softmax_backward<V>,
          weighted_rows<V>,
          add_row<V>};
}
