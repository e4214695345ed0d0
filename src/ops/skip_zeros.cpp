#include "ops/skip_zeros.h"

#include "kernels/dispatch.h"

namespace fourfold {
namespace {

constexpr std::uint32_t kSize = 0x7FFFFFFFU, kBothSizes = 0x7FFF7FFFU;  // all bits but signs

// Whether unit u of a row holds a value other than 0.
struct UnitTest {
  const std::uint32_t* words;
  bool pairs;         // two words per unit
  std::uint32_t mask;

  explicit UnitTest(const RowOperand& x, std::size_t row)
      : words(static_cast<const std::uint32_t*>(x.rows_from(row, 1).data)),
        pairs(x.weight == Dtype::bf16 && x.stored == Dtype::f32),
        mask(x.stored == Dtype::bf16 ? kBothSizes : kSize) {}
  bool operator()(std::size_t u) const {
    const std::uint32_t word = pairs ? words[2 * u] | words[2 * u + 1] : words[u];
    return (word & mask) != 0;
  }
};

}  // namespace

NonZeroLists::NonZeroLists(std::size_t k, Workspace& workspace) : stride_(k) {
  static_assert(sizeof(std::uint32_t) == sizeof(float));
  base_ = reinterpret_cast<std::uint32_t*>(workspace.take(workspace.runtime().threads() * k));
}

std::span<const std::uint32_t> NonZeroLists::list(const Region& region, const RowOperand& x,
                                                  std::size_t row) const {
  std::uint32_t* list = base_ + region.thread * stride_;
  const std::size_t units = x.weight == Dtype::bf16 ? (x.k + 1) / 2 : x.k;
  const UnitTest is_used(x, row);
  std::size_t count = 0;
  for (std::size_t u = 0; u < units; ++u) {
    list[count] = static_cast<std::uint32_t>(u);
    count += is_used(u) ? 1U : 0U;
  }
  return {list, count};
}

void listed_product(const RowOperand& x, std::size_t row, std::span<const std::uint32_t> list,
                    const void* panel, float* sums) {
  const GemmKernels& products = kernels().gemm;
  const void* values = x.rows_from(row, 1).data;
  if (x.weight == Dtype::f32)
    products.listed_f32(static_cast<const float*>(values), list.data(), list.size(),
                        static_cast<const float*>(panel), sums);
  else
    products.listed_bf16(values, list.data(), list.size(),
                         static_cast<const std::uint16_t*>(panel), sums);
}

}  // namespace fourfold
