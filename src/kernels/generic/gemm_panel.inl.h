// c: [rows, 64] += a: [rows, k] * b: [k, 64], in blocks of kRows x (kVecs * V::kLanes) accumulators
// that stay in registers over the whole of k. Include inside an anonymous namespace, after vec.h
// and unroll.inl.h.

template <class V, std::size_t kRows, std::size_t kVecs>
[[gnu::noinline]] void gemm_block(const float* a, std::size_t lda, const float* b, float* c,
                                  std::size_t k, bool accumulate) {
  using Rows = std::make_index_sequence<kRows>;
  using Vecs = std::make_index_sequence<kVecs>;
  V acc[kRows][kVecs];
  unroll(
      [&](auto r) {
        unroll(
            [&](auto v) {
              acc[r][v] = accumulate ? V::load(c + r * kPanel + v * V::kLanes) : V::set(0);
            },
            Vecs{});
      },
      Rows{});
  const auto step = [&](const float* a_column, const float* b_row) __attribute__((always_inline)) {
    V weights[kVecs];
    unroll([&](auto v) { weights[v] = opaque(V::load(b_row + v * V::kLanes)); }, Vecs{});
    unroll(
        [&](auto r) {
          const V x = opaque(V::set(a_column[r * lda]));
          unroll([&](auto v) { acc[r][v] = fma(x, weights[v], acc[r][v]); }, Vecs{});
        },
        Rows{});
  };
  std::size_t i = 0;
  for (; i + 4 <= k; i += 4) {
    step(a + i, b + i * kPanel);
    step(a + i + 1, b + (i + 1) * kPanel);
    step(a + i + 2, b + (i + 2) * kPanel);
    step(a + i + 3, b + (i + 3) * kPanel);
  }
  for (; i < k; ++i) step(a + i, b + i * kPanel);
  unroll(
      [&](auto r) {
        unroll([&](auto v) { acc[r][v].store(c + r * kPanel + v * V::kLanes); }, Vecs{});
      },
      Rows{});
}

// c: [rows, 64] = a: [rows, k] * b: [k, 64]. Depth blocks outside, so a block of b stays in the L1
// cache for all rows; rows are cut into nearly equal blocks of at most kMaxRows, as one of few rows
// would starve the multiply-add units.
template <class V, std::size_t kMaxRows, std::size_t kVecs>
void gemm_panel(const float* a, std::size_t lda, const float* b, float* c, std::size_t rows,
                std::size_t k) {
  constexpr std::size_t kSlice = kVecs * V::kLanes;
  const std::size_t count = (rows + kMaxRows - 1) / kMaxRows;
  std::size_t depth = 0;
  do {
    const std::size_t deep = k - depth < kDepthBlock ? k - depth : kDepthBlock;
    for (std::size_t block = 0, done = 0; block < count; ++block) {
      const std::size_t height = (rows - done + count - block - 1) / (count - block);
      for (std::size_t column = 0; column < kPanel; column += kSlice)
        unroll(
            [&](auto r) {
              if (height == r + 1)
                gemm_block<V, r + 1, kVecs>(a + done * lda + depth, lda,
                                            b + depth * kPanel + column, c + done * kPanel + column,
                                            deep, depth > 0);
            },
            std::make_index_sequence<kMaxRows>{});
      done += height;
    }
    depth += deep;
  } while (depth < k);
}
