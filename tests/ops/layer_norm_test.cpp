// LayerNorm and its gradient against float64, and the rows where the textbook formulas lose
// everything.
#include "ops/layer_norm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "reference_norm.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr float kGuard = -77.25F;

std::vector<float> normalise(const std::vector<float>& x, const std::vector<float>& gamma,
                             const std::vector<float>& beta, float eps, unsigned threads = 1) {
  Runtime runtime({.count = threads});
  Workspace workspace(runtime);
  std::vector<float> y(x.size());
  const std::size_t d = gamma.size();
  layer_norm_forward({x.data(), x.size() / d, d}, gamma, beta, eps, {y.data(), x.size() / d, d},
                     workspace);
  return y;
}

// With gamma 1 and beta 0.
std::vector<float> normalise(const std::vector<float>& row, float eps) {
  return normalise(row, std::vector<float>(row.size(), 1), std::vector<float>(row.size(), 0), eps);
}

TEST_CASE("a small spread on a large mean") {
  const std::vector<float> y = normalise({40000, 40001, 40002, 40003}, 1e-5F);
  const double expected[] = {-1.341635, -0.447212, 0.447212, 1.341635};
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::fabs(y[i] - expected[i]) <= 2e-3);
}

TEST_CASE("4096 values of 10 million plus or minus one") {
  std::vector<float> x(4096);
  SampleValues source(61);
  for (float& value : x) value = 1e7F + static_cast<float>(source.whole(-1, 1));
  const std::vector<float> y = normalise(x, 1e-5F);
  const auto expected = reference::layer_norm(reference::widened(x), reference::Values(4096, 1),
                                              reference::Values(4096, 0), 1e-5);
  CHECK(reference::largest_difference(y, expected) <= 1e-2);
}

TEST_CASE("a constant row becomes exactly beta") {
  for (const std::size_t n : {1U, 2U, 3U, 7U, 64U, 256U})
    for (const float eps : {0.0F, 1e-12F, 1e-6F, 1e-5F})
      for (const float constant : {1234.0F, 0.1F, -3.3e-7F, 0.0F, -7.7e8F}) {
        CAPTURE(n);
        CAPTURE(eps);
        CAPTURE(constant);
        const std::vector<float> gamma = real_values(n, 67), beta = real_values(n, 71);
        CHECK(same_bits(normalise(std::vector<float>(n, constant), gamma, beta, eps), beta));
      }
}

TEST_CASE("a constant row of any value and length has no residue, not even with eps 0") {
  std::size_t wrong = 0;
  for (const std::size_t n : {3U, 5U, 67U, 384U, 769U, 4099U}) {
    const std::vector<float> gamma = real_values(n, 5), beta = real_values(n, 6);
    for (const float constant : real_values(40, n, -999.0F, 777.0F))
      wrong += !same_bits(normalise(std::vector<float>(n, constant), gamma, beta, 0), beta);
  }
  CHECK(wrong == 0);
}

TEST_CASE("random rows of many lengths against float64") {
  std::vector<std::size_t> lengths{384, 769};
  for (std::size_t n = 1; n <= 67; ++n) lengths.push_back(n);
  for (const std::size_t n : lengths)
    for (const float shift : {0.0F, 31.7F}) {
      CAPTURE(n);
      CAPTURE(shift);
      const std::size_t rows = 5;
      std::vector<float> x = real_values(rows * n, n);
      for (float& value : x) value += shift;
      const std::vector<float> gamma = real_values(n, 73), beta = real_values(n, 79);
      const std::vector<float> y = normalise(x, gamma, beta, 1e-5F);
      const auto expected =
          reference::layer_norm(reference::widened(x), reference::widened(gamma),
                                reference::widened(beta), static_cast<double>(1e-5F));
      // Rounding of x - mean at the size of the shift, over a spread that two values can make
      // small.
      CHECK(reference::largest_difference(y, expected) <= (shift == 0 ? 4e-6 : 5e-5));
    }
}

TEST_CASE(
    "y may be x, rows keep their bits anywhere, strides are respected, threads do not matter") {
  const std::size_t rows = 37, d = 53, stride = 61;
  const std::vector<float> x = real_values(rows * d, 83), gamma = real_values(d, 89),
                           beta = real_values(d, 97);
  const std::vector<float> expected = normalise(x, gamma, beta, 1e-6F);
  for (const unsigned threads : {2U, 7U})
    CHECK(same_bits(normalise(x, gamma, beta, 1e-6F, threads), expected));
  for (std::size_t row = 0; row < rows; ++row) {
    const std::vector<float> alone(x.begin() + static_cast<std::ptrdiff_t>(row * d),
                                   x.begin() + static_cast<std::ptrdiff_t>((row + 1) * d));
    CHECK(same_bits(normalise(alone, gamma, beta, 1e-6F), {expected.data() + row * d, d}));
  }
  std::vector<float> wide(rows * stride, kGuard);
  for (std::size_t row = 0; row < rows; ++row)
    std::copy_n(x.data() + row * d, d, wide.data() + row * stride);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Matrix in_place(wide.data(), rows, d, stride);
  layer_norm_forward(in_place, gamma, beta, 1e-6F, in_place, workspace);
  for (std::size_t row = 0; row < rows; ++row) {
    CHECK(same_bits(in_place.row(row), {expected.data() + row * d, d}));
    for (std::size_t i = d; i < stride; ++i) REQUIRE(wide[row * stride + i] == kGuard);
  }
}

