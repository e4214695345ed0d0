#include "ops/token_rows.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "platform/thread_pool.h"

namespace fourfold {

float dot(std::span<const float> a, std::span<const float> b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add_rows(ConstMatrix x, Matrix y, Workspace& workspace) {
  const auto add = kernels().rows.add;
  workspace.runtime().pool().for_each(
      x.rows, [&](std::size_t t, unsigned) { add(x.row(t).data(), y.row(t).data(), x.cols); });
}

void scale_rows(Matrix rows, std::span<const float> weights, Workspace& workspace) {
  workspace.runtime().pool().for_each(rows.rows, [&](std::size_t t, unsigned) {
    for (float& value : rows.row(t)) value *= weights[t];
  });
}

void add_scaled(std::span<const float> values, std::span<const float> weights, Matrix y,
                Workspace& workspace) {
  workspace.runtime().pool().for_each(y.rows, [&](std::size_t t, unsigned) {
    const auto row = y.row(t);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += weights[t] * values[i];
  });
}

void gather_rows(ConstMatrix from, std::span<const std::uint32_t> tokens, Matrix to,
                 Workspace& workspace) {
  workspace.runtime().pool().for_each(to.rows, [&](std::size_t r, unsigned) {
    const auto row = from.row(tokens[r]);
    std::copy(row.begin(), row.end(), to.row(r).begin());
  });
}

void scatter_add_rows(ConstMatrix from, std::span<const std::uint32_t> tokens, Matrix to,
                      Workspace& workspace) {
  const auto add = kernels().rows.add;
  workspace.runtime().pool().for_each(from.rows, [&](std::size_t r, unsigned) {
    add(from.row(r).data(), to.row(tokens[r]).data(), from.cols);
  });
}

void fill_zero(Matrix rows) {
  for (std::size_t t = 0; t < rows.rows; ++t) std::fill_n(rows.row(t).begin(), rows.cols, 0.0F);
}

}  // namespace fourfold
