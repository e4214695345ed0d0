// Row kernels through the table: softmax, its gradient and sums of rows on every instruction set of
// this CPU.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kGuard = -77.25F;

// Runs softmax on a copy with guards on both sides and checks that they are untouched.
std::vector<float> softmax(const KernelTable& table, const std::vector<float>& x, float scale) {
  std::vector<float> row(x.size() + 64, kGuard);
  std::copy(x.begin(), x.end(), row.begin() + 32);
  table.rows.softmax(row.data() + 32, x.size(), scale);
  for (std::size_t i = 0; i < 32; ++i) {
    REQUIRE(row[i] == kGuard);
    REQUIRE(row[row.size() - 1 - i] == kGuard);
  }
  return {row.begin() + 32, row.end() - 32};
}

template <class Check>
void on_each_table(Check check) {
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    check(*find_kernels(name));
  }
}

TEST_CASE("softmax of random rows: the float64 values, and a sum of 1") {
  on_each_table([](const KernelTable& table) {
    for (std::size_t n = 1; n <= 67; ++n) {
      CAPTURE(n);
      const float scale = 0.17F + 0.01F * static_cast<float>(n);
      const std::vector<float> x = real_values(n, n + 11, -19.0F, 23.0F);
      reference::Values scaled = reference::widened(x);
      for (double& value : scaled) value *= static_cast<double>(scale);
      const reference::Values expected = reference::softmax(scaled);
      const std::vector<float> found = softmax(table, x, scale);
      double total = 0, worst = 0;
      for (std::size_t i = 0; i < n; ++i) {
        total += static_cast<double>(found[i]);
        worst = std::max(worst, std::fabs(found[i] / expected[i] - 1));
      }
      CHECK(std::fabs(total - 1) < 1e-6);
      // x is rounded once after scaling: 2^-24 of a value up to 20, and as much for the difference.
      CHECK(worst < 5e-6);
    }
  });
}

TEST_CASE("softmax of equal values is uniform, of one value exactly 1") {
  on_each_table([](const KernelTable& table) {
    CHECK(softmax(table, {-3.7F}, 1.0F)[0] == 1.0F);
    for (const std::size_t n : {2U, 5U, 16U, 17U, 67U})
      for (const float value : softmax(table, std::vector<float>(n, 5.3F), 0.7F))
        CHECK(value == doctest::Approx(1.0 / static_cast<double>(n)).epsilon(1e-6));
  });
}

TEST_CASE("softmax of large values does not overflow") {
  on_each_table([](const KernelTable& table) {
    const std::vector<float> found = softmax(table, {3e38F, -3e38F, 1000.0F, 3e38F, 0.0F}, 1.0F);
    CHECK(found[0] == 0.5F);
    CHECK(found[1] == 0.0F);
    CHECK(found[2] == 0.0F);
    CHECK(found[3] == 0.5F);
    CHECK(found[4] == 0.0F);
    const std::vector<float> low = softmax(table, {-1000.0F, -1001.0F, -5000.0F}, 1.0F);
    CHECK(low[0] == doctest::Approx(0.7310585786).epsilon(1e-6));
    CHECK(low[1] == doctest::Approx(0.2689414214).epsilon(1e-6));
    CHECK(low[2] == 0.0F);
  });
}

TEST_CASE("softmax: a value of -inf gets no weight, the others share") {
  on_each_table([](const KernelTable& table) {
    const std::vector<float> found = softmax(table, {2.0F, -kInfinity, 2.0F}, 1.0F);
    CHECK(found[0] == 0.5F);
    CHECK(found[1] == 0.0F);
    CHECK(found[2] == 0.5F);
  });
}

TEST_CASE("softmax: one NaN or +inf anywhere makes the whole row NaN") {
  on_each_table([](const KernelTable& table) {
    std::size_t lost = 0;
    for (const std::size_t n : {1U, 3U, 8U, 15U, 16U, 17U, 31U, 37U, 67U})
      for (std::size_t at = 0; at < n; ++at)
        for (const float special : {kNan, kInfinity}) {
          std::vector<float> x = real_values(n, 5);
          x[at] = special;
          for (const float value : softmax(table, x, 0.3F)) lost += !std::isnan(value);
        }
    CHECK(lost == 0);
  });
}

TEST_CASE("softmax of nothing writes nothing") {
  on_each_table([](const KernelTable& table) { CHECK(softmax(table, {}, 1.0F).empty()); });
}

