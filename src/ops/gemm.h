// y = act(x W^T + b), the one matrix product of the library.
// m = tokens, n = out features, k = in features.
#pragma once

#include <span>

#include "fourfold/activation.h"
#include "fourfold/matrix.h"
#include "fourfold/runtime.h"
#include "ops/packed_weight.h"

namespace fourfold {

// x: [tokens, in], weight: [out, in] packed, bias: [out] or empty, y: [tokens, out]; y must not
// overlap x. Each element is one accumulator over ascending k: its bits depend on neither threads
// nor other tokens.
void gemm(ConstMatrix x, const PackedWeight& weight, std::span<const float> bias,
          Activation activation, Matrix y, Workspace& workspace);

}  // namespace fourfold
