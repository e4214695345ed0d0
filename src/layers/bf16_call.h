// Calls with rows of bf16 of layers that compute on rows of float32.
#pragma once

#include "fourfold/runtime.h"
#include "ops/round_rows.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"

namespace fourfold {

// Whether the float32 result may take the place of x.
enum class InPlace { no, yes };

// y = the bf16 values nearest to what run(x in float32, result) makes. x, y: [tokens, d].
template <class Run>
void run_in_float32(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace, InPlace in_place,
                    const Run& run) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const ScratchScope scratch(workspace);
  const Matrix wide(workspace.take(x.rows * x.cols), x.rows, x.cols);
  const Matrix result =
      in_place == InPlace::yes ? wide : Matrix(workspace.take(x.rows * x.cols), x.rows, x.cols);
  widen_rows(x, wide, workspace);
  run(ConstMatrix(wide), result);
  narrow_rows(result, y, workspace);
}

}  // namespace fourfold
