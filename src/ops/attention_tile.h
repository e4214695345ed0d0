// The pieces that attention and its gradient share: one head of one sequence, 64 queries at a time.
// Queries and keys are numbered from the start of the sequence. With a causal mask, row i reads
// keys 0..i alone, never as a product with 0, and where its sums are cut depends on i only: what
// follows in the sequence can change no bit of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"
#include "kernels/dispatch.h"
#include "ops/packed_weight.h"

namespace fourfold {

constexpr std::size_t kQueryRows = 64;  // queries of one step; their scores stay in the cache

inline std::size_t panels_of(std::size_t n) { return (n + kPanel - 1) / kPanel; }

// keys: [keys, head_dim] as panels [head_dim, 64] of 64 keys each, for products with their
// transpose.
inline void pack_keys(ConstMatrix keys, float* panels) {
  for (std::size_t p = 0; p < panels_of(keys.rows); ++p)
    pack_panel(keys.rows_from(p * kPanel, std::min(kPanel, keys.rows - p * kPanel)),
               panels + p * kPanel * keys.cols);
}

// values: [keys, head_dim] as panels [keys, 64] of 64 columns each; missing columns are 0.
inline void pack_values(ConstMatrix values, float* panels) {
  for (std::size_t p = 0; p < panels_of(values.cols); ++p) {
    const std::size_t first = p * kPanel, width = std::min(kPanel, values.cols - first);
    float* panel = panels + p * values.rows * kPanel;
    for (std::size_t row = 0; row < values.rows; ++row) {
      std::copy_n(values.data + row * values.stride + first, width, panel + row * kPanel);
      std::fill_n(panel + row * kPanel + width, kPanel - width, 0.0F);
    }
  }
}

inline std::size_t packed_keys_size(std::size_t keys, std::size_t head_dim) {
  return panels_of(keys) * kPanel * head_dim;
}
inline std::size_t packed_values_size(std::size_t keys, std::size_t head_dim) {
  return panels_of(head_dim) * kPanel * keys;
}
// Floats between two rows of scores: not a power of two, so a column does not fall on one cache
// set.
inline std::size_t score_stride(std::size_t keys) { return panels_of(keys) * kPanel + 16; }

// Queries first .. first + rows of a sequence of `keys` tokens.
struct QueryBlock {
  std::size_t first, rows, keys;
  bool causal;

  std::size_t keys_of(std::size_t row) const { return causal ? first + row + 1 : keys; }
  std::size_t most_keys() const { return causal ? first + rows : keys; }
  // Keys that every row reads: a multiple of 64 when causal.
  std::size_t common_keys() const { return causal ? first : keys; }
};

// scores[row, key] = a[row] . b[key] for the keys that some row reads. a: [rows, head_dim];
// packed: pack_keys of b: [keys, head_dim]; sums: [64, 64].
inline void score_rows(const QueryBlock& block, ConstMatrix a, const float* packed, Matrix scores,
                       float* sums) {
  for (std::size_t p = 0; p < panels_of(block.most_keys()); ++p) {
    const std::size_t count = std::min(kPanel, block.most_keys() - p * kPanel);
    kernels().gemm.panel_f32(a.data, a.stride, packed + p * kPanel * a.cols,
                             packed + (p + 1) * kPanel * a.cols, sums, a.rows, a.cols, false);
    for (std::size_t row = 0; row < a.rows; ++row)
      std::copy_n(sums + row * kPanel, count, scores.row(row).data() + p * kPanel);
  }
}

// y[row] = the sum of weights[row, key] * value[key] over the keys of the row, in ascending order.
// weights: [rows, keys]; packed: pack_values of [keys, head_dim]; y: [rows, head_dim].
inline void mix_rows(const QueryBlock& block, ConstMatrix weights, const float* packed, Matrix y,
                     float* sums) {
  const KernelTable& table = kernels();
  const std::size_t common = block.common_keys();
  for (std::size_t p = 0; p < panels_of(y.cols); ++p) {
    const float* panel = packed + p * kPanel * block.keys;
    table.gemm.panel_f32(weights.data, weights.stride, panel, panel, sums, block.rows, common, false);
    for (std::size_t row = 0; row < block.rows; ++row) {
      float* sum = sums + row * kPanel;
      if (block.keys_of(row) > common)
        table.rows.weighted_rows(weights.row(row).data() + common, 1, panel + common * kPanel,
                                 block.keys_of(row) - common, sum);
      std::copy_n(sum, std::min(kPanel, y.cols - p * kPanel), y.row(row).data() + p * kPanel);
    }
  }
}

// sums: [panels of head_dim][keys, 64] += weights^T a for the keys that some row reads: key j adds
// up the rows that see it, in ascending order. weights: [rows, keys]; packed: pack_values of a:
// [rows, head_dim].
inline void spread_rows(const QueryBlock& block, ConstMatrix weights, const float* packed,
                        std::size_t head_dim, float* sums) {
  const auto add = kernels().rows.weighted_rows;
  for (std::size_t p = 0; p < panels_of(head_dim); ++p)
    for (std::size_t key = 0; key < block.most_keys(); ++key) {
      const std::size_t from = block.causal && key > block.first ? key - block.first : 0;
      add(weights.row(from).data() + key, weights.stride, packed + (p * block.rows + from) * kPanel,
          block.rows - from, sums + (p * block.keys + key) * kPanel);
    }
}

// Where each sequence begins.
struct SequenceStarts {
  std::size_t* starts;
  std::size_t longest = 0;

  SequenceStarts(std::span<const std::size_t> lengths, Workspace& workspace) {
    // A size takes the room of two floats.
    static_assert(sizeof(std::size_t) == 2 * sizeof(float));
    starts = reinterpret_cast<std::size_t*>(workspace.take(2 * lengths.size()));
    std::size_t total = 0, n = 0;
    for (const std::size_t length : lengths) {
      starts[n++] = total;
      total += length;
      longest = std::max(longest, length);
    }
  }
};

}  // namespace fourfold
