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

// c: [rows, 64] = the sum of a[r, k] * panel[k, 0..64) over the k of the listed unit rows.
template <class T>
void listed_units_plain(const float* a, std::size_t lda, const std::uint32_t* index,
                        std::size_t count, const T* panel, float* c, std::size_t rows) {
  constexpr std::size_t kDepth = std::is_same_v<T, float> ? 1 : 2;
  for (std::size_t r = 0; r < rows; ++r) {
    float acc[kPanel] = {};
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = index[i] * kDepth; k < (index[i] + 1) * kDepth; ++k)
        for (std::size_t column = 0; column < kPanel; ++column)
          acc[column] += a[r * lda + k] * panel_value(panel, k, column);
    for (std::size_t column = 0; column < kPanel; ++column) c[r * kPanel + column] = acc[column];
  }
}

inline void listed_panel_plain(const float* a, std::size_t lda, const std::uint32_t* index,
                               std::size_t count, const float* panel, float* c, std::size_t rows) {
  listed_units_plain(a, lda, index, count, panel, c, rows);
}
inline void listed_panel_bf16_plain(const void* a, std::size_t lda, const std::uint32_t* index,
                                    std::size_t count, const std::uint16_t* panel, float* c,
                                    std::size_t rows) {
  listed_units_plain(static_cast<const float*>(a), lda, index, count, panel, c, rows);
}

// c: [rows, 16] = a: [rows, k] times 16 features; value(feature, k).
template <class Value>
void features_plain(const float* a, std::size_t lda, std::size_t k, float* c, std::size_t rows,
                    Value value) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t f = 0; f < kFeatures; ++f) {
      float sum = 0;
      for (std::size_t i = 0; i < k; ++i) sum += a[r * lda + i] * value(f, i);
      c[r * kFeatures + f] = sum;
    }
}

inline void features_f32_plain(const float* a, std::size_t lda, const float* const* features,
                               const float* const*, std::size_t k, float* c, std::size_t rows) {
  features_plain(a, lda, k, c, rows, [=](std::size_t f, std::size_t i) { return features[f][i]; });
}
inline void features_bf16_plain(const void* a, std::size_t lda, const float* const* features,
                                const float* const*, std::size_t k, float* c, std::size_t rows) {
  features_plain(static_cast<const float*>(a), lda, k, c, rows, [=](std::size_t f, std::size_t i) {
    const auto word = __builtin_bit_cast(std::uint32_t, features[f][i / 2]);
    return __builtin_bit_cast(float, i % 2 == 0 ? word << 16 : word & 0xFFFF0000U);
  });
}
