#include "ops/row_operand.h"

#include <algorithm>
#include <cstring>

namespace fourfold {
namespace {

constexpr std::size_t kLine = 64;

std::size_t even(std::size_t n) { return (n + 1) / 2 * 2; }

char* take_bytes(Workspace& workspace, std::size_t bytes) {
  return reinterpret_cast<char*>(workspace.take((bytes + sizeof(float) - 1) / sizeof(float)));
}

}  // namespace

RowBuffer::RowBuffer(std::size_t rows, std::size_t k, Dtype weight, Workspace& workspace)
    : rows_(rows),
      k_(k),
      weight_(weight),
      stored_(weight == Dtype::bf16 && kernels().gemm.reads_bf16_rows ? Dtype::bf16 : Dtype::f32) {
  const std::size_t bytes = even(k) * (stored_ == Dtype::f32 ? 4 : 2);
  // One line more than whole lines: rows then do not start on the same few sets of the caches.
  row_bytes_ = (bytes + kLine - 1) / kLine * kLine + kLine;
  data_ = take_bytes(workspace, rows * row_bytes_);
}

void RowBuffer::store(std::size_t row, std::size_t first, ConstMatrix values) const {
  const GemmKernels& gemm = kernels().gemm;
  const std::size_t n = values.cols;
  char* start = data_ + row * row_bytes_;
  const bool pad = weight_ == Dtype::bf16 && first + n == k_ && k_ % 2 == 1;
  const auto end_rows = [&](auto* to, std::size_t stride) {
    for (std::size_t r = 0; pad && r < values.rows; ++r) to[r * stride + n] = 0;
  };
  if (stored_ == Dtype::bf16) {
    const std::size_t stride = row_bytes_ / sizeof(std::uint16_t);
    auto* to = reinterpret_cast<std::uint16_t*>(start) + first;
    gemm.narrow_rows(values.data, values.stride, to, stride, values.rows, n);
    end_rows(to, stride);
    return;
  }
  const std::size_t stride = row_bytes_ / sizeof(float);
  float* to = reinterpret_cast<float*>(start) + first;
  if (weight_ == Dtype::bf16)
    gemm.round_rows(values.data, values.stride, to, stride, values.rows, n);
  else
    for (std::size_t r = 0; r < values.rows; ++r)
      std::memcpy(to + r * stride, values.row(r).data(), n * sizeof(float));
  end_rows(to, stride);
}

RowBuffer RowBuffer::rows_from(std::size_t first, std::size_t count) const {
  RowBuffer part = *this;
  part.data_ += first * row_bytes_;
  part.rows_ = count;
  return part;
}

RowOperand RowBuffer::operand() const {
  RowOperand result;
  result.data = data_;
  result.rows = rows_;
  result.k = k_;
  result.weight = weight_;
  result.stored = stored_;
  result.stride = row_bytes_ / (stored_ == Dtype::f32 ? 4 : 2);
  return result;
}

bool needs_copy(ConstMatrix x, Dtype weight) {
  constexpr std::size_t kFew = 16, kAliased = 512;  // rows; floats
  return weight == Dtype::bf16 || (x.rows > kFew && x.stride % kAliased == 0);
}

TokenPanels::TokenPanels(std::size_t tokens, std::size_t columns, Dtype weight,
                         Workspace& workspace)
    : panels_((columns + kPanel - 1) / kPanel), columns_(columns), weight_(weight) {
  panel_bytes_ = even(tokens) * kPanel * (weight == Dtype::f32 ? 4 : 2);
  data_ = take_bytes(workspace, panels_ * panel_bytes_);
}

void TokenPanels::store(std::size_t p, std::size_t first, ConstMatrix values) const {
  char* panel = data_ + p * panel_bytes_;
  const std::size_t n = values.cols;
  if (weight_ == Dtype::f32) {
    for (std::size_t r = 0; r < values.rows; ++r) {
      float* row = reinterpret_cast<float*>(panel) + (first + r) * kPanel;
      std::memcpy(row, values.row(r).data(), n * sizeof(float));
      std::fill(row + n, row + kPanel, 0.0F);
    }
    return;
  }
  static constexpr float kZeros[kPanel] = {};
  const GemmKernels& gemm = kernels().gemm;
  for (std::size_t r = 0; r < values.rows; r += 2) {
    auto* row = reinterpret_cast<std::uint32_t*>(panel) + (first + r) / 2 * kPanel;
    gemm.pair_rows(values.row(r).data(), r + 1 < values.rows ? values.row(r + 1).data() : kZeros,
                   row, n);
    std::fill(row + n, row + kPanel, 0U);
  }
}

}  // namespace fourfold
