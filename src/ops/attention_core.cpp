#include "ops/attention_core.h"

#include "ops/attention_tile.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

struct HeadScratch {
  float *keys, *values, *scores, *sums, *queries;

  static std::size_t size(std::size_t tokens, std::size_t head_dim) {
    return packed_keys_size(tokens, head_dim) + packed_values_size(tokens, head_dim) +
           kQueryRows * (score_stride(tokens) + 2 * value_width(head_dim));
  }
  HeadScratch(float* base, std::size_t tokens, std::size_t head_dim)
      : keys(base),
        values(keys + packed_keys_size(tokens, head_dim)),
        scores(values + packed_values_size(tokens, head_dim)),
        sums(scores + kQueryRows * score_stride(tokens)),
        queries(sums + kQueryRows * value_width(head_dim)) {}
};

// k, v: [tokens, head_dim].
void pack_head(ConstMatrix k, ConstMatrix v, Dtype dtype, const HeadScratch& scratch) {
  if (dtype == Dtype::f32) {
    pack_keys(k, scratch.keys);
    pack_values(v, scratch.values);
    return;
  }
  const AttentionBf16Kernels& bf16 = kernels().attention_bf16;
  bf16.pack_keys(k.data, k.stride, k.rows, k.cols, scratch.keys);
  bf16.pack_values(v.data, v.stride, v.rows, v.cols, scratch.values, value_width(v.cols));
}

// Some queries of one head of one sequence. q, y: [tokens, head_dim].
void attend(const QueryBlock& block, ConstMatrix q, const HeadShape& shape, Matrix y,
            const HeadScratch& scratch) {
  const KernelTable& table = kernels();
  const std::size_t width = value_width(q.cols);
  const Matrix scores(scratch.scores, block.rows, block.keys, score_stride(block.keys));
  const Matrix sums(scratch.sums, block.rows, width);
  const ConstMatrix rows = q.rows_from(block.first, block.rows);
  float totals[kQueryRows];
  if (shape.dtype == Dtype::f32) {
    score_rows(block, rows, scratch.keys, scores);
    exp_rows(block, scores, shape.scale, totals);
    mix_rows(block, scores, scratch.values, sums);
  } else {
    const AttentionBf16Kernels& bf16 = table.attention_bf16;
    const Matrix packed(scratch.queries, block.rows, q.cols, width);
    bf16.pack_queries(rows.data, rows.stride, rows.rows, rows.cols, packed.data, packed.stride);
    score_rows(block, packed, scratch.keys, scores, bf16.score_rows);
    exp_rows(block, scores, shape.scale, totals, bf16.exp_rows);
    mix_rows(block, scores, scratch.values, sums, bf16.mix_rows, bf16.values_per_word);
  }
  for (std::size_t row = 0; row < block.rows; ++row)
    table.attention.divide_row(sums.row(row).data(), totals[row], y.row(block.first + row).data(),
                               y.cols);
}

// Work in units of one query block and one key: how much lies before a thread's share.
std::size_t share_begin(std::size_t work, unsigned thread, unsigned threads) {
  return work / threads * thread + work % threads * thread / threads;
}

}  // namespace

void attention_forward(ConstMatrix q, ConstMatrix k, ConstMatrix v,
                       std::span<const std::size_t> sequence_lengths, const HeadShape& shape,
                       Matrix y, Workspace& workspace) {
  ThreadPool& pool = workspace.runtime().pool();
  const std::size_t head_dim = q.cols / shape.n_heads, group = shape.n_heads / shape.n_kv_heads;
  std::size_t longest = 0, work = 0;
  for (const std::size_t length : sequence_lengths) {
    longest = std::max(longest, length);
    work += shape.n_heads * blocks_of(length) * length;
  }
  if (longest == 0) return;
  const ScratchScope scope(workspace);
  const std::size_t per_thread = HeadScratch::size(longest, head_dim);
  float* memory = workspace.take(pool.threads() * per_thread);
  pool.parallel([&](unsigned thread, unsigned threads) {
    const std::size_t from = share_begin(work, thread, threads),
                      to = share_begin(work, thread + 1, threads);
    std::size_t at = 0, start = 0;  // work and tokens before this sequence
    for (const std::size_t length : sequence_lengths) {
      if (at >= to) return;
      const std::size_t blocks = blocks_of(length);
      const HeadScratch scratch(memory + thread * per_thread, length, head_dim);
      const auto part = [&](auto matrix, std::size_t index) {
        return matrix.rows_from(start, length).cols_from(index * head_dim, head_dim);
      };
      std::size_t packed = shape.n_kv_heads;  // the key head in scratch; none yet
      for (std::size_t head = 0; head < shape.n_heads; ++head) {
        for (std::size_t block = 0; block < blocks; ++block, at += length) {
          if (at < from || at >= to) continue;
          if (packed != head / group) {
            packed = head / group;
            pack_head(part(k, packed), part(v, packed), shape.dtype, scratch);
          }
          attend({block, length, shape.causal}, part(q, head), shape, part(y, head), scratch);
        }
      }
      start += length;
    }
  });
}

}  // namespace fourfold
