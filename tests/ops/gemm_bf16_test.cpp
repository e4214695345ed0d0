// Products with bf16 weights, sums added to y, and rows whose zeros are skipped.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

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
  std::vector<float> x = rounded(real_values(kTokens * kIn, 11));
  std::vector<float> w = real_values(kOut * kIn, 13), bias = real_values(kOut, 17);
  std::vector<Bf16> w_bf16 = narrowed(w);
  ConstMatrix x_view() const { return {x.data(), kTokens, kIn}; }
  PackedWeight packed() const { return PackedWeight(ConstBf16Matrix(w_bf16.data(), kOut, kIn)); }
};

TEST_CASE("a product with bf16 weights is the one with the widened weights, and close to float64") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Product product;
  const std::vector<float> wide = rounded(product.w);
  std::vector<float> y(kTokens * kOut), same(kTokens * kOut);
  gemm(product.x_view(), product.packed(), product.bias, Activation::identity,
       {y.data(), kTokens, kOut}, workspace);
  gemm(product.x_view(), PackedWeight(ConstMatrix(wide.data(), kOut, kIn)), product.bias,
       Activation::identity, {same.data(), kTokens, kOut}, workspace);
  CHECK(same_bits(y, same));
  using reference::widened;
  const auto expected = reference::linear(widened(product.x), widened(wide), widened(product.bias),
                                          kTokens, kOut, kIn);
  const auto size = reference::linear_magnitude(widened(product.x), widened(wide),
                                                widened(product.bias), kTokens, kOut, kIn);
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(std::fabs(y[i] - expected[i]) <= kIn * kEps * size[i]);
}

TEST_CASE("bf16 weights are half as large") {
  const Product product;
  CHECK(product.packed().bytes() == 3 * 64 * kIn * 2);
}

TEST_CASE("gemm_add adds the product to what y holds") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::vector<float> x = whole_values(5 * 7, 3, -9, 9), w = whole_values(67 * 7, 5, -9, 9);
  std::vector<float> y = whole_values(5 * 67, 7, -99, 99), product(5 * 67);
  const std::vector<float> before = y;
  const PackedWeight weight(ConstMatrix(w.data(), 67, 7));
  gemm({x.data(), 5, 7}, weight, {}, Activation::identity, {product.data(), 5, 67}, workspace);
  gemm_add({x.data(), 5, 7}, weight, {y.data(), 5, 67}, workspace);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == before[i] + product[i]);
}

TEST_CASE("skipping zeros changes no bit, whatever share of them there is") {
  const Product product;
  const std::vector<float> wide = rounded(product.w);
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    for (const int zeros_of_ten : {0, 5, 9, 10}) {
      CAPTURE(zeros_of_ten);
      std::vector<float> x = product.x;
      SampleValues source(23);
      for (float& value : x)
        if (source.whole(0, 9) < zeros_of_ten) value = source.whole(0, 1) == 0 ? 0.0F : -0.0F;
      const ConstMatrix rows(x.data(), kTokens, kIn);
      for (const PackedWeight& weight :
           {product.packed(), PackedWeight(ConstMatrix(product.w.data(), kOut, kIn))}) {
        std::vector<float> dense(kTokens * kOut, 1), sparse(kTokens * kOut, 2);
        gemm(rows, weight, product.bias, Activation::identity, {dense.data(), kTokens, kOut},
             workspace);
        gemm_skip_zeros(rows, weight, product.bias, {sparse.data(), kTokens, kOut}, workspace);
        CHECK(same_bits(dense, sparse));
      }
    }
  }
}

TEST_CASE("a sum that underflows to -0 has the same sign either way") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const std::vector<float> x{1e-30F, 0, 0, 1e-30F}, w{-1e-30F, 1, -1, -1e-30F};
  for (const std::vector<float>& bias : {std::vector<float>(), {0.0F}, {-0.0F}}) {
    std::vector<float> dense(1, 7), sparse(1, 7);
    const PackedWeight weight(ConstMatrix(w.data(), 1, 4));
    gemm({x.data(), 1, 4}, weight, bias, Activation::identity, {dense.data(), 1, 1}, workspace);
    gemm_skip_zeros({x.data(), 1, 4}, weight, bias, {sparse.data(), 1, 1}, workspace);
    CHECK(same_bits(dense, sparse));
  }
}

TEST_CASE("a NaN in a row is not a zero") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const std::vector<float> w = real_values(3 * 5, 29);
  std::vector<float> x(5), y(3);
  x[2] = std::numeric_limits<float>::quiet_NaN();
  gemm_skip_zeros({x.data(), 1, 5}, PackedWeight(ConstMatrix(w.data(), 3, 5)), {}, {y.data(), 1, 3},
                  workspace);
  for (const float value : y) CHECK(std::isnan(value));
}

}  // namespace
}  // namespace fourfold
