// LayerNorm and RmsNorm as layers: weights, bf16 rows, AnyNorm, errors.
#include "fourfold/norm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "differences.h"
#include "error_check.h"
#include "reference_norm.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr std::size_t kRows = 13, kWidth = 67;

struct Fixture {
  Runtime runtime{{.count = 2}};
  Workspace workspace{runtime};
  std::vector<float> x = real_values(kRows * kWidth, 3), y = std::vector<float>(kRows * kWidth);
  std::vector<float> branch = real_values(kRows * kWidth, 4, -2.0F, 5.0F);
  std::vector<float> gamma = real_values(kWidth, 5), beta = real_values(kWidth, 6);
  Matrix x_view{x.data(), kRows, kWidth}, y_view{y.data(), kRows, kWidth},
      branch_view{branch.data(), kRows, kWidth};
};

TEST_CASE("LayerNorm: forward, with a residual, without beta") {
  Fixture f;
  const LayerNorm norm(f.gamma, f.beta, 1e-12F);
  CHECK(norm.size() == kWidth);
  CHECK(norm.parameters() == 2 * kWidth);
  const auto exact = [&](const reference::Values& rows, const std::vector<float>& beta) {
    return reference::layer_norm(rows, reference::widened(f.gamma), reference::widened(beta),
                                 1e-12);
  };
  norm.forward(f.x_view, f.y_view, f.workspace);
  CHECK(reference::largest_difference(f.y, exact(reference::widened(f.x), f.beta)) < 5e-6);
  const LayerNorm plain(f.gamma, {}, 1e-12F);
  CHECK(plain.parameters() == kWidth);
  CHECK_FALSE(plain.has_beta());
  plain.forward(f.x_view, f.y_view, f.workspace);
  CHECK(reference::largest_difference(
            f.y, exact(reference::widened(f.x), std::vector<float>(kWidth))) < 5e-6);
  const auto sum = reference::added(reference::widened(f.x), reference::widened(f.branch));
  norm.forward_residual(f.x_view, f.branch_view, f.workspace);
  CHECK(reference::largest_difference(f.x, exact(sum, f.beta)) < 5e-6);
}

TEST_CASE("RmsNorm: forward and with a residual") {
  Fixture f;
  const RmsNorm norm(f.gamma, {.eps = 1e-6F});
  CHECK(norm.parameters() == kWidth);
  const auto exact = [&](const reference::Values& rows) {
    return reference::rms_norm(rows, reference::widened(f.gamma), 1e-6);
  };
  norm.forward(f.x_view, f.y_view, f.workspace);
  CHECK(reference::largest_difference(f.y, exact(reference::widened(f.x))) < 5e-6);
  const auto sum = reference::added(reference::widened(f.x), reference::widened(f.branch));
  norm.forward_residual(f.x_view, f.branch_view, f.workspace);
  CHECK(reference::largest_difference(f.x, exact(sum)) < 5e-6);
}

TEST_CASE("1 + gamma is added in float32: a small gamma is not lost") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  // Equal values normalise to exactly 1.
  const std::vector<float> x(3, 1.0F), gamma{0.00390625F, 15.8125F, -1.0F};
  std::vector<float> y(3);
  const Matrix row(y.data(), 1, 3);
  RmsNorm rms(gamma, {.eps = 0, .one_plus_gamma = true});
  rms.forward({x.data(), 1, 3}, row, workspace);
  CHECK(y == std::vector<float>{1.00390625F, 16.8125F, 0.0F});
  rms.set_weights(std::vector<float>{1, 2, 3});
  rms.forward({x.data(), 1, 3}, row, workspace);
  CHECK(y == std::vector<float>{2, 3, 4});
  // As bf16 numbers these two factors would be 1 and 16.75.
  CHECK(round_to_bf16(1.00390625F) == 1.0F);

  const std::vector<float> pair{1.0F, -1.0F}, small{0.00390625F, 15.8125F};
  const Matrix two(y.data(), 1, 2);
  const LayerNorm layer(small, {}, 0, true);
  layer.forward({pair.data(), 1, 2}, two, workspace);
  CHECK(y[0] == 1.00390625F);
  CHECK(y[1] == -16.8125F);
}

TEST_CASE("bf16 rows: widened, normalised, rounded once") {
  Fixture f;
  std::vector<Bf16> x, y(f.x.size());
  for (float& value : f.x) {
    x.push_back(to_bf16(value));
    value = round_to_bf16(value);
  }
  const auto check = [&](const auto& norm) {
    norm.forward(ConstBf16Matrix(x.data(), kRows, kWidth), Bf16Matrix(y.data(), kRows, kWidth),
                 f.workspace);
    norm.forward(f.x_view, f.y_view, f.workspace);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i) wrong += to_float(y[i]) != round_to_bf16(f.y[i]);
    CHECK(wrong == 0);
  };
  check(LayerNorm(f.gamma, f.beta, 1e-5F));
  check(RmsNorm(f.gamma));
  check(RmsNorm(f.gamma, {.rounding = NormRounding::before_gamma}));
}

