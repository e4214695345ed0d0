// The activation kernels of one instruction set. Include inside an anonymous namespace, after the
// other activation files.

template <class V, class... F>
constexpr ActivationKernels list_activations() {
  static_assert(sizeof...(F) == kActivations);
  return {{apply_elementwise<V, F>...},   {gemm_epilogue<V, F>...},
          {activation_backward<V, F>...}, {glu<V, F>...},
          {glu_backward<V, F>...},        {glu_epilogue<V, F>...},
          {glu_backward_again<V, F>...}};
}

// The order of enum Activation.
template <class V>
constexpr ActivationKernels make_activation_kernels() {
  return list_activations<V, Identity, Relu, Relu2, LeakyRelu, Relu6, Sigmoid, Tanh, Silu, GeluErf,
                          GeluTanh, QuickGelu, Mish, SwigluOai>();
}
