#include "ops/attention_core.h"

#include "ops/attention_tile.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

struct HeadScratch {
  float *keys, *values, *scores, *sums;

  static std::size_t size(std::size_t tokens, std::size_t head_dim) {
    return packed_keys_size(tokens, head_dim) + packed_values_size(tokens, head_dim) +
           kQueryRows * (score_stride(tokens) + kPanel);
  }
  HeadScratch(float* base, std::size_t tokens, std::size_t head_dim)
      : keys(base),
        values(keys + packed_keys_size(tokens, head_dim)),
        scores(values + packed_values_size(tokens, head_dim)),
        sums(scores + kQueryRows * score_stride(tokens)) {}
};

// One head of one sequence. q, k, v, y: [tokens, head_dim].
void attend(ConstMatrix q, ConstMatrix k, ConstMatrix v, const HeadShape& shape, Matrix y,
            const HeadScratch& scratch) {
  const auto softmax = kernels().rows.softmax;
  const std::size_t tokens = k.rows;
  pack_keys(k, scratch.keys);
  pack_values(v, scratch.values);
  for (std::size_t first = 0; first < tokens; first += kQueryRows) {
    const QueryBlock block{first, std::min(kQueryRows, tokens - first), tokens, shape.causal};
    const Matrix scores(scratch.scores, block.rows, tokens, score_stride(tokens));
    score_rows(block, q.rows_from(first, block.rows), scratch.keys, scores, scratch.sums);
    for (std::size_t row = 0; row < block.rows; ++row)
      softmax(scores.row(row).data(), block.keys_of(row), shape.scale);
    mix_rows(block, scores, scratch.values, y.rows_from(first, block.rows), scratch.sums);
  }
}

}  // namespace

void attention_forward(ConstMatrix q, ConstMatrix k, ConstMatrix v,
                       std::span<const std::size_t> sequence_lengths, const HeadShape& shape,
                       Matrix y, Workspace& workspace) {
  ThreadPool& pool = workspace.runtime().pool();
  const std::size_t head_dim = q.cols / shape.n_heads, group = shape.n_heads / shape.n_kv_heads;
  const ScratchScope scope(workspace);
  const SequenceStarts sequences(sequence_lengths, workspace);
  if (sequences.longest == 0) return;
  const std::size_t per_thread = HeadScratch::size(sequences.longest, head_dim);
  float* scratch = workspace.take(pool.threads() * per_thread);
  pool.for_each(sequence_lengths.size() * shape.n_heads, [&](std::size_t task, unsigned thread) {
    const std::size_t sequence = task / shape.n_heads, head = task % shape.n_heads;
    const std::size_t start = sequences.starts[sequence], length = sequence_lengths[sequence];
    const auto part = [&](auto matrix, std::size_t index) {
      return matrix.rows_from(start, length).cols_from(index * head_dim, head_dim);
    };
    attend(part(q, head), part(k, head / group), part(v, head / group), shape, part(y, head),
           HeadScratch(scratch + thread * per_thread, length, head_dim));
  });
}

}  // namespace fourfold
