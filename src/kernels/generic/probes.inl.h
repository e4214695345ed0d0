// Probes of the machine's limits. Include inside an anonymous namespace, after vec.h and
// unroll.inl.h.

// 12 independent chains hide the latency of two multiply-add units of up to 6 cycles.
template <class V>
double peak_probe(std::size_t rounds, float* sink) {
  constexpr std::size_t kChains = 12;
  using Chains = std::make_index_sequence<kChains>;
  V acc[kChains];
  unroll([&](auto i) { acc[i] = V::set(static_cast<float>(i)); }, Chains{});
  const V factor = opaque(V::set(0.999F)), term = opaque(V::set(0.001F));
  for (std::size_t round = 0; round < rounds; ++round)
    unroll([&](auto i) { acc[i] = opaque(fma(acc[i], factor, term)); }, Chains{});
  V all = acc[0];
  unroll([&](auto i) { all = all + acc[i]; }, Chains{});
  *sink = sum(all);
  return 2.0 * static_cast<double>(rounds * kChains * V::kLanes);
}

template <class V>
float read_probe(const float* x, std::size_t n) {
  using Chains = std::make_index_sequence<8>;
  V acc[8];
  unroll([&](auto i) { acc[i] = V::set(0.0F); }, Chains{});
  for (std::size_t at = 0; at + 8 * V::kLanes <= n; at += 8 * V::kLanes)
    unroll([&](auto i) { acc[i] = acc[i] + V::load(x + at + i * V::kLanes); }, Chains{});
  unroll([&](auto i) { acc[0] = acc[0] + acc[i]; }, Chains{});
  return sum(acc[0]);
}
