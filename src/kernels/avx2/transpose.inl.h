// to[c, r] = from[r, c] for 8 rows and 8 columns: pairs, then fours, then halves change places.
// Include inside an anonymous namespace.
inline void transpose_8x8(const float* from, std::size_t stride, float* to, std::size_t to_stride) {
  using Eight = std::make_index_sequence<8>;
  __m256 row[8], pair[8], four[8];
  unroll([&](auto i) { row[i] = _mm256_loadu_ps(from + i * stride); }, Eight{});
  unroll(
      [&](auto i) {
        pair[2 * i] = _mm256_unpacklo_ps(row[2 * i], row[2 * i + 1]);
        pair[2 * i + 1] = _mm256_unpackhi_ps(row[2 * i], row[2 * i + 1]);
      },
      std::make_index_sequence<4>{});
  unroll(
      [&](auto i) {
        constexpr std::size_t kBase = i / 2 * 4, kOdd = i % 2;
        four[kBase + 2 * kOdd] =
            _mm256_shuffle_ps(pair[kBase + kOdd], pair[kBase + kOdd + 2], 0x44);
        four[kBase + 2 * kOdd + 1] =
            _mm256_shuffle_ps(pair[kBase + kOdd], pair[kBase + kOdd + 2], 0xEE);
      },
      std::make_index_sequence<4>{});
  unroll(
      [&](auto i) {
        _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(four[i], four[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * to_stride,
                         _mm256_permute2f128_ps(four[i], four[i + 4], 0x31));
      },
      std::make_index_sequence<4>{});
}
