// The pieces that attention and its gradient share: one head of one sequence, a block of queries at
// a time. Queries and keys are numbered from the start of the sequence. With a causal mask, row i
// reads keys 0..i alone, never as a product with 0: what follows in the sequence can change no bit
// of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"
#include "kernels/dispatch.h"

namespace fourfold {

// Queries of one block: whole tiles of every instruction set, few enough that their scores stay in
// the L1 cache for short sequences.
constexpr std::size_t kQueryRows = 24;
static_assert(kQueryRows % 2 == 0);  // in bf16 keys go in pairs, counted from the first

inline std::size_t blocks_of(std::size_t queries) {
  return (queries + kQueryRows - 1) / kQueryRows;
}

// Columns of packed values, and of sums of them.
inline std::size_t value_width(std::size_t head_dim) {
  return (head_dim + kValueGroup - 1) / kValueGroup * kValueGroup;
}
inline std::size_t packed_keys_size(std::size_t keys, std::size_t head_dim) {
  return (keys + kKeyGroup - 1) / kKeyGroup * kKeyGroup * head_dim;
}
inline std::size_t packed_values_size(std::size_t keys, std::size_t head_dim) {
  return keys * value_width(head_dim);
}
// Floats between two rows of scores: not a power of two, so a column does not fall on one cache
// set.
inline std::size_t score_stride(std::size_t keys) {
  return (keys + kKeyGroup - 1) / kKeyGroup * kKeyGroup + 16;
}

// keys, values: [keys, head_dim].
inline void pack_keys(ConstMatrix keys, float* packed) {
  kernels().attention.pack_keys(keys.data, keys.stride, keys.rows, keys.cols, packed);
}
inline void pack_values(ConstMatrix values, float* packed) {
  kernels().attention.pack_values(values.data, values.stride, values.rows, values.cols, packed,
                                  value_width(values.cols));
}

// Queries first .. first + rows of a sequence of `keys` tokens.
struct QueryBlock {
  std::size_t first, rows, keys;
  bool causal;

  QueryBlock(std::size_t index, std::size_t tokens, bool masked)
      : first(index * kQueryRows),
        rows(std::min(kQueryRows, tokens - first)),
        keys(tokens),
        causal(masked) {}

  std::size_t keys_of(std::size_t row) const { return causal ? first + row + 1 : keys; }
  std::size_t most_keys() const { return causal ? first + rows : keys; }
  std::size_t common_keys() const { return causal ? first : keys; }  // every row reads these
};

// scores[row, key] = a[row] . b[key] for the keys that some row reads. a: [rows, head_dim];
// packed: pack_keys of b: [keys, head_dim].
inline void score_rows(const QueryBlock& block, ConstMatrix a, const float* packed, Matrix scores,
                       ScoreRows kernel = kernels().attention.score_rows) {
  kernel(a.data, a.stride, packed, scores.data, scores.stride, block.rows, block.most_keys(),
         a.cols);
}

// The scores that a row reads become exp(scale * (score - largest)), and totals[row] their sum.
inline void exp_rows(const QueryBlock& block, Matrix scores, float scale, float* totals,
                     ExpRows kernel = kernels().attention.exp_rows) {
  kernel(scores.data, scores.stride, block.rows, block.keys_of(0), block.causal ? 1 : 0, scale,
         totals);
}

// sums[row] = the sum of weights[row, key] * value[key] over the keys of the row, in ascending
// order. weights: [rows, keys]; packed: pack_values of [keys, head_dim]; sums: [rows, width].
// per_word: keys in one word of weights and of packed.
inline void mix_rows(const QueryBlock& block, ConstMatrix weights, const float* packed, Matrix sums,
                     MixRows mix = kernels().attention.mix_rows, std::size_t per_word = 1) {
  const std::size_t common = block.common_keys(), words = common / per_word;
  mix(weights.data, weights.stride, packed, sums.data, sums.cols, block.rows, common, false);
  if (!block.causal) return;
  for (std::size_t row = 0; row < block.rows; ++row)
    mix(weights.row(row).data() + words, weights.stride, packed + words * sums.cols,
        sums.row(row).data(), sums.cols, 1, block.keys_of(row) - common, true);
}

// sums[key] += the sum of weights[row, key] * a[row] over the rows that read the key, in ascending
// order. weights: [rows, keys]; packed: pack_values of a: [rows, head_dim]; sums: [keys, width].
inline void spread_rows(const QueryBlock& block, ConstMatrix weights, const float* packed,
                        Matrix sums) {
  const auto spread = kernels().attention.spread_rows;
  const std::size_t common = block.common_keys();
  spread(weights.data, weights.stride, packed, sums.data, sums.cols, block.rows, common);
  if (!block.causal) return;
  for (std::size_t row = 0; row < block.rows; ++row)
    spread(weights.row(row).data() + common + row, weights.stride, packed + row * sums.cols,
           sums.row(common + row).data(), sums.cols, block.rows - row, 1);
}

}  // namespace fourfold
