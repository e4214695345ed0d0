// The gradient of the router's own losses; fourfold/router.h defines them.
#pragma once

#include "fourfold/matrix.h"
#include "fourfold/router.h"

namespace fourfold {

// dlogits: [tokens, n_experts] += the gradient, by the factors of scale.
void router_losses_backward(const RoutingResult& routing, Scoring scoring,
                            const RouterLossScale& scale, Matrix dlogits);

}  // namespace fourfold
