#include "ops/gemm_grad.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "ops/token_rows.h"
#include "platform/thread_pool.h"

namespace fourfold {

void turn_tile(ConstMatrix values, std::size_t p, std::size_t first, const RowBuffer& to,
               float* turned) {
  const std::size_t stride = values.rows + TileScratch::kTurnedPad;
  kernels().gemm.transpose(values.data, values.stride, values.rows, values.cols, turned, stride);
  to.store(p * kPanel, first, {turned, values.cols, values.rows, stride});
}

void turn_columns(const Region& region, ConstMatrix from, const RowBuffer& to,
                  const TokenPanels& panels, const TileScratch& scratch) {
  const Share share = region.share((from.cols + kPanel - 1) / kPanel);
  for (std::size_t p = share.first; p < share.last; ++p)
    for (std::size_t first = 0; first < from.rows; first += TileTasks::kMostRows) {
      const std::size_t rows = std::min(TileTasks::kMostRows, from.rows - first);
      const ConstMatrix values =
          from.rows_from(first, rows)
              .cols_from(p * kPanel, std::min(kPanel, from.cols - p * kPanel));
      if (!to.empty()) turn_tile(values, p, first, to, scratch.tile(region));
      if (!panels.empty()) panels.store(p, first, values);
    }
}

void add_weight_gradient(const Region& region, const RowOperand& dy_turned, const TokenPanels& x,
                         const TileScratch& scratch, Matrix dw) {
  const auto add = kernels().rows.add;
  float* sums = scratch.tile(region);
  const TileTasks tasks(dw.rows, x.panels(), region.threads);
  tasks.for_each(region, [&](std::size_t first, std::size_t rows, std::size_t p) {
    panel_product(dy_turned.rows_from(first, rows), x.panel(p), x.panel(p + 1), sums, false);
    const std::size_t width = std::min(kPanel, dw.cols - p * kPanel);
    for (std::size_t r = 0; r < rows; ++r)
      add(sums + r * kPanel, dw.row(first + r).data() + p * kPanel, width);
  });
}

void add_bias_gradient(const Region& region, ConstMatrix dy, std::span<const float> scale,
                       std::span<float> db) {
  const Share share = region.share((dy.cols + kPanel - 1) / kPanel);
  for (std::size_t p = share.first; p < share.last; ++p) {
    const std::size_t first = p * kPanel, width = std::min(kPanel, dy.cols - first);
    float sums[kPanel] = {};
    for (std::size_t t = 0; t < dy.rows; ++t) {
      const float factor = scale.empty() ? 1.0F : scale[t];
      const float* row = dy.row(t).data() + first;
      for (std::size_t i = 0; i < width; ++i) sums[i] += factor * row[i];
    }
    for (std::size_t i = 0; i < width; ++i) db[first + i] += sums[i];
  }
}

void weight_gradient(ConstMatrix dy, ConstMatrix x, Matrix dw, Workspace& workspace) {
  for (std::size_t first = 0; first < x.rows; first += kTokensPerPiece) {
    const std::size_t count = std::min(kTokensPerPiece, x.rows - first);
    const ScratchScope scope(workspace);
    const RowBuffer turned(dy.cols, count, Dtype::f32, workspace);
    const TokenPanels panels(count, x.cols, Dtype::f32, workspace);
    const TileScratch scratch(TileTasks::kMostRows, 1, workspace);
    workspace.runtime().pool().region([&](const Region& region) {
      turn_columns(region, dy.rows_from(first, count), turned, {}, scratch);
      turn_columns(region, x.rows_from(first, count), {}, panels, scratch);
      region.barrier();
      add_weight_gradient(region, turned.operand(), panels, scratch, dw);
    });
  }
}

void bias_gradient(ConstMatrix dy, std::span<const float> scale, std::span<float> db,
                   Workspace& workspace) {
  workspace.runtime().pool().region(
      [&](const Region& region) { add_bias_gradient(region, dy, scale, db); });
}

}  // namespace fourfold
