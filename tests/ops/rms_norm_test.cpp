// RMSNorm, its rounding points and its gradient against float64.
#include "ops/rms_norm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "fourfold/dtype.h"
#include "reference_norm.h"
#include "sample_values.h"

namespace fourfold {
namespace {

std::vector<float> normalise(const std::vector<float>& x, const std::vector<float>& gamma,
                             float eps, NormRounding rounding = NormRounding::none,
                             unsigned threads = 2) {
  Runtime runtime({.count = threads});
  Workspace workspace(runtime);
  const std::size_t d = gamma.size(), rows = x.size() / d;
  std::vector<float> y(x.size());
  rms_norm_forward({x.data(), rows, d}, gamma, eps, rounding, {y.data(), rows, d}, workspace);
  return y;
}

TEST_CASE("random rows of many lengths against float64") {
  for (std::size_t d = 1; d <= 67; ++d) {
    CAPTURE(d);
    const std::vector<float> x = real_values(5 * d, d), gamma = real_values(d, 73);
    const auto expected = reference::rms_norm(reference::widened(x), reference::widened(gamma),
                                              static_cast<double>(1e-6F));
    const std::vector<float> y = normalise(x, gamma, 1e-6F);
    for (std::size_t i = 0; i < y.size(); ++i)
      CHECK(std::fabs(static_cast<double>(y[i]) - expected[i]) <=
            (static_cast<double>(d) / 8 + 5) * 0x1p-23 * std::fabs(expected[i]));
  }
}

TEST_CASE("rounding points, to the bit") {
  const std::size_t d = 131;
  std::vector<float> x = real_values(7 * d, 3), gamma = real_values(d, 5);
  for (float& value : gamma) value = round_to_bf16(value);
  for (float& value : x) value = round_to_bf16(value);
  const std::vector<float> plain = normalise(x, std::vector<float>(d, 1), 1e-6F);
  const std::vector<float> before = normalise(x, gamma, 1e-6F, NormRounding::before_gamma);
  const std::vector<float> after = normalise(x, gamma, 1e-6F, NormRounding::after_gamma);
  std::size_t wrong = 0, differ = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float g = gamma[i % d];
    wrong += !same_bits(before[i], round_to_bf16(round_to_bf16(plain[i]) * g));
    wrong += !same_bits(after[i], round_to_bf16(plain[i] * g));
    differ += !same_bits(before[i], after[i]);
  }
  CHECK(wrong == 0);
  CHECK(differ > 10);  // the two orders are not the same
}

TEST_CASE("rounding keeps NaN and infinity, ties go to even") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const NormRounding rounding :
       {NormRounding::none, NormRounding::before_gamma, NormRounding::after_gamma}) {
    const std::vector<float> y =
        normalise({1, nan, 3, 4, 5}, std::vector<float>(5, 1), 0, rounding);
    for (const float value : y) CHECK(std::isnan(value));
    CHECK(std::isnan(normalise({1, 2, 3}, {1, nan, 1}, 0, rounding)[1]));
    CHECK(std::isinf(normalise({1, 1, 1}, {1, 3.4e38F, 1}, 0, rounding)[1]) ==
          (rounding != NormRounding::none));
  }
  // Values of equal size give exactly 1, so y is gamma rounded: ties to even, both ways.
  const std::vector<float> ties{1.00390625F, 1.01171875F, -1.00390625F};
  const std::vector<float> y = normalise({1, 1, 1}, ties, 0, NormRounding::after_gamma);
  CHECK(y == std::vector<float>{1.0F, 1.015625F, -1.0F});
}

TEST_CASE("zeros with eps 0 stay 0, one value becomes its sign") {
  CHECK(normalise({0, 0, 0}, {1, 2, 3}, 0) == std::vector<float>{0, 0, 0});
  CHECK(normalise({-7}, {1}, 0) == std::vector<float>{-1});
  CHECK(normalise({}, {1, 2}, 0).empty());
}

TEST_CASE("gradients against float64; threads change no bit; zeros get none") {
  for (const std::size_t d : {1U, 3U, 16U, 17U, 67U, 131U}) {
    CAPTURE(d);
    const std::size_t rows = 13;
    const std::vector<float> x = real_values(rows * d, d), dy = real_values(rows * d, d + 1),
                             gamma = real_values(d, d + 2);
    const auto exact =
        reference::norm_gradients(reference::widened(x), reference::widened(gamma),
                                  reference::widened(dy), static_cast<double>(1e-6F), false);
    std::vector<float> first_dx, first_dgamma;
    for (const unsigned threads : {1U, 2U, 7U}) {
      Runtime runtime({.count = threads});
      Workspace workspace(runtime);
      std::vector<float> dx(x.size(), -77.25F), dgamma(d);
      rms_norm_backward({x.data(), rows, d}, gamma, 1e-6F, {dy.data(), rows, d},
                        {dx.data(), rows, d}, dgamma, workspace);
      for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(std::fabs(static_cast<double>(dx[i]) - exact.dx[i]) <=
              32 * 0x1p-23 * exact.dx_terms[i]);
      for (std::size_t i = 0; i < d; ++i)
        CHECK(std::fabs(static_cast<double>(dgamma[i]) - exact.dgamma[i]) <=
              (rows + 16) * 0x1p-23 * exact.dgamma_terms[i]);
      if (threads == 1) {
        first_dx = dx;
        first_dgamma = dgamma;
      }
      CHECK(same_bits(dx, first_dx));
      CHECK(same_bits(dgamma, first_dgamma));
    }
  }
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const std::vector<float> zeros(5), gamma(5, 2), dy = real_values(5, 3);
  std::vector<float> dx(5, 1), dgamma(5);
  rms_norm_backward({zeros.data(), 1, 5}, gamma, 0, {dy.data(), 1, 5}, {dx.data(), 1, 5}, dgamma,
                    workspace);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(dx[i] == 0.0F);
    CHECK(dgamma[i] == 0.0F);
  }
}

}  // namespace
}  // namespace fourfold
