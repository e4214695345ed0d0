// Plain products: multiply, then add, in the order of k; the compiler is free to vectorise over the
// columns. Include inside an anonymous namespace.
inline float widen(float value) { return value; }
inline float widen(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

// c: [rows, 64] = a: [rows, k] * b: [k, 64], b in float32 or bf16.
template <class T>
void gemm_panel_plain(const float* a, std::size_t lda, const T* b, float* c, std::size_t rows,
                      std::size_t k) {
  for (std::size_t r = 0; r < rows; ++r) {
    float acc[kPanel] = {};
    for (std::size_t i = 0; i < k; ++i) {
      const float x = a[r * lda + i];
      for (std::size_t column = 0; column < kPanel; ++column)
        acc[column] += x * widen(b[i * kPanel + column]);
    }
    for (std::size_t column = 0; column < kPanel; ++column) c[r * kPanel + column] = acc[column];
  }
}

// c: [64] = the sum of a[i] * b[i, 0..64) over the listed i.
template <class T>
void listed_row_plain(const float* a, const std::uint32_t* index, std::size_t count, const T* b,
                      float* c) {
  float acc[kPanel] = {};
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t column = 0; column < kPanel; ++column)
      acc[column] += a[index[i]] * widen(b[index[i] * kPanel + column]);
  for (std::size_t column = 0; column < kPanel; ++column) c[column] = acc[column];
}
