// to[c, r] = from[r, c] for 8 rows and 8 columns. Include inside an anonymous namespace.
inline void transpose_8x8(const float* from, std::size_t stride, float* to, std::size_t to_stride) {
  for (std::size_t column = 0; column < 8; ++column)
    for (std::size_t row = 0; row < 8; ++row)
      to[column * to_stride + row] = from[row * stride + column];
}
