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

// c: [rows, 64] (+)= a: [rows, k] * b: [k, 64] for one depth block. Rows are cut into nearly equal
// blocks of at most kMaxRows, as one of few rows would starve the multiply-add units.
template <class V, std::size_t kMaxRows, std::size_t kVecs>
void gemm_depth(const float* a, std::size_t lda, const float* b, float* c, std::size_t rows,
                std::size_t k, bool accumulate) {
  constexpr std::size_t kSlice = kVecs * V::kLanes;
  const std::size_t count = (rows + kMaxRows - 1) / kMaxRows;
  for (std::size_t block = 0, done = 0; block < count; ++block) {
    const std::size_t height = (rows - done + count - block - 1) / (count - block);
    for (std::size_t column = 0; column < kPanel; column += kSlice)
      unroll(
          [&](auto r) {
            if (height == r + 1)
              gemm_block<V, r + 1, kVecs>(a + done * lda, lda, b + column,
                                          c + done * kPanel + column, k, accumulate);
          },
          std::make_index_sequence<kMaxRows>{});
    done += height;
  }
}

// c: [rows, 64] = a: [rows, k] * b: [k, 64]. Depth blocks outside, so a block of b stays in the L1
// cache for all rows.
template <class V, std::size_t kMaxRows, std::size_t kVecs>
void gemm_panel(const float* a, std::size_t lda, const float* b, float* c, std::size_t rows,
                std::size_t k) {
  std::size_t depth = 0;
  do {
    const std::size_t deep = k - depth < kDepthBlock ? k - depth : kDepthBlock;
    gemm_depth<V, kMaxRows, kVecs>(a + depth, lda, b + depth * kPanel, c, rows, deep, depth > 0);
    depth += deep;
  } while (depth < k);
}

inline float widen(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

// The same with b in bf16: each depth block is widened once for all rows.
template <class V, std::size_t kMaxRows, std::size_t kVecs>
void gemm_panel_bf16(const float* a, std::size_t lda, const std::uint16_t* b, float* c,
                     std::size_t rows, std::size_t k) {
  alignas(64) float block[kDepthBlock * kPanel];
  std::size_t depth = 0;
  do {
    const std::size_t deep = k - depth < kDepthBlock ? k - depth : kDepthBlock;
    for (std::size_t i = 0; i < deep * kPanel; ++i) block[i] = widen(b[depth * kPanel + i]);
    gemm_depth<V, kMaxRows, kVecs>(a + depth, lda, block, c, rows, deep, depth > 0);
    depth += deep;
  } while (depth < k);
}

// c: [64] = the sum of a[i] * b[i, 0..64) over the listed i; b: [k, 64] float32 or bf16 bits.
template <class V, class T>
void listed_row(const float* a, const std::uint32_t* index, std::size_t count, const T* b,
                float* c) {
  using Vecs = std::make_index_sequence<kPanel / V::kLanes>;
  V acc[kPanel / V::kLanes];
  unroll([&](auto v) { acc[v] = V::set(0.0F); }, Vecs{});
  for (std::size_t i = 0; i < count; ++i) {
    const T* row = b + index[i] * kPanel;
    const V x = V::set(a[index[i]]);
    if constexpr (sizeof(T) == sizeof(float)) {
      unroll([&](auto v) { acc[v] = fma(x, V::load(row + v * V::kLanes), acc[v]); }, Vecs{});
    } else {
      alignas(64) float wide[kPanel];
      for (std::size_t column = 0; column < kPanel; ++column) wide[column] = widen(row[column]);
      unroll([&](auto v) { acc[v] = fma(x, V::load(wide + v * V::kLanes), acc[v]); }, Vecs{});
    }
  }
  unroll([&](auto v) { acc[v].store(c + v * V::kLanes); }, Vecs{});
}

template <class V, std::size_t kMaxRows, std::size_t kVecs>
constexpr GemmKernels make_gemm_kernels(PeakProbe peak, ReadProbe read) {
  return {gemm_panel<V, kMaxRows, kVecs>,
          gemm_panel_bf16<V, kMaxRows, kVecs>,
          listed_row<V, float>,
          listed_row<V, std::uint16_t>,
          peak,
          read};
}
