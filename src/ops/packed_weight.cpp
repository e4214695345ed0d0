#include "ops/packed_weight.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <new>
#include <span>

#include "kernels/gemm_kernels.h"

namespace fourfold {
namespace {

float as_f32(float value) { return value; }
float as_f32(Bf16 value) { return to_float(value); }

void store(float value, float& to) { to = value; }
void store(float value, Bf16& to) { to = to_bf16(value); }

// weight: [rows, in], at most 64 rows; panel: [in, 64].
template <class From, class To>
void pack_rows(MatrixView<const From> weight, To* panel) {
  for (std::size_t k = 0; k < weight.cols; ++k) {
    To* row = panel + k * kPanel;
    for (std::size_t n = 0; n < weight.rows; ++n)
      store(as_f32(weight.data[n * weight.stride + k]), row[n]);
    std::fill(row + weight.rows, row + kPanel, To{});
  }
}

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

bool all_finite(std::span<const Bf16> values) {
  std::uint32_t bad = 0;
  for (const Bf16 value : values) bad |= (value.bits & 0x7F80U) == 0x7F80U ? 1U : 0U;
  return bad == 0;
}

// Column `first` and up to 63 more of a packed weight become one panel of its transpose.
template <class T>
void transpose_panel(const T* from, std::size_t out, std::size_t in, std::size_t first, T* panel) {
  const std::size_t width = std::min(kPanel, in - first);
  for (std::size_t n = 0; n < out; ++n) {
    T* row = panel + n * kPanel;
    const T* source = from + (n / kPanel * in + first) * kPanel + n % kPanel;
    for (std::size_t column = 0; column < width; ++column) row[column] = source[column * kPanel];
    std::fill(row + width, row + kPanel, T{});
  }
}

}  // namespace

void pack_panel(ConstMatrix weight, float* panel) { pack_rows(weight, panel); }

PackedWeight::PackedWeight(std::size_t out, std::size_t in, Dtype dtype)
    : out_(out), in_(in), dtype_(dtype) {
  if (in_ != 0 && panels() > std::numeric_limits<std::size_t>::max() / kPanel / in_)
    throw std::bad_alloc();
  const std::size_t count = panels() * kPanel * in_;
  if (dtype == Dtype::f32)
    data_ = AlignedBuffer<float>(count);
  else
    data_bf16_ = AlignedBuffer<Bf16>(count);
}

PackedWeight::PackedWeight(const Weight& weight)
    : PackedWeight(weight_rows(weight), weight_cols(weight), weight_dtype(weight)) {
  for (std::size_t p = 0; p < panels(); ++p) finite_ = pack_one(weight, p) && finite_;
}

bool PackedWeight::pack_one(const Weight& weight, std::size_t index) {
  const std::size_t first = index * kPanel, rows = std::min(kPanel, out_ - first);
  return std::visit(
      [&](const auto& matrix) {
        const auto pack = [&](auto* panel) {
          pack_rows(matrix.rows_from(first, rows), panel);
          return all_finite({panel, kPanel * in_});
        };
        return dtype_ == Dtype::f32 ? pack(data_.data() + first * in_)
                                    : pack(data_bf16_.data() + first * in_);
      },
      weight);
}

void PackedWeight::pack_one_transposed(const PackedWeight& weight, std::size_t index) {
  const std::size_t first = index * kPanel;
  if (dtype_ == Dtype::f32)
    transpose_panel(weight.data_.data(), weight.out_, weight.in_, first,
                    data_.data() + first * in_);
  else
    transpose_panel(weight.data_bf16_.data(), weight.out_, weight.in_, first,
                    data_bf16_.data() + first * in_);
}

PackedWeight PackedWeight::transposed() const {
  PackedWeight result(in_, out_, dtype_);
  for (std::size_t p = 0; p < result.panels(); ++p) result.pack_one_transposed(*this, p);
  result.finite_ = finite_;
  return result;
}

void PackedWeight::repack(const Weight& weight, ThreadPool& pool) {
  std::atomic<bool> finite = true;
  pool.for_each(panels(), [&](std::size_t p, unsigned) {
    if (!pack_one(weight, p)) finite.store(false, std::memory_order_relaxed);
  });
  finite_ = finite.load();
}

void PackedWeight::repack_transposed(const PackedWeight& weight, ThreadPool& pool) {
  pool.for_each(panels(), [&](std::size_t p, unsigned) { pack_one_transposed(weight, p); });
  finite_ = weight.finite_;
}

void PackedWeight::copy_to(Matrix weight) const {
  for (std::size_t n = 0; n < out_; ++n)
    for (std::size_t k = 0; k < in_; ++k) {
      const std::size_t at = (n / kPanel * in_ + k) * kPanel + n % kPanel;
      weight.row(n)[k] = dtype_ == Dtype::f32 ? data_.data()[at] : to_float(data_bf16_.data()[at]);
    }
}

std::size_t PackedWeight::panels() const { return (out_ + kPanel - 1) / kPanel; }

const float* PackedWeight::panel(std::size_t index) const {
  return data_.data() + index * kPanel * in_;
}

const Bf16* PackedWeight::panel_bf16(std::size_t index) const {
  return data_bf16_.data() + index * kPanel * in_;
}

std::size_t PackedWeight::bytes() const {
  return data_.size() * sizeof(float) + data_bf16_.size() * sizeof(Bf16);
}

}  // namespace fourfold
