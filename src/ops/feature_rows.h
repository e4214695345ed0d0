// A second copy of a weight, feature by feature, for products with few of its features; and the
// first half of a gated FFN that computes up only where the activation of the gate is not 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "ops/expand.h"
#include "ops/packed_weight.h"

namespace fourfold {

class FeatureRows {
 public:
  FeatureRows() = default;
  // The values of weight: [out, in]. Throws std::bad_alloc.
  explicit FeatureRows(const PackedWeight& weight);
  // New values of the same shape.
  void refill(const PackedWeight& weight, ThreadPool& pool);

  bool empty() const { return words_.size() == 0; }
  std::size_t bytes() const { return words_.size() * sizeof(float); }
  // The words of a feature along k, as kernels/gemm_kernels.h says.
  const float* row(std::size_t feature) const { return words_.data() + feature * stride_; }
  // Whether no partial sum of a product with x, or with its bias, can leave the finite numbers.
  bool stays_finite(const RowOperand& x, std::span<const float> bias) const;

 private:
  void fill_panel(const PackedWeight& weight, std::size_t p);

  AlignedBuffer<float> words_;
  std::size_t stride_ = 0, in_ = 0;
  std::vector<double> reaches_;  // [panels], the largest sum of |weight| over one of its features
};

// What one thread needs: act(gate) of its columns and a list of features.
class ActiveScratch {
 public:
  static constexpr std::size_t kMostRows = 8;

  ActiveScratch() = default;
  ActiveScratch(std::size_t d_ff, Workspace& workspace);
  bool empty() const { return base_ == nullptr; }
  float* values(const Region& region) const { return base_ + region.thread * size_; }
  std::uint32_t* list(const Region& region) const {
    return reinterpret_cast<std::uint32_t*>(values(region) + kMostRows * columns_);
  }
  std::size_t columns() const { return columns_; }

 private:
  std::size_t columns_ = 0, size_ = 0;
  float* base_ = nullptr;
};

// As expand, for few rows and nobody who looks at gate, up or shown; up_rows holds up.
void expand_active(const Region& region, const ExpandWeights& weights, const FeatureRows& up_rows,
                   const ExpandRows& rows, const TileScratch& scratch, const ActiveScratch& active);
// Whether expand_active gives what expand does.
bool can_expand_active(const ExpandWeights& weights, const FeatureRows& up_rows,
                       const ExpandRows& rows);

}  // namespace fourfold
