// Rounding to bf16 in plain loops over whole numbers, which the compiler vectorises. Include inside
// an anonymous namespace.

// The bits of the nearest bf16, ties to even, in the lower half; a NaN stays one.
inline std::uint32_t nearest_bf16(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return (bits & 0x7FFFFFFFU) > 0x7F800000U ? (bits >> 16) | 0x40U : rounded;
}

inline void round_rows(const float* x, std::size_t ldx, float* y, std::size_t ldy, std::size_t rows,
                       std::size_t n) {
  for (std::size_t r = 0; r < rows; ++r, x += ldx, y += ldy)
    for (std::size_t i = 0; i < n; ++i) y[i] = __builtin_bit_cast(float, nearest_bf16(x[i]) << 16);
}

inline void narrow_rows(const float* x, std::size_t ldx, std::uint16_t* y, std::size_t ldy,
                        std::size_t rows, std::size_t n) {
  for (std::size_t r = 0; r < rows; ++r, x += ldx, y += ldy)
    for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<std::uint16_t>(nearest_bf16(x[i]));
}

inline void pair_rows(const float* low, const float* high, std::uint32_t* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = nearest_bf16(low[i]) | nearest_bf16(high[i]) << 16;
}
