// Products that read only what a list names: unit rows of a panel, or rows of a weight that is kept
// feature by feature. The additions of each element come in the order of k, as in a full product.
// Include inside an anonymous namespace, after gemm_panel.inl.h.

// A listed unit row is too short for the hardware to foresee the next one: each is fetched
// kListAhead places before it is used, by the first call that reads its lines. Into the L2 cache,
// which can wait for more lines at a time than L1: half as many bytes per second arrive there.
template <class V, class Terms, std::size_t kRows, std::size_t kVecs>
[[gnu::noinline]] void listed_block(const typename Terms::Row* a, std::size_t lda,
                                    const std::uint32_t* index, std::size_t count,
                                    const typename Terms::Unit* b, bool fetching, float* c,
                                    bool add) {
  constexpr std::size_t kBytes = kVecs * V::kLanes * sizeof(float);
  V acc[kRows][kVecs];
  load_sums(acc, c, kPanel, add);
  const auto step = [&](std::size_t i) __attribute__((always_inline)) {
    Terms::add(acc, a + index[i] * Terms::kRowStep, lda, b + std::size_t{index[i]} * kPanel);
  };
  if (fetching)
    for (std::size_t i = 0; i < count; ++i) {
      const auto* line =
          reinterpret_cast<const char*>(b + std::size_t{index[i + kListAhead]} * kPanel);
      unroll(
          [&](auto l) __attribute__((always_inline)) { fetch(line + l * kLine); },
          std::make_index_sequence<kBytes / kLine>{});
      step(i);
    }
  else
    for (std::size_t i = 0; i < count; ++i) step(i);
  store_sums(acc, c, kPanel);
}

// One block of the list for at most Tile::kRows rows, slice after slice of the columns.
template <class V, class Terms, class Tile, std::size_t kRows>
void listed_rows(const typename Terms::Row* a, std::size_t lda, const std::uint32_t* index,
                 std::size_t count, const typename Terms::Unit* b, bool fetching, float* c,
                 bool add) {
  constexpr std::size_t kVecs = Tile::vecs(kRows);
  for (std::size_t column = 0; column < kPanel; column += kVecs * V::kLanes)
    listed_block<V, Terms, kRows, kVecs>(a, lda, index, count, b + column, fetching, c + column,
                                         add);
}

// Blocks of the list outside: the unit rows of one stay in the L1 cache for all rows.
template <class V, class Terms, class Tile>
void listed_units(const typename Terms::Row* a, std::size_t lda, const std::uint32_t* index,
                  std::size_t count, const typename Terms::Unit* panel, float* c,
                  std::size_t rows) {
  const std::size_t blocks = (rows + Tile::kRows - 1) / Tile::kRows;
  std::size_t listed = 0;
  do {
    const std::size_t n = count - listed < kListAhead ? count - listed : kListAhead;
    for (std::size_t block = 0, done = 0; block < blocks; ++block) {
      const std::size_t height = (rows - done + blocks - block - 1) / (blocks - block);
      unroll(
          [&](auto r) __attribute__((always_inline)) {
            if (height == r + 1)
              listed_rows<V, Terms, Tile, r + 1>(a + done * lda, lda, index + listed, n, panel,
                                                 block == 0, c + done * kPanel, listed > 0);
          },
          std::make_index_sequence<Tile::kRows>{});
      done += height;
    }
    listed += n;
  } while (listed < count);
}

// c: [kRows, 16]. A line of each feature is turned into 16 unit rows of 16 columns, which then
// serve all rows.
template <class V, class Terms, std::size_t kRows>
[[gnu::noinline]] void feature_rows(const typename Terms::Row* a, std::size_t lda,
                                    const float* const* features, const float* const* next,
                                    std::size_t units, float* c) {
  constexpr std::size_t kVecs = kFeatures / V::kLanes;
  using Rows = std::make_index_sequence<kRows>;
  using Vecs = std::make_index_sequence<kVecs>;
  constexpr std::size_t kWords = kLine / sizeof(float);
  V acc[kRows][kVecs];
  unroll(
      [&](auto r) __attribute__((always_inline)) {
        unroll(
            [&](auto v) __attribute__((always_inline)) { acc[r][v] = V::set(0); }, Vecs{});
      },
      Rows{});
  alignas(kLine) float turned[kWords * kFeatures];
  const auto* unit = reinterpret_cast<const typename Terms::Unit*>(turned);
  for (std::size_t u = 0; u < units; u += kWords) {
    const std::size_t ahead = u + kFeaturesAhead;
    const bool within = ahead < units;
    const float* const* from = within ? features : next;
    const std::size_t at = within ? ahead : ahead - units;
    for (std::size_t f = 0; f < kFeatures; ++f) fetch(reinterpret_cast<const char*>(from[f] + at));
    V::turn(features, u, turned);
    V::turn(features, u + kWords / 2, turned + kWords / 2 * kFeatures);
    const std::size_t n = units - u < kWords ? units - u : kWords;
    for (std::size_t i = 0; i < n; ++i)
      Terms::add(acc, a + (u + i) * Terms::kRowStep, lda, unit + i * kFeatures);
  }
  unroll(
      [&](auto r) __attribute__((always_inline)) {
        unroll(
            [&](auto v) __attribute__((always_inline)) {
              acc[r][v].store(c + r * kFeatures + v * V::kLanes);
            },
            Vecs{});
      },
      Rows{});
}

template <class V, class Terms>
void feature_units(const typename Terms::Row* a, std::size_t lda, const float* const* features,
                   const float* const* next, std::size_t units, float* c, std::size_t rows) {
  constexpr std::size_t kMost = 4;
  for (std::size_t done = 0; done < rows; done += kMost)
    unroll(
        [&](auto r) __attribute__((always_inline)) {
          if ((rows - done < kMost ? rows - done : kMost) == r + 1)
            feature_rows<V, Terms, r + 1>(a + done * lda, lda, features, next, units,
                                          c + done * kFeatures);
        },
        std::make_index_sequence<kMost>{});
}
