// The small layer that the lesson page lets a reader change: d_model 4, d_ff 4 to 16, up to 8
// experts. Its weights are here once; the library computes its numbers for any setting.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fourfold/fourfold.h"

namespace fourfold {

inline constexpr std::size_t kMachineWidth = 4;     // d_model
inline constexpr std::size_t kMachineUnits = 16;    // the largest d_ff
inline constexpr std::size_t kMachineExperts = 8;   // the largest n_experts
inline constexpr float kMachineEps = 1e-5F;         // of the norm, whose gamma is 1 and beta 0
inline constexpr std::size_t kMachineTokens = 4;    // of the sentence in the sections below it
inline constexpr std::size_t kFlattenedUnits = 32;  // of the network over the whole sentence

// Expert 0's first 8 units are those of `fourfold trace`; all values are multiples of 0.1.
struct MachineWeights {
  std::vector<float> up, gate;   // [experts * units, width]
  std::vector<float> up_bias;    // [experts * units]
  std::vector<float> down;       // [experts * units, width]: row i is column i of `down`
  std::vector<float> down_bias;  // [experts, width]
  std::vector<float> router;     // [experts, width]
};
const MachineWeights& machine_weights();

struct MachineSetting {
  std::array<float, kMachineWidth> x{1, 0, -1, 2};
  Activation activation = Activation::relu;
  std::size_t ratio = 2;  // d_ff = ratio * width, 1 to 4
  bool gated = false;
  std::size_t n_experts = 1, top_k = 1;  // one expert: no router
};

struct ExpertNumbers {
  std::size_t index = 0;
  std::vector<float> pre, up, hidden;  // [d_ff]; up is empty in a dense layer
  std::vector<float> out;              // [width]
};

struct MachineNumbers {
  std::vector<float> logits;           // [n_experts]; empty without a router
  std::vector<float> weights;          // of the chosen experts, in the order of `experts`
  std::vector<ExpertNumbers> experts;  // by falling weight
  std::vector<float> y, sum, normal;   // [width]: result, x + y, LayerNorm(x + y)
};

MachineNumbers machine_numbers(const MachineSetting& setting, Workspace& workspace);

using TokenOrder = std::array<std::size_t, kMachineTokens>;
inline constexpr TokenOrder kInOrder{0, 1, 2, 3}, kReversed{3, 2, 1, 0};

// The sentence of the page in some order (row r is token order[r]), its rows after attention
// without weights (query, key, value and output are the identity, one head), after the layer at its
// first setting, and after a ReLU network over the whole sentence (machine_weights' up and down,
// read as [32, 16] and [16, 32], no biases).
struct SentenceNumbers {
  std::vector<float> x, attention, ffn, flattened;  // [tokens, width]
};
SentenceNumbers sentence_numbers(const TokenOrder& order, Workspace& workspace);

// sin(5 t) joined by straight lines between n + 1 even knots of [0, 1], as a layer of n ReLU units
// with d_model 1. y[i] is its value at t[i].
void join_lines(std::size_t n, std::span<const float> t, std::span<float> y, Workspace& workspace);

}  // namespace fourfold
