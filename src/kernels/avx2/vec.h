// Eight floats in a 256-bit register.
struct VecF32 {
  static constexpr std::size_t kLanes = 8;
  __m256 v;

  static __m256i lanes(std::size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n < 8 ? n : 8)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static VecF32 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static VecF32 load_part(const float* p, std::size_t n) {
    return {_mm256_maskload_ps(p, lanes(n))};
  }
  static VecF32 set(float x) { return {_mm256_set1_ps(x)}; }
  // The lower, the upper bf16 of each word.
  static VecF32 load_low_bf16(const std::uint32_t* p) {
    return {_mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), 16))};
  }
  // Two shifts: a mask would take one of 16 registers.
  static VecF32 load_high_bf16(const std::uint32_t* p) {
    const __m256i low =
        _mm256_srli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), 16);
    return {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16))};
  }
  static constexpr std::size_t kSquare = 8;
  static void transpose_square(const float* from, std::size_t from_stride, float* to,
                               std::size_t to_stride) {
    transpose_8x8(from, from_stride, to, to_stride);
  }
  // to: [8, 16] = words first .. first + 7 of 16 rows.
  static void turn(const float* const* rows, std::size_t first, float* to) {
    turn_8x8([=](std::size_t r) { return rows[r] + first; }, to, 16);
    turn_8x8([=](std::size_t r) { return rows[8 + r] + first; }, to + 8, 16);
  }
  // Bit i: lane i is neither 0 nor -0.
  std::uint32_t non_zero() const {
    const __m256i size = _mm256_slli_epi32(_mm256_castps_si256(v), 1);
    const __m256i zero = _mm256_cmpeq_epi32(size, _mm256_setzero_si256());
    return 0xFFU ^ static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(zero)));
  }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  void store_part(float* p, std::size_t n) const { _mm256_maskstore_ps(p, lanes(n), v); }
  // The lanes from n on become x.
  VecF32 keep(std::size_t n, float x) const {
    return {_mm256_blendv_ps(_mm256_set1_ps(x), v, _mm256_castsi256_ps(lanes(n)))};
  }
};
inline VecF32 operator+(VecF32 a, VecF32 b) { return {_mm256_add_ps(a.v, b.v)}; }
inline VecF32 operator-(VecF32 a, VecF32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline VecF32 operator*(VecF32 a, VecF32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline VecF32 operator/(VecF32 a, VecF32 b) { return {_mm256_div_ps(a.v, b.v)}; }
inline VecF32 fma(VecF32 a, VecF32 b, VecF32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
// Both give b when one of them is NaN.
inline VecF32 min(VecF32 a, VecF32 b) { return {_mm256_min_ps(a.v, b.v)}; }
inline VecF32 max(VecF32 a, VecF32 b) { return {_mm256_max_ps(a.v, b.v)}; }
inline VecF32 abs(VecF32 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0F), a.v)}; }
inline __m256 less(VecF32 a, VecF32 b) { return _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ); }
inline __m256 is_nan(VecF32 a) { return _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q); }
inline VecF32 select(__m256 mask, VecF32 a, VecF32 b) { return {_mm256_blendv_ps(b.v, a.v, mask)}; }
// size >= 0 with the sign of the other.
inline VecF32 copy_sign(VecF32 size, VecF32 sign) {
  return {_mm256_or_ps(size.v, _mm256_and_ps(_mm256_set1_ps(-0.0F), sign.v))};
}
inline VecF32 round(VecF32 a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// x * 2^n for |n| <= 250, rounded once: the first factor is exact.
inline VecF32 scale_pow2(VecF32 x, VecF32 n) {
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i whole = _mm256_cvtps_epi32(n.v), half = _mm256_srai_epi32(whole, 1);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const __m256 first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const __m256 second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return {_mm256_mul_ps(_mm256_mul_ps(x.v, first), second)};
}
// x * 2^n for a normal x, where the result is normal; any other n gives a value without meaning.
inline VecF32 add_exponent(VecF32 x, VecF32 n) {
  const __m256i shifted = _mm256_slli_epi32(_mm256_cvtps_epi32(n.v), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.v), shifted))};
}
inline float sum(VecF32 a) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}
inline float largest(VecF32 a) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}
// Keeps a loaded value in its register; g++ 12 would load it again for each multiply-add.
inline VecF32 opaque(VecF32 a) {
  asm("" : "+x"(a.v));
  return a;
}
// sum + x * y in the register of the sum; left to itself g++ 12 picks another and runs out of them.
inline VecF32 add_product(VecF32 sum, VecF32 x, VecF32 y) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum.v) : "x"(x.v), "x"(y.v));
  return sum;
}
