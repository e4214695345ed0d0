#include "fourfold/encoder_block.h"

#include <cmath>
#include <utility>

#include "layers/shape_check.h"
#include "ops/layer_norm.h"
#include "platform/caller_scope.h"
#include "platform/stage_clock.h"
#include "platform/thread_pool.h"

namespace fourfold {

LayerNorm::LayerNorm(std::span<const float> gamma, std::span<const float> beta, float eps)
    : gamma_(gamma.begin(), gamma.end()), beta_(beta.begin(), beta.end()), eps_(eps) {
  FOURFOLD_CHECK(!gamma_.empty(), invalid_argument, "[layer_norm] gamma has no values");
  check_length("layer_norm", "beta", beta_.size(), gamma_.size());
  FOURFOLD_CHECK(
      std::isfinite(eps) && eps >= 0, invalid_argument,
      "[layer_norm] eps is " + std::to_string(eps) + ", expected a finite number, 0 or more");
}

void LayerNorm::forward(ConstMatrix x, Matrix y, Workspace& workspace) const {
  check_shape("layer_norm", "x", x, x.rows, size());
  check_shape("layer_norm", "y", y, x.rows, size());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  layer_norm_forward(x, gamma_, beta_, eps_, y, workspace);
}

void LayerNorm::forward_residual(Matrix x, ConstMatrix branch, Workspace& workspace) const {
  check_shape("layer_norm", "x", x, x.rows, size());
  check_shape("layer_norm", "branch", branch, x.rows, size());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  add_layer_norm_forward(x, branch, gamma_, beta_, eps_, workspace);
}

EncoderBlock::EncoderBlock(MultiHeadAttention attention, LayerNorm attention_norm, DenseFfn ffn,
                           LayerNorm ffn_norm)
    : attention_(std::move(attention)),
      attention_norm_(std::move(attention_norm)),
      ffn_(std::move(ffn)),
      ffn_norm_(std::move(ffn_norm)) {
  check_length("encoder_block", "attention_norm", attention_norm_.size(), attention_.d_model());
  check_length("encoder_block", "ffn (d_model)", ffn_.d_model(), attention_.d_model());
  check_length("encoder_block", "ffn_norm", ffn_norm_.size(), attention_.d_model());
}

void EncoderBlock::forward(Matrix x, std::span<const std::size_t> sequence_lengths,
                           Workspace& workspace, FfnObserver* observer) const {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  forward_attention(x, sequence_lengths, workspace);
  forward_ffn(x, workspace, observer);
}

void EncoderBlock::forward_attention(Matrix x, std::span<const std::size_t> sequence_lengths,
                                     Workspace& workspace) const {
  check_shape("encoder_block", "x", x, x.rows, attention_.d_model());
  const ScratchScope scratch(workspace);
  const Matrix branch(workspace.take(x.rows * x.cols), x.rows, x.cols);  // [tokens, d_model]
  {
    const StageScope stage(workspace, Stage::attention);
    attention_.forward(x, sequence_lengths, branch, workspace);
  }
  const StageScope stage(workspace, Stage::norm);
  attention_norm_.forward_residual(x, branch, workspace);
}

void EncoderBlock::forward_ffn(Matrix x, Workspace& workspace, FfnObserver* observer) const {
  check_shape("encoder_block", "x", x, x.rows, attention_.d_model());
  const ScratchScope scratch(workspace);
  const Matrix branch(workspace.take(x.rows * x.cols), x.rows, x.cols);  // [tokens, d_model]
  ffn_.forward(x, branch, workspace, nullptr, observer);                 // counts its own stages
  const StageScope stage(workspace, Stage::norm);
  ffn_norm_.forward_residual(x, branch, workspace);
}

}  // namespace fourfold
