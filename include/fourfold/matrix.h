// Row-major matrices that the caller owns. Every matrix parameter of the library is one of these
// views.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <variant>

#include "fourfold/dtype.h"

namespace fourfold {

// Element (r, c) is data[r * stride + c]; stride counts elements and is at least cols.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t stride = 0;

  MatrixView() = default;
  MatrixView(T* first, std::size_t n_rows, std::size_t n_cols)
      : data(first), rows(n_rows), cols(n_cols), stride(n_cols) {}
  MatrixView(T* first, std::size_t n_rows, std::size_t n_cols, std::size_t row_stride)
      : data(first), rows(n_rows), cols(n_cols), stride(row_stride) {}

  // A writable view reads as a constant one.
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_const_v<U>) MatrixView(const MatrixView<U>& other)
      : data(other.data), rows(other.rows), cols(other.cols), stride(other.stride) {}

  std::span<T> row(std::size_t r) const { return {data + r * stride, cols}; }
  MatrixView rows_from(std::size_t first, std::size_t count) const {
    return {data + first * stride, count, cols, stride};
  }
  MatrixView cols_from(std::size_t first, std::size_t count) const {
    return {data + first, rows, count, stride};
  }
};

using Matrix = MatrixView<float>;
using ConstMatrix = MatrixView<const float>;

using Bf16Matrix = MatrixView<Bf16>;
using ConstBf16Matrix = MatrixView<const Bf16>;

// A weight as checkpoints store it: [out, in], like torch.nn.Linear.weight. Its type is the one in
// which a layer computes.
using Weight = std::variant<ConstMatrix, ConstBf16Matrix>;

inline std::size_t weight_rows(const Weight& weight) {
  return std::visit([](const auto& matrix) { return matrix.rows; }, weight);
}
inline std::size_t weight_cols(const Weight& weight) {
  return std::visit([](const auto& matrix) { return matrix.cols; }, weight);
}
inline Dtype weight_dtype(const Weight& weight) {
  return weight.index() == 0 ? Dtype::f32 : Dtype::bf16;
}

}  // namespace fourfold
