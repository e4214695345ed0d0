// Attention by dot products of bf16: words of two values. Include inside an anonymous namespace,
// after attention_exp.inl.h, attention_tiles.inl.h and terms_dot.h.

// Query rows and vectors of keys or columns in one tile: 24 sums, 2 columns and a query are 27 of
// 32 registers.
constexpr std::size_t kTileRows = 12, kTileVecs = 2, kTileWide = kTileVecs * VecF32::kLanes;

struct DotTerm {
  [[gnu::always_inline]] static VecF32 add(VecF32 sum, VecF32 a, VecF32 b) {
    return TermsDot::dot(sum, a, b);
  }
};

// Nearest, ties to even; below 2^-126 it is 0, as in the products.
inline __m256i narrow(VecF32 x) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.v)); }
inline VecF32 widen(__m256i x) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
}
inline VecF32 load_up_to(const float* x, std::size_t n) {
  return n < VecF32::kLanes ? VecF32::load_part(x, n) : VecF32::load(x);
}
inline void store_words(__m256i words, float* to) {
  _mm256_storeu_ps(to, _mm256_castsi256_ps(words));
}

void pack_queries_dot(const float* queries, std::size_t stride, std::size_t rows,
                      std::size_t head_dim, float* packed, std::size_t packed_stride) {
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < head_dim; i += 16) {
      const __m256i words = narrow(load_up_to(queries + row * stride + i, head_dim - i));
      const auto count = static_cast<unsigned>(head_dim - i < 16 ? (head_dim - i + 1) / 2 : 8);
      _mm256_mask_storeu_epi32(packed + row * packed_stride + i / 2,
                               static_cast<__mmask8>((1U << count) - 1U), words);
    }
}

// Panels of kTileWide keys: [words of a key, kTileWide] each; missing keys and values are 0.
void pack_keys_dot(const float* keys, std::size_t stride, std::size_t count, std::size_t head_dim,
                   float* panels) {
  constexpr std::size_t kSquare = 8;
  const std::size_t units = (head_dim + 1) / 2;
  const std::size_t padded = (count + kTileWide - 1) / kTileWide * kTileWide;
  float rows[kSquare * kSquare], turned[kSquare * kSquare];
  for (std::size_t first = 0; first < padded; first += kSquare) {
    float* panel = panels + first / kTileWide * kTileWide * units + first % kTileWide;
    for (std::size_t unit = 0; unit < units; unit += kSquare) {
      const std::size_t column = 2 * unit;
      for (std::size_t row = 0; row < kSquare; ++row)
        store_words(first + row < count ? narrow(load_up_to(keys + (first + row) * stride + column,
                                                            head_dim - column))
                                        : _mm256_setzero_si256(),
                    rows + row * kSquare);
      if (unit + kSquare <= units) {
        transpose_8x8(rows, kSquare, panel + unit * kTileWide, kTileWide);
        continue;
      }
      transpose_8x8(rows, kSquare, turned, kSquare);
      for (std::size_t u = 0; unit + u < units; ++u)
        _mm256_storeu_ps(panel + (unit + u) * kTileWide, _mm256_loadu_ps(turned + u * kSquare));
    }
  }
}

// [words of two keys, width]; an odd last key is followed by 0.
void pack_values_dot(const float* values, std::size_t stride, std::size_t count,
                     std::size_t head_dim, float* packed, std::size_t width) {
  const auto part = [&](std::size_t row, std::size_t i) {
    if (row >= count || i >= head_dim) return _mm512_setzero_si512();
    return _mm512_cvtepu16_epi32(narrow(load_up_to(values + row * stride + i, head_dim - i)));
  };
  for (std::size_t row = 0; row < count; row += 2)
    for (std::size_t i = 0; i < width; i += 16) {
      const __m512i pair = _mm512_or_si512(part(row, i), _mm512_slli_epi32(part(row + 1, i), 16));
      VecF32{_mm512_castsi512_ps(pair)}.store(packed + row / 2 * width + i);
    }
}

void score_rows_dot(const float* a, std::size_t lda, const float* panels, float* scores,
                    std::size_t lds, std::size_t rows, std::size_t count, std::size_t head_dim) {
  const std::size_t units = (head_dim + 1) / 2;
  for (std::size_t key = 0; key < count; key += kTileWide)
    attention_tiles<VecF32, DotTerm, Factor::plain, kTileRows, kTileVecs>(
        a, lda, panels + key * units, kTileWide, scores + key, lds, rows, units, false);
}

// Columns of one vector width or two. An odd last key has a word of its own: what comes after it in
// the sequence must not be read, not even as a product with 0.
template <std::size_t kVecs>
void mix_columns_dot(const float* weights, std::size_t ldw, const float* packed, float* sums,
                     std::size_t width, std::size_t rows, std::size_t count, bool add) {
  const std::size_t pairs = count / 2;
  attention_tiles<VecF32, DotTerm, Factor::plain, kTileRows, kVecs>(weights, ldw, packed, width,
                                                                    sums, width, rows, pairs, add);
  if (count % 2 == 0) return;
  float last[kVecs * VecF32::kLanes];
  for (std::size_t i = 0; i < kVecs * VecF32::kLanes; i += VecF32::kLanes) {
    const __m512i words = _mm512_loadu_si512(packed + pairs * width + i);
    const __m512i lower = _mm512_and_si512(words, _mm512_set1_epi32(0xFFFF));
    VecF32{_mm512_castsi512_ps(lower)}.store(last + i);
  }
  attention_tiles<VecF32, DotTerm, Factor::plain, kTileRows, kVecs>(
      weights + pairs, ldw, last, kVecs * VecF32::kLanes, sums, width, rows, 1, true);
}

void mix_rows_dot(const float* weights, std::size_t ldw, const float* packed, float* sums,
                  std::size_t width, std::size_t rows, std::size_t count, bool add) {
  std::size_t column = 0;
  for (; column + kTileWide <= width; column += kTileWide)
    mix_columns_dot<kTileVecs>(weights, ldw, packed + column, sums + column, width, rows, count,
                               add);
  for (; column < width; column += VecF32::kLanes)
    mix_columns_dot<1>(weights, ldw, packed + column, sums + column, width, rows, count, add);
}

// Words of two exponentials; an odd last one is followed by 0. The sum is that of the rounded ones.
struct WordExps {
  [[gnu::always_inline]] static VecF32 store(VecF32 e, float* row, std::size_t i, std::size_t n) {
    const __m256i words = narrow(e);
    if (n < VecF32::kLanes)
      _mm256_mask_storeu_epi32(row + i / 2, static_cast<__mmask8>((1U << (n + 1) / 2) - 1U), words);
    else
      store_words(words, row + i / 2);
    return widen(words);
  }
};

constexpr AttentionBf16Kernels attention_dot_kernels() {
  return {2,
          pack_queries_dot,
          pack_keys_dot,
          pack_values_dot,
          score_rows_dot,
          mix_rows_dot,
          exp_rows<VecF32, WordExps>};
}
