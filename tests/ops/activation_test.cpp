// activate(): the public call over the kernels.
#include "fourfold/activation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "fourfold/error.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr Activation kAll[] = {Activation::identity, Activation::relu, Activation::gelu_erf,
                               Activation::gelu_tanh, Activation::silu};

TEST_CASE("each activation is the function of its name") {
  const std::vector<float> x = real_values(1009, 3, -7.0F, 6.0F);
  std::vector<float> y(x.size());
  for (const Activation kind : kAll) {
    CAPTURE(activation_name(kind));
    activate(kind, x, y);
    reference::Values expected;
    for (const float value : x) expected.push_back(reference::activation(kind, value));
    CHECK(reference::largest_difference(y, expected) < 1e-6);
  }
}

TEST_CASE("the result may replace the input, and an empty one is fine") {
  for (const Activation kind : kAll) {
    const std::vector<float> x = real_values(53, 5);
    std::vector<float> apart(x.size()), in_place = x;
    activate(kind, x, apart);
    activate(kind, in_place, in_place);
    CHECK(same_bits(apart, in_place));
    CHECK_NOTHROW(activate(kind, {}, {}));
  }
}

TEST_CASE("different lengths are a shape error that names both") {
  const std::vector<float> x(7);
  std::vector<float> y(11);
  try {
    activate(Activation::relu, x, y);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code == ErrorCode::shape_mismatch);
    const std::string text = error.what();
    CHECK(text.find('7') != std::string::npos);
    CHECK(text.find("11") != std::string::npos);
  }
}

}  // namespace
}  // namespace fourfold
