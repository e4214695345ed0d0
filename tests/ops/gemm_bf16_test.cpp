// Products with bf16 weights, and sums added to y.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "dot_bf16.h"
#include "ops/gemm.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr std::size_t kTokens = 13, kOut = 131, kIn = 307;
constexpr double kEps = 0x1p-23;

std::vector<Bf16> narrowed(const std::vector<float>& values) {
  std::vector<Bf16> result;
  for (const float value : values) result.push_back(to_bf16(value));
  return result;
}

std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values) value = round_to_bf16(value);
  return values;
}

struct Product {
  std::vector<float> x = real_values(kTokens * kIn, 11);  // rounded by the product
  std::vector<float> w = real_values(kOut * kIn, 13), bias = real_values(kOut, 17);
  std::vector<Bf16> w_bf16 = narrowed(w);
  ConstMatrix x_view() const { return {x.data(), kTokens, kIn}; }
  PackedWeight packed() const { return PackedWeight(ConstBf16Matrix(w_bf16.data(), kOut, kIn)); }
  std::vector<float> run(Workspace& workspace) const {
    std::vector<float> y(kTokens * kOut);
    gemm(x_view(), packed(), bias, Activation::identity, {y.data(), kTokens, kOut}, workspace);
    return y;
  }
};

TEST_CASE("x is rounded to bf16, then summed as the instruction set sums pairs of bf16") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Product product;
  const std::vector<float> x = rounded(product.x), wide = rounded(product.w);
  const std::vector<float> y = product.run(workspace);
  std::vector<float> expected(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float* row = &x[i / kOut * kIn];
    const float* weight = &wide[i % kOut * kIn];
    expected[i] = bf16_sum(
        bf16_steps(runtime.isa()), 0, kIn, [&](std::size_t k) { return row[k]; },
        [&](std::size_t k) { return weight[k]; });
    expected[i] += product.bias[i % kOut];
  }
  CHECK(same_bits(y, expected));
}

TEST_CASE("close to float64") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Product product;
  using reference::widened;
  const auto x = widened(rounded(product.x)), w = widened(rounded(product.w));
  const auto bias = widened(product.bias);
  const auto expected = reference::linear(x, w, bias, kTokens, kOut, kIn);
  const auto size = reference::linear_magnitude(x, w, bias, kTokens, kOut, kIn);
  const std::vector<float> y = product.run(workspace);
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(std::fabs(y[i] - expected[i]) <= kIn * kEps * size[i]);
}

TEST_CASE("bf16 weights are half as large, an odd depth rounded up to pairs") {
  const Product product;
  CHECK(product.packed().bytes() == 3 * 64 * (kIn + 1) * 2);
}

TEST_CASE("gemm_add adds the product to what y holds") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::vector<float> x = whole_values(5 * 7, 3, -9, 9), w = whole_values(67 * 7, 5, -9, 9);
  const std::vector<float> before = whole_values(5 * 67, 7, -99, 99);
  const std::vector<Bf16> narrow = narrowed(w);
  for (const PackedWeight& weight : {PackedWeight(ConstMatrix(w.data(), 67, 7)),
                                     PackedWeight(ConstBf16Matrix(narrow.data(), 67, 7))}) {
    std::vector<float> y = before, product(5 * 67);
    gemm({x.data(), 5, 7}, weight, {}, Activation::identity, {product.data(), 5, 67}, workspace);
    gemm_add({x.data(), 5, 7}, weight, {y.data(), 5, 67}, workspace);
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == before[i] + product[i]);
  }
}

TEST_CASE("NaN and infinities of x and of the weights reach the sums, other rows do not see them") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = real_values(3 * 5, 29), w = real_values(67 * 5, 31);
  x[0] = nan;
  x[2 * 5 + 4] = inf;
  w[2 * 5 + 1] = -inf;
  const std::vector<Bf16> narrow = narrowed(w);
  std::vector<float> y(3 * 67);
  gemm({x.data(), 3, 5}, PackedWeight(ConstBf16Matrix(narrow.data(), 67, 5)), {},
       Activation::identity, {y.data(), 3, 67}, workspace);
  for (std::size_t n = 0; n < 67; ++n) {
    CAPTURE(n);
    CHECK(std::isnan(y[n]));
    CHECK(std::isfinite(y[67 + n]) == (n != 2));
    CHECK_FALSE(std::isfinite(y[2 * 67 + n]));
    if (n != 2) CHECK(y[2 * 67 + n] == std::copysign(inf, w[n * 5 + 4]));
  }
}

}  // namespace
}  // namespace fourfold
