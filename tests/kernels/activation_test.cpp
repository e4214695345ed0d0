// Activations through the table: known values, special values in every lane, the same bits on every
// instruction set. How exact they are: activation_accuracy_test.cpp.
#include "fourfold/activation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr Activation kAll[] = {Activation::identity, Activation::relu, Activation::gelu_erf,
                               Activation::gelu_tanh, Activation::silu};
constexpr Activation kSmooth[] = {Activation::gelu_erf, Activation::gelu_tanh, Activation::silu};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kGuard = -77.25F;

std::vector<float> apply(const KernelTable& table, Activation kind, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  table.activations.forward[static_cast<std::size_t>(kind)](x.data(), y.data(), x.size());
  return y;
}

float apply(Activation kind, float x) { return apply(kernels(), kind, {x})[0]; }

void check_relative(Activation kind, float x, double expected, double tolerance) {
  CAPTURE(activation_name(kind));
  CAPTURE(x);
  CHECK(std::fabs(apply(kind, x) / expected - 1) <= tolerance);
}

TEST_CASE("values at -1") {
  CHECK(std::fabs(apply(Activation::gelu_erf, -1) + 0.158655) < 1e-6);
  CHECK(std::fabs(apply(Activation::gelu_tanh, -1) + 0.158808) < 1e-6);
  CHECK(std::fabs(apply(Activation::silu, -1) + 0.268941) < 1e-6);
  CHECK(apply(Activation::relu, -1) == 0);
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
    CHECK(std::fabs(gap - 4.73e-4) < 1e-5);
  }
}

TEST_CASE("relu keeps every positive value as it is and gives zero below") {
  CHECK(apply(Activation::relu, 1e-45F) == 1e-45F);
  CHECK(apply(Activation::relu, 3.4e38F) == 3.4e38F);
  CHECK(apply(Activation::relu, kInfinity) == kInfinity);
  CHECK(apply(Activation::relu, -1e-45F) == 0);
  CHECK(apply(Activation::relu, -kInfinity) == 0);
  CHECK(apply(Activation::relu, -0.0F) == 0);
  CHECK(std::isnan(apply(Activation::relu, kNan)));
}

// What must come out: NaN for NaN only, x itself far above 0, (minus) zero or a tiny value far
// below.
bool plausible(Activation kind, float x, float y) {
  if (std::isnan(x)) return std::isnan(y);
  if (kind == Activation::identity) return same_bits(x, y);
  if (x == kInfinity) return y == kInfinity;
  if (x == 0 || x == -kInfinity) return y == 0;
  const double expected = reference::activation(kind, x);
  return std::fabs(static_cast<double>(y) - expected) <= 3e-7 * std::fabs(expected) + 3e-45;
}

TEST_CASE("special values come out right in every lane and in the tail") {
  std::vector<float> specials{kInfinity, -kInfinity, kNan, 0.0F, -0.0F};
  for (const float size : {3.4e38F, 10.5F, 11.0F, 13.24F, 40.0F, 1000.0F, 60000.0F, 1e-45F, 1e-38F})
    for (const float sign : {1.0F, -1.0F}) specials.push_back(sign * size);
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    for (const Activation kind : kAll) {
      CAPTURE(activation_name(kind));
      std::size_t wrong = 0, disturbed = 0;
      for (const std::size_t n : {1U, 7U, 17U, 31U, 33U})
        for (std::size_t lane = 0; lane < n && lane <= 32; ++lane)
          for (const float special : specials) {
            std::vector<float> x = real_values(n, 7, -3.0F, 3.0F);
            const std::vector<float> calm = apply(*find_kernels(name), kind, x);
            x[lane] = special;
            const std::vector<float> y = apply(*find_kernels(name), kind, x);
            wrong += !plausible(kind, special, y[lane]);
            for (std::size_t i = 0; i < n; ++i) disturbed += i != lane && !same_bits(y[i], calm[i]);
          }
      CHECK(wrong == 0);
      CHECK(disturbed == 0);
    }
  }
}

TEST_CASE("no length reads or writes outside the row, and y may be x") {
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    for (const Activation kind : kAll)
      for (std::size_t n = 0; n <= 67; ++n) {
        const std::vector<float> x = real_values(n, n, -4.0F, 4.0F);
        std::vector<float> y = x;
        y.insert(y.begin(), 16, kGuard);
        y.resize(n + 32, kGuard);
        float* row = y.data() + 16;
        find_kernels(name)->activations.forward[static_cast<std::size_t>(kind)](row, row, n);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < 16; ++i) wrong += y[i] != kGuard || y[n + 16 + i] != kGuard;
        for (std::size_t i = 0; i < n; ++i) wrong += !plausible(kind, x[i], row[i]);
        REQUIRE(wrong == 0);
      }
  }
}

TEST_CASE("every instruction set gives the same bits") {
  std::vector<float> x = real_values(100'003, 41, -12.0F, 12.0F);
  for (std::uint64_t bits = 0; bits < (1ULL << 32); bits += 42'953)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (float v = -160.0F; v < 140.0F; v += 0.037F) x.push_back(v);
  for (const Activation kind : kAll) {
    const std::vector<float> expected = apply(*find_kernels("scalar"), kind, x);
    for (const std::string& name : isa_report().detected) {
      const std::vector<float> found = apply(*find_kernels(name), kind, x);
      std::size_t different = 0, first = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!same_value(found[i], expected[i]) && different++ == 0) first = i;
      CAPTURE(name);
      CAPTURE(activation_name(kind));
      CAPTURE(x[first]);
      CHECK(different == 0);
    }
  }
}

TEST_CASE("a value's bits do not depend on its place in the row") {
  const std::vector<float> x = real_values(67, 43, -9.0F, 9.0F);
  for (const Activation kind : kSmooth) {
    const std::vector<float> together = apply(kernels(), kind, x);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(same_bits(together[i], apply(kind, x[i])));
  }
}

}  // namespace
}  // namespace fourfold