TEST_CASE("gradients against central differences of the float64 norm") {
  Fixture f;
  const std::vector<float> dy = real_values(kRows * kWidth, 9);
  reference::Values x = reference::widened(f.x), gamma = reference::widened(f.gamma),
                    beta = reference::widened(f.beta);
  const reference::Values slopes = reference::widened(dy);
  for (const bool layer : {true, false})
    for (const bool one_plus : {false, true}) {
      const auto loss = [&] {
        reference::Values factor = gamma;
        for (double& value : factor) value += one_plus ? 1 : 0;
        return reference::dot(slopes, layer ? reference::layer_norm(x, factor, beta, 1e-5)
                                            : reference::rms_norm(x, factor, 1e-5));
      };
      const AnyNorm norm =
          layer ? AnyNorm(LayerNorm(f.gamma, f.beta, 1e-5F, one_plus))
                : AnyNorm(RmsNorm(f.gamma, {.eps = 1e-5F, .one_plus_gamma = one_plus}));
      CHECK(d_model(norm) == kWidth);
      CHECK(parameters(norm) == (layer ? 2 : 1) * kWidth);
      std::vector<float> dgamma(kWidth), dbeta(layer ? kWidth : 0);
      backward(norm, f.x_view, ConstMatrix(dy.data(), kRows, kWidth), f.y_view, {dgamma, dbeta},
               f.workspace);
      CHECK(reference::largest_difference(f.y, reference::differences(x, loss)) < 2e-5);
      CHECK(reference::largest_difference(dgamma, reference::differences(gamma, loss)) < 2e-5);
      if (layer)
        CHECK(reference::largest_difference(dbeta, reference::differences(beta, loss)) < 2e-5);
    }
}

TEST_CASE("AnyNorm is the norm at hand, bit for bit; a residual is the norm of the float sum") {
  Fixture f;
  std::vector<float> sum(f.x.size()), expected(f.x.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = f.x[i] + f.branch[i];
  for (const AnyNorm& norm :
       {AnyNorm(LayerNorm(f.gamma, f.beta, 1e-5F)), AnyNorm(RmsNorm(f.gamma))}) {
    std::vector<float> x = f.x;
    forward(norm, ConstMatrix(sum.data(), kRows, kWidth), Matrix(expected.data(), kRows, kWidth),
            f.workspace);
    forward_residual(norm, Matrix(x.data(), kRows, kWidth), f.branch_view, f.workspace);
    CHECK(same_bits(x, expected));
    forward(norm, Matrix(nullptr, 0, kWidth), Matrix(nullptr, 0, kWidth), f.workspace);
  }
}

TEST_CASE("wrong shapes and values of eps are errors") {
  const std::vector<float> seven(7), eight(8);
  std::vector<float> x(100), grad(8);
  const auto bad = ErrorCode::invalid_argument, shape = ErrorCode::shape_mismatch;
  CHECK(code_of("beta has 8", [&] { LayerNorm(seven, eight, 1e-5F); }) == shape);
  CHECK(code_of("gamma", [&] { LayerNorm({}, {}, 1e-5F); }) == bad);
  CHECK(code_of("[rms_norm] gamma", [&] { RmsNorm(std::vector<float>{}); }) == bad);
  for (const float eps :
       {-1e-5F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CHECK(code_of("eps", [&] { LayerNorm(seven, seven, eps); }) == bad);
    CHECK(code_of("eps", [&] { RmsNorm(seven, {.eps = eps}); }) == bad);
  }
  CHECK_NOTHROW(LayerNorm(seven, seven, 0));
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  LayerNorm norm(seven, seven, 1e-5F);
  RmsNorm rms(seven);
  CHECK(code_of("x is [3, 8], expected [3, 7]", [&] {
          norm.forward(Matrix(x.data(), 3, 8), Matrix(x.data(), 3, 8), workspace);
        }) == shape);
  CHECK(code_of("[rms_norm] y is [2, 7], expected [3, 7]", [&] {
          rms.forward(Matrix(x.data(), 3, 7), Matrix(x.data(), 2, 7), workspace);
        }) == shape);
  CHECK(code_of("branch is [4, 7], expected [3, 7]", [&] {
          norm.forward_residual({x.data(), 3, 7}, {x.data(), 4, 7}, workspace);
        }) == shape);
  CHECK(code_of("dy is [2, 7]", [&] {
          norm.backward({x.data(), 3, 7}, {x.data(), 2, 7}, {x.data(), 3, 7}, {}, workspace);
        }) == shape);
  CHECK(
      code_of("grads.gamma has 8", [&] {
        norm.backward({x.data(), 3, 7}, {x.data(), 3, 7}, {x.data(), 3, 7}, {grad, {}}, workspace);
      }) == shape);
  CHECK(code_of("grads.beta has 8 values, expected 0", [&] {
          rms.backward({x.data(), 3, 7}, {x.data(), 3, 7}, {x.data(), 3, 7}, {{}, grad}, workspace);
        }) == shape);
  CHECK(code_of("gamma has 8", [&] { rms.set_weights(eight); }) == shape);
  CHECK(code_of("beta has 0", [&] { norm.set_weights(seven, {}); }) == shape);
}

}  // namespace
}  // namespace fourfold
