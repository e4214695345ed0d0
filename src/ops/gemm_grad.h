// Gradients of weights and biases: sums over tokens, in ascending order, one accumulator per
// element (a new one for each piece of kTokensPerPiece tokens (ops/token_rows.h)). Bits do not
// depend on threads.
#pragma once

#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

// dw += dy^T x. dy: [tokens, out], x: [tokens, in], dw: [out, in].
void weight_gradient(ConstMatrix dy, ConstMatrix x, Matrix dw, Workspace& workspace);

// db += the sum of scale[row] * dy[row, :] over tokens. dy: [tokens, out], db: [out]; scale:
// [tokens], or empty: 1.
void bias_gradient(ConstMatrix dy, std::span<const float> scale, std::span<float> db,
                   Workspace& workspace);

}  // namespace fourfold
