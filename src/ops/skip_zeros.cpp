#include "ops/skip_zeros.h"

#include <bit>

#include "kernels/dispatch.h"

namespace fourfold {
namespace {

constexpr std::size_t kWord = 64;  // columns of a word of bits
// A list is used up to this share of all unit rows, in 100: beyond it the hardware fetches much of
// what the list leaves out, and little is gained.
constexpr std::size_t kMostShare = 35;

// Bit u: one of the bits 2u and 2u + 1 is set.
std::uint64_t pairs(std::uint64_t bits) { return (bits | bits >> 1) & 0x5555555555555555U; }

}  // namespace

NonZeroBits::NonZeroBits(std::size_t rows, std::size_t columns, Workspace& workspace)
    : rows_(rows), words_((columns + kWord - 1) / kWord) {
  static_assert(sizeof(std::uint64_t) == 2 * sizeof(float));
  bits_ = reinterpret_cast<std::uint64_t*>(workspace.take(2 * rows * words_));
}

void NonZeroBits::set(std::size_t word, const float* values, std::size_t stride,
                      std::size_t n) const {
  bits_[word] = kernels().gemm.non_zero(values, stride, rows_, n);
}

NonZeroBits NonZeroBits::rows_from(std::size_t first, std::size_t count) const {
  NonZeroBits part = *this;
  if (bits_ != nullptr) part.bits_ += first * words_;
  part.rows_ = count;
  return part;
}

UnitLists::UnitLists(std::size_t k, Workspace& workspace) : stride_(k + kListAhead) {
  static_assert(sizeof(std::uint32_t) == sizeof(float));
  base_ = reinterpret_cast<std::uint32_t*>(workspace.take(workspace.runtime().threads() * stride_));
}

UnitList UnitLists::list(const Region& region, const NonZeroBits& bits,
                         const PackedWeight& weight) const {
  if (bits.empty()) return {};
  const bool paired = weight.dtype() == Dtype::bf16;
  const std::size_t units = paired ? (weight.in() + 1) / 2 : weight.in();
  const std::size_t words = (weight.in() + kWord - 1) / kWord;
  const auto used = [&](std::size_t w) { return paired ? pairs(bits.word(w)) : bits.word(w); };
  std::size_t count = 0;
  for (std::size_t w = 0; w < words; ++w) count += static_cast<std::size_t>(std::popcount(used(w)));
  if (count * 100 > units * kMostShare) return {};
  std::uint32_t* list = base_ + region.thread * stride_;
  std::uint32_t* next = list;
  for (std::size_t w = 0; w < words; ++w)
    for (std::uint64_t left = used(w); left != 0; left &= left - 1) {
      const std::size_t column = w * kWord + static_cast<std::size_t>(std::countr_zero(left));
      *next++ = static_cast<std::uint32_t>(paired ? column / 2 : column);
    }
  // What is fetched ahead at the end of a panel: the same unit rows of the panel behind it.
  for (std::size_t i = 0; i < kListAhead; ++i)
    list[count + i] = count == 0 ? 0 : list[i] + static_cast<std::uint32_t>(units);
  return {true, {list, count}};
}

void listed_product(const RowOperand& x, std::span<const std::uint32_t> units, const void* panel,
                    float* sums) {
  const GemmKernels& products = kernels().gemm;
  if (x.weight == Dtype::f32)
    products.listed_f32(static_cast<const float*>(x.data), x.stride, units.data(), units.size(),
                        static_cast<const float*>(panel), sums, x.rows);
  else
    products.listed_bf16(x.data, x.stride, units.data(), units.size(),
                         static_cast<const std::uint16_t*>(panel), sums, x.rows);
}

}  // namespace fourfold
