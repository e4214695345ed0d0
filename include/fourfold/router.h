// Which experts of a mixture a token goes to (Shazeer et al. 2017, arXiv 1701.06538; Fedus et al.
// 2021, arXiv 2101.03961), what that choice costs in balance, and how it loads the experts.
// Logits, scores and weights are at least float32, whatever the experts compute in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fourfold/matrix.h"

namespace fourfold {

// How logits become scores s. Experts are chosen by s (+ selection_bias); among equal ones the
// lowest index wins.
enum class Scoring {
  softmax,       // over all experts (Switch, Mixtral, Qwen, DeepSeek-V2)
  sigmoid,       // each expert by itself (DeepSeek-V3, Llama 4)
  softmax_topk,  // over the chosen experts only (gpt-oss, Granite)
  sqrt_softplus  // sqrt(log(1 + e^logit)) (DeepSeek-V4)
};

struct Routing {
  int top_k = 2;
  Scoring scoring = Scoring::softmax;
  bool renormalize = true;  // weights of a token's chosen experts are divided by their sum
  float scaling = 1;        // then multiplied by this; never applied to a shared expert
  // Group-limited choice: experts form n_groups equal, consecutive groups; only those of the
  // top_groups best groups may be chosen. A group's score is its best expert's with softmax
  // (DeepSeek-V2), else the sum of its two best (DeepSeek-V3).
  int n_groups = 1, top_groups = 1;
  bool weight_input = false;  // the weight multiplies the expert's input, not its result (Llama 4)
  // Each expert takes at most ceil(factor * tokens * top_k / n_experts) (token, choice) pairs of a
  // call, first choices before second ones, earlier tokens before later ones; what is beyond adds
  // nothing. A product within the rounding of the factor of a whole number is that number.
  // Absent: nothing is dropped.
  std::optional<float> capacity_factor;
};

// What a router decided for the tokens of one call.
struct RoutingResult {
  std::size_t tokens = 0, n_experts = 0, top_k = 0;
  std::vector<float> logits;           // [tokens, n_experts]
  std::vector<std::uint32_t> experts;  // [tokens, top_k], by falling choice score
  std::vector<float> weights;          // [tokens, top_k]
  std::vector<char> dropped;           // [tokens, top_k], 1: beyond the expert's capacity
  std::uint64_t dropped_pairs = 0;
  // Tokens whose logits hold NaN or +inf, or are all -inf: their weights, and so their results, are
  // NaN.
  std::uint64_t non_finite_tokens = 0;
};

// Sums over calls; add() per call and layer. counted: [tokens], 0 leaves a token (padding) out;
// empty: every token counts.
struct RouterLoad {
  std::uint64_t tokens = 0, dropped_pairs = 0, non_finite_tokens = 0;
  std::vector<std::uint64_t> load;  // (token, choice) pairs per expert; the sum is tokens * top_k

  // Throws Error{shape_mismatch} when the number of experts or the length of counted is another.
  void add(const RoutingResult& routing, std::span<const char> counted = {});
  double entropy() const;        // -sum p ln p / ln n_experts; 1 for one expert, 0 without tokens
  double max_over_mean() const;  // 1 when balanced, 0 without tokens
  std::vector<std::size_t> never_used() const;
};

struct RouterLosses {
  // n_experts * sum_e f_e P_e over the counted tokens of one layer: f_e the share of (token,
  // choice) pairs that go to e (sums to 1), P_e the mean probability of e (Fedus et al. 2021,
  // equations 4 to 6). 1 when balanced. P is the softmax of the logits; with sigmoid and
  // sqrt_softplus the scores divided by their sum (DeepSeek-V3).
  double load_balance = 0;
  double z = 0;  // mean of logsumexp(logits)^2 (Zoph et al. 2022, arXiv 2202.08906, equation 5)
};

// Both are 0 when no token counts. Throws Error{shape_mismatch}.
RouterLosses router_losses(const RoutingResult& routing, Scoring scoring,
                           std::span<const char> counted = {});

// Factors with which these losses are part of what is trained; f_e gets no gradient.
struct RouterLossScale {
  float load_balance = 0, z = 0;
  std::span<const char> counted;
};

}  // namespace fourfold
