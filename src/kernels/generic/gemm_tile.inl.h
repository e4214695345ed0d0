// c: [rows, 64] += a: [rows, k] * b: [k, 64], in blocks of kRows x (kVecs * V::kLanes) accumulators
// that stay in registers over the whole of k. Include inside an anonymous namespace, after vec.h
// and unroll.inl.h.

template <class F, std::size_t kCount>
struct Blocks {
  F at[kCount];
};

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

// Rows are cut into nearly equal blocks of at most kMaxRows; a block of few rows would starve the
// multiply-add units.
template <class V, std::size_t kMaxRows, std::size_t kVecs>
void gemm_tile(const float* a, std::size_t lda, const float* b, float* c, std::size_t rows,
               std::size_t k, bool accumulate) {
  using Block = void (*)(const float*, std::size_t, const float*, float*, std::size_t, bool);
  static constexpr auto blocks = []<std::size_t... R>(std::index_sequence<R...>) {
    return Blocks<Block, kMaxRows>{{gemm_block<V, R + 1, kVecs>...}};
  }
  (std::make_index_sequence<kMaxRows>{});
  constexpr std::size_t kSlice = kVecs * V::kLanes;
  const std::size_t count = (rows + kMaxRows - 1) / kMaxRows;
  for (std::size_t block = 0, done = 0; block < count; ++block) {
    const std::size_t height = (rows - done + count - block - 1) / (count - block);
    for (std::size_t column = 0; column < kPanel; column += kSlice)
      blocks.at[height - 1](a + done * lda, lda, b + column, c + done * kPanel + column, k,
                            accumulate);
    done += height;
  }
}
