// Multi-head attention without a mask (Vaswani et al. 2017, arXiv 1706.03762, section 3.2), as
// encoders use it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

class PackedWeight;

struct AttentionWeights {
  Weight query, key, value, output;                                      // each [d_model, d_model]
  std::span<const float> query_bias, key_bias, value_bias, output_bias;  // each [d_model]
};

class MultiHeadAttention {
 public:
  // Copies the weights. Throws Error{shape_mismatch}; Error{invalid_argument} when n_heads does not
  // divide d_model.
  MultiHeadAttention(const AttentionWeights& weights, std::size_t n_heads);
  ~MultiHeadAttention();
  MultiHeadAttention(MultiHeadAttention&&) noexcept;
  MultiHeadAttention& operator=(MultiHeadAttention&&) noexcept;

  // x, y: [tokens, d_model]; y must not overlap x. sequence_lengths add up to tokens; a token sees
  // its own sequence only, so no padding is needed. Throws Error{shape_mismatch}.
  void forward(ConstMatrix x, std::span<const std::size_t> sequence_lengths, Matrix y,
               Workspace& workspace) const;

  std::size_t d_model() const;
  std::size_t n_heads() const { return n_heads_; }
  std::uint64_t packed_bytes() const;

 private:
  std::unique_ptr<PackedWeight> query_key_value_, output_;
  std::vector<float> query_key_value_bias_, output_bias_;
  std::size_t n_heads_;
};

}  // namespace fourfold
