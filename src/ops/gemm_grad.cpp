#include "ops/gemm_grad.h"

#include <algorithm>

#include "ops/tile_tasks.h"
#include "ops/token_rows.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr std::size_t kTransposeRows = 16;

// panels: [ceil(in / 64)][tokens, 64] from x: [tokens, in]; missing columns are 0.
void pack_columns(ConstMatrix x, float* panels, ThreadPool& pool) {
  pool.for_each((x.cols + kPanel - 1) / kPanel, [&](std::size_t p, unsigned) {
    const std::size_t first = p * kPanel, width = std::min(kPanel, x.cols - first);
    float* panel = panels + first * x.rows;
    for (std::size_t t = 0; t < x.rows; ++t) {
      std::copy_n(x.row(t).data() + first, width, panel + t * kPanel);
      std::fill_n(panel + t * kPanel + width, kPanel - width, 0.0F);
    }
  });
}

// to: [cols, rows] = from^T, in bands of columns so that a band's writes stay in the cache.
void transpose(ConstMatrix from, float* to, ThreadPool& pool) {
  pool.for_each((from.cols + kTransposeRows - 1) / kTransposeRows, [&](std::size_t b, unsigned) {
    const std::size_t first = b * kTransposeRows;
    const std::size_t last = std::min(from.cols, first + kTransposeRows);
    for (std::size_t t = 0; t < from.rows; ++t)
      for (std::size_t n = first; n < last; ++n) to[n * from.rows + t] = from.row(t)[n];
  });
}

void add_piece(ConstMatrix dy, ConstMatrix x, Matrix dw, Workspace& workspace) {
  ThreadPool& pool = workspace.runtime().pool();
  const ScratchScope scratch(workspace);
  const std::size_t tokens = x.rows, panels = (x.cols + kPanel - 1) / kPanel;
  float* columns = workspace.take(panels * kPanel * tokens);
  float* rows = workspace.take(dy.cols * tokens);  // [out, tokens]
  pack_columns(x, columns, pool);
  transpose(dy, rows, pool);
  const TileTasks tasks(dy.cols, panels, pool.threads());
  float* sums = workspace.take(pool.threads() * tasks.rows * kPanel);
  const KernelTable& table = kernels();
  pool.for_each(tasks.count(), [&](std::size_t task, unsigned thread) {
    const std::size_t first = task / panels * tasks.rows, p = task % panels;
    const std::size_t count = std::min(tasks.rows, dy.cols - first);
    float* c = sums + thread * tasks.rows * kPanel;
    table.gemm.panel_f32(rows + first * tokens, tokens, columns + p * kPanel * tokens, c, count,
                         tokens);
    for (std::size_t r = 0; r < count; ++r)
      table.rows.add(c + r * kPanel, dw.row(first + r).data() + p * kPanel,
                     std::min(kPanel, x.cols - p * kPanel));
  });
}

}  // namespace

void weight_gradient(ConstMatrix dy, ConstMatrix x, Matrix dw, Workspace& workspace) {
  for (std::size_t first = 0; first < x.rows; first += kTokensPerPiece) {
    const std::size_t count = std::min(kTokensPerPiece, x.rows - first);
    add_piece(dy.rows_from(first, count), x.rows_from(first, count), dw, workspace);
  }
}

void bias_gradient(ConstMatrix dy, std::span<const float> scale, std::span<float> db,
                   Workspace& workspace) {
  workspace.runtime().pool().for_each(
      (dy.cols + kPanel - 1) / kPanel, [&](std::size_t p, unsigned) {
        const std::size_t first = p * kPanel, width = std::min(kPanel, dy.cols - first);
        float sums[kPanel] = {};
        for (std::size_t t = 0; t < dy.rows; ++t) {
          const float factor = scale.empty() ? 1.0F : scale[t];
          const float* row = dy.row(t).data() + first;
          for (std::size_t i = 0; i < width; ++i) sums[i] += factor * row[i];
        }
        for (std::size_t i = 0; i < width; ++i) db[first + i] += sums[i];
      });
}

}  // namespace fourfold
