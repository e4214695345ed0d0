// The choice of experts and its derivative (fourfold/router.h says what is chosen and how weights
// are made). Exponentials and sums in float64, one token at a time.
#pragma once

#include <span>

#include "fourfold/matrix.h"
#include "fourfold/router.h"
#include "fourfold/runtime.h"

namespace fourfold {

// Fills experts, weights and the count of non-finite tokens from result.logits. result's vectors
// have their sizes already. selection_bias: [n_experts] or empty. Ids are distinct and in range
// whatever the logits are; NaN ranks lowest.
void choose_experts(const Routing& routing, std::span<const float> selection_bias,
                    RoutingResult& result, Workspace& workspace);

// dlogits: [tokens, n_experts] is overwritten. dweights: [tokens, top_k].
void choose_experts_backward(const Routing& routing, const RoutingResult& result,
                             std::span<const float> dweights, Matrix dlogits, Workspace& workspace);

// The logarithm of an expert's score, up to what all experts have in common: scores divided by
// their sum are its softmax, and no sum can underflow to 0.
double log_score(Scoring scoring, double logit);
// Its derivative.
double log_score_slope(Scoring scoring, double logit);

// 1 / (1 + exp(-x)), rounded once.
float exact_sigmoid(float x);

}  // namespace fourfold
