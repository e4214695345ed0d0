// LayerNorm over rows (Ba et al. 2016, arXiv 1607.06450), with the residual addition that post-LN
// blocks put before it. gamma, beta: [d].
#pragma once

#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

// y = LN(x) * gamma + beta per row. x, y: [tokens, d]; y may be x.
void layer_norm_forward(ConstMatrix x, std::span<const float> gamma, std::span<const float> beta,
                        float eps, Matrix y, Workspace& workspace);

// x = LN(x + branch) * gamma + beta per row. branch: [tokens, d].
void add_layer_norm_forward(Matrix x, ConstMatrix branch, std::span<const float> gamma,
                            std::span<const float> beta, float eps, Workspace& workspace);

// dx: [tokens, d] is overwritten and may be dy; dgamma, dbeta: [d] or empty are added to.
void layer_norm_backward(ConstMatrix x, std::span<const float> gamma, float eps, ConstMatrix dy,
                         Matrix dx, std::span<float> dgamma, std::span<float> dbeta,
                         Workspace& workspace);

}  // namespace fourfold
