// Names of activations: what is printed, what is accepted, what an unknown name answers.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>

#include "fourfold/activation.h"
#include "fourfold/error.h"

namespace fourfold {
namespace {

constexpr std::pair<Activation, std::string_view> kPrinted[] = {
    {Activation::identity, "identity"},
    {Activation::relu, "relu"},
    {Activation::relu2, "relu2"},
    {Activation::leaky_relu, "leaky_relu"},
    {Activation::relu6, "relu6"},
    {Activation::sigmoid, "sigmoid"},
    {Activation::tanh, "tanh"},
    {Activation::silu, "silu"},
    {Activation::gelu_erf, "gelu"},
    {Activation::gelu_tanh, "gelu_tanh"},
    {Activation::quick_gelu, "quick_gelu"},
    {Activation::mish, "mish"},
    {Activation::swiglu_oai, "swiglu_oai"},
};

TEST_CASE("printed names are the documented ones") {
  for (const auto& [activation, name] : kPrinted) CHECK(activation_name(activation) == name);
}

TEST_CASE("a printed name reads back as the same activation") {
  for (const auto& [activation, name] : kPrinted) CHECK(parse_activation(name) == activation);
}

TEST_CASE("Hugging Face's spellings mean the right form of GELU") {
  CHECK(parse_activation("gelu") == Activation::gelu_erf);
  CHECK(parse_activation("gelu_new") == Activation::gelu_tanh);
  CHECK(parse_activation("gelu_pytorch_tanh") == Activation::gelu_tanh);
  CHECK(parse_activation("gelu_fast") == Activation::gelu_tanh);
  CHECK(parse_activation("gelu_python") == Activation::gelu_erf);
  CHECK(parse_activation("gelu_python_tanh") == Activation::gelu_tanh);
  CHECK(parse_activation("gelu_accurate") == Activation::gelu_tanh);
  CHECK(parse_activation("swish") == Activation::silu);
  CHECK(parse_activation("linear") == Activation::identity);
}

TEST_CASE("the three with a flat zero below 0, and the one that needs a gate") {
  for (const auto& printed : kPrinted) {
    const Activation activation = printed.first;
    const std::string name(printed.second);
    CAPTURE(name);
    CHECK(gives_exact_zeros(activation) == (name == "relu" || name == "relu2" || name == "relu6"));
    CHECK(is_gated_only(activation) == (name == "swiglu_oai"));
  }
}

TEST_CASE("an unknown name is unsupported, and the message lists the known ones") {
  for (const std::string name : {"", "GELU", "gelu ", "swiglu", "relu6x"}) {
    CAPTURE(name);
    try {
      parse_activation(name);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code == ErrorCode::unsupported);
      const std::string text = error.what();
      CHECK(text.find('"' + name + '"') != std::string::npos);
      for (const auto& [activation, known] : kPrinted)
        CHECK(text.find(' ' + std::string(known)) != std::string::npos);
    }
  }
}

TEST_CASE("a very long unknown name is cut in the message") {
  try {
    parse_activation(std::string(100'000, 'x'));
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).size() < 400);
  }
}

}  // namespace
}  // namespace fourfold
