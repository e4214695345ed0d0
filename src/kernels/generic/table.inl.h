// The table of one instruction set: what every set has, in one place. Matrix product and probes are
// the set's own. Include last, inside an anonymous namespace.

// Both lists follow the order of enum Activation.
template <class V>
constexpr KernelTable make_table(const char* name, GemmPanel gemm_panel_f32, PeakProbe peak,
                                 ReadProbe read) {
  return {
      name,
      gemm_panel_f32,
      {gemm_epilogue<V, Identity>, gemm_epilogue<V, Relu>, gemm_epilogue<V, GeluErf>,
       gemm_epilogue<V, GeluTanh>, gemm_epilogue<V, Silu>},
      {apply_elementwise<V, Identity>, apply_elementwise<V, Relu>, apply_elementwise<V, GeluErf>,
       apply_elementwise<V, GeluTanh>, apply_elementwise<V, Silu>},
      layer_norm<V>,
      softmax<V>,
      add_row<V>,
      peak,
      read};
}
