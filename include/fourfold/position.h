// How tokens learn their place: sinusoids added to embeddings (Vaswani et al. 2017, arXiv
// 1706.03762, section 3.5) and rotary positions inside attention (Su et al. 2021, arXiv
// 2104.09864). Learned positions are an Embedding.
#pragma once

#include <cstddef>
#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

// table: [positions, d_model]; row p holds sin(p / 10000^(c / d_model)) in even columns c and
// cos(p / 10000^((c - 1) / d_model)) in odd ones, computed in float64. Throws
// Error{shape_mismatch}.
void fill_sinusoidal(Matrix table);

// Which two values of a head turn together.
enum class RotaryStyle {
  half_split,   // i and i + rotary_dim / 2 (GPT-NeoX, Llama)
  interleaved,  // 2 i and 2 i + 1 (GPT-J)
};

struct RotaryOptions {
  double theta = 10000;        // pair i turns by position * theta^(-2 i / rotary_dim)
  std::size_t rotary_dim = 0;  // values of a head that turn, the first ones; 0: all
  RotaryStyle style = RotaryStyle::half_split;
};

// Throws Error{invalid_argument} unless rotary_dim (or head_dim) is even, at least 2 and at most
// head_dim, and theta a positive finite number.
void check_rotary(const RotaryOptions& options, std::size_t head_dim);

// Turns each head of x in place. x: [tokens, n_heads * head_dim]; sequence_lengths add up to
// tokens, and positions count from 0 in each sequence. Angles come from float64. Throws
// Error{shape_mismatch}, Error{invalid_argument}.
void rotary_forward(const RotaryOptions& options, Matrix x, std::size_t n_heads,
                    std::span<const std::size_t> sequence_lengths, Workspace& workspace);
// The gradient: turns dx back in place.
void rotary_backward(const RotaryOptions& options, Matrix dx, std::size_t n_heads,
                     std::span<const std::size_t> sequence_lengths, Workspace& workspace);

}  // namespace fourfold
