// The table from names to activations. Traps it settles: plain "gelu" is the erf form, "gelu_fast"
// the tanh form.
#include <array>
#include <string>
#include <utility>

#include "fourfold/activation.h"
#include "fourfold/error.h"

namespace fourfold {
namespace {

constexpr std::array<std::pair<std::string_view, Activation>, 13> kNames{{
    {"identity", Activation::identity},
    {"linear", Activation::identity},
    {"relu", Activation::relu},
    {"gelu", Activation::gelu_erf},
    {"gelu_python", Activation::gelu_erf},
    {"gelu_tanh", Activation::gelu_tanh},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_python_tanh", Activation::gelu_tanh},
    {"gelu_accurate", Activation::gelu_tanh},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
}};

}  // namespace

std::string_view activation_name(Activation activation) {
  switch (activation) {
    case Activation::identity: return "identity";
    case Activation::relu: return "relu";
    case Activation::gelu_erf: return "gelu";
    case Activation::gelu_tanh: return "gelu_tanh";
    case Activation::silu: return "silu";
  }
  return "unknown";
}

Activation parse_activation(std::string_view name) {
  for (const auto& [known, activation] : kNames)
    if (known == name) return activation;
  throw Error(ErrorCode::unsupported,
              "unknown activation \"" + std::string(name.substr(0, 64)) +
                  "\"; known: identity (linear), relu, gelu, gelu_tanh (gelu_new, gelu_fast, "
                  "gelu_pytorch_tanh), silu (swish)");
}

}  // namespace fourfold
