// What the gradients of both norms share: statistics of each row, then dgamma by columns, then dx
// by rows.
#pragma once

#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"
#include "kernels/row_kernels.h"

namespace fourfold {

struct NormGradKernels {
  NormStatisticsRow statistics;
  NormBackwardRow backward;
};

// x, dy, dx: [tokens, d]; dx may be dy; gamma: [d]; dgamma: [d] or empty is added to, over tokens
// in ascending order with one accumulator per element.
void norm_backward(const NormGradKernels& kernel, ConstMatrix x, std::span<const float> gamma,
                   float eps, ConstMatrix dy, Matrix dx, std::span<float> dgamma,
                   Workspace& workspace);

}  // namespace fourfold