TEST_CASE("softmax backward against float64, inside the row") {
  on_each_table([](const KernelTable& table) {
    for (std::size_t n = 1; n <= 67; ++n) {
      CAPTURE(n);
      const std::vector<float> p = real_values(n, n, 0.0F, 0.9F), slopes = real_values(n, n + 1);
      std::vector<float> dp = slopes;
      dp.resize(n + 32, kGuard);
      table.rows.softmax_backward(p.data(), dp.data(), n, 0.37F);
      double mean = 0, size = 0;
      for (std::size_t i = 0; i < n; ++i) {
        mean += static_cast<double>(p[i]) * static_cast<double>(slopes[i]);
        size += std::fabs(static_cast<double>(p[i]) * static_cast<double>(slopes[i]));
      }
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double share = static_cast<double>(p[i]) * static_cast<double>(0.37F);
        const double slope = static_cast<double>(slopes[i]);
        const double bound =
            static_cast<double>(n + 4) * 0x1p-23 * share * (std::fabs(slope) + size);
        wrong += !(std::fabs(static_cast<double>(dp[i]) - share * (slope - mean)) <= bound);
      }
      for (std::size_t i = n; i < dp.size(); ++i) wrong += dp[i] != kGuard;
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("weighted rows of whole numbers are exact, go on from what is there, take any stride") {
  on_each_table([](const KernelTable& table) {
    for (const std::size_t count : {0U, 1U, 2U, 5U, 67U})
      for (const std::size_t stride : {1U, 3U}) {
        const std::vector<float> weights = whole_values(count * stride + 1, 3, -8, 8),
                                 rows = whole_values(count * 64 + 1, 4, -8, 8),
                                 start = whole_values(64, 5, -8, 8);
        std::vector<float> sums = start;
        table.rows.weighted_rows(weights.data(), stride, rows.data(), count, sums.data());
        std::size_t wrong = 0;
        for (std::size_t c = 0; c < 64; ++c) {
          float expected = start[c];
          for (std::size_t k = 0; k < count; ++k)
            expected += weights[k * stride] * rows[k * 64 + c];
          wrong += sums[c] != expected;
        }
        CHECK(wrong == 0);
      }
  });
}

TEST_CASE("a weighted row has the bits of the same sum in the matrix product") {
  on_each_table([](const KernelTable& table) {
    const std::vector<float> weights = real_values(67, 3), rows = real_values(67 * 64, 4);
    std::vector<float> sums(64), product(64);
    table.rows.weighted_rows(weights.data(), 1, rows.data(), 67, sums.data());
    table.gemm.panel_f32(weights.data(), 67, rows.data(), product.data(), 1, 67);
    CHECK(same_bits(sums, product));
  });
}

TEST_CASE("norm kernels stay inside the row") {
  on_each_table([](const KernelTable& table) {
    std::size_t wrong = 0;
    for (std::size_t n = 1; n <= 67; ++n) {
      const std::vector<float> x = real_values(n, 3), gamma = real_values(n, 4);
      const NormStatistics statistics = table.rows.layer_norm_statistics(x.data(), n, 1e-5F);
      std::vector<float> y(n + 32, kGuard);
      const auto check = [&] {
        for (std::size_t i = n; i < y.size(); ++i) wrong += y[i] != kGuard;
      };
      for (const RmsNormRow norm : table.rows.rms_norm) {
        norm(x.data(), gamma.data(), y.data(), n, 1e-5F);
        check();
      }
      table.rows.layer_norm_backward(x.data(), statistics, gamma.data(), x.data(), y.data(), n);
      check();
      table.rows.rms_norm_backward(x.data(), statistics, gamma.data(), x.data(), y.data(), n);
      check();
      table.rows.norm_gamma(x.data(), statistics, x.data(), y.data(), n);
      check();
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("addition of rows is exact float addition, and stays inside the row") {
  on_each_table([](const KernelTable& table) {
    for (std::size_t n = 0; n <= 67; ++n) {
      CAPTURE(n);
      const std::vector<float> x = real_values(n, 3), before = real_values(n, 4);
      std::vector<float> y = before;
      y.resize(n + 32, kGuard);
      table.rows.add(x.data(), y.data(), n);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < n; ++i) {
        // The sum of two floats is exact in float64, so this rounds once.
        const double sum = static_cast<double>(before[i]) + static_cast<double>(x[i]);
        wrong += !same_bits(y[i], static_cast<float>(sum));
      }
      for (std::size_t i = n; i < y.size(); ++i) wrong += y[i] != kGuard;
      CHECK(wrong == 0);
    }
  });
}

}  // namespace
}  // namespace fourfold
