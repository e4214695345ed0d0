// A weight in the order in which the kernels read it: panels of 64 output features, see
// kernels/gemm_kernels.h. Stored in the type of the weight, float32 or bf16.
#pragma once

#include <cstddef>

#include "base/aligned_buffer.h"
#include "fourfold/matrix.h"
#include "platform/thread_pool.h"

namespace fourfold {

class PackedWeight {
 public:
  PackedWeight() = default;
  // Copies weight: [out, in]. Missing columns of the last panel are 0. Throws std::bad_alloc.
  explicit PackedWeight(const Weight& weight);

  // The same values as a weight [in, out], for products with the transpose.
  PackedWeight transposed() const;
  // New values of the same shape; the type stays, float32 values are rounded to bf16.
  void repack(const Weight& weight, ThreadPool& pool);
  void repack_transposed(const PackedWeight& weight, ThreadPool& pool);
  void copy_to(Matrix weight) const;  // [out, in]

  std::size_t out() const { return out_; }
  std::size_t in() const { return in_; }
  Dtype dtype() const { return dtype_; }
  bool empty() const { return out_ == 0; }
  std::size_t panels() const;
  const float* panel(std::size_t index) const;      // [in, 64], float32 weights
  const Bf16* panel_bf16(std::size_t index) const;  // [in, 64], bf16 weights
  std::size_t bytes() const;
  bool is_finite() const { return finite_; }  // no value is NaN or infinite

 private:
  PackedWeight(std::size_t out, std::size_t in, Dtype dtype);
  bool pack_one(const Weight& weight, std::size_t index);  // whether all values are finite
  void pack_one_transposed(const PackedWeight& weight, std::size_t index);

  AlignedBuffer<float> data_;
  AlignedBuffer<Bf16> data_bf16_;
  std::size_t out_ = 0, in_ = 0;
  Dtype dtype_ = Dtype::f32;
  bool finite_ = true;
};

// One panel: [in, 64] from up to 64 rows of weight: [rows, in]. The rest of the 64 columns becomes
// 0.
void pack_panel(ConstMatrix weight, float* panel);

}  // namespace fourfold
