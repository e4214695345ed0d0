// The packed weights of one dense or gated FFN. DenseFfn and GatedFfn are one of these; a mixture
// has one per expert. ffn_pass.h has its two directions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fourfold/ffn.h"
#include "ops/feature_rows.h"
#include "ops/packed_weight.h"

namespace fourfold {

struct FfnCore {
  PackedWeight gate, up, down;                 // gate is empty in a dense FFN
  PackedWeight gate_back, up_back, down_back;  // transposed, for backward; empty without
  FeatureRows up_rows;                         // up again, or empty
  std::vector<float> gate_bias, up_bias, down_bias;
  Activation activation = Activation::identity;
  bool skip_zeros = true;

  FfnCore(const DenseWeights& weights, Activation act, Packing packing, const char* where);
  FfnCore(const GatedWeights& weights, Activation act, Packing packing, const char* where);

  bool gated() const { return !gate.empty(); }
  bool has_backward() const { return !down_back.empty(); }
  std::size_t d_model() const { return up.in(); }
  std::size_t d_ff() const { return up.out(); }
  Dtype dtype() const { return up.dtype(); }
  std::uint64_t parameters() const;
  std::uint64_t packed_bytes() const { return gate.bytes() + up.bytes() + down.bytes(); }

  void pack_backward();
  // Throws Error{unsupported} unless the layer is gated and its activation gives exact zeros.
  void keep_up_rows(bool on, const char* where);
  // New values of the same shapes. The check throws before anything changes; set takes what passed.
  void check_weights(const DenseWeights& weights, const char* where) const;
  void check_weights(const GatedWeights& weights, const char* where) const;
  void set_weights(const DenseWeights& weights, ThreadPool& pool);
  void set_weights(const GatedWeights& weights, ThreadPool& pool);
};

struct CoreGrads {
  Matrix gate, up, down;
  std::span<float> gate_bias, up_bias, down_bias;
};

// Shapes of what the caller passes; where names the layer in messages.
void check_grads(const FfnCore& core, const CoreGrads& grads, const char* where);
CoreGrads core_grads(const DenseGrads& grads);
CoreGrads core_grads(const GatedGrads& grads);

}  // namespace fourfold
