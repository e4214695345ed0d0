// Compile-time loops: g++ keeps arrays of vectors in memory when a pragma unrolls, in registers
// when templates do. Include inside an anonymous namespace.
template <class F, std::size_t... I>
[[gnu::always_inline]] inline void unroll(F&& f, std::index_sequence<I...>) {
  (f(std::integral_constant<std::size_t, I>{}), ...);
}
