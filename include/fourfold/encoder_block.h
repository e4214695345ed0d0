// The encoder block with the norm behind each branch (post-LN, Vaswani et al. 2017):
// x' = LN(x + attention(x)), x'' = LN(x' + ffn(x')).
#pragma once

#include <span>
#include <vector>

#include "fourfold/attention.h"
#include "fourfold/ffn.h"

namespace fourfold {

class LayerNorm {
 public:
  // gamma, beta: [d]. Throws Error{shape_mismatch}; Error{invalid_argument} for a negative or
  // non-finite eps.
  LayerNorm(std::span<const float> gamma, std::span<const float> beta, float eps);

  // y = (x - mean) / sqrt(var + eps) * gamma + beta; x, y: [tokens, d]; y may be x. Throws
  // Error{shape_mismatch}.
  void forward(ConstMatrix x, Matrix y, Workspace& workspace) const;
  // x = LN(x + branch); x, branch: [tokens, d]. Throws Error{shape_mismatch}.
  void forward_residual(Matrix x, ConstMatrix branch, Workspace& workspace) const;

  std::size_t size() const { return gamma_.size(); }

 private:
  std::vector<float> gamma_, beta_;
  float eps_;
};

class EncoderBlock {
 public:
  // Throws Error{shape_mismatch} when the parts differ in d_model.
  EncoderBlock(MultiHeadAttention attention, LayerNorm attention_norm, DenseFfn ffn,
               LayerNorm ffn_norm);

  // x: [tokens, d_model] is replaced by the block's output. sequence_lengths as in
  // MultiHeadAttention.
  void forward(Matrix x, std::span<const std::size_t> sequence_lengths, Workspace& workspace,
               FfnObserver* observer = nullptr) const;

  // The two halves, each in place: x = LN(x + attention(x)), x = LN(x + ffn(x)).
  void forward_attention(Matrix x, std::span<const std::size_t> sequence_lengths,
                         Workspace& workspace) const;
  void forward_ffn(Matrix x, Workspace& workspace, FfnObserver* observer = nullptr) const;

  const MultiHeadAttention& attention() const { return attention_; }
  const DenseFfn& ffn() const { return ffn_; }
  const LayerNorm& ffn_norm() const { return ffn_norm_; }

 private:
  MultiHeadAttention attention_;
  LayerNorm attention_norm_;
  DenseFfn ffn_;
  LayerNorm ffn_norm_;
};

}  // namespace fourfold
