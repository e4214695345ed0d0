// How exact the activations are, against float64, for the instruction set of the run.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fourfold/activation.h"
#include "kernels/dispatch.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr Activation kSmooth[] = {Activation::gelu_erf, Activation::gelu_tanh, Activation::silu};
constexpr float kSmallestNormal = 0x1p-126F;

std::vector<float> apply(Activation kind, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  kernels().activations.forward[static_cast<std::size_t>(kind)](x.data(), y.data(), x.size());
  return y;
}

TEST_CASE("relative error at most 1e-3 over [-8, -2]") {
  std::vector<float> x;
  for (int i = 0; i <= 200'000; ++i) x.push_back(-8.0F + 3e-5F * static_cast<float>(i));
  for (const Activation kind : kSmooth) {
    const std::vector<float> y = apply(kind, x);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      worst = std::fmax(worst, std::fabs(y[i] / reference::activation(kind, x[i]) - 1));
    CAPTURE(activation_name(kind));
    CHECK(worst <= 1e-3);
  }
}

TEST_CASE("absolute error at most 1e-6 over a million points of [-10, 10]") {
  std::vector<float> x(1'000'001);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(-10.0 + 2e-5 * static_cast<double>(i));
  for (const Activation kind : kSmooth) {
    const std::vector<float> y = apply(kind, x);
    double worst = 0, worst_ulp = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = reference::activation(kind, x[i]);
      worst = std::fmax(worst, std::fabs(static_cast<double>(y[i]) - expected));
      if (x[i] != 0) worst_ulp = std::fmax(worst_ulp, ulp_error(y[i], expected));
    }
    CAPTURE(activation_name(kind));
    CHECK(worst <= 1e-6);
    CHECK(worst_ulp <= 2);
    MESSAGE(std::string(activation_name(kind)), " on [-10, 10]: max error ", worst, ", ", worst_ulp,
            " ULP");
  }
}

TEST_CASE("at most 2 ULP over a million bit patterns of all sizes") {
  // An odd step through all patterns: every exponent and both signs.
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (1ULL << 32); bits += 4297) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isfinite(value)) x.push_back(value);
  }
  for (const Activation kind : kSmooth) {
    const std::vector<float> y = apply(kind, x);
    double worst = 0, worst_subnormal = 0;
    float at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = reference::activation(kind, x[i]);
      if (std::fabs(expected) < kSmallestNormal) {
        const double error = std::fabs(static_cast<double>(y[i]) - expected);
        worst_subnormal = std::fmax(worst_subnormal, error / 0x1p-149);
        continue;
      }
      const double error = ulp_error(y[i], expected);
      if (!(error <= worst)) {
        worst = error;
        at = x[i];
      }
    }
    CAPTURE(activation_name(kind));
    CAPTURE(at);
    CHECK(worst <= 2);
    CHECK(worst_subnormal <= 2);
    MESSAGE(std::string(kernels().name), " ", std::string(activation_name(kind)), ": ", x.size(),
            " patterns, max ", worst, " ULP at x = ", at, "; subnormal results within ",
            worst_subnormal, " steps of 2^-149");
  }
}

}  // namespace
}  // namespace fourfold
