// Attention kernels of one instruction set. Include inside an anonymous namespace, after
// bf16_rows.inl.h and rows.inl.h.
#include "kernels/generic/attention_exp.inl.h"
#include "kernels/generic/attention_tiles.inl.h"

// Panels of kWide keys: [head_dim, kWide] each; missing keys are 0.
template <std::size_t kWide>
void pack_keys(const float* keys, std::size_t stride, std::size_t count, std::size_t head_dim,
               float* panels) {
  constexpr std::size_t kBlock = 8;
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t rows = count - first < kBlock ? count - first : kBlock;
    const float* from = keys + first * stride;
    float* panel = panels + first / kWide * kWide * head_dim + first % kWide;
    std::size_t column = 0;
    if (rows == kBlock)
      for (; column + kBlock <= head_dim; column += kBlock)
        transpose_8x8(from + column, stride, panel + column * kWide, kWide);
    for (; column < head_dim; ++column)
      for (std::size_t row = 0; row < kBlock; ++row)
        panel[column * kWide + row] = row < rows ? from[row * stride + column] : 0.0F;
  }
  for (std::size_t key = (count + kBlock - 1) / kBlock * kBlock; key % kWide != 0; ++key)
    for (std::size_t column = 0; column < head_dim; ++column)
      panels[key / kWide * kWide * head_dim + column * kWide + key % kWide] = 0.0F;
}

template <class V>
void pack_values(const float* values, std::size_t stride, std::size_t count, std::size_t head_dim,
                 float* packed, std::size_t width) {
  for (std::size_t row = 0; row < count; ++row) {
    const float* from = values + row * stride;
    float* to = packed + row * width;
    std::size_t i = 0;
    for (; i + V::kLanes <= head_dim; i += V::kLanes) V::load(from + i).store(to + i);
    if (i < head_dim) {
      V::load_part(from + i, head_dim - i).store(to + i);
      i += V::kLanes;
    }
    for (; i < width; i += V::kLanes) V::set(0.0F).store(to + i);
  }
}

template <class V, std::size_t kMaxRows, std::size_t kVecs>
void score_rows(const float* a, std::size_t lda, const float* panels, float* scores,
                std::size_t lds, std::size_t rows, std::size_t count, std::size_t head_dim) {
  constexpr std::size_t kWide = kVecs * V::kLanes;
  static_assert(kKeyGroup % kWide == 0);
  for (std::size_t key = 0; key < count; key += kWide)
    attention_tiles<V, FloatTerm, Factor::plain, kMaxRows, kVecs>(
        a, lda, panels + key * head_dim, kWide, scores + key, lds, rows, head_dim, false);
}

// c: [rows, width] (+)= a: [rows, k] * b: [k, width], a slice of columns at a time.
template <class V, Factor kFactor, std::size_t kMaxRows, std::size_t kVecs>
void value_product(const float* a, std::size_t lda, const float* b, float* c, std::size_t width,
                   std::size_t rows, std::size_t k, bool add) {
  constexpr std::size_t kWide = kVecs * V::kLanes, kNarrow = kValueGroup / V::kLanes;
  std::size_t column = 0;
  for (; column + kWide <= width; column += kWide)
    attention_tiles<V, FloatTerm, kFactor, kMaxRows, kVecs>(a, lda, b + column, width, c + column,
                                                            width, rows, k, add);
  if constexpr (kWide > kValueGroup)
    for (; column < width; column += kValueGroup)
      attention_tiles<V, FloatTerm, kFactor, kMaxRows, kNarrow>(a, lda, b + column, width,
                                                                c + column, width, rows, k, add);
}

template <class V, std::size_t kMaxRows, std::size_t kVecs>
void mix_rows(const float* weights, std::size_t ldw, const float* packed, float* sums,
              std::size_t width, std::size_t rows, std::size_t count, bool add) {
  value_product<V, Factor::plain, kMaxRows, kVecs>(weights, ldw, packed, sums, width, rows, count,
                                                   add);
}

template <class V, std::size_t kMaxRows, std::size_t kVecs>
void spread_rows(const float* weights, std::size_t ldw, const float* packed, float* sums,
                 std::size_t width, std::size_t rows, std::size_t count) {
  value_product<V, Factor::transposed, kMaxRows, kVecs>(weights, ldw, packed, sums, width, count,
                                                        rows, true);
}

template <class V>
void divide_row(const float* x, float divisor, float* y, std::size_t n) {
  const V by = V::set(divisor);
  write_row<V>(y, n, [&](auto load) { return load(x) / by; });
}

template <class V, std::size_t kMaxRows, std::size_t kVecs>
constexpr AttentionKernels make_attention_kernels() {
  return {pack_keys<kVecs * V::kLanes>,
          pack_values<V>,
          score_rows<V, kMaxRows, kVecs>,
          mix_rows<V, kMaxRows, kVecs>,
          spread_rows<V, kMaxRows, kVecs>,
          exp_rows<V>,
          divide_row<V>};
}

// Products of values rounded to bf16, in float32 words: the float32 kernels on rounded factors.
template <std::size_t kWide>
void pack_keys_rounded(const float* keys, std::size_t stride, std::size_t count,
                       std::size_t head_dim, float* panels) {
  pack_keys<kWide>(keys, stride, count, head_dim, panels);
  round_rows(panels, 0, panels, 0, 1, (count + kWide - 1) / kWide * kWide * head_dim);
}

template <class V>
void pack_values_rounded(const float* values, std::size_t stride, std::size_t count,
                         std::size_t head_dim, float* packed, std::size_t width) {
  pack_values<V>(values, stride, count, head_dim, packed, width);
  round_rows(packed, width, packed, width, count, width);
}

inline void pack_queries_rounded(const float* queries, std::size_t stride, std::size_t rows,
                                 std::size_t head_dim, float* packed, std::size_t packed_stride) {
  round_rows(queries, stride, packed, packed_stride, rows, head_dim);
}

template <class V>
void exp_rows_rounded(float* x, std::size_t stride, std::size_t rows, std::size_t count,
                      std::size_t growth, float scale, float* totals) {
  exp_rows<V>(x, stride, rows, count, growth, scale, totals);
  for (std::size_t row = 0; row < rows; ++row) {
    float* values = x + row * stride;
    const std::size_t n = count + row * growth;
    round_rows(values, 0, values, 0, 1, n);
    totals[row] = row_total<V>(n, [&](auto load) { return load(values); });
  }
}

template <class V, std::size_t kMaxRows, std::size_t kVecs>
constexpr AttentionBf16Kernels make_attention_bf16_kernels() {
  return {1,
          pack_queries_rounded,
          pack_keys_rounded<kVecs * V::kLanes>,
          pack_values_rounded<V>,
          score_rows<V, kMaxRows, kVecs>,
          mix_rows<V, kMaxRows, kVecs>,
          exp_rows_rounded<V>};
}
