// y = x W^T + b, the matrix product of the library. m = tokens, n = out features, k = in features.
// Each element is one accumulator over ascending k: its bits depend on neither threads nor other
// tokens. With a bf16 weight, x must hold values that bf16 can hold: products are then exact.
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

// gemm without activation for rows of x with many zeros: only k with x[row, k] != 0 are read. Same
// bits as gemm when every weight is finite.
void gemm_skip_zeros(ConstMatrix x, const PackedWeight& weight, std::span<const float> bias,
                     Matrix y, Workspace& workspace);

}  // namespace fourfold
