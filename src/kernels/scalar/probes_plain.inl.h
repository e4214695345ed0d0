// Probes of the limits of plain code: what the compiler makes of a multiply and an add over
// independent columns. Include inside an anonymous namespace.
inline double peak_probe_plain(std::size_t rounds, float* sink) {
  constexpr std::size_t kChains = 32;
  float acc[kChains];
  for (std::size_t i = 0; i < kChains; ++i) acc[i] = static_cast<float>(i);
  float factor = 0.999F, term = 0.001F;
  asm("" : "+x"(factor), "+x"(term));
  for (std::size_t round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < kChains; ++i) acc[i] = acc[i] * factor + term;
  float all = 0;
  for (const float one : acc) all += one;
  *sink = all;
  return 2.0 * static_cast<double>(rounds * kChains);
}

inline float read_probe_plain(const float* x, std::size_t n) {
  float acc[32] = {};
  for (std::size_t at = 0; at + 32 <= n; at += 32)
    for (std::size_t i = 0; i < 32; ++i) acc[i] += x[at + i];
  float all = 0;
  for (const float one : acc) all += one;
  return all;
}
