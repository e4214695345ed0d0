// Row kernels: norms, the gradient of softmax, sums. One routine per row, so a row's bits depend on
// its length only. Include inside an anonymous namespace, after activation.inl.h.
#include "kernels/generic/rows_norm.inl.h"

template <class V>
void softmax_backward(const float* p, float* dp, std::size_t n, float scale) {
  const V mean = V::set(row_total<V>(n, [&](auto load) { return load(p) * load(dp); }));
  const V factor = V::set(scale);
  write_row<V>(dp, n, [&](auto load) { return load(p) * (load(dp) - mean) * factor; });
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
          softmax_backward<V>,
          add_row<V>};
}
