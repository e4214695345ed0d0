// The gradient of attention_forward. Probabilities are computed again from q and k; sums over
// queries run in ascending order, over the heads that share a key head too.
#pragma once

#include "ops/attention_core.h"

namespace fourfold {

// q, dy, dq: [tokens, n_heads * head_dim]; k, v, dk, dv: [tokens, n_kv_heads * head_dim]; dq, dk
// and dv are overwritten and overlap nothing. A key head of a sequence, with all heads that read
// it, is one task.
void attention_backward(ConstMatrix q, ConstMatrix k, ConstMatrix v,
                        std::span<const std::size_t> sequence_lengths, const HeadShape& shape,
                        ConstMatrix dy, Matrix dq, Matrix dk, Matrix dv, Workspace& workspace);

}  // namespace fourfold
