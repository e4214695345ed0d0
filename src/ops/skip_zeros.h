// Products of few rows with many zeros: only the k where one of the rows is not 0 are read. Same
// bits as the full product when every weight is finite, as 0 * w adds nothing.
#pragma once

#include <cstdint>
#include <span>

#include "ops/packed_weight.h"
#include "ops/row_operand.h"
#include "ops/tile_tasks.h"

namespace fourfold {

// One bit per column of few rows, set where one of them is not 0. Written while the values are.
class NonZeroBits {
 public:
  // Rows that share their bits: beyond them hardly a column is 0 in all. And rows of a pass that
  // has several such groups.
  static constexpr std::size_t kMostRows = 16, kMostInPass = 128;

  NonZeroBits() = default;
  NonZeroBits(std::size_t rows, std::size_t columns, Workspace& workspace);

  // Whether anything is known: not of too many rows.
  bool empty() const { return bits_ == nullptr || rows_ == 0 || rows_ > kMostRows; }
  // Columns 64 * word .. of values: [all rows, n], n <= 64.
  void set(std::size_t word, const float* values, std::size_t stride, std::size_t n) const;
  std::uint64_t word(std::size_t index) const { return bits_[index]; }
  // Bits of their own for some of the rows.
  NonZeroBits rows_from(std::size_t first, std::size_t count) const;

 private:
  std::uint64_t* bits_ = nullptr;
  std::size_t rows_ = 0, words_ = 0;
};

// The unit rows that a product has to read, or that it should read them all.
struct UnitList {
  bool pays = false;
  std::span<const std::uint32_t> units;  // ascending; kListAhead more lie behind
};

// Room for such lists; every thread makes its own.
class UnitLists {
 public:
  UnitLists() = default;
  UnitLists(std::size_t k, Workspace& workspace);
  // For a product with weight: [.., k]. The same for every thread.
  UnitList list(const Region& region, const NonZeroBits& bits, const PackedWeight& weight) const;

 private:
  std::size_t stride_ = 0;
  std::uint32_t* base_ = nullptr;
};

// sums: [rows, 64] = x times a panel, listed unit rows only.
void listed_product(const RowOperand& x, std::span<const std::uint32_t> units, const void* panel,
                    float* sums);

// The part of one thread in y = x W^T; finish as in product_tiles.
template <class Finish>
void product_of_listed(const Region& region, const RowOperand& x, const PackedWeight& weight,
                       std::span<const std::uint32_t> units, const TileScratch& scratch,
                       const Finish& finish, const TaskShares& shares = {}) {
  float* sums = scratch.tile(region);
  const TileTasks tasks(x.rows, weight.panels(), region.threads, TileTasks::Cut::panels_only);
  tasks.for_each(
      region,
      [&](std::size_t, std::size_t rows, std::size_t p) {
        listed_product(x, units, weight.panel(p), sums);
        finish(sums, 0, rows, p);
      },
      shares);
}

}  // namespace fourfold
