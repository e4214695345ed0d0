#include "ops/feature_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/dispatch.h"

namespace fourfold {
namespace {

constexpr auto kIdentity = static_cast<std::size_t>(Activation::identity);
constexpr std::size_t kLine = 16;  // words
// A feature by itself pays up to this share of those of a thread, in 100: measured.
constexpr std::size_t kMostShare = 60;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// |value| of a float32 word, or the sum of both sizes of one of bf16.
double size_of(float word, Dtype dtype) {
  if (dtype == Dtype::f32) return std::fabs(static_cast<double>(word));
  const auto bits = std::bit_cast<std::uint32_t>(word);
  return std::fabs(static_cast<double>(std::bit_cast<float>(bits << 16))) +
         std::fabs(static_cast<double>(std::bit_cast<float>(bits & 0xFFFF0000U)));
}

// The largest |x| as bits; anything that is not finite is above all that is.
std::uint32_t largest_size(const RowOperand& x) {
  std::uint32_t largest = 0;
  for (std::size_t r = 0; r < x.rows; ++r) {
    const RowOperand row = x.rows_from(r, 1);
    if (x.stored == Dtype::f32) {
      const auto* words = static_cast<const std::uint32_t*>(row.data);
      for (std::size_t k = 0; k < x.k; ++k) largest = std::max(largest, words[k] & 0x7FFFFFFFU);
    } else {
      const auto* halves = static_cast<const std::uint16_t*>(row.data);
      std::uint16_t most = 0;
      for (std::size_t k = 0; k < x.k; ++k)
        most = std::max(most, static_cast<std::uint16_t>(halves[k] & 0x7FFFU));
      largest = std::max(largest, std::uint32_t{most} << 16);
    }
  }
  return largest;
}

}  // namespace

FeatureRows::FeatureRows(const PackedWeight& weight) : in_(weight.in()), reaches_(weight.panels()) {
  const std::size_t words = weight.dtype() == Dtype::f32 ? in_ : (in_ + 1) / 2;
  // One line more than whole lines: features then do not start on the same few sets of the caches.
  stride_ = (words + kLine - 1) / kLine * kLine + kLine;
  words_ = AlignedBuffer<float>(weight.panels() * kPanel * stride_);
  std::fill_n(words_.data(), words_.size(), 0.0F);
  for (std::size_t p = 0; p < weight.panels(); ++p) fill_panel(weight, p);
}

void FeatureRows::refill(const PackedWeight& weight, ThreadPool& pool) {
  pool.for_each(weight.panels(), [&](std::size_t p, unsigned) { fill_panel(weight, p); });
}

void FeatureRows::fill_panel(const PackedWeight& weight, std::size_t p) {
  const std::size_t words = weight.dtype() == Dtype::f32 ? in_ : (in_ + 1) / 2;
  kernels().gemm.transpose(static_cast<const float*>(weight.panel(p)), kPanel, words, kPanel,
                           words_.data() + p * kPanel * stride_, stride_);
  double reach = 0;
  for (std::size_t n = p * kPanel; n < (p + 1) * kPanel; ++n) {
    double sum = 0;
    for (std::size_t w = 0; w < words; ++w) sum += size_of(row(n)[w], weight.dtype());
    reach = std::max(reach, std::isnan(sum) ? kInfinity : sum);
  }
  reaches_[p] = reach;
}

bool FeatureRows::stays_finite(const RowOperand& x, std::span<const float> bias) const {
  // Rounding errors of a sum of fewer than 2^22 terms less than double it.
  constexpr double kMost = 0x1p126;
  if (in_ >= (std::size_t{1} << 22)) return false;
  const auto size = static_cast<double>(std::bit_cast<float>(largest_size(x)));
  const auto is_small = [=](double value) { return std::fabs(value) < kMost; };  // false for NaN
  return std::all_of(reaches_.begin(), reaches_.end(),
                     [=](double reach) { return reach < kInfinity && is_small(size * reach); }) &&
         std::all_of(bias.begin(), bias.end(), [=](float value) { return is_small(value); });
}

ActiveScratch::ActiveScratch(std::size_t d_ff, Workspace& workspace) {
  const std::size_t threads = workspace.runtime().threads();
  const std::size_t panels = (d_ff + kPanel - 1) / kPanel;
  columns_ = (panels / threads + 1) * kPanel;
  size_ = (kMostRows + 1) * columns_;  // the last part is the list
  base_ = workspace.take(threads * size_);
}

bool can_expand_active(const ExpandWeights& weights, const FeatureRows& up_rows,
                       const ExpandRows& rows) {
  return rows.x.rows > 0 && rows.x.rows <= ActiveScratch::kMostRows && rows.gate.data == nullptr &&
         rows.up.data == nullptr && rows.shown.data == nullptr &&
         up_rows.stays_finite(rows.x, weights.up_bias);
}

namespace {

// One thread's columns first .. first + columns of a pass.
class ActivePart {
 public:
  ActivePart(const Region& region, const ExpandWeights& weights, const FeatureRows& up_rows,
             const ExpandRows& rows, const TileScratch& scratch, const ActiveScratch& active)
      : weights_(weights),
        up_rows_(up_rows),
        to_(rows),
        panels_(region.share(weights.up.panels())),
        values_(active.values(region)),
        list_(active.list(region)),
        stride_(active.columns()),
        sums_(scratch.tile(region)) {}

