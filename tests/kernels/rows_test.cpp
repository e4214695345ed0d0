// Row kernels through the table: the gradient of softmax, norms and sums on every instruction set
// of this CPU.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr float kGuard = -77.25F;

template <class Check>
void on_each_table(Check check) {
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    check(*find_kernels(name));
  }
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
