// The activations of feed-forward layers, by the names Hugging Face configurations use: alone, with
// a gate, and backward. s(x) = 1 / (1 + exp(-x)); Phi is the normal distribution function.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fourfold {

enum class Activation {
  identity,    // x; with a gate: the bilinear layer (Shazeer 2020, arXiv 2002.05202)
  relu,        // max(x, 0) (Nair and Hinton 2010)
  relu2,       // max(x, 0)^2 (So et al. 2021, arXiv 2109.08668)
  leaky_relu,  // x above 0, 0.01 x below (Maas et al. 2013)
  relu6,       // min(max(x, 0), 6) (Krizhevsky 2010; Howard et al. 2017, arXiv 1704.04861)
  sigmoid,     // s(x); with a gate: GLU (Dauphin et al. 2016, arXiv 1612.08083)
  tanh,        // tanh(x) (LeCun et al. 1998, Efficient BackProp)
  silu,        // x s(x) (Elfwing et al. 2017, arXiv 1702.03118)
  gelu_erf,    // x Phi(x), printed "gelu" (Hendrycks and Gimpel 2016, arXiv 1606.08415)
  gelu_tanh,   // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), same paper
  quick_gelu,  // x s(1.702 x), same paper
  mish,        // x tanh(ln(1 + exp(x))) (Misra 2019, arXiv 1908.08681)
  swiglu_oai   // (u + 1) g s(1.702 g), g = min(gate, 7), u = up cut to [-7, 7]; only with a gate
               // (OpenAI 2025, gpt-oss model card, arXiv 2508.10925)
};

// The printed name: the enumerator's, but "gelu" for gelu_erf.
std::string_view activation_name(Activation activation);

// Accepts the printed names and Hugging Face's spellings (linear, gelu_new, gelu_pytorch_tanh,
// gelu_fast, swish ...). Throws Error{unsupported} that lists the known names.
Activation parse_activation(std::string_view name);

// Has no meaning without a gate: swiglu_oai.
bool is_gated_only(Activation activation);
// A neuron whose input is at most 0 gives exactly 0: relu, relu2, relu6.
bool gives_exact_zeros(Activation activation);

// All calls below: element by element; spans of different lengths are Error{shape_mismatch}.
// Forward results are within 2 ULP of the formula wherever that is a normal float; derivatives
// within 4 eps max(1, |f'|), eps = 2^-23. NaN gives NaN. Through SiLU, the GELUs and Mish, +inf
// gives +inf and -inf gives 0 or -0, with derivatives 1 and 0. Derivatives at a corner: relu 0 at
// 0, relu6 0 at 0 and 6, leaky_relu 0.01 at 0.

// y[i] = act(x[i]); y may be x. Throws Error{unsupported} for swiglu_oai, which needs a gate.
void activate(Activation activation, std::span<const float> x, std::span<float> y);

// dx[i] = dy[i] act'(x[i]); dx is overwritten and may be x or dy. Throws Error{unsupported} for
// swiglu_oai.
void activate_backward(Activation activation, std::span<const float> x, std::span<const float> dy,
                       std::span<float> dx);

// h[i] = act(gate[i]) up[i] (GLU variants: Shazeer 2020, arXiv 2002.05202); h may be gate or up.
void gated_activate(Activation activation, std::span<const float> gate, std::span<const float> up,
                    std::span<float> h);

// dgate[i] = dh[i] up[i] act'(gate[i]), dup[i] = dh[i] act(gate[i]); both are overwritten, each may
// be one of gate, up and dh. swiglu_oai: 0 through gate above 7 and through up outside [-7, 7].
void gated_activate_backward(Activation activation, std::span<const float> gate,
                             std::span<const float> up, std::span<const float> dh,
                             std::span<float> dgate, std::span<float> dup);

}  // namespace fourfold
