// Left operands of products: rows in the type in which the kernels read them, which the type of the
// weight and the instruction set decide. float32 weights: float32 as it comes. bf16 weights: values
// rounded to bf16, stored as bf16 where there are dot products of bf16, else in float32 words.
#pragma once

#include <cstddef>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"
#include "kernels/dispatch.h"

namespace fourfold {

// [rows, k]; stride counts values of the stored type. With bf16 weights an odd k is followed by 0.
struct RowOperand {
  const void* data = nullptr;
  std::size_t rows = 0, k = 0, stride = 0;
  Dtype weight = Dtype::f32, stored = Dtype::f32;

  RowOperand() = default;
  // float32 rows where they lie, for a product with float32 weights.
  explicit RowOperand(ConstMatrix x) : data(x.data), rows(x.rows), k(x.cols), stride(x.stride) {}

  RowOperand rows_from(std::size_t first, std::size_t count) const {
    RowOperand part = *this;
    part.data = static_cast<const char*>(data) + first * row_bytes();
    part.rows = count;
    return part;
  }
  std::size_t row_bytes() const { return stride * (stored == Dtype::f32 ? 4 : 2); }
};

// Room for such rows, written in parts by any thread.
class RowBuffer {
 public:
  RowBuffer() = default;
  RowBuffer(std::size_t rows, std::size_t k, Dtype weight, Workspace& workspace);

  bool empty() const { return data_ == nullptr; }
  // values become rows row .. of columns first ..; the number of columns is even, or ends the rows.
  void store(std::size_t row, std::size_t first, ConstMatrix values) const;
  // Where float32 values can be written without store; null where they must be rounded.
  float* place(std::size_t row, std::size_t first) const {
    return weight_ == Dtype::f32 ? reinterpret_cast<float*>(data_ + row * row_bytes_) + first
                                 : nullptr;
  }
  std::size_t place_stride() const { return row_bytes_ / sizeof(float); }
  RowBuffer rows_from(std::size_t first, std::size_t count) const;
  RowOperand operand() const;

 private:
  char* data_ = nullptr;
  std::size_t rows_ = 0, k_ = 0, row_bytes_ = 0;
  Dtype weight_ = Dtype::f32, stored_ = Dtype::f32;
};

// Whether a product with such a weight reads x only from a copy: to round it, or because many rows
// whose distance is a large power of two would share few sets of the caches.
bool needs_copy(ConstMatrix x, Dtype weight);

// Right operands whose k are tokens: panels of 64 columns, as kernels/gemm_kernels.h says.
class TokenPanels {
 public:
  TokenPanels() = default;
  TokenPanels(std::size_t tokens, std::size_t columns, Dtype weight, Workspace& workspace);

  bool empty() const { return data_ == nullptr; }
  std::size_t panels() const { return panels_; }
  std::size_t columns() const { return columns_; }
  const void* panel(std::size_t p) const { return data_ + p * panel_bytes_; }
  // Tokens first .. first + rows of one panel; values: [rows, n], missing columns become 0. first
  // is even, and rows, too, unless they are the last.
  void store(std::size_t p, std::size_t first, ConstMatrix values) const;

 private:
  char* data_ = nullptr;
  std::size_t panels_ = 0, columns_ = 0, panel_bytes_ = 0;
  Dtype weight_ = Dtype::f32;
};

// c: [rows, 64] (+)= x times a panel of x.k rows; next: what is read afterwards.
inline void panel_product(const RowOperand& x, const void* panel, const void* next, float* c,
                          bool add) {
  const GemmKernels& gemm = kernels().gemm;
  if (x.weight == Dtype::f32)
    gemm.panel_f32(static_cast<const float*>(x.data), x.stride, static_cast<const float*>(panel),
                   next, c, x.rows, x.k, add);
  else
    gemm.panel_bf16(x.data, x.stride, static_cast<const std::uint16_t*>(panel), next, c, x.rows,
                    x.k, add);
}

}  // namespace fourfold
