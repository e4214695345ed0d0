#include "ops/round_rows.h"

#include "kernels/dispatch.h"
#include "platform/thread_pool.h"

namespace fourfold {

void round_rows_to_bf16(ConstMatrix x, Matrix y, Workspace& workspace) {
  workspace.runtime().pool().for_each(x.rows, [&](std::size_t row, unsigned) {
    const auto from = x.row(row);
    const auto to = y.row(row);
    kernels().gemm.round_rows(from.data(), 0, to.data(), 0, 1, from.size());
  });
}

void widen_rows(ConstBf16Matrix x, Matrix y, Workspace& workspace) {
  workspace.runtime().pool().for_each(x.rows, [&](std::size_t row, unsigned) {
    const auto from = x.row(row);
    const auto to = y.row(row);
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = to_float(from[i]);
  });
}

void narrow_rows(ConstMatrix x, Bf16Matrix y, Workspace& workspace) {
  workspace.runtime().pool().for_each(x.rows, [&](std::size_t row, unsigned) {
    const auto from = x.row(row);
    const auto to = y.row(row);
    kernels().gemm.narrow_rows(from.data(), 0, &to.data()->bits, 0, 1, from.size());
  });
}

}  // namespace fourfold
