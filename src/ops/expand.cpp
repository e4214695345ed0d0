#include "ops/expand.h"

#include <algorithm>

#include "kernels/dispatch.h"

namespace fourfold {
namespace {

constexpr auto kIdentity = static_cast<std::size_t>(Activation::identity);

// Rows finished at a time: what one step writes, the next one reads from the L1 cache.
constexpr std::size_t kFinished = 32;
static_assert(NonZeroBits::kMostRows <= kFinished);  // zeros are sought in all rows at once

// Some rows of a tile, from finished sums to hidden. Sums of up, or of gate and up: [rows, 64].
struct Tile {
  const ExpandWeights& weights;
  const ExpandRows& to;
  std::size_t first, rows, column, columns;
  const ActivationKernels& act = kernels().activations;
  std::size_t kind = static_cast<std::size_t>(weights.activation);

  const float* bias(std::span<const float> values) const {
    return values.empty() ? nullptr : values.data() + column;
  }
  float* at(Matrix wanted) const {
    return wanted.data == nullptr ? nullptr : wanted.row(first).data() + column;
  }
  // Where hidden can be written at once, or else the tile itself.
  float* target(float* sums) const {
    float* place = to.hidden.place(first, column);
    return place != nullptr && to.weights.empty() && to.shown.data == nullptr ? place : sums;
  }
  std::size_t stride(const float* target, const float* sums) const {
    return target == sums ? kPanel : to.hidden.place_stride();
  }
  // The hidden values of the tile on their way to their rows.
  void store(float* values) const {
    for (std::size_t r = 0; to.shown.data != nullptr && r < rows; ++r)
      std::copy_n(values + r * kPanel, columns, to.shown.row(first + r).data() + column);
    to.finish(first, column, {values, rows, columns, kPanel});
  }
  void find_zeros(const float* values, std::size_t values_stride) const {
    if (!to.non_zero.empty()) to.non_zero.set(column / kPanel, values, values_stride, columns);
  }
  void finish_dense(float* sums) const {
    float* hidden = target(sums);
    if (float* pre = at(to.up); pre != nullptr)
      act.epilogue[kIdentity](sums, bias(weights.up_bias), pre, to.up.stride, rows, columns);
    act.epilogue[kind](sums, bias(weights.up_bias), hidden, stride(hidden, sums), rows, columns);
    if (hidden == sums) store(sums);
    find_zeros(hidden, stride(hidden, sums));
  }
  void finish_gated(float* gate_sums, const float* up_sums) const {
    float* hidden = target(gate_sums);
    act.glu_epilogue[kind]({gate_sums, up_sums, bias(weights.gate_bias), bias(weights.up_bias),
                            at(to.gate), at(to.up), to.gate.stride, to.up.stride, hidden,
                            stride(hidden, gate_sums), rows, columns});
    if (hidden == gate_sums) store(gate_sums);
    find_zeros(hidden, stride(hidden, gate_sums));
  }
};

}  // namespace

void ExpandRows::finish(std::size_t row, std::size_t first, Matrix values) const {
  for (std::size_t r = 0; !weights.empty() && r < values.rows; ++r)
    for (float& value : values.row(r)) value *= weights[row + r];
  hidden.store(row, first, values);
}

void expand(const Region& region, const ExpandWeights& weights, const ExpandRows& rows,
            const TileScratch& scratch) {
  const PackedWeight &gate = weights.gate, &up = weights.up;
  const TileTasks tasks(rows.x.rows, up.panels(), region.threads);
  float *first_sums = scratch.tile(region), *second_sums = scratch.tile(region, 1);
  tasks.for_each(
      region,
      [&](std::size_t first, std::size_t count, std::size_t p) {
        const RowOperand x = rows.x.rows_from(first, count);
        const std::size_t column = p * kPanel;
        if (gate.empty()) {
          panel_product(x, up.panel(p), up.panel(p + 1), first_sums, false);
        } else {
          panel_product(x, gate.panel(p), up.panel(p), first_sums, false);
          panel_product(x, up.panel(p), gate.panel(p + 1), second_sums, false);
        }
        for (std::size_t done = 0; done < count; done += kFinished) {
          const Tile tile{weights,      rows,
                          first + done, std::min(kFinished, count - done),
                          column,       std::min(kPanel, up.out() - column)};
          if (gate.empty())
            tile.finish_dense(first_sums + done * kPanel);
          else
            tile.finish_gated(first_sums + done * kPanel, second_sums + done * kPanel);
        }
      },
      rows.shares);
}

}  // namespace fourfold
