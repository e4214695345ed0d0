#include "ops/expand.h"

#include "ops/tile_tasks.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr auto kIdentity = static_cast<std::size_t>(Activation::identity);

const float* bias_at(std::span<const float> bias, std::size_t column) {
  return bias.empty() ? nullptr : bias.data() + column;
}

float* at(Matrix matrix, std::size_t row, std::size_t column) {
  return matrix.data + row * matrix.stride + column;
}

}  // namespace

void expand_dense(ConstMatrix x, const PackedWeight& up, std::span<const float> up_bias,
                  Activation activation, Matrix pre, Matrix hidden, Workspace& workspace) {
  if (x.rows == 0) return;
  ThreadPool& pool = workspace.runtime().pool();
  const TileTasks tasks(x.rows, up.panels(), pool.threads());
  const ActivationKernels& act = kernels().activations;
  const auto kind = static_cast<std::size_t>(activation);
  const ScratchScope scratch(workspace);
  float* sums = workspace.take(pool.threads() * tasks.rows * kPanel);
  pool.for_each(tasks.count(), [&](std::size_t task, unsigned thread) {
    const std::size_t first = task / tasks.panels * tasks.rows, p = task % tasks.panels;
    const std::size_t rows = std::min(tasks.rows, x.rows - first), column = p * kPanel;
    const std::size_t columns = std::min(kPanel, up.out() - column);
    float* c = sums + thread * tasks.rows * kPanel;
    panel_product(x.rows_from(first, rows), up, p, c);
    const float* bias = bias_at(up_bias, column);
    if (pre.data != nullptr)
      act.epilogue[kIdentity](c, bias, at(pre, first, column), pre.stride, rows, columns);
    act.epilogue[kind](c, bias, at(hidden, first, column), hidden.stride, rows, columns);
  });
}

void expand_gated(ConstMatrix x, const GatedExpansion& weights, Matrix gate_pre, Matrix up_pre,
                  Matrix hidden, Workspace& workspace) {
  if (x.rows == 0) return;
  ThreadPool& pool = workspace.runtime().pool();
  const TileTasks tasks(x.rows, weights.up.panels(), pool.threads());
  const ActivationKernels& act = kernels().activations;
  const auto kind = static_cast<std::size_t>(weights.activation);
  const ScratchScope scratch(workspace);
  const std::size_t tile = tasks.rows * kPanel, both = 2 * tile;
  float* sums = workspace.take(pool.threads() * both);
  pool.for_each(tasks.count(), [&](std::size_t task, unsigned thread) {
    const std::size_t first = task / tasks.panels * tasks.rows, p = task % tasks.panels;
    const std::size_t rows = std::min(tasks.rows, x.rows - first), column = p * kPanel;
    const std::size_t columns = std::min(kPanel, weights.up.out() - column);
    float *gate = sums + thread * both, *up = gate + tile;
    const auto finish = [&](const PackedWeight& weight, std::span<const float> bias, float* c) {
      panel_product(x.rows_from(first, rows), weight, p, c);
      act.epilogue[kIdentity](c, bias_at(bias, column), c, kPanel, rows, columns);
    };
    finish(weights.gate, weights.gate_bias, gate);
    finish(weights.up, weights.up_bias, up);
    for (std::size_t r = 0; r < rows; ++r) {
      const float *g = gate + r * kPanel, *u = up + r * kPanel;
      act.glu[kind](g, u, at(hidden, first + r, column), columns);
      if (gate_pre.data == nullptr) continue;
      std::copy_n(g, columns, at(gate_pre, first + r, column));
      std::copy_n(u, columns, at(up_pre, first + r, column));
    }
  });
}

}  // namespace fourfold
