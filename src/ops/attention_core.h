// Scaled dot-product attention of one sequence, without a mask: y = softmax(q k^T / sqrt(head_dim))
// v per head. Vaswani et al. 2017 (arXiv 1706.03762), equation 1.
#pragma once

#include <cstddef>
#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

// q, k, v, y: [tokens, n_heads * head_dim]; y may not overlap the others. sequence_lengths cut the
// tokens into sequences that do not see each other; they add up to tokens. A head of a sequence is
// one task: its keys are read in ascending order by one thread, so bits depend on the sequence
// only.
void attention_forward(ConstMatrix q, ConstMatrix k, ConstMatrix v,
                       std::span<const std::size_t> sequence_lengths, std::size_t n_heads, Matrix y,
                       Workspace& workspace);

}  // namespace fourfold
