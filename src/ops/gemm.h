// y = x W^T + b, the matrix product of the library. m = tokens, n = out features, k = in features.
// Each element is one accumulator over ascending k: its bits depend on neither threads nor other
// tokens. With a bf16 weight, x is rounded to bf16 first.
#pragma once

#include <span>

#include "fourfold/activation.h"
#include "fourfold/matrix.h"
#include "fourfold/runtime.h"
#include "ops/packed_weight.h"

namespace fourfold {

// y = act(x W^T + b). x: [tokens, in], weight: [out, in] packed, bias: [out] or empty, y: [tokens,
// out]; y must not overlap x.
void gemm(ConstMatrix x, const PackedWeight& weight, std::span<const float> bias,
          Activation activation, Matrix y, Workspace& workspace);

// y += x W^T.
void gemm_add(ConstMatrix x, const PackedWeight& weight, Matrix y, Workspace& workspace);

}  // namespace fourfold
