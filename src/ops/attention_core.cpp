#include "ops/attention_core.h"

#include <algorithm>
#include <cmath>

#include "kernels/dispatch.h"
#include "ops/packed_weight.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr std::size_t kQueryRows = 64;  // queries of one step; their scores stay in the cache

std::size_t panels_of(std::size_t n) { return (n + kPanel - 1) / kPanel; }

// values: [keys, head_dim] as panels of 64 columns, [keys, 64] each; missing columns are 0.
void pack_values(ConstMatrix values, float* panels) {
  for (std::size_t p = 0; p < panels_of(values.cols); ++p) {
    const std::size_t first = p * kPanel, width = std::min(kPanel, values.cols - first);
    float* panel = panels + p * values.rows * kPanel;
    for (std::size_t row = 0; row < values.rows; ++row) {
      std::copy_n(values.data + row * values.stride + first, width, panel + row * kPanel);
      std::fill_n(panel + row * kPanel + width, kPanel - width, 0.0F);
    }
  }
}

struct HeadScratch {
  float *keys, *values, *scores, *sums;

  static std::size_t keys_size(std::size_t tokens, std::size_t head_dim) {
    return panels_of(tokens) * kPanel * head_dim;
  }
  static std::size_t values_size(std::size_t tokens, std::size_t head_dim) {
    return panels_of(head_dim) * kPanel * tokens;
  }
  static std::size_t size(std::size_t tokens, std::size_t head_dim) {
    return keys_size(tokens, head_dim) + values_size(tokens, head_dim) +
           kQueryRows * (panels_of(tokens) + 1) * kPanel;
  }
  HeadScratch(float* base, std::size_t tokens, std::size_t head_dim)
      : keys(base),
        values(keys + keys_size(tokens, head_dim)),
        scores(values + values_size(tokens, head_dim)),
        sums(scores + kQueryRows * panels_of(tokens) * kPanel) {}
};

// One head of one sequence. q, k, v, y: [tokens, head_dim].
void attend(ConstMatrix q, ConstMatrix k, ConstMatrix v, Matrix y, const HeadScratch& scratch) {
  const auto& table = kernels();
  const std::size_t tokens = k.rows, head_dim = k.cols, width = panels_of(tokens) * kPanel;
  for (std::size_t p = 0; p < panels_of(tokens); ++p)
    pack_panel(k.rows_from(p * kPanel, std::min(kPanel, tokens - p * kPanel)),
               scratch.keys + p * kPanel * head_dim);
  pack_values(v, scratch.values);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  for (std::size_t first = 0; first < q.rows; first += kQueryRows) {
    const ConstMatrix queries = q.rows_from(first, std::min(kQueryRows, q.rows - first));
    for (std::size_t p = 0; p < panels_of(tokens); ++p) {
      const std::size_t keys = std::min(kPanel, tokens - p * kPanel);
      table.gemm.panel_f32(queries.data, queries.stride, scratch.keys + p * kPanel * head_dim,
                           scratch.sums, queries.rows, head_dim);
      for (std::size_t row = 0; row < queries.rows; ++row)
        std::copy_n(scratch.sums + row * kPanel, keys, scratch.scores + row * width + p * kPanel);
    }
    for (std::size_t row = 0; row < queries.rows; ++row)
      table.rows.softmax(scratch.scores + row * width, tokens, scale);
    const ConstMatrix weights(scratch.scores, queries.rows, tokens, width);  // [queries, keys]
    for (std::size_t p = 0; p < panels_of(head_dim); ++p) {
      table.gemm.panel_f32(weights.data, weights.stride, scratch.values + p * kPanel * tokens,
                           scratch.sums, queries.rows, tokens);
      for (std::size_t row = 0; row < queries.rows; ++row)
        std::copy_n(scratch.sums + row * kPanel, std::min(kPanel, head_dim - p * kPanel),
                    y.data + (first + row) * y.stride + p * kPanel);
    }
  }
}

}  // namespace

void attention_forward(ConstMatrix q, ConstMatrix k, ConstMatrix v,
                       std::span<const std::size_t> sequence_lengths, std::size_t n_heads, Matrix y,
                       Workspace& workspace) {
  ThreadPool& pool = workspace.runtime().pool();
  const std::size_t head_dim = q.cols / n_heads;
  const ScratchScope scope(workspace);
  // First token of each sequence; a size takes the room of two floats.
  static_assert(sizeof(std::size_t) == 2 * sizeof(float));
  auto* starts = reinterpret_cast<std::size_t*>(workspace.take(2 * sequence_lengths.size()));
  std::size_t total = 0, longest = 0, n = 0;
  for (const std::size_t length : sequence_lengths) {
    starts[n++] = total;
    total += length;
    longest = std::max(longest, length);
  }
  if (longest == 0) return;
  const std::size_t per_thread = HeadScratch::size(longest, head_dim);
  float* scratch = workspace.take(pool.threads() * per_thread);
  pool.for_each(sequence_lengths.size() * n_heads, [&](std::size_t task, unsigned thread) {
    const std::size_t sequence = task / n_heads, first_column = task % n_heads * head_dim;
    const std::size_t start = starts[sequence], length = sequence_lengths[sequence];
    const auto head = [&](auto matrix) {
      return matrix.rows_from(start, length).cols_from(first_column, head_dim);
    };
    attend(head(q), head(k), head(v), head(y),
           HeadScratch(scratch + thread * per_thread, length, head_dim));
  });
}

}  // namespace fourfold
