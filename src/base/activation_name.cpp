// The table from names to activations. Traps it settles: plain "gelu" is the erf form, "gelu_fast"
// the tanh form.
#include <array>
#include <string>
#include <utility>

#include "fourfold/activation.h"
#include "fourfold/error.h"

namespace fourfold {
namespace {

constexpr std::array<std::pair<std::string_view, Activation>, 21> kNames{{
    {"identity", Activation::identity},
    {"linear", Activation::identity},
    {"relu", Activation::relu},
    {"relu2", Activation::relu2},
    {"leaky_relu", Activation::leaky_relu},
    {"relu6", Activation::relu6},
    {"sigmoid", Activation::sigmoid},
    {"tanh", Activation::tanh},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"gelu", Activation::gelu_erf},
    {"gelu_python", Activation::gelu_erf},
    {"gelu_tanh", Activation::gelu_tanh},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_python_tanh", Activation::gelu_tanh},
    {"gelu_accurate", Activation::gelu_tanh},
    {"quick_gelu", Activation::quick_gelu},
    {"mish", Activation::mish},
    {"swiglu_oai", Activation::swiglu_oai},
}};

}  // namespace

std::string_view activation_name(Activation activation) {
  switch (activation) {
    case Activation::identity: return "identity";
    case Activation::relu: return "relu";
    case Activation::relu2: return "relu2";
    case Activation::leaky_relu: return "leaky_relu";
    case Activation::relu6: return "relu6";
    case Activation::sigmoid: return "sigmoid";
    case Activation::tanh: return "tanh";
    case Activation::silu: return "silu";
    case Activation::gelu_erf: return "gelu";
    case Activation::gelu_tanh: return "gelu_tanh";
    case Activation::quick_gelu: return "quick_gelu";
    case Activation::mish: return "mish";
    case Activation::swiglu_oai: return "swiglu_oai";
  }
  return "unknown";
}

Activation parse_activation(std::string_view name) {
  for (const auto& [known, activation] : kNames)
    if (known == name) return activation;
  throw Error(ErrorCode::unsupported,
              "unknown activation \"" + std::string(name.substr(0, 64)) +
                  "\"; known: identity (linear), relu, relu2, leaky_relu, relu6, sigmoid, tanh, "
                  "silu (swish), gelu, gelu_tanh (gelu_new, gelu_fast, gelu_pytorch_tanh), "
                  "quick_gelu, mish, swiglu_oai");
}

bool is_gated_only(Activation activation) { return activation == Activation::swiglu_oai; }

bool gives_exact_zeros(Activation activation) {
  return activation == Activation::relu || activation == Activation::relu2 ||
         activation == Activation::relu6;
}

}  // namespace fourfold
