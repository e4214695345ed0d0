// c: [rows, 64] = a: [rows, k] * b: [k, 64], one row at a time; the compiler is free to vectorise
// over the columns. Include inside an anonymous namespace.
inline void gemm_panel_plain(const float* a, std::size_t lda, const float* b, float* c,
                             std::size_t rows, std::size_t k) {
  for (std::size_t r = 0; r < rows; ++r) {
    float acc[kPanel] = {};
    for (std::size_t i = 0; i < k; ++i) {
      const float x = a[r * lda + i];
      for (std::size_t column = 0; column < kPanel; ++column)
        acc[column] += x * b[i * kPanel + column];
    }
    for (std::size_t column = 0; column < kPanel; ++column) c[r * kPanel + column] = acc[column];
  }
}
