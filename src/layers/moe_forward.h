// The experts of a mixture's forward pass, after the router has chosen.
#pragma once

#include "fourfold/ffn.h"
#include "layers/moe_core.h"

namespace fourfold {

// y: [tokens, d_model] = the weighted sum of the experts of each token, ascending, then the shared
// one. plan: what plan_experts made; save, when not null, is the plan and receives the
// pre-activations.
void experts_forward(const MoeCore& core, ConstMatrix x, const MoeSaved& plan, Matrix y,
                     MoeSaved* save, Workspace& workspace, FfnObserver* observer);

}  // namespace fourfold