  void run() {
    for (std::size_t p = panels_.first; p < panels_.last; ++p) activate_gate(p);
    if (count_ * 100 <= (panels_.last - panels_.first) * kPanel * kMostShare) {
      for (std::size_t i = 0; i < count_; i += kFeatures) multiply_listed(i);
    } else {
      for (std::size_t p = panels_.first; p < panels_.last; ++p) multiply_panel(p);
    }
    for (std::size_t p = panels_.first; p < panels_.last; ++p) {
      to_.finish(0, p * kPanel, {at(0, p), to_.x.rows, width(p), stride_});
      if (!to_.non_zero.empty()) to_.non_zero.set(p, at(0, p), stride_, width(p));
    }
  }

 private:
  float* at(std::size_t r, std::size_t p) const {
    return values_ + r * stride_ + (p - panels_.first) * kPanel;
  }
  std::size_t width(std::size_t p) const {
    return std::min(kPanel, weights_.up.out() - p * kPanel);
  }
  static const float* bias(std::span<const float> values, std::size_t p) {
    return values.empty() ? nullptr : values.data() + p * kPanel;
  }

  // act(gate) of one panel, and which of its features some row needs.
  void activate_gate(std::size_t p) {
    panel_product(to_.x, weights_.gate.panel(p), weights_.gate.panel(p + 1), sums_, false);
    const ActivationKernels& act = kernels().activations;
    act.epilogue[static_cast<std::size_t>(weights_.activation)](
        sums_, bias(weights_.gate_bias, p), at(0, p), stride_, to_.x.rows, width(p));
    std::uint64_t left = kernels().gemm.non_zero(at(0, p), stride_, to_.x.rows, width(p));
    for (; left != 0; left &= left - 1)
      list_[count_++] =
          static_cast<std::uint32_t>(p * kPanel + static_cast<std::size_t>(std::countr_zero(left)));
  }

  void multiply_panel(std::size_t p) {
    panel_product(to_.x, weights_.up.panel(p), weights_.up.panel(p + 1), sums_, false);
    kernels().activations.epilogue[kIdentity](sums_, bias(weights_.up_bias, p), sums_, kPanel,
                                              to_.x.rows, width(p));
    for (std::size_t r = 0; r < to_.x.rows; ++r)
      for (std::size_t i = 0; i < width(p); ++i) at(r, p)[i] *= sums_[r * kPanel + i];
  }

  // Features first .. of the list; the last of them again where there are fewer than 16.
  void multiply_listed(std::size_t first) {
    const float *features[kFeatures], *next[kFeatures];
    const auto listed = [&](std::size_t i) { return list_[std::min(i, count_ - 1)]; };
    for (std::size_t f = 0; f < kFeatures; ++f) {
      features[f] = up_rows_.row(listed(first + f));
      next[f] = up_rows_.row(listed(first + kFeatures + f));
    }
    const GemmKernels& products = kernels().gemm;
    const RowOperand& x = to_.x;
    if (x.weight == Dtype::f32)
      products.features_f32(static_cast<const float*>(x.data), x.stride, features, next, x.k, sums_,
                            x.rows);
    else
      products.features_bf16(x.data, x.stride, features, next, x.k, sums_, x.rows);
    for (std::size_t f = 0; f < kFeatures && first + f < count_; ++f) {
      const std::size_t feature = listed(first + f);
      const float bias = weights_.up_bias.empty() ? 0.0F : weights_.up_bias[feature];
      for (std::size_t r = 0; r < x.rows; ++r)
        values_[r * stride_ + feature - panels_.first * kPanel] *=
            (sums_[r * kFeatures + f] + 0.0F) + bias;
    }
  }

  const ExpandWeights& weights_;
  const FeatureRows& up_rows_;
  const ExpandRows& to_;
  Share panels_;
  float* values_;  // [rows, stride]
  std::uint32_t* list_;
  std::size_t stride_;
  float* sums_;
  std::size_t count_ = 0;
};

}  // namespace

void expand_active(const Region& region, const ExpandWeights& weights, const FeatureRows& up_rows,
                   const ExpandRows& rows, const TileScratch& scratch,
                   const ActiveScratch& active) {
  ActivePart(region, weights, up_rows, rows, scratch, active).run();
}

}  // namespace fourfold
