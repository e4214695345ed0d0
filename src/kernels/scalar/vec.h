// One float, with the operations that the generic kernels ask of a vector.
struct VecF32 {
  static constexpr std::size_t kLanes = 1;
  float v;

  static VecF32 load(const float* p) { return {*p}; }
  static VecF32 load_part(const float* p, std::size_t n) { return {n > 0 ? *p : 0.0F}; }
  static VecF32 set(float x) { return {x}; }
  static constexpr std::size_t kSquare = 1;
  static void transpose_square(const float* from, std::size_t, float* to, std::size_t) {
    __builtin_memcpy(to, from, sizeof(float));
  }
  // 1: neither 0 nor -0.
  std::uint32_t non_zero() const {
    return (__builtin_bit_cast(std::uint32_t, v) & 0x7FFFFFFFU) != 0 ? 1 : 0;
  }
  void store(float* p) const { *p = v; }
  void store_part(float* p, std::size_t n) const {
    if (n > 0) *p = v;
  }
  // The lanes from n on become x.
  VecF32 keep(std::size_t n, float x) const { return {n > 0 ? v : x}; }
};
inline VecF32 operator+(VecF32 a, VecF32 b) { return {a.v + b.v}; }
inline VecF32 operator-(VecF32 a, VecF32 b) { return {a.v - b.v}; }
inline VecF32 operator*(VecF32 a, VecF32 b) { return {a.v * b.v}; }
inline VecF32 operator/(VecF32 a, VecF32 b) { return {a.v / b.v}; }
inline VecF32 fma(VecF32 a, VecF32 b, VecF32 c) { return {__builtin_fmaf(a.v, b.v, c.v)}; }
// Both give b when one of them is NaN.
inline VecF32 min(VecF32 a, VecF32 b) { return {a.v < b.v ? a.v : b.v}; }
inline VecF32 max(VecF32 a, VecF32 b) { return {a.v > b.v ? a.v : b.v}; }
inline VecF32 abs(VecF32 a) { return {__builtin_fabsf(a.v)}; }
inline bool less(VecF32 a, VecF32 b) { return a.v < b.v; }
inline bool is_nan(VecF32 a) { return a.v != a.v; }
inline VecF32 select(bool mask, VecF32 a, VecF32 b) { return mask ? a : b; }
// size >= 0 with the sign of the other.
inline VecF32 copy_sign(VecF32 size, VecF32 sign) { return {__builtin_copysignf(size.v, sign.v)}; }
inline VecF32 round(VecF32 a) {
  // Adding 1.5 * 2^23 pushes the fraction out; valid below 2^22, which is all that exp asks for.
  const float shifted = a.v + 12582912.0F;
  return {shifted - 12582912.0F};
}
// x * 2^n for |n| <= 250, rounded once: the first factor is exact.
inline VecF32 scale_pow2(VecF32 x, VecF32 n) {
  const int whole = n.v == n.v ? static_cast<int>(n.v) : 0, half = whole >> 1;
  const float first = __builtin_bit_cast(float, (half + 127) << 23);
  const float second = __builtin_bit_cast(float, (whole - half + 127) << 23);
  return {x.v * first * second};
}
// x * 2^n for a normal x, where the result is normal; any other n gives a value without meaning.
inline VecF32 add_exponent(VecF32 x, VecF32 n) {
  const int whole = n.v > -128.0F && n.v < 128.0F ? static_cast<int>(n.v) : 0;
  return {x.v * __builtin_bit_cast(float, (whole < -126 ? 0 : whole + 127) << 23)};
}
inline float sum(VecF32 a) { return a.v; }
inline float largest(VecF32 a) { return a.v; }
inline VecF32 opaque(VecF32 a) { return a; }
