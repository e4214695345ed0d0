// Kernels of scaled dot-product attention of one instruction set: one head, some rows (queries) at
// a time. Each element of a product is one accumulator in ascending order, so a row's bits depend
// on neither the other rows nor where a product is cut.
#pragma once

#include <cstddef>

namespace fourfold {

// Rows of packed keys and of scores have room for a multiple of this many keys.
constexpr std::size_t kKeyGroup = 64;
// Rows of packed values have a multiple of this many columns; those beyond head_dim are 0.
constexpr std::size_t kValueGroup = 16;

// keys: [count, head_dim] becomes panels for score_rows, head_dim * (count rounded up to kKeyGroup)
// floats, in an order of the kernels' own.
using PackKeys = void (*)(const float* keys, std::size_t stride, std::size_t count,
                          std::size_t head_dim, float* panels);
// values: [count, head_dim] becomes packed: [count, width].
using PackValues = void (*)(const float* values, std::size_t stride, std::size_t count,
                            std::size_t head_dim, float* packed, std::size_t width);
// scores[r, j] = a[r] . key[j] for j < count; up to kKeyGroup - 1 more are overwritten.
// a: [rows, head_dim].
using ScoreRows = void (*)(const float* a, std::size_t lda, const float* panels, float* scores,
                           std::size_t lds, std::size_t rows, std::size_t count,
                           std::size_t head_dim);
// sums[r] = the sum of weights[r, j] * packed[j] over j < count; add: on top of what sums hold.
// weights: [rows, count], packed: [count, width], sums: [rows, width].
using MixRows = void (*)(const float* weights, std::size_t ldw, const float* packed, float* sums,
                         std::size_t width, std::size_t rows, std::size_t count, bool add);
// sums[j] += the sum of weights[r, j] * packed[r] over r < rows, for j < count.
// weights: [rows, count], packed: [rows, width], sums: [count, width].
using SpreadRows = void (*)(const float* weights, std::size_t ldw, const float* packed, float* sums,
                            std::size_t width, std::size_t rows, std::size_t count);
// x[r, j] = exp(scale * (x[r, j] - max_r)) over the first count + r * growth values of row r, their
// sum to totals[r]. The largest becomes exactly 1; a NaN or +inf makes the sum NaN.
using ExpRows = void (*)(float* x, std::size_t stride, std::size_t rows, std::size_t count,
                         std::size_t growth, float scale, float* totals);
// y[i] = x[i] / divisor over n values; y may be x.
using DivideRow = void (*)(const float* x, float divisor, float* y, std::size_t n);

// queries: [rows, head_dim] become rows for score_rows, packed_stride floats apart, which is
// head_dim or more.
using PackQueries = void (*)(const float* queries, std::size_t stride, std::size_t rows,
                             std::size_t head_dim, float* packed, std::size_t packed_stride);

struct AttentionKernels {
  PackKeys pack_keys;
  PackValues pack_values;
  ScoreRows score_rows;
  MixRows mix_rows;
  SpreadRows spread_rows;
  ExpRows exp_rows;
  DivideRow divide_row;
};

// The same with queries, keys, values and weights rounded to bf16; sums are float32. What is packed
// is in words of 32 bits, one value each or two where there are dot products of bf16: of neighbours
// in a query and a key, of neighbouring keys in weights and values. exp_rows leaves such words, and
// totals of the rounded weights; in mix_rows count is in keys, also of an odd number.
struct AttentionBf16Kernels {
  std::size_t values_per_word;
  PackQueries pack_queries;
  PackKeys pack_keys;
  PackValues pack_values;
  ScoreRows score_rows;
  MixRows mix_rows;
  ExpRows exp_rows;
};

}  // namespace fourfold
