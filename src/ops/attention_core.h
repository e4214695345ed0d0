// Scaled dot-product attention of sequences: y = softmax(scale * q k^T) v per head, where token i
// sees all tokens of its sequence, or with a causal mask tokens 0..i. Vaswani et al. 2017 (arXiv
// 1706.03762), equation 1; heads that share keys: Ainslie et al. 2023 (arXiv 2305.13245).
#pragma once

#include <cstddef>
#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

struct HeadShape {
  std::size_t n_heads, n_kv_heads;  // head h reads key head h / (n_heads / n_kv_heads)
  float scale;
  bool causal = false;
  // bf16: queries, keys, values and exponentials are rounded to it before they are multiplied.
  Dtype dtype = Dtype::f32;
};

// q, y: [tokens, n_heads * head_dim]; k, v: [tokens, n_kv_heads * head_dim]; y may not overlap the
// others. sequence_lengths cut the tokens into sequences that do not see each other; they add up to
// tokens. A block of queries of a head is one task: one thread reads all its keys in ascending
// order, so bits depend on the sequence only.
void attention_forward(ConstMatrix q, ConstMatrix k, ConstMatrix v,
                       std::span<const std::size_t> sequence_lengths, const HeadShape& shape,
                       Matrix y, Workspace& workspace);

}  // namespace fourfold
