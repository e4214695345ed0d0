// bf16 rounding of whole matrices; values stay in float32 words.
#pragma once

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

// y = the bf16 values nearest to x, ties to even. x, y: same shape; y may be x.
void round_rows_to_bf16(ConstMatrix x, Matrix y, Workspace& workspace);

// Exact. x, y: same shape.
void widen_rows(ConstBf16Matrix x, Matrix y, Workspace& workspace);
// Rounded once. x, y: same shape.
void narrow_rows(ConstMatrix x, Bf16Matrix y, Workspace& workspace);

}  // namespace fourfold
