// Multi-head attention (Vaswani et al. 2017, arXiv 1706.03762, section 3.2), with or without a
// causal mask, rotary positions, and key heads that several query heads share (Ainslie et al. 2023,
// arXiv 2305.13245).
// Layers of bf16 weights round to bf16 what enters a product of the forward pass (x, queries, keys,
// values, exponentials, mixed heads), and dy and the gradients that enter products with weights;
// everything between is float32.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "fourfold/ffn.h"
#include "fourfold/matrix.h"
#include "fourfold/position.h"
#include "fourfold/runtime.h"

namespace fourfold {

struct AttentionCore;

struct AttentionWeights {
  Weight query;       // [n_heads * head_dim, d_model]
  Weight key, value;  // [n_kv_heads * head_dim, d_model]
  Weight output;      // [d_model, n_heads * head_dim]
  // As long as their weight has rows, or empty: none.
  std::span<const float> query_bias, key_bias, value_bias, output_bias;
};

struct AttentionOptions {
  std::size_t n_heads = 1;
  std::size_t n_kv_heads = 0;  // 0: n_heads; head h reads key head h / (n_heads / n_kv_heads)
  std::size_t head_dim = 0;    // 0: d_model / n_heads
  bool causal = false;         // token i sees tokens 0..i of its sequence, else all of them
  std::optional<RotaryOptions> rotary = std::nullopt;
  float scale = 0;  // of the scores; 0: 1 / sqrt(head_dim)
};

// What a forward pass leaves for backward.
struct AttentionSaved {
  SavedMatrix projected;  // [tokens, queries | keys | values], after rotary positions
  SavedMatrix mixed;  // [tokens, n_heads * head_dim], what the output weight was multiplied with
};

// Gradients are added to what the caller's memory holds. An empty view: not wanted.
struct AttentionGrads {
  Matrix query, key, value, output;
  std::span<float> query_bias, key_bias, value_bias, output_bias;
};

// x, y, dy, dx: [tokens, d_model]; y must not overlap x, nor dx x or dy; zero tokens are fine.
// sequence_lengths add up to tokens; a token sees its own sequence only, so no padding is needed.
// Calls from several threads as for DenseFfn.
class MultiHeadAttention {
 public:
  // Copies the weights. Throws Error{shape_mismatch} when shapes or types do not fit each other,
  // Error{invalid_argument} for head counts that do not divide, a scale that is negative or not
  // finite, or what check_rotary refuses.
  MultiHeadAttention(const AttentionWeights& weights, const AttentionOptions& options,
                     Packing packing = Packing::forward_only);
  // One key head per query head, no mask, no rotary positions.
  MultiHeadAttention(const AttentionWeights& weights, std::size_t n_heads);
  ~MultiHeadAttention();
  MultiHeadAttention(MultiHeadAttention&&) noexcept;
  MultiHeadAttention& operator=(MultiHeadAttention&&) noexcept;

  // Throws Error{shape_mismatch}.
  void forward(ConstMatrix x, std::span<const std::size_t> sequence_lengths, Matrix y,
               Workspace& workspace, AttentionSaved* save = nullptr) const;
  // x, sequence_lengths and saved are those of the forward pass. dx is overwritten, grads
  // accumulate over tokens in ascending order. Throws Error{shape_mismatch},
  // Error{invalid_argument} without backward panels.
  void backward(ConstMatrix x, std::span<const std::size_t> sequence_lengths,
                const AttentionSaved& saved, ConstMatrix dy, Matrix dx, const AttentionGrads& grads,
                Workspace& workspace) const;

  // Throws what backward throws for a pass over so many tokens; changes nothing.
  void check_backward(std::size_t tokens, std::span<const std::size_t> sequence_lengths,
                      const AttentionSaved& saved, const AttentionGrads& grads) const;

  // New values of the same shapes; float32 values are rounded when the layer computes in bf16.
  void set_weights(const AttentionWeights& weights, Workspace& workspace);
  void pack_backward();  // adds the backward panels when they are not there

  std::size_t d_model() const;
  std::size_t n_heads() const;
  std::size_t n_kv_heads() const;
  std::size_t head_dim() const;
  bool causal() const;
  Dtype dtype() const;
  bool has_backward() const;
  std::uint64_t parameters() const;    // weights and biases
  std::uint64_t packed_bytes() const;  // weights as the kernels read them in one forward pass

 private:
  std::unique_ptr<AttentionCore> core_;
};

}  // namespace fourfold
