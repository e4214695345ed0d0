// Sinusoidal tables, rotary positions through the public calls, and their errors.
#include "fourfold/position.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "error_check.h"
#include "reference_attention.h"
#include "sample_values.h"

namespace fourfold {
namespace {

using Lengths = std::vector<std::size_t>;

TEST_CASE("sinusoids: sines in even columns, cosines in odd ones, rounded once") {
  for (const std::size_t d : {1U, 2U, 7U, 32U}) {
    std::vector<float> table(101 * (d + 3), -77.25F);
    const Matrix rows(table.data(), 101, d, d + 3);
    fill_sinusoidal(rows);
    std::size_t wrong = 0;
    for (std::size_t p = 0; p < 101; ++p) {
      for (std::size_t i = 0; 2 * i < d; ++i) {
        const double angle = static_cast<double>(p) /
                             std::pow(1e4, 2.0 * static_cast<double>(i) / static_cast<double>(d));
        wrong += std::fabs(static_cast<double>(rows.row(p)[2 * i]) - std::sin(angle)) > 6e-8;
        if (2 * i + 1 < d)
          wrong += std::fabs(static_cast<double>(rows.row(p)[2 * i + 1]) - std::cos(angle)) > 6e-8;
      }
      for (std::size_t c = d; c < d + 3; ++c) wrong += table[p * (d + 3) + c] != -77.25F;
    }
    CHECK(wrong == 0);
  }
  fill_sinusoidal(Matrix(nullptr, 0, 5));
}

TEST_CASE("rotary positions start at 0 in each sequence; backward is the transpose of forward") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Lengths lengths{5, 11};
  const std::size_t heads = 2, dim = 6, size = 16 * heads * dim;
  for (const RotaryStyle style : {RotaryStyle::half_split, RotaryStyle::interleaved}) {
    const RotaryOptions options{1000, 4, style};
    const std::vector<float> x = real_values(size, 3), dy = real_values(size, 4);
    std::vector<float> y = x, dx = dy;
    rotary_forward(options, {y.data(), 16, heads * dim}, heads, lengths, workspace);
    rotary_backward(options, {dx.data(), 16, heads * dim}, heads, lengths, workspace);
    const std::size_t start = 5 * heads * dim;
    const reference::Values second =
        reference::rotated(reference::widened({x.data() + start, size - start}), heads, dim, 4,
                           1000, style == RotaryStyle::interleaved);
    CHECK(reference::largest_difference({y.data() + start, size - start}, second) < 1e-6);
    double forward = 0, backward = 0;  // dy . R x = R^T dy . x
    for (std::size_t i = 0; i < size; ++i) {
      forward += static_cast<double>(dy[i]) * static_cast<double>(y[i]);
      backward += static_cast<double>(dx[i]) * static_cast<double>(x[i]);
    }
    CHECK(std::fabs(forward - backward) < 1e-5);
  }
}

TEST_CASE("what cannot be turned is refused") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const auto bad = ErrorCode::invalid_argument;
  std::vector<float> x(48);
  const auto run = [&](const RotaryOptions& options, std::size_t width, std::size_t heads) {
    rotary_forward(options, {x.data(), 4, width}, heads, Lengths{4}, workspace);
  };
  using Style = RotaryStyle;
  CHECK(code_of("rotary_dim is 5", [&] { run({1e4, 0, Style::half_split}, 10, 2); }) == bad);
  CHECK(code_of("rotary_dim is 3", [&] { run({1e4, 3, Style::half_split}, 12, 2); }) == bad);
  CHECK(code_of("rotary_dim is 8", [&] { run({1e4, 8, Style::half_split}, 12, 2); }) == bad);
  CHECK(code_of("n_heads is 5", [&] { run({1e4, 2, Style::half_split}, 12, 5); }) == bad);
  CHECK(code_of("n_heads is 0", [&] { run({1e4, 2, Style::half_split}, 12, 0); }) == bad);
  for (const double theta : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()})
    CHECK(code_of("theta", [&] { run({theta, 2, Style::half_split}, 12, 2); }) == bad);
  CHECK(code_of("sequence_lengths", [&] {
          rotary_forward({}, {x.data(), 4, 12}, 2, Lengths{2, 3}, workspace);
        }) == ErrorCode::shape_mismatch);
  rotary_forward({}, {x.data(), 0, 12}, 2, Lengths{}, workspace);
}

}  // namespace
}  // namespace fourfold
