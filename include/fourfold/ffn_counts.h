// How many parameters a feed-forward layer stores and how much work one token costs, from its shape
// alone. docs/numbers.md defines both.
#pragma once

#include <cstdint>
#include <string_view>

namespace fourfold {

enum class FfnKind { dense, gated, moe };

std::string_view ffn_kind_name(FfnKind kind);  // dense, gated, moe

struct FfnBiases {
  bool gate = false, up = false, down = false;
};

struct FfnShape {
  FfnKind kind = FfnKind::dense;
  std::uint64_t d_model = 0;
  std::uint64_t d_ff = 0;  // moe: of one expert
  FfnBiases biases;        // moe: of each expert
  // The rest belongs to moe alone.
  bool gated_experts = true;
  std::uint64_t n_experts = 0, top_k = 0;
  bool router_bias = false, selection_bias = false;
  std::uint64_t shared_d_ff = 0;  // 0: no shared expert
  bool shared_gated = true;
  FfnBiases shared_biases;
  bool shared_gate = false;  // the shared expert's result has a weight of its own
};

struct FfnCounts {
  std::uint64_t parameters = 0;  // all that is stored: experts + router + shared in a mixture
  std::uint64_t active_parameters = 0;  // without the experts that one token does not use
  std::uint64_t expert = 0;             // parameters of one expert; 0 without experts
  std::uint64_t router = 0;             // weight and biases
  std::uint64_t shared = 0;             // the shared expert and its gate
  std::uint64_t macs_per_token = 0;     // forward; 1 MAC = 1 multiply-add = 2 FLOPs
  // One product each for the gradient of the input and of the weight, whatever the kind.
  std::uint64_t backward_macs_per_token = 0;
  // Biases, activations, gating products, weightings and sums, one per element; not in the MACs.
  std::uint64_t elementwise_flops_per_token = 0;
};

// Throws Error{invalid_argument} for a dimension of 0, a top_k outside 1..n_experts, a gate bias
// without a gate, parts that the kind does not have, and counts of 2^64 or more.
FfnCounts count_ffn(const FfnShape& shape);

}  // namespace fourfold
