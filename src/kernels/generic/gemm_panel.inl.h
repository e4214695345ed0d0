// c: [rows, 64] (+)= a: [rows, k] * panel: [k, 64], in blocks of rows x columns whose accumulators
// stay in registers over a block of k. Include inside an anonymous namespace, after
// a Terms file.

constexpr std::size_t kLine = 64;  // bytes of a cache line
constexpr std::size_t kUnitRow = kPanel * sizeof(float);

// Into the L2 cache: the L1 cache is full of what this block reads.
[[gnu::always_inline]] inline void fetch(const char* line) { __builtin_prefetch(line, 0, 2); }
// The place may lie outside of all objects: it is an address, not a pointer that may be moved.
[[gnu::always_inline]] inline void fetch(std::uintptr_t place) {
  fetch(reinterpret_cast<const char*>(place));
}

// kLines: cache lines fetched from `ahead` on per four unit rows.
template <class V, class Terms, std::size_t kRows, std::size_t kVecs, std::size_t kLines>
[[gnu::noinline]] void gemm_block(const typename Terms::Row* a, std::size_t lda,
                                  const typename Terms::Unit* b, std::uintptr_t ahead, float* c,
                                  std::size_t units, bool add) {
  V acc[kRows][kVecs];
  load_sums(acc, c, kPanel, add);
  std::size_t u = 0;
  for (; u + 4 <= units; u += 4) {
    unroll(
        [&](auto line) __attribute__((always_inline)) { fetch(ahead + line * kLine); },
        std::make_index_sequence<kLines>{});
    ahead += kLines * kLine;
    unroll(
        [&](auto i) __attribute__((always_inline)) {
          Terms::add(acc, a + (u + i) * Terms::kRowStep, lda, b + (u + i) * kPanel);
        },
        std::make_index_sequence<4>{});
  }
  for (; u < units; ++u) Terms::add(acc, a + u * Terms::kRowStep, lda, b + u * kPanel);
  store_sums(acc, c, kPanel);
}

// The shape of a block: Tile::kRows rows at most, Tile::vecs(rows) vectors of columns.
// Fetching the next block of k is spread over the row blocks of this one: all of it at the start
// would stall the multiply-adds, none would leave the memory idle meanwhile. With one block of rows
// the panel is read once from end to end, which the hardware foresees better.
template <class V, class Terms, class Tile, std::size_t kRows>
void gemm_rows(const typename Terms::Row* a, std::size_t lda, const typename Terms::Unit* b,
               std::uintptr_t ahead, std::size_t calls, std::size_t call, float* c,
               std::size_t units, bool add) {
  constexpr std::size_t kVecs = Tile::vecs(kRows);
  for (std::size_t column = 0; column < kPanel; column += kVecs * V::kLanes, ++call) {
    const auto run = [&](auto lines) __attribute__((always_inline)) {
      gemm_block<V, Terms, kRows, kVecs, lines>(
          a, lda, b + column, ahead + call * (units / 4) * lines * kLine, c + column, units, add);
    };
    if (call >= 16)
      run(std::integral_constant<std::size_t, 0>{});
    else if (calls >= 16)
      run(std::integral_constant<std::size_t, 1>{});
    else if (calls >= 8)
      call < 8 ? run(std::integral_constant<std::size_t, 2>{})
               : run(std::integral_constant<std::size_t, 0>{});
    else if (calls >= 4)
      call < 4 ? run(std::integral_constant<std::size_t, 4>{})
               : run(std::integral_constant<std::size_t, 0>{});
    else if (calls >= 2)
      call < 2 ? run(std::integral_constant<std::size_t, 8>{})
               : run(std::integral_constant<std::size_t, 0>{});
    else
      run(std::integral_constant<std::size_t, 0>{});
  }
}

// One block of k for all rows. Rows are cut into nearly equal blocks, as one of few rows would
// starve the multiply-add units.
template <class V, class Terms, class Tile>
void gemm_depth(const typename Terms::Row* a, std::size_t lda, const typename Terms::Unit* b,
                std::uintptr_t ahead, float* c, std::size_t rows, std::size_t units, bool add) {
  const std::size_t count = (rows + Tile::kRows - 1) / Tile::kRows;
  const std::size_t slices = kPanel / V::kLanes / Tile::vecs((rows + count - 1) / count);
  for (std::size_t block = 0, done = 0; block < count; ++block) {
    const std::size_t height = (rows - done + count - block - 1) / (count - block);
    unroll(
        [&](auto r) __attribute__((always_inline)) {
          if (height == r + 1)
            gemm_rows<V, Terms, Tile, r + 1>(a + done * lda, lda, b, ahead, count * slices,
                                             block * slices, c + done * kPanel, units, add);
        },
        std::make_index_sequence<Tile::kRows>{});
    done += height;
  }
}

// Blocks of k outside, so that a block of the panel (64 KiB) is read from the L2 cache by all rows
// but the first ones. Few rows take shorter blocks: what is fetched ahead must still be there.
template <class V, class Terms, class Tile>
void gemm_units(const typename Terms::Row* a, std::size_t lda, const typename Terms::Unit* panel,
                const void* next, float* c, std::size_t rows, std::size_t units, bool add) {
  const std::size_t most = rows <= 24 ? 64 : 256;
  std::size_t done = 0;
  do {
    const std::size_t deep = units - done < most ? units - done : most;
    const bool last = done + deep == units;
    const auto ahead = reinterpret_cast<std::uintptr_t>(
        last ? next : static_cast<const void*>(panel + (done + deep) * kPanel));
    gemm_depth<V, Terms, Tile>(a + done * Terms::kRowStep, lda, panel + done * kPanel, ahead, c,
                               rows, deep, add || done > 0);
    done += deep;
  } while (done < units);
}
