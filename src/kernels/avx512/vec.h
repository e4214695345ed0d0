// Sixteen floats in a 512-bit register.
struct VecF32 {
  static constexpr std::size_t kLanes = 16;
  __m512 v;

  static __mmask16 lanes(std::size_t n) {
    return n < 16 ? static_cast<__mmask16>((1U << n) - 1U) : static_cast<__mmask16>(0xFFFF);
  }
  static VecF32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static VecF32 load_part(const float* p, std::size_t n) {
    return {_mm512_maskz_loadu_ps(lanes(n), p)};
  }
  static VecF32 set(float x) { return {_mm512_set1_ps(x)}; }
  // The lower, the upper bf16 of each word.
  static VecF32 load_low_bf16(const std::uint32_t* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16))};
  }
  static VecF32 load_high_bf16(const std::uint32_t* p) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), upper))};
  }
  static constexpr std::size_t kSquare = 8;
  static void transpose_square(const float* from, std::size_t from_stride, float* to,
                               std::size_t to_stride) {
    transpose_8x8(from, from_stride, to, to_stride);
  }
  // to: [8, 16] = words first .. first + 7 of 16 rows. Whole rows of 16 are written: a read of one
  // could not be served from two shorter stores.
  static void turn(const float* const* rows, std::size_t first, float* to) {
    turn_8x16(rows, first, to);
  }
  // Bit i: lane i is neither 0 nor -0.
  std::uint32_t non_zero() const {
    return _mm512_test_epi32_mask(_mm512_castps_si512(v), _mm512_set1_epi32(0x7FFFFFFF));
  }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_part(float* p, std::size_t n) const { _mm512_mask_storeu_ps(p, lanes(n), v); }
  // The lanes from n on become x.
  VecF32 keep(std::size_t n, float x) const {
    return {_mm512_mask_blend_ps(lanes(n), _mm512_set1_ps(x), v)};
  }
};
inline VecF32 operator+(VecF32 a, VecF32 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline VecF32 operator-(VecF32 a, VecF32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline VecF32 operator*(VecF32 a, VecF32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline VecF32 operator/(VecF32 a, VecF32 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline VecF32 fma(VecF32 a, VecF32 b, VecF32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// Both give b when one of them is NaN.
inline VecF32 min(VecF32 a, VecF32 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline VecF32 max(VecF32 a, VecF32 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline VecF32 abs(VecF32 a) { return {_mm512_abs_ps(a.v)}; }
inline __mmask16 less(VecF32 a, VecF32 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
inline __mmask16 is_nan(VecF32 a) { return _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q); }
inline VecF32 select(__mmask16 mask, VecF32 a, VecF32 b) {
  return {_mm512_mask_blend_ps(mask, b.v, a.v)};
}
// size >= 0 with the sign of the other.
inline VecF32 copy_sign(VecF32 size, VecF32 sign) {
  return {_mm512_or_ps(size.v, _mm512_and_ps(_mm512_set1_ps(-0.0F), sign.v))};
}
inline VecF32 round(VecF32 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline VecF32 scale_pow2(VecF32 x, VecF32 n) { return {_mm512_scalef_ps(x.v, n.v)}; }
// x * 2^n for a normal x, where the result is normal; any other n gives a value without meaning.
inline VecF32 add_exponent(VecF32 x, VecF32 n) { return scale_pow2(x, n); }
inline float sum(VecF32 a) { return _mm512_reduce_add_ps(a.v); }
inline float largest(VecF32 a) { return _mm512_reduce_max_ps(a.v); }
// Keeps a loaded value in its register; g++ 12 would load it again for each multiply-add.
inline VecF32 opaque(VecF32 a) {
  asm("" : "+v"(a.v));
  return a;
}
// sum + x * y
inline VecF32 add_product(VecF32 sum, VecF32 x, VecF32 y) { return fma(x, y, sum); }
