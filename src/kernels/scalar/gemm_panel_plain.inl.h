// Plain products: multiply, then add, in the order of k; the compiler is free to vectorise over the
// columns. Include inside an anonymous namespace.

// Element (k, column) of a panel.
inline float panel_value(const float* panel, std::size_t k, std::size_t column) {
  return panel[k * kPanel + column];
}
inline float panel_value(const std::uint16_t* panel, std::size_t k, std::size_t column) {
  const std::uint32_t bits = panel[(k / 2 * kPanel + column) * 2 + k % 2];
  return __builtin_bit_cast(float, bits << 16);
}

// c: [rows, 64] (+)= a: [rows, k] * panel: [k, 64], weights in float32 or bf16.
template <class T>
void gemm_rows_plain(const float* a, std::size_t lda, const T* panel, float* c, std::size_t rows,
                     std::size_t k, bool add) {
  for (std::size_t r = 0; r < rows; ++r) {
    float acc[kPanel] = {};
    for (std::size_t column = 0; add && column < kPanel; ++column)
      acc[column] = c[r * kPanel + column];
    for (std::size_t i = 0; i < k; ++i) {
      const float x = a[r * lda + i];
      for (std::size_t column = 0; column < kPanel; ++column)
        acc[column] += x * panel_value(panel, i, column);
    }
    for (std::size_t column = 0; column < kPanel; ++column) c[r * kPanel + column] = acc[column];
  }
}

inline void gemm_panel_plain(const float* a, std::size_t lda, const float* panel, const void*,
                             float* c, std::size_t rows, std::size_t k, bool add) {
  gemm_rows_plain(a, lda, panel, c, rows, k, add);
}
inline void gemm_panel_bf16_plain(const void* a, std::size_t lda, const std::uint16_t* panel,
                                  const void*, float* c, std::size_t rows, std::size_t k,
                                  bool add) {
  gemm_rows_plain(static_cast<const float*>(a), lda, panel, c, rows, k, add);
}

// c: [64] = the sum of a[k] * panel[k, 0..64) over the k of the listed unit rows.
template <class T>
void listed_units_plain(const float* a, const std::uint32_t* index, std::size_t count,
                        const T* panel, float* c) {
  constexpr std::size_t kDepth = sizeof(float) / sizeof(T);
  float acc[kPanel] = {};
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = index[i] * kDepth; k < (index[i] + 1) * kDepth; ++k)
      for (std::size_t column = 0; column < kPanel; ++column)
        acc[column] += a[k] * panel_value(panel, k, column);
  for (std::size_t column = 0; column < kPanel; ++column) c[column] = acc[column];
}

inline void listed_row_plain(const float* a, const std::uint32_t* index, std::size_t count,
                             const float* panel, float* c) {
  listed_units_plain(a, index, count, panel, c);
}
inline void listed_row_bf16_plain(const void* a, const std::uint32_t* index, std::size_t count,
                                  const std::uint16_t* panel, float* c) {
  listed_units_plain(static_cast<const float*>(a), index, count, panel, c);
}
