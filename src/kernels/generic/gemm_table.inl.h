// The product kernels of one instruction set: vectors V, blocks of the shape Tile. Include inside an
// anonymous namespace, after the files whose kernels it lists.

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

template <class V>
void listed_row(const float* a, const std::uint32_t* index, std::size_t count, const float* panel,
                float* c) {
  listed_units<V, TermsF32<V>>(a, index, count, panel, c);
}

template <class V>
void listed_row_widened(const void* a, const std::uint32_t* index, std::size_t count,
                        const std::uint16_t* panel, float* c) {
  listed_units<V, TermsWidened<V>>(static_cast<const float*>(a), index, count,
                                   reinterpret_cast<const std::uint32_t*>(panel), c);
}

template <class V, class Tile>
constexpr GemmKernels make_gemm_kernels() {
  return {gemm_panel<V, Tile>,
          listed_row<V>,
          gemm_panel_widened<V, Tile>,
          listed_row_widened<V>,
          false,
          peak_probe<V>,
          peak_probe<V>,
          read_probe<V>,
          transpose<V>,
          round_row,
          narrow_row,
          pair_rows};
}
