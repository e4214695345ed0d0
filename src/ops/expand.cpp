#include "ops/expand.h"

#include <algorithm>

#include "kernels/dispatch.h"

namespace fourfold {
namespace {

constexpr auto kIdentity = static_cast<std::size_t>(Activation::identity);

// One tile from finished sums to hidden. Sums of up, or of gate and up: [rows, 64].
struct Tile {
  const ExpandWeights& weights;
  const ExpandRows& to;
  std::size_t first, rows, column, columns;
  const ActivationKernels& act = kernels().activations;
  std::size_t kind = static_cast<std::size_t>(weights.activation);

  const float* bias(std::span<const float> values) const {
    return values.empty() ? nullptr : values.data() + column;
  }
  void keep(Matrix wanted, std::size_t r, const float* row) const {
    if (wanted.data != nullptr) std::copy_n(row, columns, wanted.row(first + r).data() + column);
  }
  void finish_row(std::size_t r, float* hidden) const {
    keep(to.shown, r, hidden);
    if (!to.weights.empty()) {
      const float weight = to.weights[first + r];
      for (std::size_t i = 0; i < columns; ++i) hidden[i] *= weight;
    }
    to.hidden.store(first + r, column, hidden, columns);
  }
  void finish_dense(float* sums) const {
    for (std::size_t r = 0; r < rows; ++r) {
      float* row = sums + r * kPanel;
      act.epilogue[kIdentity](row, bias(weights.up_bias), row, kPanel, 1, columns);
      keep(to.up, r, row);
      act.forward[kind](row, row, columns);
      finish_row(r, row);
    }
  }
  void finish_gated(float* gate_sums, float* up_sums) const {
    for (std::size_t r = 0; r < rows; ++r) {
      float *gate = gate_sums + r * kPanel, *up = up_sums + r * kPanel;
      act.epilogue[kIdentity](gate, bias(weights.gate_bias), gate, kPanel, 1, columns);
      act.epilogue[kIdentity](up, bias(weights.up_bias), up, kPanel, 1, columns);
      keep(to.gate, r, gate);
      keep(to.up, r, up);
      act.glu[kind](gate, up, gate, columns);
      finish_row(r, gate);
    }
  }
};

}  // namespace

void expand(const Region& region, const ExpandWeights& weights, const ExpandRows& rows,
            const TileScratch& scratch) {
  const PackedWeight &gate = weights.gate, &up = weights.up;
  const TileTasks tasks(rows.x.rows, up.panels(), region.threads);
  float *first_sums = scratch.tile(region), *second_sums = scratch.tile(region, 1);
  tasks.for_each(region, [&](std::size_t first, std::size_t count, std::size_t p) {
    const RowOperand x = rows.x.rows_from(first, count);
    const std::size_t column = p * kPanel;
    const Tile tile{weights, rows, first, count, column, std::min(kPanel, up.out() - column)};
    if (gate.empty()) {
      panel_product(x, up.panel(p), up.panel(p + 1), first_sums, false);
      tile.finish_dense(first_sums);
    } else {
      panel_product(x, gate.panel(p), up.panel(p), first_sums, false);
      panel_product(x, up.panel(p), gate.panel(p + 1), second_sums, false);
      tile.finish_gated(first_sums, second_sums);
    }
  });
}

}  // namespace fourfold
