#include "ops/packed_weight.h"

#include <algorithm>
#include <limits>
#include <new>

#include "kernels/kernel_table.h"

namespace fourfold {

void pack_panel(ConstMatrix weight, float* panel) {
  for (std::size_t k = 0; k < weight.cols; ++k) {
    float* row = panel + k * kPanel;
    for (std::size_t n = 0; n < weight.rows; ++n) row[n] = weight.data[n * weight.stride + k];
    std::fill(row + weight.rows, row + kPanel, 0.0F);
  }
}

PackedWeight::PackedWeight(ConstMatrix weight) : out_(weight.rows), in_(weight.cols) {
  if (in_ != 0 && panels() > std::numeric_limits<std::size_t>::max() / kPanel / in_)
    throw std::bad_alloc();
  data_ = AlignedBuffer<float>(panels() * kPanel * in_);
  for (std::size_t p = 0; p < panels(); ++p)
    pack_panel(weight.rows_from(p * kPanel, std::min(kPanel, out_ - p * kPanel)),
               data_.data() + p * kPanel * in_);
}

std::size_t PackedWeight::panels() const { return (out_ + kPanel - 1) / kPanel; }

const float* PackedWeight::panel(std::size_t index) const {
  return data_.data() + index * kPanel * in_;
}

}  // namespace fourfold
