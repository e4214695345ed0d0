// One unit row of a product for the types of weights: how kRows rows of a and one unit row of a
// panel change the accumulators. Include inside an anonymous namespace, after vec.h and
// unroll.inl.h.

// acc[r][v] += a[r * lda] * load(v). With several rows the weights wait in registers for all of
// them; a single row takes each as it comes.
template <class V, std::size_t kRows, std::size_t kVecs, class Load>
[[gnu::always_inline]] inline void add_terms(V (&acc)[kRows][kVecs], const float* a,
                                             std::size_t lda, Load load) {
  using Vecs = std::make_index_sequence<kVecs>;
  if constexpr (kRows == 1) {
    const V x = opaque(V::set(*a));
    unroll(
        [&](auto v)
            __attribute__((always_inline)) { acc[0][v] = add_product(acc[0][v], x, load(v)); },
        Vecs{});
  } else {
    V weights[kVecs];
    unroll(
        [&](auto v) __attribute__((always_inline)) { weights[v] = opaque(load(v)); }, Vecs{});
    unroll(
        [&](auto r) __attribute__((always_inline)) {
          const V x = opaque(V::set(a[r * lda]));
          unroll(
              [&](auto v) __attribute__((always_inline)) {
                acc[r][v] = add_product(acc[r][v], x, weights[v]);
              },
              Vecs{});
        },
        std::make_index_sequence<kRows>{});
  }
}

// Float32: one k.
template <class V>
struct TermsF32 {
  using Row = float;
  using Unit = float;
  static constexpr std::size_t kRowStep = 1;  // values of a row per unit

  template <std::size_t kRows, std::size_t kVecs>
  [[gnu::always_inline]] static void add(V (&acc)[kRows][kVecs], const float* a, std::size_t lda,
                                         const float* unit) {
    add_terms(
        acc, a,
        lda, [&](auto v) __attribute__((always_inline)) { return V::load(unit + v * V::kLanes); });
  }
};

// bf16 weights as two float32 products: the lower half of each word, then the upper one.
template <class V>
struct TermsWidened {
  using Row = float;
  using Unit = std::uint32_t;
  static constexpr std::size_t kRowStep = 2;

  template <std::size_t kRows, std::size_t kVecs>
  [[gnu::always_inline]] static void add(V (&acc)[kRows][kVecs], const float* a, std::size_t lda,
                                         const std::uint32_t* unit) {
    add_terms(
        acc, a, lda, [&](auto v) __attribute__((always_inline)) {
          return V::load_low_bf16(unit + v * V::kLanes);
        });
    add_terms(
        acc, a + 1, lda, [&](auto v) __attribute__((always_inline)) {
          return V::load_high_bf16(unit + v * V::kLanes);
        });
  }
};
