// The activations of feed-forward layers, by the names Hugging Face configurations use.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fourfold {

enum class Activation {
  identity,   // x
  relu,       // max(x, 0)
  gelu_erf,   // x Phi(x), printed "gelu" (Hendrycks and Gimpel 2016, arXiv 1606.08415)
  gelu_tanh,  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), same paper
  silu        // x / (1 + exp(-x)) (Elfwing et al. 2017, arXiv 1702.03118)
};

// The printed name: identity, relu, gelu, gelu_tanh, silu.
std::string_view activation_name(Activation activation);

// Accepts the printed names and Hugging Face's spellings (linear, gelu_new, gelu_pytorch_tanh,
// gelu_fast, swish ...). Throws Error{unsupported} that lists the known names.
Activation parse_activation(std::string_view name);

inline bool is_gated_only(Activation) { return false; }
inline bool gives_exact_zeros(Activation activation) { return activation == Activation::relu; }

// y[i] = act(x[i]); y may be x. Throws Error{shape_mismatch} when the lengths differ.
// NaN gives NaN, +inf gives +inf, -inf gives 0 (-0) through GELU and SiLU.
void activate(Activation activation, std::span<const float> x, std::span<float> y);

}  // namespace fourfold
