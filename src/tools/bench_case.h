// The numbers of one FFN row of `bench`: random weights and inputs, the same on every machine. With
// bf16 every value is one that bf16 holds, so all implementations start from the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fourfold/bench.h"

namespace fourfold {

struct BenchCase {
  FfnKind kind = FfnKind::gated;
  Activation activation = Activation::silu;
  Dtype dtype = Dtype::f32;
  bool backward = false;
  std::size_t d_model = 0, d_ff = 0, tokens = 0;
  std::size_t n_experts = 1, top_k = 1;  // 1 without experts

  bool moe() const { return kind == FfnKind::moe; }
  bool gated() const { return kind != FfnKind::dense; }  // experts are gated
};

// Experts lie one after the other.
struct BenchWeights {
  std::vector<float> gate, up;  // [n_experts, d_ff, d_model]; gate is empty in a dense layer
  std::vector<float> down;      // [n_experts, d_model, d_ff]
  std::vector<float> up_bias, down_bias;  // dense only: [d_ff], [d_model]
  std::vector<float> router;              // moe only: [n_experts, d_model]
};

struct BenchInputs {
  std::vector<float> x, dy;            // [tokens, d_model]; dy is empty without backward
  std::vector<std::uint32_t> experts;  // [tokens, top_k], what the router will choose; moe only
};

BenchCase make_case(const BenchOptions& options, std::uint64_t tokens);
BenchWeights make_weights(const BenchCase& shape, const BenchOptions& options);
BenchInputs make_inputs(const BenchCase& shape, const BenchOptions& options);

}  // namespace fourfold
