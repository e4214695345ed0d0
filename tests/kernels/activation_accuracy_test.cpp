// How exact activations and their derivatives are, against float64, for the instruction set of the
// run. All 2^32 inputs: activation_exhaustive.cpp.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "activation_error.h"
#include "kernels/dispatch.h"

namespace fourfold {
namespace {

constexpr Activation kTailed[] = {Activation::silu, Activation::gelu_erf, Activation::gelu_tanh,
                                  Activation::quick_gelu, Activation::mish};

float float_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

void check(Activation kind, const std::vector<float>& x) {
  const ActivationError error = activation_error(kernels(), kind, x);
  CAPTURE(activation_name(kind));
  CAPTURE(error.ulp.at);
  CAPTURE(error.subnormal.at);
  CAPTURE(error.slope.at);
  CHECK(error.ulp.size <= 2);
  CHECK(error.subnormal.size <= 2);
  CHECK(error.slope.size <= 4);
}

TEST_CASE("the oracle's derivatives are those of its functions, by central differences") {
  constexpr double kStep = 1e-5;
  for (const Activation kind : kAllActivations)
    for (double x = -9.03; x < 9; x += 0.107) {
      const double slope =
          (reference::activation(kind, x + kStep) - reference::activation(kind, x - kStep)) /
          (2 * kStep);
      CAPTURE(activation_name(kind));
      CAPTURE(x);
      CHECK(std::fabs(reference::activation_derivative(kind, x) - slope) < 1e-8);
    }
}

TEST_CASE("relative error at most 1e-3 over [-8, -2]") {
  std::vector<float> x;
  for (int i = 0; i <= 200'000; ++i) x.push_back(-8.0F + 3e-5F * static_cast<float>(i));
  for (const Activation kind : kTailed) {
    std::vector<float> y(x.size());
    kernels().activations.forward[static_cast<std::size_t>(kind)](x.data(), y.data(), x.size());
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      worst = std::fmax(worst, std::fabs(y[i] / reference::activation(kind, x[i]) - 1));
    CAPTURE(activation_name(kind));
    CHECK(worst <= 1e-3);
  }
}

TEST_CASE("at most 2 ULP, and 4 eps in the derivative, over bit patterns of all sizes") {
  // An odd step through all patterns: every exponent, both signs, NaN and what lies between.
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (1ULL << 32); bits += 1021) x.push_back(float_of(bits));
  REQUIRE(x.size() >= 1U << 22);
  for (const Activation kind : kAllActivations) check(kind, x);
}

TEST_CASE("at most 2 ULP, and 4 eps in the derivative, where inputs are common") {
  std::vector<float> x(200'003);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(-10.0 + 1e-4 * static_cast<double>(i));
  for (const Activation kind : kAllActivations) check(kind, x);
}

TEST_CASE("exact at special values and on both sides of every switch") {
  std::vector<float> x{0.0F, -0.0F};
  for (const float sign : {1.0F, -1.0F}) {
    x.push_back(sign * std::numeric_limits<float>::infinity());
    x.push_back(sign * std::numeric_limits<float>::max());
    x.push_back(sign * std::numeric_limits<float>::quiet_NaN());
    // Clamps and corners, changes of formula, cuts of the argument, ends of normal results.
    for (const float centre : {0x1p-149F, 0x1p-126F, 0.6F, 1.0F, 6.0F, 7.0F, 15.0F, 20.0F, 51.3F,
                               87.3F, 91.8F, 103.9F, 120.0F, 150.0F, 200.0F, 1e4F})
      for (int step = -1000; step <= 1000; ++step)
        x.push_back(sign *
                    float_of(static_cast<std::uint64_t>(std::llabs(
                        static_cast<long long>(std::bit_cast<std::uint32_t>(centre)) + step))));
  }
  for (const Activation kind : kAllActivations) check(kind, x);
}

}  // namespace
}  // namespace fourfold