TEST_CASE("with a residual: the norm of the float sum, bit for bit") {
  const std::size_t rows = 11, d = 71;
  std::vector<float> x = real_values(rows * d, 3);
  const std::vector<float> branch = real_values(rows * d, 5, -9.0F, 4.0F),
                           gamma = real_values(d, 7), beta = real_values(d, 11);
  std::vector<float> sum(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] = x[i] + branch[i];
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  add_layer_norm_forward({x.data(), rows, d}, {branch.data(), rows, d}, gamma, beta, 1e-5F,
                         workspace);
  CHECK(same_bits(x, normalise(sum, gamma, beta, 1e-5F)));
}

TEST_CASE("NaN or Inf in a row spoils that row and no other") {
  const std::size_t rows = 5, d = 37;
  const std::vector<float> gamma = real_values(d, 13), beta = real_values(d, 17);
  const std::vector<float> calm = real_values(rows * d, 19);
  const std::vector<float> expected = normalise(calm, gamma, beta, 1e-5F);
  for (const float special :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const std::size_t column : {0U, 15U, 16U, 36U}) {
      std::vector<float> x = calm;
      x[3 * d + column] = special;
      const std::vector<float> y = normalise(x, gamma, beta, 1e-5F);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < y.size(); ++i)
        wrong += i / d == 3 ? !std::isnan(y[i]) : !same_bits(y[i], expected[i]);
      CAPTURE(special);
      CAPTURE(column);
      CHECK(wrong == 0);
    }
}

TEST_CASE("zero rows are fine") { CHECK(normalise({}, {1, 2, 3}, {4, 5, 6}, 1e-5F).empty()); }

struct Gradients {
  std::vector<float> dx, dgamma, dbeta;
};

Gradients gradients(const std::vector<float>& x, const std::vector<float>& gamma,
                    const std::vector<float>& dy, float eps, unsigned threads = 2) {
  Runtime runtime({.count = threads});
  Workspace workspace(runtime);
  const std::size_t d = gamma.size(), rows = x.size() / d;
  Gradients found{std::vector<float>(x.size(), kGuard), std::vector<float>(d),
                  std::vector<float>(d)};
  layer_norm_backward({x.data(), rows, d}, gamma, eps, {dy.data(), rows, d},
                      {found.dx.data(), rows, d}, found.dgamma, found.dbeta, workspace);
  return found;
}

double worst_share(const std::vector<float>& found, const reference::Values& expected,
                   const reference::Values& terms, double eps_count) {
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double allowed = eps_count * 0x1p-23 * terms[i] + 1e-30;
    const double share = std::fabs(static_cast<double>(found[i]) - expected[i]) / allowed;
    if (!(share <= worst)) worst = share;
  }
  return worst;
}

TEST_CASE("gradients of random rows of many lengths") {
  for (const std::size_t d : {1U, 2U, 3U, 7U, 15U, 16U, 17U, 33U, 67U, 131U, 769U}) {
    CAPTURE(d);
    const std::size_t rows = 13;
    const std::vector<float> x = real_values(rows * d, d), dy = real_values(rows * d, d + 1),
                             gamma = real_values(d, d + 2);
    const auto exact =
        reference::norm_gradients(reference::widened(x), reference::widened(gamma),
                                  reference::widened(dy), static_cast<double>(1e-5F), true);
    const Gradients found = gradients(x, gamma, dy, 1e-5F);
    // A short row can have a small spread, which makes its statistics less exact.
    const double slack = d < 8 ? 200 : 24;
    CHECK(worst_share(found.dx, exact.dx, exact.dx_terms, slack) <= 1);
    CHECK(worst_share(found.dgamma, exact.dgamma, exact.dgamma_terms, slack + rows) <= 1);
    for (std::size_t i = 0; i < d; ++i)
      CHECK(std::fabs(static_cast<double>(found.dbeta[i]) - exact.dbeta[i]) < 1e-5);
  }
}

