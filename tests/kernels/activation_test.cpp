// Activations through the table: known values and corners, forward, backward and gated. How exact
// they are: activation_accuracy_test.cpp. Lanes and lengths: activation_rows_test.cpp.
#include "fourfold/activation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "activation_error.h"
#include "kernels/dispatch.h"

namespace fourfold {
namespace {

constexpr Activation kTailed[] = {Activation::silu, Activation::gelu_erf, Activation::gelu_tanh,
                                  Activation::quick_gelu, Activation::mish};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

const ActivationKernels& table() { return kernels().activations; }

float apply(Activation kind, float x) {
  float y;
  table().forward[static_cast<std::size_t>(kind)](&x, &y, 1);
  return y;
}

float slope(Activation kind, float x) {
  float dx = 1;
  table().backward[static_cast<std::size_t>(kind)](&x, &dx, &dx, 1);
  return dx;
}

float gated(Activation kind, float gate, float up) {
  float h;
  table().glu[static_cast<std::size_t>(kind)](&gate, &up, &h, 1);
  return h;
}

struct GateGradients {
  float gate, up;
};
GateGradients gated_slopes(Activation kind, float gate, float up, float dh = 1) {
  GateGradients d;
  table().glu_backward[static_cast<std::size_t>(kind)](&gate, &up, &dh, &d.gate, &d.up, 1);
  return d;
}

void check_near(double found, double expected, double tolerance) {
  CAPTURE(found);
  CAPTURE(expected);
  CHECK(std::fabs(found - expected) <= tolerance);
}

void check_relative(Activation kind, float x, double expected, double tolerance) {
  CAPTURE(activation_name(kind));
  CAPTURE(x);
  check_near(apply(kind, x), expected, tolerance * std::fabs(expected));
}

TEST_CASE("values at -1 tell the variants apart") {
  check_near(apply(Activation::gelu_erf, -1), -0.158655, 1e-6);
  check_near(apply(Activation::gelu_tanh, -1), -0.158808, 1e-6);
  check_near(apply(Activation::quick_gelu, -1), -0.154204, 1e-6);
  check_near(apply(Activation::silu, -1), -0.268941, 1e-6);
  check_near(apply(Activation::mish, -1), -0.303401, 1e-6);
  check_near(apply(Activation::sigmoid, -1), 0.268941, 1e-6);
  check_near(apply(Activation::tanh, -1), -0.761594, 1e-6);
  CHECK(apply(Activation::leaky_relu, -1) == -0.01F);
  CHECK(apply(Activation::relu, -1) == 0);
  CHECK(apply(Activation::relu2, -1) == 0);
  CHECK(apply(Activation::relu6, -1) == 0);
  CHECK(apply(Activation::identity, -1) == -1);
}

TEST_CASE("far tails keep their digits") {
  check_relative(Activation::gelu_erf, -4, -1.266850e-4, 1e-5);
  check_relative(Activation::gelu_erf, -6, -5.919526e-9, 1e-5);
  check_relative(Activation::gelu_tanh, -4, -7.024595e-5, 1e-5);
  check_relative(Activation::gelu_tanh, -6, -8.439647e-11, 1e-5);
  check_relative(Activation::silu, -88, -5.328e-37, 1e-3);
  const float last = apply(Activation::silu, -100);
  CHECK(last <= 0);
  CHECK(last >= -4e-42F);
}

TEST_CASE("the two forms of GELU differ where they differ most") {
  for (const float x : {2.70F, -2.70F}) {
    const double gap = std::fabs(static_cast<double>(apply(Activation::gelu_erf, x)) -
                                 static_cast<double>(apply(Activation::gelu_tanh, x)));
    check_near(gap, 4.73e-4, 1e-5);
  }
}

TEST_CASE("large values saturate: x or 0, with slope 1 or 0") {
  for (const float x : {10.5F, 11.0F, 13.24F, 40.0F, 1000.0F, 60000.0F, kMax, kInfinity})
    for (const Activation kind : kTailed) {
      CAPTURE(activation_name(kind));
      CAPTURE(x);
      const bool slow = kind == Activation::silu || kind == Activation::mish;
      const double tail = slow && x < 20 ? 4e-4 : 1e-6;
      if (std::isinf(x))
        CHECK(apply(kind, x) == x);
      else
        check_near(apply(kind, x), x, tail);
      check_near(apply(kind, -x), 0, tail);
      check_near(slope(kind, x), 1, tail);
      check_near(slope(kind, -x), 0, tail);
      if (x <= 1000) continue;
      CHECK(apply(kind, x) == x);
      CHECK(apply(kind, -x) == 0);
      CHECK(slope(kind, x) == 1);
      CHECK(slope(kind, -x) == 0);
    }
}

TEST_CASE("sigmoid and tanh saturate exactly, and are flat there") {
  for (const float x : {1e4F, 60000.0F, kMax, kInfinity}) {
    CHECK(apply(Activation::sigmoid, x) == 1);
    CHECK(apply(Activation::sigmoid, -x) == 0);
    CHECK(apply(Activation::tanh, x) == 1);
    CHECK(apply(Activation::tanh, -x) == -1);
    for (const Activation kind : {Activation::sigmoid, Activation::tanh}) {
      CHECK(slope(kind, x) == 0);
      CHECK(slope(kind, -x) == 0);
    }
  }
}

TEST_CASE("far below 0 the slope is 0, not 0 times infinity") {
  for (const Activation kind : kTailed) {
    CAPTURE(activation_name(kind));
    for (const float x : {-548.3F, -201.0F, -kMax}) CHECK(slope(kind, x) == 0);
  }
  CHECK(slope(Activation::sigmoid, -201.0F) == 0);
}

TEST_CASE("NaN gives NaN, forward and backward") {
  for (const Activation kind : kAllActivations) {
    CAPTURE(activation_name(kind));
    CHECK(std::isnan(apply(kind, kNan)));
    CHECK(std::isnan(slope(kind, kNan)));
    CHECK(std::isnan(gated(kind, kNan, 2)));
    CHECK(std::isnan(gated(kind, 2, kNan)));
    CHECK(std::isnan(gated_slopes(kind, kNan, 2).gate));
    CHECK(std::isnan(gated_slopes(kind, kNan, 2).up));
    CHECK(std::isnan(gated_slopes(kind, 2, kNan).gate));
    CHECK(std::isnan(gated_slopes(kind, 2, 3, kNan).gate));
    CHECK(std::isnan(gated_slopes(kind, 2, 3, kNan).up));
  }
  CHECK(std::isnan(gated_slopes(Activation::swiglu_oai, 2, kNan).up));
}

TEST_CASE("relu and its kin keep every positive value as it is and give zero below") {
  for (const Activation kind : {Activation::relu, Activation::relu6, Activation::leaky_relu}) {
    CAPTURE(activation_name(kind));
    CHECK(apply(kind, 1e-45F) == 1e-45F);
    CHECK(apply(kind, 5.5F) == 5.5F);
    CHECK(apply(kind, -0.0F) == 0);
  }
  for (const Activation kind : {Activation::relu, Activation::leaky_relu}) {
    CHECK(apply(kind, 3.4e38F) == 3.4e38F);
    CHECK(apply(kind, kInfinity) == kInfinity);
  }
  for (const Activation kind : {Activation::relu, Activation::relu2, Activation::relu6}) {
    CHECK(apply(kind, -1e-45F) == 0);
    CHECK(apply(kind, -kInfinity) == 0);
    CHECK(gives_exact_zeros(kind));
  }
  CHECK(apply(Activation::relu6, kInfinity) == 6);
  CHECK(apply(Activation::relu2, 300) == 90000);
  CHECK(apply(Activation::relu2, kInfinity) == kInfinity);
  CHECK(apply(Activation::leaky_relu, -kInfinity) == -kInfinity);
}

TEST_CASE("slopes at corners are the documented ones") {
  for (const float zero : {0.0F, -0.0F}) {
    CHECK(slope(Activation::relu, zero) == 0);
    CHECK(slope(Activation::relu2, zero) == 0);
    CHECK(slope(Activation::relu6, zero) == 0);
    CHECK(slope(Activation::leaky_relu, zero) == 0.01F);
    CHECK(slope(Activation::silu, zero) == 0.5F);
    CHECK(slope(Activation::gelu_erf, zero) == doctest::Approx(0.5).epsilon(1e-7));
    CHECK(slope(Activation::gelu_tanh, zero) == 0.5F);
    CHECK(slope(Activation::quick_gelu, zero) == 0.5F);
    CHECK(slope(Activation::mish, zero) == doctest::Approx(0.6).epsilon(1e-7));
  }
  CHECK(slope(Activation::relu, 1e-45F) == 1);
  CHECK(slope(Activation::relu6, 1e-45F) == 1);
  CHECK(slope(Activation::relu6, std::nextafter(6.0F, 0.0F)) == 1);
  CHECK(slope(Activation::relu6, 6) == 0);
  CHECK(slope(Activation::relu2, 3) == 6);
  CHECK(slope(Activation::relu2, kInfinity) == kInfinity);
  CHECK(slope(Activation::relu2, -kInfinity) == 0);
  CHECK(slope(Activation::identity, kInfinity) == 1);
}

TEST_CASE("zero keeps its sign where the function is odd or nearly so") {
  for (const Activation kind : {Activation::identity, Activation::tanh, Activation::leaky_relu}) {
    CAPTURE(activation_name(kind));
    CHECK(std::signbit(apply(kind, -0.0F)));
    CHECK_FALSE(std::signbit(apply(kind, 0.0F)));
  }
}

TEST_CASE("SwiGLU and its gradients at gate 1, up 2") {
  check_near(gated(Activation::silu, 1, 2), 2 * 0.731059, 2e-6);
  const GateGradients d = gated_slopes(Activation::silu, 1, 2);
  check_near(d.up, 0.731059, 1e-6);
  check_near(d.gate, 1.855341, 1e-6);
}

TEST_CASE("swiglu_oai takes its factor, its 1 and its clamps") {
  check_near(gated(Activation::silu, 2, 3), 5.284782, 1e-6);
  check_near(gated(Activation::swiglu_oai, 2, 3), 7.742634, 1e-6);
  check_near(gated(Activation::swiglu_oai, 100, -100), -41.99972, 1e-5);
  CHECK(gated(Activation::swiglu_oai, 7, -7) == gated(Activation::swiglu_oai, 100, -100));
  CHECK(gated(Activation::swiglu_oai, 100, 100) == gated(Activation::swiglu_oai, 7, 7));
  check_near(gated(Activation::swiglu_oai, -100, 100), 0, 1e-30);  // no lower clamp of the gate
}

TEST_CASE("swiglu_oai is flat beyond its clamps, and not yet at them") {
  const float above = std::nextafter(7.0F, 8.0F);
  CHECK(gated_slopes(Activation::swiglu_oai, above, 3).gate == 0);
  CHECK(gated_slopes(Activation::swiglu_oai, kInfinity, 3).gate == 0);
  CHECK(gated_slopes(Activation::swiglu_oai, 7, 3).gate > 3.9F);
  CHECK(gated_slopes(Activation::swiglu_oai, -7, 3).gate != 0);
  for (const float sign : {1.0F, -1.0F}) {
    CHECK(gated_slopes(Activation::swiglu_oai, 2, sign * above).up == 0);
    CHECK(gated_slopes(Activation::swiglu_oai, 2, sign * kInfinity).up == 0);
    CHECK(gated_slopes(Activation::swiglu_oai, 2, sign * 7).up == apply(Activation::swiglu_oai, 2));
  }
  // Through the clamped up, the gate still sees 1 + 7.
  CHECK(gated_slopes(Activation::swiglu_oai, 2, 100).gate == 8 * slope(Activation::swiglu_oai, 2));
}

}  // namespace
}  // namespace fourfold
