// The packed weights of one dense or gated FFN, and its two directions. DenseFfn and GatedFfn are
// one of these; a mixture has one per expert.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fourfold/ffn.h"
#include "ops/packed_weight.h"

namespace fourfold {

struct FfnCore {
  PackedWeight gate, up, down;                 // gate is empty in a dense FFN
  PackedWeight gate_back, up_back, down_back;  // transposed, for backward; empty without
  std::vector<float> gate_bias, up_bias, down_bias;
  Activation activation = Activation::identity;
  bool skip_zeros = false;

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
  // New values of the same shapes. The check throws before anything changes; set takes what passed.
  void check_weights(const DenseWeights& weights, const char* where) const;
  void check_weights(const GatedWeights& weights, const char* where) const;
  void set_weights(const DenseWeights& weights, ThreadPool& pool);
  void set_weights(const GatedWeights& weights, ThreadPool& pool);

  // hidden: [tokens, d_ff] from x: [tokens, d_model], which holds values of the layer's type.
  // gate_pre and up_pre receive what backward needs (dense: up_pre alone); empty views: not wanted.
  void expand(ConstMatrix x, Matrix gate_pre, Matrix up_pre, Matrix hidden,
              Workspace& workspace) const;
  // y: [tokens, d_model] = hidden down^T + bias; hidden holds values of the layer's type.
  void contract(ConstMatrix hidden, std::span<const float> bias, Matrix y,
                Workspace& workspace) const;
};

// x itself, or where the layer computes in bf16 a copy of x rounded to that.
ConstMatrix in_type_of(const FfnCore& core, ConstMatrix x, Workspace& workspace);

struct CoreSaved {
  ConstMatrix gate, up;  // pre-activations, [tokens, d_ff]; a dense FFN has only up
};

struct CoreGrads {
  Matrix gate, up, down;
  std::span<float> gate_bias, up_bias, down_bias;
};

// Who looks, and as what the rows are shown.
struct Watcher {
  FfnObserver* observer = nullptr;
  std::size_t expert = FfnSample::kNoExpert;
  std::span<const std::uint32_t> token_rows = {};
};

// A whole forward pass, in pieces. gate, up: [tokens, d_ff] receive the pre-activations; empty: not
// wanted. weights: [tokens] multiplies each hidden row and the down bias; empty: 1.
void core_forward(const FfnCore& core, ConstMatrix x, Matrix y, Matrix gate, Matrix up,
                  std::span<const float> weights, Workspace& workspace, const Watcher& watcher);

// dx is overwritten. weights as in core_forward; then weight_grads: [tokens] receives their
// gradients.
void core_backward(const FfnCore& core, ConstMatrix x, const CoreSaved& saved, ConstMatrix dy,
                   Matrix dx, const CoreGrads& grads, std::span<const float> weights,
                   std::span<float> weight_grads, Workspace& workspace);

// Shapes of what the caller passes; where names the layer in messages.
void check_grads(const FfnCore& core, const CoreGrads& grads, const char* where);
CoreGrads core_grads(const DenseGrads& grads);
CoreGrads core_grads(const GatedGrads& grads);

}  // namespace fourfold
