// Words first .. first + 7 of 16 rows, turned in 512-bit registers: to: [8, 16]. Include inside an
// anonymous namespace, before vec.h.
inline void turn_8x16(const float* const* rows, std::size_t first, float* to) {
  // Four lanes of 128 bits: row i in the lower two, row i + 4 in the upper two.
  const auto pair = [&](std::size_t i) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(rows[i] + first)),
                              _mm256_loadu_ps(rows[i + 4] + first), 1);
  };
  const __m512 r0 = pair(0), r1 = pair(1), r2 = pair(2), r3 = pair(3);
  const __m512 r4 = pair(8), r5 = pair(9), r6 = pair(10), r7 = pair(11);
  // Pairs of rows, then fours, then the lanes.
  const __m512 a0 = _mm512_unpacklo_ps(r0, r1), a1 = _mm512_unpackhi_ps(r0, r1);
  const __m512 a2 = _mm512_unpacklo_ps(r2, r3), a3 = _mm512_unpackhi_ps(r2, r3);
  const __m512 a4 = _mm512_unpacklo_ps(r4, r5), a5 = _mm512_unpackhi_ps(r4, r5);
  const __m512 a6 = _mm512_unpacklo_ps(r6, r7), a7 = _mm512_unpackhi_ps(r6, r7);
  const __m512 b0 = _mm512_shuffle_ps(a0, a2, 0x44), b1 = _mm512_shuffle_ps(a0, a2, 0xEE);
  const __m512 b2 = _mm512_shuffle_ps(a1, a3, 0x44), b3 = _mm512_shuffle_ps(a1, a3, 0xEE);
  const __m512 b4 = _mm512_shuffle_ps(a4, a6, 0x44), b5 = _mm512_shuffle_ps(a4, a6, 0xEE);
  const __m512 b6 = _mm512_shuffle_ps(a5, a7, 0x44), b7 = _mm512_shuffle_ps(a5, a7, 0xEE);
  const auto put = [&](std::size_t c, __m512 v) { _mm512_storeu_ps(to + c * 16, v); };
  put(0, _mm512_shuffle_f32x4(b0, b4, 0x88));
  put(1, _mm512_shuffle_f32x4(b1, b5, 0x88));
  put(2, _mm512_shuffle_f32x4(b2, b6, 0x88));
  put(3, _mm512_shuffle_f32x4(b3, b7, 0x88));
  put(4, _mm512_shuffle_f32x4(b0, b4, 0xDD));
  put(5, _mm512_shuffle_f32x4(b1, b5, 0xDD));
  put(6, _mm512_shuffle_f32x4(b2, b6, 0xDD));
  put(7, _mm512_shuffle_f32x4(b3, b7, 0xDD));
}
