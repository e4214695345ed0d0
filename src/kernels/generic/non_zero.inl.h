// Bit i of the result: x[r, i] is neither 0 nor -0 in some row r; x: [rows, n], n <= 64. Include
// inside an anonymous namespace, after vec.h.
template <class V>
std::uint64_t non_zero_columns(const float* x, std::size_t stride, std::size_t rows,
                               std::size_t n) {
  std::uint64_t bits = 0;
  for (std::size_t r = 0; r < rows; ++r, x += stride) {
    std::size_t i = 0;
    for (; i + V::kLanes <= n; i += V::kLanes)
      bits |= std::uint64_t{V::load(x + i).non_zero()} << i;
    if (i < n) bits |= std::uint64_t{V::load_part(x + i, n - i).non_zero()} << i;
  }
  return bits;
}
