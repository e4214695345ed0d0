// The products of attention in tiles of kRows x (kVecs * V::kLanes) accumulators that stay in
// registers. Include inside an anonymous namespace, after unroll.inl.h and sums.inl.h.

// Where the first factor has its rows: one below the other, or, for products with its transpose, as
// columns.
enum class Factor { plain, transposed };

// One term of a sum; plain code multiplies, then adds, like its matrix product.
struct FloatTerm {
  template <class V>
  [[gnu::always_inline]] static V add(V sum, V a, V b) {
    if constexpr (V::kLanes == 1) return a * b + sum;
    return fma(a, b, sum);
  }
};

// One word of k: acc[r][v] += a word of row r of a times vector v of a row of b.
template <class Term, class V, std::size_t kRows, std::size_t kVecs>
[[gnu::always_inline]] inline void attention_step(V (&acc)[kRows][kVecs], const float* a,
                                                  std::size_t next_row, const float* b) {
  using Vecs = std::make_index_sequence<kVecs>;
  V column[kVecs];
  unroll(
      [&](auto v)
          __attribute__((always_inline)) { column[v] = opaque(V::load(b + v * V::kLanes)); },
      Vecs{});
  unroll(
      [&](auto r) __attribute__((always_inline)) {
        const V x = opaque(V::set(a[r * next_row]));
        unroll(
            [&](auto v)
                __attribute__((always_inline)) { acc[r][v] = Term::add(acc[r][v], x, column[v]); },
            Vecs{});
      },
      std::make_index_sequence<kRows>{});
}

// c: [kRows, kVecs * kLanes] (+)= a: [kRows, k] * b: [k, kVecs * kLanes]. Term says what a word of
// a and a word of b add to a sum.
template <class V, class Term, Factor kFactor, std::size_t kRows, std::size_t kVecs>
[[gnu::noinline]] void attention_tile(const float* a, std::size_t lda, const float* b,
                                      std::size_t ldb, float* c, std::size_t ldc, std::size_t k,
                                      bool add) {
  V acc[kRows][kVecs];
  load_sums(acc, c, ldc, add);
  const std::size_t next = kFactor == Factor::plain ? 1 : lda;
  const std::size_t next_row = kFactor == Factor::plain ? lda : 1;
  std::size_t i = 0;
  // Two at a time: with four g++ 12 moves sums through the stack.
  for (; i + 2 <= k; i += 2)
    unroll(
        [&](auto step) __attribute__((always_inline)) {
          attention_step<Term>(acc, a + (i + step) * next, next_row, b + (i + step) * ldb);
        },
        std::make_index_sequence<2>{});
  if (i < k) attention_step<Term>(acc, a + i * next, next_row, b + i * ldb);
  store_sums(acc, c, ldc);
}

// The same for any number of rows, cut into nearly equal tiles of at most kMaxRows.
template <class V, class Term, Factor kFactor, std::size_t kMaxRows, std::size_t kVecs>
void attention_tiles(const float* a, std::size_t lda, const float* b, std::size_t ldb, float* c,
                     std::size_t ldc, std::size_t rows, std::size_t k, bool add) {
  const std::size_t count = (rows + kMaxRows - 1) / kMaxRows;
  for (std::size_t tile = 0, done = 0; tile < count; ++tile) {
    const std::size_t height = (rows - done + count - tile - 1) / (count - tile);
    unroll(
        [&](auto r) {
          if (height == r + 1)
            attention_tile<V, Term, kFactor, r + 1, kVecs>(
                a + (kFactor == Factor::plain ? done * lda : done), lda, b, ldb, c + done * ldc,
                ldc, k, add);
        },
        std::make_index_sequence<kMaxRows>{});
    done += height;
  }
}
