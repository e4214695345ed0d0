// The product kernels of one instruction set: vectors V, blocks of the shape Tile. Include inside
// an anonymous namespace, after the files whose kernels it lists.

template <class V, class Tile>
void gemm_panel(const float* a, std::size_t lda, const float* panel, const void* next, float* c,
                std::size_t rows, std::size_t k, bool add) {
  gemm_units<V, TermsF32<V>, Tile>(a, lda, panel, next, c, rows, k, add);
}

template <class V, class Tile>
void gemm_panel_widened(const void* a, std::size_t lda, const std::uint16_t* panel,
                        const void* next, float* c, std::size_t rows, std::size_t k, bool add) {
  gemm_units<V, TermsWidened<V>, Tile>(static_cast<const float*>(a), lda,
                                       reinterpret_cast<const std::uint32_t*>(panel), next, c, rows,
                                       (k + 1) / 2, add);
}

template <class V, class Tile>
void listed_panel(const float* a, std::size_t lda, const std::uint32_t* index, std::size_t count,
                  const float* panel, float* c, std::size_t rows) {
  listed_units<V, TermsF32<V>, Tile>(a, lda, index, count, panel, c, rows);
}

template <class V, class Tile>
void listed_panel_widened(const void* a, std::size_t lda, const std::uint32_t* index,
                          std::size_t count, const std::uint16_t* panel, float* c,
                          std::size_t rows) {
  listed_units<V, TermsWidened<V>, Tile>(static_cast<const float*>(a), lda, index, count,
                                         reinterpret_cast<const std::uint32_t*>(panel), c, rows);
}

template <class V>
void features_f32(const float* a, std::size_t lda, const float* const* features,
                  const float* const* next, std::size_t k, float* c, std::size_t rows) {
  feature_units<V, TermsF32<V>>(a, lda, features, next, k, c, rows);
}

template <class V>
void features_widened(const void* a, std::size_t lda, const float* const* features,
                      const float* const* next, std::size_t k, float* c, std::size_t rows) {
  feature_units<V, TermsWidened<V>>(static_cast<const float*>(a), lda, features, next, (k + 1) / 2,
                                    c, rows);
}

template <class V, class Tile>
constexpr GemmKernels make_gemm_kernels() {
  return {gemm_panel<V, Tile>,
          listed_panel<V, Tile>,
          features_f32<V>,
          gemm_panel_widened<V, Tile>,
          listed_panel_widened<V, Tile>,
          features_widened<V>,
          false,
          peak_probe<V>,
          peak_probe<V>,
          read_probe<V>,
          transpose<V>,
          round_rows,
          narrow_rows,
          pair_rows,
          non_zero_columns<V>};
}
