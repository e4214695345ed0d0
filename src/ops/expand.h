// The first half of an FFN in one pass, as the part of one thread of a region: products, biases,
// activation, gating. hidden = act(x up^T + up_bias), or act(x gate^T + gate_bias) * (x up^T +
// up_bias).
#pragma once

#include <span>

#include "fourfold/activation.h"
#include "fourfold/matrix.h"
#include "ops/packed_weight.h"
#include "ops/row_operand.h"
#include "ops/skip_zeros.h"
#include "ops/tile_tasks.h"

namespace fourfold {

struct ExpandWeights {
  const PackedWeight &gate, &up;  // gate is empty in a dense FFN
  std::span<const float> gate_bias, up_bias;
  Activation activation;
};

// x: [tokens, d_model]; all others [tokens, d_ff]. gate and up receive the products with their
// biases, shown what hidden is before weights and rounding; empty views: not wanted. weights:
// [tokens] multiplies each hidden row; empty: 1. non_zero, unless empty, receives where hidden is
// not 0. hidden has the same bits whatever is wanted.
struct ExpandRows {
  RowOperand x;
  Matrix gate, up, shown;
  std::span<const float> weights;
  RowBuffer hidden;
  NonZeroBits non_zero;
  TaskShares shares;  // of the panels, or empty

  // Rows row .. of columns first .. of hidden from what act (and up) gave; values are changed.
  void finish(std::size_t row, std::size_t first, Matrix values) const;
};

// scratch: two tiles.
void expand(const Region& region, const ExpandWeights& weights, const ExpandRows& rows,
            const TileScratch& scratch);

}  // namespace fourfold
