// RMSNorm over rows (Zhang and Sennrich 2019, arXiv 1910.07467). gamma: [d].
#pragma once

#include <span>

#include "fourfold/matrix.h"
#include "fourfold/norm.h"
#include "fourfold/runtime.h"

namespace fourfold {

// y = x / sqrt(mean of x^2 + eps) * gamma per row, rounded as rounding says. x, y: [tokens, d]; y
// may be x.
void rms_norm_forward(ConstMatrix x, std::span<const float> gamma, float eps, NormRounding rounding,
                      Matrix y, Workspace& workspace);

// The same of x + branch, into x. branch: [tokens, d].
void add_rms_norm_forward(Matrix x, ConstMatrix branch, std::span<const float> gamma, float eps,
                          NormRounding rounding, Workspace& workspace);

// dx: [tokens, d] is overwritten and may be dy; dgamma: [d] or empty is added to.
void rms_norm_backward(ConstMatrix x, std::span<const float> gamma, float eps, ConstMatrix dy,
                       Matrix dx, std::span<float> dgamma, Workspace& workspace);

}  // namespace fourfold
