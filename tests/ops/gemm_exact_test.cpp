// gemm on whole numbers: no sum leaves the range where floats are exact, so every bit must be
// right.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/gemm.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr float kGuard = -77.25F;

// x: [most, most_k], w: [most, most_k], bias: [most], and the products over the first columns,
// which grow by one column at a time. The product of the first m rows of x and n rows of w is a
// corner.
class WholeProduct {
 public:
  WholeProduct(std::size_t most, std::size_t most_k)
      : x(whole_values(most * most_k, 101, -13, 19)),
        w(whole_values(most * most_k, 103, -23, 11)),
        bias(whole_values(most, 107, -999, 1999)),
        most_(most),
        most_k_(most_k),
        sums_(most * most) {
    for (std::size_t m = 0; m < most; ++m)
      for (std::size_t n = 0; n < most; ++n)
        sums_[m * most + n] = static_cast<std::int32_t>(bias[n]);
    for (const float value : w) w_bf16_.push_back(to_bf16(value));
  }

  void grow_to(std::size_t k) {
    for (; k_ < k; ++k_)
      for (std::size_t m = 0; m < most_; ++m)
        for (std::size_t n = 0; n < most_; ++n)
          sums_[m * most_ + n] += static_cast<std::int32_t>(x[m * most_k_ + k_]) *
                                  static_cast<std::int32_t>(w[n * most_k_ + k_]);
  }
  ConstMatrix x_rows(std::size_t m) const { return {x.data(), m, k_, most_k_}; }
  ConstMatrix w_rows(std::size_t n) const { return {w.data(), n, k_, most_k_}; }
  // bf16 holds these whole numbers exactly.
  PackedWeight weight(std::size_t n, bool bf16) const {
    if (!bf16) return PackedWeight(w_rows(n));
    return PackedWeight(ConstBf16Matrix(w_bf16_.data(), n, k_, most_k_));
  }

  // How many values of y: [m, n] differ from the product, and how many guards are gone.
  std::size_t faults(const std::vector<float>& y, std::size_t m, std::size_t n,
                     std::size_t stride) const {
    std::size_t count = 0;
    for (std::size_t row = 0; row < m; ++row) {
      const float* found = y.data() + row * stride;
      const std::int32_t* expected = &sums_[row * most_];
      for (std::size_t i = 0; i < n; ++i) count += found[i] != static_cast<float>(expected[i]);
      for (std::size_t i = n; i < stride; ++i) count += found[i] != kGuard;
    }
    for (std::size_t i = m * stride; i < y.size(); ++i) count += y[i] != kGuard;
    return count;
  }

  const std::vector<float> x, w, bias;

 private:
  std::size_t most_, most_k_, k_ = 0;
  std::vector<Bf16> w_bf16_;
  std::vector<std::int32_t> sums_;
};

TEST_CASE("all sizes m, n in 1..65 for nine depths, f32 and bf16, with bias and strides") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  WholeProduct product(65, 65);
  std::vector<float> y;
  for (const std::size_t k : {1U, 2U, 3U, 31U, 32U, 33U, 63U, 64U, 65U}) {
    product.grow_to(k);
    std::size_t faults = 0, first_m = 0, first_n = 0;
    for (std::size_t n = 1; n <= 65; ++n) {
      const PackedWeight weights[] = {product.weight(n, false), product.weight(n, true)};
      const std::span<const float> bias(product.bias.data(), n);
      const std::size_t stride = n + 3;
      for (std::size_t m = 1; m <= 65; ++m)
        for (const PackedWeight& weight : weights) {
          y.assign((m + 1) * stride, kGuard);
          gemm(product.x_rows(m), weight, bias, Activation::identity, {y.data(), m, n, stride},
               workspace);
          const std::size_t found = product.faults(y, m, n, stride);
          if (found > 0 && faults == 0) first_m = m, first_n = n;
          faults += found;
        }
    }
    CAPTURE(k);
    CAPTURE(first_m);
    CAPTURE(first_n);
    CHECK(faults == 0);
  }
}

