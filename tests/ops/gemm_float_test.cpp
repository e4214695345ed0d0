// gemm on real numbers: the promised error bound, the same bits for every split, and how far NaN
// goes.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/gemm.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr Activation kAll[] = {
    Activation::identity, Activation::relu,      Activation::relu2,      Activation::leaky_relu,
    Activation::relu6,    Activation::sigmoid,   Activation::tanh,       Activation::silu,
    Activation::gelu_erf, Activation::gelu_tanh, Activation::quick_gelu, Activation::mish,
};

struct Problem {
  Problem(std::size_t rows, std::size_t outputs, std::size_t depth)
      : m(rows),
        n(outputs),
        k(depth),
        x(real_values(m * k, 31)),
        w(real_values(n * k, 37, -0.7F, 0.9F)),
        bias(real_values(n, 41)) {}

  ConstMatrix x_view() const { return {x.data(), m, k}; }
  PackedWeight packed() const { return PackedWeight(ConstMatrix{w.data(), n, k}); }
  std::vector<float> run(Workspace& workspace, Activation kind = Activation::identity) const {
    std::vector<float> y(m * n);
    gemm(x_view(), packed(), bias, kind, {y.data(), m, n}, workspace);
    return y;
  }

  std::size_t m, n, k;
  std::vector<float> x, w, bias;
};

TEST_CASE("the error against float64 stays within K eps sum |w||x|") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  for (const Problem& problem : {Problem(3, 5, 7), Problem(37, 67, 131), Problem(13, 129, 769)}) {
    CAPTURE(problem.k);
    const std::vector<float> y = problem.run(workspace);
    const reference::Values x = reference::widened(problem.x), w = reference::widened(problem.w),
                            bias = reference::widened(problem.bias);
    const auto expected = reference::linear(x, w, bias, problem.m, problem.n, problem.k);
    const auto magnitude = reference::linear_magnitude(x, w, bias, problem.m, problem.n, problem.k);
    double worst = 0;  // share of the bound
    for (std::size_t i = 0; i < y.size(); ++i) {
      // The bias is one more term.
      const double bound = static_cast<double>(problem.k + 1) * 0x1p-23 * magnitude[i];
      worst = std::fmax(worst, std::fabs(static_cast<double>(y[i]) - expected[i]) / bound);
    }
    CHECK(worst <= 1);
  }
}

TEST_CASE("the same bits for 1, 2 and 7 threads") {
  const Problem problem(211, 331, 389);
  std::vector<float> first;
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    const std::vector<float> y = problem.run(workspace, Activation::gelu_erf);
    if (first.empty()) first = y;
    CAPTURE(threads);
    CHECK(same_bits(first, y));
  }
}

TEST_CASE("a row has the same bits alone, in any batch, and at any place in it") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Problem problem(64, 83, 293);
  const PackedWeight packed = problem.packed();
  const std::vector<float> batch = problem.run(workspace);
  std::size_t different = 0;
  for (std::size_t first = 0; first < problem.m; ++first)
    for (const std::size_t rows : {1U, 2U, 3U, 5U, 6U, 7U}) {
      if (first + rows > problem.m) continue;
      std::vector<float> y(rows * problem.n);
      gemm(problem.x_view().rows_from(first, rows), packed, problem.bias, Activation::identity,
           {y.data(), rows, problem.n}, workspace);
      different += !same_bits(y, {batch.data() + first * problem.n, y.size()});
    }
  CHECK(different == 0);
}

TEST_CASE("the row stride of x changes no bit") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Problem problem(23, 71, 131);
  const std::size_t stride = problem.k + 19;
  std::vector<float> wide(problem.m * stride, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < problem.m; ++i)
    std::copy_n(problem.x.data() + i * problem.k, problem.k, wide.data() + i * stride);
  std::vector<float> y(problem.m * problem.n);
  gemm({wide.data(), problem.m, problem.k, stride}, problem.packed(), problem.bias,
       Activation::identity, {y.data(), problem.m, problem.n}, workspace);
  CHECK(same_bits(y, problem.run(workspace)));
}

TEST_CASE("an output's bits do not depend on the other outputs") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Problem problem(7, 131, 197);
  const std::vector<float> all = problem.run(workspace);
  for (const std::size_t n : {0U, 1U, 62U, 63U, 64U, 65U, 130U}) {
    const PackedWeight one(ConstMatrix{problem.w.data() + n * problem.k, 1, problem.k});
    std::vector<float> y(problem.m);
    gemm(problem.x_view(), one, {problem.bias.data() + n, 1}, Activation::identity,
         {y.data(), problem.m, 1}, workspace);
    CAPTURE(n);
    for (std::size_t i = 0; i < problem.m; ++i) CHECK(same_bits(y[i], all[i * problem.n + n]));
  }
}

TEST_CASE("a fused activation gives the bits of activate() on the plain sums") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  for (const Problem& problem : {Problem(5, 7, 3), Problem(37, 101, 131)}) {
    const std::vector<float> sums = problem.run(workspace);
    for (const Activation kind : kAll) {
      CAPTURE(activation_name(kind));
      std::vector<float> expected(sums.size());
      activate(kind, sums, expected);
      CHECK(same_bits(problem.run(workspace, kind), expected));
    }
  }
}

TEST_CASE("NaN and Inf in one element of x reach the outputs of that row, and only those") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  Problem problem(29, 71, 139);
  const std::vector<float> calm = problem.run(workspace);
  for (const float special :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const std::size_t row : {0U, 5U, 6U, 28U})
      for (const std::size_t column : {0U, 127U, 128U, 138U}) {
        float& element = problem.x[row * problem.k + column];
        const float before = element;
        element = special;
        const std::vector<float> y = problem.run(workspace);
        element = before;
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < y.size(); ++i)
          wrong += i / problem.n == row ? std::isfinite(y[i]) : !same_bits(y[i], calm[i]);
        CAPTURE(special);
        CAPTURE(row);
        CAPTURE(column);
        CHECK(wrong == 0);
      }
}

TEST_CASE("NaN and Inf in one weight reach that output of every row, and no other") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  Problem problem(13, 71, 139);
  const std::vector<float> calm = problem.run(workspace);
  for (const float special :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
    for (const std::size_t output : {0U, 15U, 63U, 64U, 70U})
      for (const std::size_t column : {0U, 127U, 128U, 138U}) {
        float& element = problem.w[output * problem.k + column];
        const float before = element;
        element = special;
        const std::vector<float> y = problem.run(workspace);
        element = before;
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < y.size(); ++i)
          wrong += i % problem.n == output ? std::isfinite(y[i]) : !same_bits(y[i], calm[i]);
        CAPTURE(special);
        CAPTURE(output);
        CAPTURE(column);
        CHECK(wrong == 0);
      }
}

TEST_CASE("a zero input times an infinite weight is NaN, not skipped") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const std::vector<float> x{0, 0, 0}, w{1, std::numeric_limits<float>::infinity(), 2};
  std::vector<float> y(1);
  gemm({x.data(), 1, 3}, PackedWeight(ConstMatrix{w.data(), 1, 3}), {}, Activation::identity,
       {y.data(), 1, 1}, workspace);
  CHECK(std::isnan(y[0]));
}

}  // namespace
}  // namespace fourfold
