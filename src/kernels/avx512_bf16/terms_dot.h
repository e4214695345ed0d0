// One unit row of bf16: both products of a word at once, added to a float32 sum (vdpbf16ps; inputs
// and sums below 2^-126 count as 0). Include inside an anonymous namespace, after vec.h and
// unroll.inl.h.
struct TermsDot {
  using Row = std::uint32_t;
  using Unit = std::uint32_t;
  static constexpr std::size_t kRowStep = 1;

  template <std::size_t kRows, std::size_t kVecs>
  [[gnu::always_inline]] static void add(VecF32 (&acc)[kRows][kVecs], const std::uint32_t* a,
                                         std::size_t lda, const std::uint32_t* unit) {
    VecF32 weights[kVecs];
    unroll(
        [&](auto v) __attribute__((always_inline)) {
          weights[v] = opaque(VecF32{_mm512_loadu_ps(unit + v * 16)});
        },
        std::make_index_sequence<kVecs>{});
    unroll(
        [&](auto r) __attribute__((always_inline)) {
          const VecF32 x =
              opaque(VecF32{_mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(a[r * lda])))});
          unroll(
              [&](auto v)
                  __attribute__((always_inline)) { acc[r][v] = dot(acc[r][v], x, weights[v]); },
              std::make_index_sequence<kVecs>{});
        },
        std::make_index_sequence<kRows>{});
  }

  [[gnu::always_inline]] static VecF32 dot(VecF32 sum, VecF32 x, VecF32 y) {
    return {
        _mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(x.v), reinterpret_cast<__m512bh>(y.v))};
  }
};
