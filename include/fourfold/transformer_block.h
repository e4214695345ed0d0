// The transformer block: attention and a feed-forward layer as branches of a residual stream,
// forward and backward. Encoders and decoders differ in the attention's mask alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "fourfold/attention.h"
#include "fourfold/ffn.h"
#include "fourfold/norm.h"

namespace fourfold {

// Where the norms stand. Additions to the stream are float32.
enum class BlockOrder {
  post_norm,  // x = norm(x + branch(x)), twice: BERT (Vaswani et al. 2017)
  pre_norm,   // x += branch(norm(x)), twice: GPT-2, Llama
  sandwich,   // x += post(branch(norm(x))), twice: Gemma 2
  parallel,   // x += attention(norm(x)) + ffn(norm(x)): PaLM; with a second norm GPT-NeoX
};

struct BlockParts {
  MultiHeadAttention attention;
  AnyNorm attention_norm;  // behind the addition in post_norm, else before attention
  AnyFfn ffn;
  std::optional<AnyNorm> ffn_norm = std::nullopt;  // parallel: none means the attention's
  std::optional<AnyNorm> attention_post_norm = std::nullopt;  // sandwich only
  std::optional<AnyNorm> ffn_post_norm = std::nullopt;        // sandwich only
};

// What a forward pass leaves for backward.
struct BlockSaved {
  SavedMatrix input, middle;  // [tokens, d_model]: the stream before attention and before the FFN
  // [tokens, d_model], what the norm behind a branch read: post_norm and sandwich.
  SavedMatrix attention_tail, ffn_tail;
  AttentionSaved attention;
  AnyFfnSaved ffn;
};

// Gradients are added to what the caller's memory holds; ffn must hold the block's kind.
struct BlockGrads {
  AttentionGrads attention;
  AnyFfnGrads ffn;
  NormGrads attention_norm, ffn_norm, attention_post_norm, ffn_post_norm;
};

// Calls from several threads as for DenseFfn.
class TransformerBlock {
 public:
  // Throws Error{shape_mismatch} when the parts differ in d_model, Error{invalid_argument} for a
  // norm that the order needs and has not, or has and does not use.
  TransformerBlock(BlockOrder order, BlockParts parts);

  // x: [tokens, d_model] is replaced by the block's output. sequence_lengths as in
  // MultiHeadAttention. Neither save nor observer changes a bit. Throws Error{shape_mismatch}; x
  // then stays as it was.
  void forward(Matrix x, std::span<const std::size_t> sequence_lengths, Workspace& workspace,
               FfnObserver* observer = nullptr, BlockSaved* save = nullptr) const;
  // dx: [tokens, d_model] is overwritten; it must not overlap dy: [tokens, d_model]. saved and
  // sequence_lengths are those of the forward pass. Throws Error{shape_mismatch},
  // Error{invalid_argument} without backward panels, before any gradient is added.
  void backward(std::span<const std::size_t> sequence_lengths, const BlockSaved& saved,
                ConstMatrix dy, Matrix dx, const BlockGrads& grads, Workspace& workspace) const;

  // The two halves, each in place; not for parallel blocks: Error{unsupported}.
  void forward_attention(Matrix x, std::span<const std::size_t> sequence_lengths,
                         Workspace& workspace) const;
  void forward_ffn(Matrix x, Workspace& workspace, FfnObserver* observer = nullptr) const;

  void pack_backward();  // adds the backward panels when they are not there

  BlockOrder order() const { return order_; }
  std::size_t d_model() const { return parts_.attention.d_model(); }
  const BlockParts& parts() const { return parts_; }
  // For new weights; a part must not be removed, nor replaced by one of another d_model.
  BlockParts& parts() { return parts_; }
  const MultiHeadAttention& attention() const { return parts_.attention; }
  const AnyFfn& ffn() const { return parts_.ffn; }

 private:
  void check_backward(std::size_t tokens, std::span<const std::size_t> sequence_lengths,
                      const BlockSaved& saved, const BlockGrads& grads) const;
  void run_attention(Matrix x, std::span<const std::size_t> sequence_lengths, Workspace& workspace,
                     BlockSaved* save) const;
  void run_ffn(Matrix x, Workspace& workspace, FfnObserver* observer, BlockSaved* save) const;
  void run_parallel(Matrix x, std::span<const std::size_t> sequence_lengths, Workspace& workspace,
                    FfnObserver* observer, BlockSaved* save) const;

  BlockOrder order_;
  BlockParts parts_;
};

}  // namespace fourfold
