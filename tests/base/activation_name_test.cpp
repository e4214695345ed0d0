// Names of activations: what is printed, what is accepted, what an unknown name answers.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "fourfold/activation.h"
#include "fourfold/error.h"

namespace fourfold {
namespace {

constexpr Activation kAll[] = {Activation::identity, Activation::relu, Activation::gelu_erf,
                               Activation::gelu_tanh, Activation::silu};

TEST_CASE("printed names are the documented ones") {
  CHECK(activation_name(Activation::identity) == "identity");
  CHECK(activation_name(Activation::relu) == "relu");
  CHECK(activation_name(Activation::gelu_erf) == "gelu");
  CHECK(activation_name(Activation::gelu_tanh) == "gelu_tanh");
  CHECK(activation_name(Activation::silu) == "silu");
}

TEST_CASE("a printed name reads back as the same activation") {
  for (const Activation activation : kAll)
    CHECK(parse_activation(activation_name(activation)) == activation);
}

TEST_CASE("Hugging Face's spellings mean the right form of GELU") {
  CHECK(parse_activation("gelu") == Activation::gelu_erf);
  CHECK(parse_activation("gelu_new") == Activation::gelu_tanh);
  CHECK(parse_activation("gelu_pytorch_tanh") == Activation::gelu_tanh);
  CHECK(parse_activation("gelu_fast") == Activation::gelu_tanh);
  CHECK(parse_activation("swish") == Activation::silu);
  CHECK(parse_activation("linear") == Activation::identity);
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
      for (const Activation activation : kAll)
        CHECK(text.find(activation_name(activation)) != std::string::npos);
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
