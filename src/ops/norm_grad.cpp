#include "ops/norm_grad.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr std::size_t kColumns = 64;  // of one task

}  // namespace

void norm_backward(const NormGradKernels& kernel, ConstMatrix x, std::span<const float> gamma,
                   float eps, ConstMatrix dy, Matrix dx, std::span<float> dgamma,
                   Workspace& workspace) {
  ThreadPool& pool = workspace.runtime().pool();
  const ScratchScope scratch(workspace);
  static_assert(sizeof(NormStatistics) == 3 * sizeof(float));
  auto* statistics = reinterpret_cast<NormStatistics*>(workspace.take(3 * x.rows));
  pool.for_each(x.rows, [&](std::size_t row, unsigned) {
    statistics[row] = kernel.statistics(x.row(row).data(), x.cols, eps);
  });
  const auto add_gamma = kernels().rows.norm_gamma;
  pool.for_each((dgamma.size() + kColumns - 1) / kColumns, [&](std::size_t task, unsigned) {
    const std::size_t first = task * kColumns, width = std::min(kColumns, dgamma.size() - first);
    float sums[kColumns] = {};
    for (std::size_t row = 0; row < x.rows; ++row)
      add_gamma(x.row(row).data() + first, statistics[row], dy.row(row).data() + first, sums,
                width);
    for (std::size_t i = 0; i < width; ++i) dgamma[first + i] += sums[i];
  });
  pool.for_each(x.rows, [&](std::size_t row, unsigned) {
    kernel.backward(x.row(row).data(), statistics[row], gamma.data(), dy.row(row).data(),
                    dx.row(row).data(), x.cols);
  });
}

}  // namespace fourfold
