// The activation kernels of one instruction set. Include inside an anonymous namespace, after
// activation.inl.h.

template <class V, class F>
void stub_backward(const float* x, const float* dy, float* dx, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    float a = x[i] + 0.01F, b = x[i] - 0.01F, fa, fb;
    F::apply(V::load_part(&a, 1)).store_part(&fa, 1);
    F::apply(V::load_part(&b, 1)).store_part(&fb, 1);
    dx[i] = dy[i] * (fa - fb) / (a - b);
  }
}
template <class V, class F>
void stub_glu(const float* g, const float* u, float* h, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    float f;
    F::apply(V::load_part(&g[i], 1)).store_part(&f, 1);
    h[i] = f * u[i];
  }
}
template <class V, class F>
void stub_glu_backward(const float* g, const float* u, const float* dh, float* dg, float* du,
                       std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    float f, d, one = 1, uu = u[i], h = dh[i];
    F::apply(V::load_part(&g[i], 1)).store_part(&f, 1);
    stub_backward<V, F>(&g[i], &one, &d, 1);
    dg[i] = h * uu * d;
    du[i] = h * f;
  }
}

template <class V, class... F>
constexpr ActivationKernels list_activations() {
  static_assert(sizeof...(F) == kActivations);
  return {{apply_elementwise<V, F>...},
          {gemm_epilogue<V, F>...},
          {stub_backward<V, F>...},
          {stub_glu<V, F>...},
          {stub_glu_backward<V, F>...}};
}

// The order of enum Activation.
template <class V>
constexpr ActivationKernels make_activation_kernels() {
  return list_activations<V, Identity, Relu, GeluErf, GeluTanh, Silu>();
}
