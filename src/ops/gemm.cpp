#include "ops/gemm.h"

#include <algorithm>

#include "ops/tile_tasks.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

// Calls finish(sums, first row, rows, first column, columns) for each finished tile.
template <class Finish>
void for_each_tile(ConstMatrix x, const PackedWeight& weight, Workspace& workspace,
                   const Finish& finish) {
  if (x.rows == 0 || weight.out() == 0) return;
  ThreadPool& pool = workspace.runtime().pool();
  const TileTasks tasks(x.rows, weight.panels(), pool.threads());
  const ScratchScope scratch(workspace);
  float* sums = workspace.take(pool.threads() * tasks.rows * kPanel);
  pool.for_each(tasks.count(), [&](std::size_t task, unsigned thread) {
    const std::size_t first = task / tasks.panels * tasks.rows, p = task % tasks.panels;
    const ConstMatrix part = x.rows_from(first, std::min(tasks.rows, x.rows - first));
    float* c = sums + thread * tasks.rows * kPanel;
    panel_product(part, weight, p, c);
    finish(c, first, part.rows, p * kPanel, std::min(kPanel, weight.out() - p * kPanel));
  });
}

}  // namespace

void gemm(ConstMatrix x, const PackedWeight& weight, std::span<const float> bias,
          Activation activation, Matrix y, Workspace& workspace) {
  const auto epilogue = kernels().activations.epilogue[static_cast<std::size_t>(activation)];
  for_each_tile(x, weight, workspace,
                [&](const float* sums, std::size_t row, std::size_t rows, std::size_t column,
                    std::size_t columns) {
                  epilogue(sums, bias.empty() ? nullptr : bias.data() + column,
                           y.data + row * y.stride + column, y.stride, rows, columns);
                });
}

void gemm_add(ConstMatrix x, const PackedWeight& weight, Matrix y, Workspace& workspace) {
  const auto add = kernels().rows.add;
  for_each_tile(x, weight, workspace,
                [&](const float* sums, std::size_t row, std::size_t rows, std::size_t column,
                    std::size_t columns) {
                  for (std::size_t r = 0; r < rows; ++r)
                    add(sums + r * kPanel, y.data + (row + r) * y.stride + column, columns);
                });
}

void gemm_skip_zeros(ConstMatrix x, const PackedWeight& weight, std::span<const float> bias,
                     Matrix y, Workspace& workspace) {
  if (x.rows == 0 || weight.out() == 0) return;
  ThreadPool& pool = workspace.runtime().pool();
  const ScratchScope scratch(workspace);
  static_assert(sizeof(std::uint32_t) == sizeof(float));
  // Per row: how many values are not 0, then where they are.
  const std::size_t stride = x.cols + 1;
  auto* index = reinterpret_cast<std::uint32_t*>(workspace.take(x.rows * stride));
  pool.for_each(x.rows, [&](std::size_t row, unsigned) {
    const auto values = x.row(row);
    std::uint32_t* list = index + row * stride;
    std::uint32_t count = 0;
    for (std::size_t k = 0; k < values.size(); ++k) {
      list[count + 1] = static_cast<std::uint32_t>(k);
      count += values[k] != 0.0F ? 1U : 0U;
    }
    list[0] = count;
  });
  float* sums = workspace.take(pool.threads() * kPanel);
  const GemmKernels& products = kernels().gemm;
  const auto epilogue =
      kernels().activations.epilogue[static_cast<std::size_t>(Activation::identity)];
  pool.for_each(x.rows * weight.panels(), [&](std::size_t task, unsigned thread) {
    const std::size_t row = task / weight.panels(), p = task % weight.panels();
    const std::uint32_t* list = index + row * stride;
    float* c = sums + thread * kPanel;
    if (weight.dtype() == Dtype::f32)
      products.listed_f32(x.row(row).data(), list + 1, list[0], weight.panel(p), c);
    else
      products.listed_bf16(x.row(row).data(), list + 1, list[0], &weight.panel_bf16(p)->bits, c);
    epilogue(c, bias.empty() ? nullptr : bias.data() + p * kPanel, y.row(row).data() + p * kPanel,
             y.stride, 1, std::min(kPanel, weight.out() - p * kPanel));
  });
}

}  // namespace fourfold
