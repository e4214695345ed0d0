#include "ops/attention_grad.h"

#include "ops/attention_tile.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

// What one task needs: keys and values packed for both kinds of product, the rows of one block, and
// the sums that become dk and dv.
struct GradScratch {
  float *keys, *key_rows, *values, *q_rows, *dy_rows, *dk, *dv, *weights, *dscores, *sums;

  static std::size_t size(std::size_t tokens, std::size_t head_dim) {
    return 2 * packed_keys_size(tokens, head_dim) + 3 * packed_values_size(tokens, head_dim) +
           kQueryRows * (3 * value_width(head_dim) + 2 * score_stride(tokens));
  }
  GradScratch(float* base, std::size_t tokens, std::size_t head_dim) {
    const auto next = [&base](std::size_t count) {
      float* here = base;
      base += count;
      return here;
    };
    keys = next(packed_keys_size(tokens, head_dim));
    values = next(packed_keys_size(tokens, head_dim));
    key_rows = next(packed_values_size(tokens, head_dim));
    dk = next(packed_values_size(tokens, head_dim));
    dv = next(packed_values_size(tokens, head_dim));
    q_rows = next(packed_values_size(kQueryRows, head_dim));
    dy_rows = next(packed_values_size(kQueryRows, head_dim));
    weights = next(kQueryRows * score_stride(tokens));
    dscores = next(kQueryRows * score_stride(tokens));
    sums = next(kQueryRows * value_width(head_dim));
  }
};

void copy_rows(ConstMatrix from, Matrix to) {
  for (std::size_t row = 0; row < from.rows; ++row)
    std::copy_n(from.row(row).data(), from.cols, to.row(row).data());
}

// Adds one head's part to dk and dv, and writes its dq. q, dy, dq: [tokens, head_dim].
void add_head(ConstMatrix q, ConstMatrix dy, Matrix dq, const HeadShape& shape,
              const GradScratch& scratch) {
  const KernelTable& kernel = kernels();
  const std::size_t tokens = q.rows, stride = score_stride(tokens), width = value_width(q.cols);
  const Matrix dk(scratch.dk, tokens, width), dv(scratch.dv, tokens, width);
  for (std::size_t index = 0; index < blocks_of(tokens); ++index) {
    const QueryBlock block(index, tokens, shape.causal);
    const ConstMatrix q_part = q.rows_from(block.first, block.rows);
    const ConstMatrix dy_part = dy.rows_from(block.first, block.rows);
    const Matrix weights(scratch.weights, block.rows, tokens, stride);
    const Matrix dscores(scratch.dscores, block.rows, tokens, stride);
    const Matrix sums(scratch.sums, block.rows, width);
    score_rows(block, q_part, scratch.keys, weights);
    score_rows(block, dy_part, scratch.values, dscores);  // gradients of the weights
    float totals[kQueryRows];
    exp_rows(block, weights, shape.scale, totals);
    for (std::size_t row = 0; row < block.rows; ++row) {
      const std::size_t keys = block.keys_of(row);
      float* weight = weights.row(row).data();
      kernel.attention.divide_row(weight, totals[row], weight, keys);
      kernel.rows.softmax_backward(weight, dscores.row(row).data(), keys, shape.scale);
    }
    mix_rows(block, dscores, scratch.key_rows, sums);
    copy_rows(sums.cols_from(0, q.cols), dq.rows_from(block.first, block.rows));
    pack_values(q_part, scratch.q_rows);
    pack_values(dy_part, scratch.dy_rows);
    spread_rows(block, dscores, scratch.q_rows, dk);
    spread_rows(block, weights, scratch.dy_rows, dv);
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

}  // namespace

void attention_backward(ConstMatrix q, ConstMatrix k, ConstMatrix v,
                        std::span<const std::size_t> sequence_lengths, const HeadShape& shape,
                        ConstMatrix dy, Matrix dq, Matrix dk, Matrix dv, Workspace& workspace) {
  ThreadPool& pool = workspace.runtime().pool();
  const std::size_t head_dim = q.cols / shape.n_heads, group = shape.n_heads / shape.n_kv_heads;
  const ScratchScope scope(workspace);
  const SequenceStarts sequences(sequence_lengths, workspace);
  if (sequences.longest == 0) return;
  const std::size_t per_thread = GradScratch::size(sequences.longest, head_dim);
  float* memory = workspace.take(pool.threads() * per_thread);
  pool.for_each(sequence_lengths.size() * shape.n_kv_heads, [&](std::size_t task, unsigned thread) {
    const std::size_t sequence = task / shape.n_kv_heads, kv_head = task % shape.n_kv_heads;
    const std::size_t start = sequences.starts[sequence], length = sequence_lengths[sequence];
    const auto part = [&](auto matrix, std::size_t index) {
      return matrix.rows_from(start, length).cols_from(index * head_dim, head_dim);
    };
    const GradScratch scratch(memory + thread * per_thread, length, head_dim);
    pack_keys(part(k, kv_head), scratch.keys);
    pack_keys(part(v, kv_head), scratch.values);
    pack_values(part(k, kv_head), scratch.key_rows);
    std::fill_n(scratch.dk, packed_values_size(length, head_dim), 0.0F);
    std::fill_n(scratch.dv, packed_values_size(length, head_dim), 0.0F);
    for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
      add_head(part(q, head), part(dy, head), part(dq, head), shape, scratch);
    const std::size_t width = value_width(head_dim);
    copy_rows(Matrix(scratch.dk, length, width).cols_from(0, head_dim), part(dk, kv_head));
    copy_rows(Matrix(scratch.dv, length, width).cols_from(0, head_dim), part(dv, kv_head));
  });
}

}  // namespace fourfold
