#include "ops/packed_weight.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <type_traits>

#include "kernels/dispatch.h"

namespace fourfold {
namespace {

constexpr std::size_t kBlock = kPanel * kPanel;
constexpr std::size_t kCacheLine = 64, kAhead = 512;  // bytes

// Beyond this many bytes a weight is not in the cache when it is read next.
constexpr std::size_t kCached = std::size_t{8} << 20;

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

// Two at a time.
bool all_finite(std::span<const Bf16, kBlock> values) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < values.size() / 2; ++i) {
    std::uint32_t pair;
    std::memcpy(&pair, values.data() + 2 * i, sizeof(pair));
    const std::uint32_t low = pair & 0x7F80U, high = pair & 0x7F800000U;
    bad |= low == 0x7F80U ? 1U : 0U;
    bad |= high == 0x7F800000U ? 1U : 0U;
  }
  return bad == 0;
}

void copy_row(std::span<const float> from, float* to) { std::copy(from.begin(), from.end(), to); }
void copy_row(std::span<const Bf16> from, Bf16* to) { std::copy(from.begin(), from.end(), to); }
void copy_row(std::span<const Bf16> from, float* to) {
  std::transform(from.begin(), from.end(), to, to_float);
}
void copy_row(std::span<const float> from, Bf16* to) {
  static_assert(sizeof(Bf16) == sizeof(std::uint16_t));
  kernels().gemm.narrow_rows(from.data(), 0, &to->bits, 0, 1, from.size());
}

// The 64 x 64 values of a weight from (n, k) on; what lies outside is 0.
template <class From, class To>
void read_block(MatrixView<const From> weight, std::size_t n, std::size_t k, To* block) {
  const std::size_t rows = std::min(kPanel, weight.rows - n);
  const std::size_t cols = std::min(kPanel, weight.cols - k);
  if (rows < kPanel || cols < kPanel) std::fill_n(block, kBlock, To{});
  for (std::size_t r = 0; r < rows; ++r) {
    const From* row = weight.data + (n + r) * weight.stride + k;
    copy_row(std::span<const From>(row, cols), block + r * kPanel);
    // 64 short pieces far apart: the hardware does not foresee the next ones.
    const auto* ahead = reinterpret_cast<const char*>(row) + kAhead;
    for (std::size_t line = 0; line < kPanel * sizeof(From); line += kCacheLine)
      __builtin_prefetch(ahead + line);
  }
}

// Past the cache: the lines need not be read first, and nothing else is pushed out.
void stream(const float* from, float* to, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
}

// Two rows of k as one unit row of a panel.
void pair_bf16(const Bf16* low, const Bf16* high, float* unit) {
  std::uint32_t words[kPanel];
  for (std::size_t i = 0; i < kPanel; ++i)
    words[i] = low[i].bits | static_cast<std::uint32_t>(high[i].bits) << 16;
  std::memcpy(unit, words, sizeof(words));
}

}  // namespace

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

// units: [rows, 64] words, from unit row k on.
void PackedWeight::store_rows(std::size_t panel, std::size_t k, const float* units,
                              std::size_t rows) {
  float* to = words_.data() + panel * panel_words() + k * kPanel;
  if (bytes() > kCached)
    stream(units, to, rows * kPanel);
  else
    std::memcpy(to, units, rows * kPanel * sizeof(float));
}

template <class T>
void PackedWeight::set_block(std::size_t n, std::size_t k, const T* block, float* units) {
  constexpr std::size_t kPerUnit = std::is_same_v<T, float> ? 1 : 2, kUnits = kPanel / kPerUnit;
  // Pairs of bf16 move as one word.
  float* words = units + kUnits * kPanel;
  std::memcpy(words, block, kUnits * kPanel * sizeof(float));
  kernels().gemm.transpose(words, kUnits, kPanel, kUnits, units, kPanel);
  const std::size_t depth = std::min(kPanel, in_ - k);
  store_rows(n / kPanel, k / kPerUnit, units, (depth + kPerUnit - 1) / kPerUnit);
}

template <class T>
void PackedWeight::set_block_of_transpose(std::size_t n, std::size_t k, const T* block,
                                          float* units) {
  const std::size_t depth = std::min(kPanel, in_ - n);
  if constexpr (std::is_same_v<T, float>) {
    store_rows(k / kPanel, n, block, depth);
  } else {
    for (std::size_t row = 0; row < depth; row += 2)  // the block is 0 beyond the last feature
      pair_bf16(block + row * kPanel, block + (row + 1) * kPanel, units + row / 2 * kPanel);
    store_rows(k / kPanel, n / 2, units, (depth + 1) / 2);
  }
}

template <class T>
bool PackedWeight::pack_blocks(const Weight& weight, std::size_t first, PackedWeight& to,
                               PackedWeight* back) {
  alignas(64) T block[kBlock];
  alignas(64) float units[2 * kBlock];
  bool finite = true;
  for (std::size_t k = 0; k < to.in_; k += kPanel) {
    std::visit([&](const auto& matrix) { read_block(matrix, first, k, block); }, weight);
    finite = all_finite(std::span<const T, kBlock>(block)) && finite;
    to.set_block(first, k, block, units);
    if (back != nullptr) back->set_block_of_transpose(first, k, block, units);
  }
  _mm_sfence();  // what was streamed is there for all threads
  return finite;
}

bool PackedWeight::pack_features(const Weight& weight, std::size_t first, PackedWeight& to,
                                 PackedWeight* back) {
  return to.dtype_ == Dtype::f32 ? pack_blocks<float>(weight, first, to, back)
                                 : pack_blocks<Bf16>(weight, first, to, back);
}

void PackedWeight::get_block(std::size_t n, std::size_t k, float* block) const {
  const std::size_t rows = std::min(kPanel, out_ - n), cols = std::min(kPanel, in_ - k);
  std::fill_n(block, kBlock, 0.0F);
  for (std::size_t c = 0; c < cols; ++c)
    for (std::size_t r = 0; r < rows; ++r) block[r * kPanel + c] = value(n + r, k + c);
}

PackedWeight PackedWeight::transposed() const {
  PackedWeight result(in_, out_, dtype_);
  alignas(64) float block[kBlock], units[kBlock];
  alignas(64) Bf16 narrow[kBlock];
  for (std::size_t n = 0; n < out_; n += kPanel)
    for (std::size_t k = 0; k < in_; k += kPanel) {
      get_block(n, k, block);
      if (dtype_ == Dtype::f32) {
        result.set_block_of_transpose(n, k, block, units);
      } else {
        copy_row(std::span<const float>(block), narrow);
        result.set_block_of_transpose(n, k, narrow, units);
      }
    }
  _mm_sfence();
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
