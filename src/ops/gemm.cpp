#include "ops/gemm.h"

#include <algorithm>

#include "ops/product_tiles.h"

namespace fourfold {
namespace {

// Calls finish(sums, first row, rows, first column, columns) for each finished tile.
template <class Finish>
void for_each_tile(ConstMatrix x, const PackedWeight& weight, Workspace& workspace,
                   const Finish& finish) {
  if (x.rows == 0 || weight.out() == 0) return;
  const ScratchScope scope(workspace);
  const InputRows input(x, weight.dtype(), workspace);
  const TileScratch scratch(x.rows, 1, workspace);
  workspace.runtime().pool().region([&](const Region& region) {
    input.stage(region);
    if (input.is_copy()) region.barrier();
    const ProductTerm term{input.operand(), &weight};
    product_tiles(region, {&term, 1}, scratch, TileTasks::Cut::rows_too,
                  [&](const float* sums, std::size_t row, std::size_t rows, std::size_t p) {
                    finish(sums, row, rows, p * kPanel,
                           std::min(kPanel, weight.out() - p * kPanel));
                  });
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

}  // namespace fourfold
