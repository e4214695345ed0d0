#include "ops/layer_norm.h"

#include "kernels/dispatch.h"
#include "ops/gemm_grad.h"
#include "ops/norm_grad.h"
#include "platform/thread_pool.h"

namespace fourfold {

void layer_norm_forward(ConstMatrix x, std::span<const float> gamma, std::span<const float> beta,
                        float eps, Matrix y, Workspace& workspace) {
  const auto norm = kernels().rows.layer_norm;
  workspace.runtime().pool().for_each(x.rows, [&](std::size_t row, unsigned) {
    norm(x.row(row).data(), gamma.data(), beta.data(), y.row(row).data(), x.cols, eps);
  });
}

void add_layer_norm_forward(Matrix x, ConstMatrix branch, std::span<const float> gamma,
                            std::span<const float> beta, float eps, Workspace& workspace) {
  const auto& table = kernels();
  workspace.runtime().pool().for_each(x.rows, [&](std::size_t r, unsigned) {
    float* row = x.row(r).data();
    table.rows.add(branch.row(r).data(), row, x.cols);
    table.rows.layer_norm(row, gamma.data(), beta.data(), row, x.cols, eps);
  });
}

void layer_norm_backward(ConstMatrix x, std::span<const float> gamma, float eps, ConstMatrix dy,
                         Matrix dx, std::span<float> dgamma, std::span<float> dbeta,
                         Workspace& workspace) {
  const auto& rows = kernels().rows;
  if (!dbeta.empty()) bias_gradient(dy, {}, dbeta, workspace);
  norm_backward({rows.layer_norm_statistics, rows.layer_norm_backward}, x, gamma, eps, dy, dx,
                dgamma, workspace);
}

}  // namespace fourfold
