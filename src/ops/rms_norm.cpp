#include "ops/rms_norm.h"

#include "kernels/dispatch.h"
#include "ops/norm_grad.h"
#include "platform/thread_pool.h"

namespace fourfold {

void rms_norm_forward(ConstMatrix x, std::span<const float> gamma, float eps, NormRounding rounding,
                      Matrix y, Workspace& workspace) {
  const auto norm = kernels().rows.rms_norm[static_cast<std::size_t>(rounding)];
  workspace.runtime().pool().for_each(x.rows, [&](std::size_t row, unsigned) {
    norm(x.row(row).data(), gamma.data(), y.row(row).data(), x.cols, eps);
  });
}

void add_rms_norm_forward(Matrix x, ConstMatrix branch, std::span<const float> gamma, float eps,
                          NormRounding rounding, Workspace& workspace) {
  const auto& rows = kernels().rows;
  const auto norm = rows.rms_norm[static_cast<std::size_t>(rounding)];
  workspace.runtime().pool().for_each(x.rows, [&](std::size_t r, unsigned) {
    float* row = x.row(r).data();
    rows.add(branch.row(r).data(), row, x.cols);
    norm(row, gamma.data(), row, x.cols, eps);
  });
}

void rms_norm_backward(ConstMatrix x, std::span<const float> gamma, float eps, ConstMatrix dy,
                       Matrix dx, std::span<float> dgamma, Workspace& workspace) {
  const auto& rows = kernels().rows;
  norm_backward({rows.rms_norm_statistics, rows.rms_norm_backward}, x, gamma, eps, dy, dx, dgamma,
                workspace);
}

}  // namespace fourfold