TEST_CASE("gradients of a small spread on a large mean") {
  std::vector<float> x(4096), dy = real_values(4096, 5);
  SampleValues source(61);
  for (float& value : x) value = 1e7F + static_cast<float>(source.whole(-1, 1));
  const std::vector<float> gamma = real_values(4096, 6);
  const auto exact =
      reference::norm_gradients(reference::widened(x), reference::widened(gamma),
                                reference::widened(dy), static_cast<double>(1e-5F), true);
  const Gradients found = gradients(x, gamma, dy, 1e-5F);
  // Plain code adds 4096 values in one accumulator; a quarter of its bound is enough.
  CHECK(worst_share(found.dx, exact.dx, exact.dx_terms, 1024) <= 1);
  CHECK(worst_share(found.dgamma, exact.dgamma, exact.dgamma_terms, 1024) <= 1);

  const std::vector<float> four{40000, 40001, 40002, 40003}, ones(4, 1), slope{1, 0, 0, 0};
  const auto small =
      reference::norm_gradients(reference::widened(four), reference::Values(4, 1),
                                reference::widened(slope), static_cast<double>(1e-5F), true);
  const Gradients of_four = gradients(four, ones, slope, 1e-5F);
  CHECK(reference::largest_difference(of_four.dx, small.dx) < 1e-6);
  CHECK(of_four.dgamma[0] == doctest::Approx(-1.341635).epsilon(1e-6));
}

TEST_CASE("gradients of constant rows and of one value are finite; with eps 0 they are 0") {
  for (const std::size_t d : {1U, 2U, 3U, 7U, 64U, 256U})
    for (const float constant : {1234.0F, 0.1F, -7.7e8F}) {
      const std::vector<float> x(d, constant), gamma = real_values(d, 3), dy = real_values(d, 4);
      const Gradients none = gradients(x, gamma, dy, 0);
      for (std::size_t i = 0; i < d; ++i) {
        CHECK(none.dx[i] == 0.0F);
        CHECK(none.dgamma[i] == 0.0F);
        CHECK(none.dbeta[i] == dy[i]);
      }
      for (const float eps : {1e-12F, 1e-5F}) {
        const Gradients found = gradients(x, gamma, dy, eps);
        double total = 0, size = 0;
        for (std::size_t i = 0; i < d; ++i) {
          CHECK(std::isfinite(found.dx[i]));
          CHECK(found.dgamma[i] == 0.0F);
          total += static_cast<double>(found.dx[i]);
          size += std::fabs(static_cast<double>(found.dx[i]));
        }
        // dx is free of a mean.
        CHECK(std::fabs(total) <= 1e-6 * size + 1e-30);
        if (d == 1) CHECK(found.dx[0] == 0.0F);
      }
    }
}

TEST_CASE("gradients: threads change no bit, dx may be dy, sums go on, zero rows add nothing") {
  const std::size_t rows = 41, d = 139;
  const std::vector<float> x = real_values(rows * d, 3), dy = real_values(rows * d, 4),
                           gamma = real_values(d, 5);
  const Gradients one = gradients(x, gamma, dy, 1e-5F, 1);
  for (const unsigned threads : {2U, 7U}) {
    const Gradients found = gradients(x, gamma, dy, 1e-5F, threads);
    CHECK(same_bits(found.dx, one.dx));
    CHECK(same_bits(found.dgamma, one.dgamma));
    CHECK(same_bits(found.dbeta, one.dbeta));
  }
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  std::vector<float> in_place = dy, sums(d, 0.5F);
  const Matrix shared(in_place.data(), rows, d);
  layer_norm_backward({x.data(), rows, d}, gamma, 1e-5F, shared, shared, sums, {}, workspace);
  CHECK(same_bits(in_place, one.dx));
  for (std::size_t i = 0; i < d; ++i) CHECK(sums[i] == 0.5F + one.dgamma[i]);
  const Gradients nothing = gradients({}, gamma, {}, 1e-5F);
  CHECK(same_bits(nothing.dgamma, std::vector<float>(d)));
  CHECK(same_bits(nothing.dbeta, std::vector<float>(d)));
}

TEST_CASE("every instruction set agrees with float64") {
  const std::vector<float> x = real_values(131, 23), gamma = real_values(131, 29),
                           beta = real_values(131, 31);
  const auto expected = reference::layer_norm(reference::widened(x), reference::widened(gamma),
                                              reference::widened(beta), static_cast<double>(1e-5F));
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    std::vector<float> y(131);
    find_kernels(name)->rows.layer_norm(x.data(), gamma.data(), beta.data(), y.data(), 131, 1e-5F);
    CHECK(reference::largest_difference(y, expected) <= 4e-6);
  }
}

}  // namespace
}  // namespace fourfold
