#include "ops/packed_weight.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>

#include "kernels/dispatch.h"

namespace fourfold {
namespace {

constexpr std::size_t kBlock = kPanel * kPanel;

// Whole numbers, so that the compiler may look at many at once: an exponent of all ones is NaN or
// infinity.
bool all_finite(std::span<const float> values) {
  std::uint32_t bad = 0;
  for (const float value : values) {
    const std::uint32_t exponent = std::bit_cast<std::uint32_t>(value) & 0x7F800000U;
    bad |= exponent == 0x7F800000U ? 1U : 0U;
  }
  return bad == 0;
}

void copy_row(std::span<const float> from, float* to) {
  std::copy(from.begin(), from.end(), to);
}
void copy_row(std::span<const Bf16> from, float* to) {
  std::transform(from.begin(), from.end(), to, to_float);
}

// The 64 x 64 values of a weight from (n, k) on; what lies outside is 0.
template <class T>
void read_block(MatrixView<const T> weight, std::size_t n, std::size_t k, float* block) {
  const std::size_t rows = std::min(kPanel, weight.rows - n);
  const std::size_t cols = std::min(kPanel, weight.cols - k);
  if (rows < kPanel || cols < kPanel) std::fill_n(block, kBlock, 0.0F);
  for (std::size_t r = 0; r < rows; ++r)
    copy_row(weight.row(n + r).subspan(k, cols), block + r * kPanel);
}

void transpose_block(const float* from, float* to) {
  kernels().gemm.transpose(from, kPanel, kPanel, kPanel, to, kPanel);
}

}  // namespace

// Features first .. first + 63 into one panel of `to`, and into 64 rows of every panel of its
// transpose. Returns whether all values are finite.
bool pack_features(const Weight& weight, std::size_t first, PackedWeight& to, PackedWeight* back) {
  alignas(64) float block[kBlock];
  bool finite = true;
  for (std::size_t k = 0; k < to.in_; k += kPanel) {
    std::visit([&](const auto& matrix) { read_block(matrix, first, k, block); }, weight);
    finite = all_finite({block, kBlock}) && finite;
    to.set_block(first, k, block);
    if (back != nullptr) back->set_block_transposed(k, first, block);
  }
  return finite;
}

void pack_panel(ConstMatrix weight, float* panel) {
  kernels().gemm.transpose(weight.data, weight.stride, weight.rows, weight.cols, panel, kPanel);
  for (std::size_t k = 0; weight.rows < kPanel && k < weight.cols; ++k)
    std::fill(panel + k * kPanel + weight.rows, panel + (k + 1) * kPanel, 0.0F);
}

PackedWeight::PackedWeight(std::size_t out, std::size_t in, Dtype dtype)
    : out_(out), in_(in), dtype_(dtype) {
  if (in_ != 0 && panels() > std::numeric_limits<std::size_t>::max() / kPanel / (in_ + 1))
    throw std::bad_alloc();
  words_ = AlignedBuffer<float>(panels() * panel_words());
}

PackedWeight::PackedWeight(const Weight& weight)
    : PackedWeight(weight_rows(weight), weight_cols(weight), weight_dtype(weight)) {
  for (std::size_t n = 0; n < out_; n += kPanel)
    finite_ = pack_features(weight, n, *this, nullptr) && finite_;
}

std::size_t PackedWeight::panels() const { return (out_ + kPanel - 1) / kPanel; }

std::size_t PackedWeight::panel_words() const {
  return (dtype_ == Dtype::f32 ? in_ : (in_ + 1) / 2) * kPanel;
}

float PackedWeight::value(std::size_t n, std::size_t k) const {
  const float* panel = words_.data() + n / kPanel * panel_words();
  if (dtype_ == Dtype::f32) return panel[k * kPanel + n % kPanel];
  const auto word = std::bit_cast<std::uint32_t>(panel[k / 2 * kPanel + n % kPanel]);
  return std::bit_cast<float>(k % 2 == 0 ? word << 16 : word & 0xFFFF0000U);
}

void PackedWeight::set_block(std::size_t n, std::size_t k, const float* block) {
  alignas(64) float turned[kBlock];
  transpose_block(block, turned);
  set_block_transposed(n, k, turned);
}

void PackedWeight::set_block_transposed(std::size_t n, std::size_t k, const float* block) {
  const std::size_t depth = std::min(kPanel, in_ - k);
  float* panel = words_.data() + n / kPanel * panel_words();
  if (dtype_ == Dtype::f32) {
    std::memcpy(panel + k * kPanel, block, depth * kPanel * sizeof(float));
    return;
  }
  for (std::size_t row = 0; row < depth; row += 2)  // the block is 0 beyond the last k
    kernels().gemm.pair_rows(
        block + row * kPanel, block + (row + 1) * kPanel,
        reinterpret_cast<std::uint32_t*>(panel + (k + row) / 2 * kPanel), kPanel);
}

void PackedWeight::get_block(std::size_t n, std::size_t k, float* block) const {
  const std::size_t rows = std::min(kPanel, out_ - n), cols = std::min(kPanel, in_ - k);
  std::fill_n(block, kBlock, 0.0F);
  for (std::size_t c = 0; c < cols; ++c)
    for (std::size_t r = 0; r < rows; ++r) block[r * kPanel + c] = value(n + r, k + c);
}

PackedWeight PackedWeight::transposed() const {
  PackedWeight result(in_, out_, dtype_);
  alignas(64) float block[kBlock];
  for (std::size_t n = 0; n < out_; n += kPanel)
    for (std::size_t k = 0; k < in_; k += kPanel) {
      get_block(n, k, block);
      result.set_block_transposed(k, n, block);
    }
  result.finite_ = finite_;
  return result;
}

void PackedWeight::repack(const Weight& weight, PackedWeight* back, ThreadPool& pool) {
  std::atomic<bool> finite = true;
  pool.for_each(panels(), [&](std::size_t p, unsigned) {
    if (!pack_features(weight, p * kPanel, *this, back))
      finite.store(false, std::memory_order_relaxed);
  });
  finite_ = finite.load();
  if (back != nullptr) back->finite_ = finite_;
}

void PackedWeight::copy_to(Matrix weight) const {
  for (std::size_t n = 0; n < out_; ++n)
    for (std::size_t k = 0; k < in_; ++k) weight.row(n)[k] = value(n, k);
}

}  // namespace fourfold
