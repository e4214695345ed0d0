// The sums of a tile between memory and registers: [kRows][kVecs] vectors from and to rows of c.
// Include inside an anonymous namespace, after vec.h and unroll.inl.h.

// Starts from 0, or with add from what c holds.
template <class V, std::size_t kRows, std::size_t kVecs>
[[gnu::always_inline]] inline void load_sums(V (&acc)[kRows][kVecs], const float* c,
                                             std::size_t ldc, bool add) {
  unroll(
      [&](auto r) __attribute__((always_inline)) {
        unroll(
            [&](auto v) __attribute__((always_inline)) {
              acc[r][v] = add ? V::load(c + r * ldc + v * V::kLanes) : V::set(0.0F);
            },
            std::make_index_sequence<kVecs>{});
      },
      std::make_index_sequence<kRows>{});
}

template <class V, std::size_t kRows, std::size_t kVecs>
[[gnu::always_inline]] inline void store_sums(const V (&acc)[kRows][kVecs], float* c,
                                              std::size_t ldc) {
  unroll(
      [&](auto r) __attribute__((always_inline)) {
        unroll(
            [&](auto v)
                __attribute__((always_inline)) { acc[r][v].store(c + r * ldc + v * V::kLanes); },
            std::make_index_sequence<kVecs>{});
      },
      std::make_index_sequence<kRows>{});
}
