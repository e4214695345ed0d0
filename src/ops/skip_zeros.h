// Products of rows with many zeros: only the k with x[row, k] != 0 are read. Same bits as the full
// product when every weight is finite, as 0 * w adds nothing.
#pragma once

#include <cstdint>
#include <span>

#include "ops/packed_weight.h"
#include "ops/row_operand.h"
#include "ops/tile_tasks.h"

namespace fourfold {

// Room for a list of what is not 0 in one row; every thread makes its own.
class NonZeroLists {
 public:
  NonZeroLists() = default;
  NonZeroLists(std::size_t k, Workspace& workspace);
  // The unit rows (kernels/gemm_kernels.h) of one row of x that hold a value other than 0.
  std::span<const std::uint32_t> list(const Region& region, const RowOperand& x,
                                      std::size_t row) const;

 private:
  std::size_t stride_ = 0;
  std::uint32_t* base_ = nullptr;
};

// sums: [64] = one row of x times a panel, listed unit rows only.
void listed_product(const RowOperand& x, std::size_t row, std::span<const std::uint32_t> list,
                    const void* panel, float* sums);

// The part of one thread in y = x W^T; finish as in product_tiles, with one row at a time.
template <class Finish>
void product_skipping_zeros(const Region& region, const RowOperand& x, const PackedWeight& weight,
                            const NonZeroLists& lists, const TileScratch& scratch,
                            const Finish& finish) {
  float* sums = scratch.tile(region);
  const Share share = region.share(weight.panels());
  for (std::size_t row = 0; row < x.rows; ++row) {
    const auto list = lists.list(region, x, row);
    for (std::size_t p = share.first; p < share.last; ++p) {
      listed_product(x, row, list, weight.panel(p), sums);
      finish(sums, row, 1, p);
    }
  }
}

}  // namespace fourfold
