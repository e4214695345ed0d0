// An 8 x 8 square of 32-bit words, turned in 256-bit registers; for AVX2 and AVX-512. Include
// inside an anonymous namespace, before vec.h.

// at(r): where the words of row r begin.
template <class Row>
inline void turn_8x8(Row at, float* to, std::size_t to_stride) {
  const auto row = [&](std::size_t r) { return _mm256_loadu_ps(at(r)); };
  const __m256 r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
  const __m256 r4 = row(4), r5 = row(5), r6 = row(6), r7 = row(7);
  // Pairs of rows, then fours, then the halves of the registers.
  const __m256 a0 = _mm256_unpacklo_ps(r0, r1), a1 = _mm256_unpackhi_ps(r0, r1);
  const __m256 a2 = _mm256_unpacklo_ps(r2, r3), a3 = _mm256_unpackhi_ps(r2, r3);
  const __m256 a4 = _mm256_unpacklo_ps(r4, r5), a5 = _mm256_unpackhi_ps(r4, r5);
  const __m256 a6 = _mm256_unpacklo_ps(r6, r7), a7 = _mm256_unpackhi_ps(r6, r7);
  const __m256 b0 = _mm256_shuffle_ps(a0, a2, 0x44), b1 = _mm256_shuffle_ps(a0, a2, 0xEE);
  const __m256 b2 = _mm256_shuffle_ps(a1, a3, 0x44), b3 = _mm256_shuffle_ps(a1, a3, 0xEE);
  const __m256 b4 = _mm256_shuffle_ps(a4, a6, 0x44), b5 = _mm256_shuffle_ps(a4, a6, 0xEE);
  const __m256 b6 = _mm256_shuffle_ps(a5, a7, 0x44), b7 = _mm256_shuffle_ps(a5, a7, 0xEE);
  const auto put = [&](std::size_t c, __m256 v) { _mm256_storeu_ps(to + c * to_stride, v); };
  put(0, _mm256_permute2f128_ps(b0, b4, 0x20));
  put(1, _mm256_permute2f128_ps(b1, b5, 0x20));
  put(2, _mm256_permute2f128_ps(b2, b6, 0x20));
  put(3, _mm256_permute2f128_ps(b3, b7, 0x20));
  put(4, _mm256_permute2f128_ps(b0, b4, 0x31));
  put(5, _mm256_permute2f128_ps(b1, b5, 0x31));
  put(6, _mm256_permute2f128_ps(b2, b6, 0x31));
  put(7, _mm256_permute2f128_ps(b3, b7, 0x31));
}

inline void transpose_8x8(const float* from, std::size_t from_stride, float* to,
                          std::size_t to_stride) {
  turn_8x8([=](std::size_t r) { return from + r * from_stride; }, to, to_stride);
}
