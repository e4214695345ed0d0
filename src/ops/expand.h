// The first half of an FFN in one pass: products, biases, activation, gating.
// hidden = act(x up^T + up_bias), or act(x gate^T + gate_bias) * (x up^T + up_bias).
#pragma once

#include <span>

#include "fourfold/activation.h"
#include "fourfold/matrix.h"
#include "fourfold/runtime.h"
#include "ops/packed_weight.h"

namespace fourfold {

// x: [tokens, d_model]; pre, hidden: [tokens, d_ff]. pre receives the input of the activation; an
// empty view: not wanted. hidden has the same bits either way.
void expand_dense(ConstMatrix x, const PackedWeight& up, std::span<const float> up_bias,
                  Activation activation, Matrix pre, Matrix hidden, Workspace& workspace);

struct GatedExpansion {
  const PackedWeight &gate, &up;
  std::span<const float> gate_bias, up_bias;
  Activation activation;
};

// gate_pre, up_pre, hidden: [tokens, d_ff]; the first two as pre above, wanted together or not.
void expand_gated(ConstMatrix x, const GatedExpansion& weights, Matrix gate_pre, Matrix up_pre,
                  Matrix hidden, Workspace& workspace);

}  // namespace fourfold
