#include "ops/gemm.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

// Rows of one task: its sums (512 x 64 floats) and a depth block of x stay in the L2 cache.
constexpr std::size_t kMostRows = 512, kFewestRows = 32;

// Tasks are (row chunk, panel) pairs. With few panels the rows are cut smaller, so that every
// thread has work.
std::size_t rows_per_task(std::size_t tokens, std::size_t panels, std::size_t threads) {
  const std::size_t wanted = (4 * threads + panels - 1) / panels;
  const std::size_t even = (tokens + wanted - 1) / wanted;
  const std::size_t rows = std::clamp(even, kFewestRows, kMostRows);
  // Chunks of nearly equal height: a short last one would waste the tile.
  const std::size_t chunks = std::max<std::size_t>(1, (tokens + rows - 1) / rows);
  return (tokens + chunks - 1) / chunks;
}

}  // namespace

void gemm(ConstMatrix x, const PackedWeight& weight, std::span<const float> bias,
          Activation activation, Matrix y, Workspace& workspace) {
  if (x.rows == 0 || weight.out() == 0) return;
  ThreadPool& pool = workspace.runtime().pool();
  const std::size_t panels = weight.panels(), rows = rows_per_task(x.rows, panels, pool.threads());
  const std::size_t chunks = (x.rows + rows - 1) / rows;
  const auto panel_product = kernels().gemm.panel_f32;
  const auto epilogue = kernels().activations.epilogue[static_cast<std::size_t>(activation)];
  const ScratchScope scratch(workspace);
  float* sums = workspace.take(pool.threads() * rows * kPanel);
  pool.for_each(chunks * panels, [&](std::size_t task, unsigned thread) {
    const std::size_t first = task / panels * rows, p = task % panels, column = p * kPanel;
    const ConstMatrix part = x.rows_from(first, std::min(rows, x.rows - first));
    float* c = sums + thread * rows * kPanel;
    panel_product(part.data, part.stride, weight.panel(p), c, part.rows, part.cols);
    epilogue(c, bias.empty() ? nullptr : bias.data() + column, y.data + first * y.stride + column,
             y.stride, part.rows, std::min(kPanel, weight.out() - column));
  });
}

}  // namespace fourfold