TEST_CASE("two thousand random shapes up to 257, on several threads") {
  Runtime runtime({.count = 3});
  Workspace workspace(runtime);
  SampleValues source(109);
  WholeProduct product(257, 257);
  std::vector<float> y;
  std::size_t faults = 0, first_m = 0, first_n = 0, first_k = 0;
  for (std::size_t k = 1; k <= 257; ++k) {
    product.grow_to(k);
    for (int shape = 0; shape < 8; ++shape) {
      const auto m = static_cast<std::size_t>(source.whole(1, 257));
      const auto n = static_cast<std::size_t>(source.whole(1, 257));
      const std::size_t stride = n + static_cast<std::size_t>(source.whole(0, 17));
      const PackedWeight weight = product.weight(n, source.whole(0, 1) == 1);
      y.assign(m * stride + 64, kGuard);
      gemm(product.x_rows(m), weight, {product.bias.data(), n}, Activation::identity,
           {y.data(), m, n, stride}, workspace);
      const std::size_t found = product.faults(y, m, n, stride);
      if (found > 0 && faults == 0) first_m = m, first_n = n, first_k = k;
      faults += found;
    }
  }
  CAPTURE(first_m);
  CAPTURE(first_n);
  CAPTURE(first_k);
  CHECK(faults == 0);
}

TEST_CASE("without a bias the sum stands alone") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::size_t m = 5, n = 71, k = 13;
  const std::vector<float> x = whole_values(m * k, 3, -9, 17), w = whole_values(n * k, 4, -17, 9);
  std::vector<float> y(m * n);
  gemm({x.data(), m, k}, PackedWeight(ConstMatrix{w.data(), n, k}), {}, Activation::identity,
       {y.data(), m, n}, workspace);
  std::size_t faults = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      int sum = 0;
      for (std::size_t l = 0; l < k; ++l)
        sum += static_cast<int>(x[i * k + l]) * static_cast<int>(w[j * k + l]);
      faults += y[i * n + j] != static_cast<float>(sum);
    }
  CHECK(faults == 0);
}

TEST_CASE("more rows than one task takes, and a depth of several blocks") {
  // Entries are functions of row and column, so that each expected sum has a formula.
  const std::size_t m = 1361, n = 67, k = 389;
  std::vector<float> x(m * k), w(n * k);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t l = 0; l < k; ++l) x[i * k + l] = static_cast<float>((i + l) % 5);
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t l = 0; l < k; ++l) w[j * k + l] = l % 5 == j % 5 ? 1.0F : 0.0F;
  std::vector<float> y(m * n);
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    std::fill(y.begin(), y.end(), kGuard);
    gemm({x.data(), m, k}, PackedWeight(ConstMatrix{w.data(), n, k}), {}, Activation::identity,
         {y.data(), m, n}, workspace);
    std::size_t faults = 0;
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        // 389 = 5 * 77 + 4: columns of class 4 occur 77 times, the others 78 times.
        const std::size_t times = j % 5 == 4 ? 77 : 78;
        faults += y[i * n + j] != static_cast<float>((i + j) % 5 * times);
      }
    CAPTURE(threads);
    CHECK(faults == 0);
  }
}

TEST_CASE("zero tokens write nothing; zero inputs give the bias") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::vector<float> w = whole_values(7 * 3, 5, -4, 9), bias = whole_values(7, 6, -9, 4);
  std::vector<float> y(2 * 7, kGuard);
  gemm({nullptr, 0, 3}, PackedWeight(ConstMatrix{w.data(), 7, 3}), bias, Activation::identity,
       {y.data(), 0, 7}, workspace);
  for (const float value : y) CHECK(value == kGuard);
  gemm({nullptr, 2, 0}, PackedWeight(ConstMatrix{nullptr, 7, 0}), bias, Activation::identity,
       {y.data(), 2, 7}, workspace);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == bias[i % 7]);
}

TEST_CASE("zero outputs write nothing") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::vector<float> x = whole_values(5 * 3, 5, -4, 9);
  gemm({x.data(), 5, 3}, PackedWeight(ConstMatrix{nullptr, 0, 3}), {}, Activation::identity,
       {nullptr, 5, 0}, workspace);
}

}  // namespace
}  // namespace fourfold
