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

// Marks what is beyond each expert's capacity: all first choices in token order, then all second
// ones. Without a capacity factor nothing is.
void drop_beyond_capacity(const Routing& routing, RoutingResult& result);

// dlogits: [tokens, n_experts] is overwritten. dweights: [tokens, top_k].
void choose_experts_backward(const Routing& routing, const RoutingResult& result,
                             std::span<const float> dweights, Matrix dlogits, Workspace& workspace);

// dlogits += the gradient of the router's own losses.
void router_losses_backward(const RoutingResult& result, Scoring scoring,
                            const RouterLossScale& scale, Matrix dlogits);

// s(logit) of one expert by itself, for the two scorings that look at one at a time.
double own_score(Scoring scoring, double logit);
// Its derivative.
double own_score_slope(Scoring scoring, double logit);

}  // namespace fourfold
