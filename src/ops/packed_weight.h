// A weight in the order in which the kernels read it: panels of 64 output features, see
// kernels/kernel_table.h.
#pragma once

#include <cstddef>

#include "base/aligned_buffer.h"
#include "fourfold/matrix.h"

namespace fourfold {

class PackedWeight {
 public:
  PackedWeight() = default;
  // Copies weight: [out, in]. Missing columns of the last panel are 0. Throws std::bad_alloc.
  explicit PackedWeight(ConstMatrix weight);

  std::size_t out() const { return out_; }
  std::size_t in() const { return in_; }
  std::size_t panels() const;
  const float* panel(std::size_t index) const;  // [in, 64]
  std::size_t bytes() const { return data_.size() * sizeof(float); }

 private:
  AlignedBuffer<float> data_;
  std::size_t out_ = 0, in_ = 0;
};

// One panel: [in, 64] from up to 64 rows of weight: [rows, in]. The rest of the 64 columns becomes
// 0.
void pack_panel(ConstMatrix weight, float* panel);

}  // namespace fourfold
