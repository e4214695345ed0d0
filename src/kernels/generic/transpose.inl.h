// to: [cols, rows] = from^T, words of 32 bits. Whole squares go through V::transpose_square, the
// rest word by word. Include inside an anonymous namespace, after vec.h.
template <class V>
void transpose(const float* from, std::size_t from_stride, std::size_t rows, std::size_t cols,
               float* to, std::size_t to_stride) {
  constexpr std::size_t kSide = V::kSquare;
  const std::size_t whole_rows = rows / kSide * kSide, whole_cols = cols / kSide * kSide;
  for (std::size_t c = 0; c < whole_cols; c += kSide)
    for (std::size_t r = 0; r < whole_rows; r += kSide)
      V::transpose_square(from + r * from_stride + c, from_stride, to + c * to_stride + r,
                          to_stride);
  const auto move = [&](std::size_t r, std::size_t c) {
    __builtin_memcpy(to + c * to_stride + r, from + r * from_stride + c, sizeof(float));
  };
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = r < whole_rows ? whole_cols : 0; c < cols; ++c) move(r, c);
}
