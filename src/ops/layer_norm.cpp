#include "ops/layer_norm.h"

#include "kernels/dispatch.h"
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

}  // namespace fourfold
