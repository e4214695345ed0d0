// Attention kernels through the table on every instruction set of this CPU: softmax against
// float64, products of whole numbers exactly, and rows that do not see each other.
#include <doctest/doctest.h>

#include <algorithm>
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

// Softmax of one row by exp_rows and divide_row, with guards on both sides that must stay.
std::vector<float> softmax(const KernelTable& table, const std::vector<float>& x, float scale) {
  std::vector<float> row(x.size() + 64, kGuard);
  std::copy(x.begin(), x.end(), row.begin() + 32);
  float total = kGuard;
  table.attention.exp_rows(row.data() + 32, row.size(), 1, x.size(), 0, scale, &total);
  table.attention.divide_row(row.data() + 32, total, row.data() + 32, x.size());
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

TEST_CASE("exponentials: the largest is exactly 1, rows may grow, and each has its bits alone") {
  on_each_table([](const KernelTable& table) {
    constexpr std::size_t kRows = 25, kStride = 71;
    for (const std::size_t growth : {0U, 1U}) {
      const std::vector<float> scores = real_values(kRows * kStride, 7, -19.0F, 23.0F);
      std::vector<float> together = scores, totals(kRows);
      table.attention.exp_rows(together.data(), kStride, kRows, 37, growth, 0.3F, totals.data());
      std::size_t wrong = 0;
      for (std::size_t row = 0; row < kRows; ++row) {
        const std::size_t n = 37 + row * growth;
        std::vector<float> alone(scores.begin() + static_cast<std::ptrdiff_t>(row * kStride),
                                 scores.begin() + static_cast<std::ptrdiff_t>((row + 1) * kStride));
        float total = kGuard;
        table.attention.exp_rows(alone.data(), kStride, 1, n, 0, 0.3F, &total);
        wrong += !same_bits({together.data() + row * kStride, kStride}, alone);
        wrong += !same_bits(total, totals[row]);
        wrong += *std::max_element(alone.begin(), alone.begin() + static_cast<std::ptrdiff_t>(n)) !=
                 1.0F;
      }
      CHECK(wrong == 0);
    }
  });
}

struct Packed {
  std::vector<float> values;
  std::size_t width;
};

Packed packed_values(const KernelTable& table, const std::vector<float>& values, std::size_t count,
                     std::size_t head_dim) {
  const std::size_t width = (head_dim + kValueGroup - 1) / kValueGroup * kValueGroup;
  Packed packed{std::vector<float>(count * width + 16, kGuard), width};
  table.attention.pack_values(values.data(), head_dim, count, head_dim, packed.values.data(),
                              width);
  return packed;
}

std::vector<float> scores_of(const KernelTable& table, const float* a, std::size_t rows,
                             const std::vector<float>& keys, std::size_t count,
                             std::size_t head_dim) {
  const std::size_t wide = (count + kKeyGroup - 1) / kKeyGroup * kKeyGroup;
  std::vector<float> panels(wide * head_dim + 16, kGuard), scores(rows * wide + 16, kGuard);
  table.attention.pack_keys(keys.data(), head_dim, count, head_dim, panels.data());
  table.attention.score_rows(a, head_dim, panels.data(), scores.data(), wide, rows, count,
                             head_dim);
  for (std::size_t i = rows * wide; i < scores.size(); ++i) REQUIRE(scores[i] == kGuard);
  for (std::size_t i = wide * head_dim; i < panels.size(); ++i) REQUIRE(panels[i] == kGuard);
  std::vector<float> tight;
  for (std::size_t row = 0; row < rows; ++row)
    tight.insert(tight.end(), scores.begin() + static_cast<std::ptrdiff_t>(row * wide),
                 scores.begin() + static_cast<std::ptrdiff_t>(row * wide + count));
  return tight;
}

TEST_CASE("scores of whole numbers are exact for every height of a tile and every count") {
  on_each_table([](const KernelTable& table) {
    for (const std::size_t head_dim : {1U, 5U, 8U, 37U})
      for (const std::size_t count : {1U, 7U, 8U, 31U, 33U, 67U})
        for (std::size_t rows = 1; rows <= 25; ++rows) {
          const std::vector<float> a = whole_values(rows * head_dim, 3, -8, 8),
                                   keys = whole_values(count * head_dim, 4, -8, 8);
          const std::vector<float> found = scores_of(table, a.data(), rows, keys, count, head_dim);
          std::size_t wrong = 0;
          for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t j = 0; j < count; ++j) {
              float expected = 0;
              for (std::size_t c = 0; c < head_dim; ++c)
                expected += a[r * head_dim + c] * keys[j * head_dim + c];
              wrong += found[r * count + j] != expected;
            }
          CAPTURE(head_dim);
          CAPTURE(count);
          CAPTURE(rows);
          CHECK(wrong == 0);
        }
  });
}

TEST_CASE("mixed and spread rows of whole numbers are exact, and can go on from what is there") {
  on_each_table([](const KernelTable& table) {
    for (const std::size_t head_dim : {1U, 16U, 37U, 67U})
      for (const std::size_t count : {0U, 1U, 3U, 67U})
        for (const std::size_t rows : {1U, 2U, 7U, 12U, 13U, 25U})
          for (const bool transposed : {false, true}) {
            // Mixed: weights [rows, count]; spread: the same read as [count, rows].
            const std::size_t stride = (transposed ? rows : count) + 3;
            const std::vector<float> weights = whole_values(std::size_t{28} * 70, 3, -8, 8),
                                     values = whole_values(count * head_dim + 1, 4, -8, 8);
            const Packed packed = packed_values(table, values, count, head_dim);
            const std::vector<float> start = whole_values(rows * packed.width, 5, -8, 8);
            for (const bool add : {false, true}) {
              if (transposed && !add) continue;
              std::vector<float> sums = start;
              if (transposed)
                table.attention.spread_rows(weights.data(), stride, packed.values.data(),
                                            sums.data(), packed.width, count, rows);
              else
                table.attention.mix_rows(weights.data(), stride, packed.values.data(), sums.data(),
                                         packed.width, rows, count, add);
              std::size_t wrong = 0;
              for (std::size_t r = 0; r < rows; ++r)
                for (std::size_t c = 0; c < head_dim; ++c) {
                  float expected = add ? start[r * packed.width + c] : 0.0F;
                  for (std::size_t j = 0; j < count; ++j)
                    expected += weights[transposed ? j * stride + r : r * stride + j] *
                                values[j * head_dim + c];
                  wrong += sums[r * packed.width + c] != expected;
                }
              CHECK(wrong == 0);
            }
          }
  });
}

TEST_CASE("packed values keep their numbers, then zeros, and nothing beyond is written") {
  on_each_table([](const KernelTable& table) {
    for (const std::size_t head_dim : {1U, 7U, 8U, 16U, 17U, 37U, 67U}) {
      const std::vector<float> values = real_values(5 * head_dim, 3);
      const Packed packed = packed_values(table, values, 5, head_dim);
      std::size_t wrong = 0;
      for (std::size_t row = 0; row < 5; ++row)
        for (std::size_t c = 0; c < packed.width; ++c)
          wrong += packed.values[row * packed.width + c] !=
                   (c < head_dim ? values[row * head_dim + c] : 0.0F);
      for (std::size_t i = 5 * packed.width; i < packed.values.size(); ++i)
        wrong += packed.values[i] != kGuard;
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("a row of scores and of mixed values has the bits of that row alone") {
  on_each_table([](const KernelTable& table) {
    constexpr std::size_t kRows = 25, kCount = 67, kDim = 37;
    const std::vector<float> a = real_values(kRows * kDim, 3), keys = real_values(kCount * kDim, 4);
    const std::vector<float> scores = scores_of(table, a.data(), kRows, keys, kCount, kDim);
    const Packed packed = packed_values(table, keys, kCount, kDim);
    std::vector<float> sums(kRows * packed.width);
    table.attention.mix_rows(scores.data(), kCount, packed.values.data(), sums.data(), packed.width,
                             kRows, kCount, false);
    std::size_t wrong = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      const std::vector<float> alone =
          scores_of(table, a.data() + row * kDim, 1, keys, kCount, kDim);
      wrong += !same_bits(alone, {scores.data() + row * kCount, kCount});
      // Cut in two anywhere: the sum goes on in the same order.
      std::vector<float> mixed(packed.width);
      const std::size_t cut = row * 2;
      table.attention.mix_rows(alone.data(), kCount, packed.values.data(), mixed.data(),
                               packed.width, 1, cut, false);
      table.attention.mix_rows(alone.data() + cut, kCount,
                               packed.values.data() + cut * packed.width, mixed.data(),
                               packed.width, 1, kCount - cut, true);
      wrong += !same_bits(mixed, {sums.data() + row * packed.width, packed.width});
    }
    CHECK(wrong == 0);
  });
}

}  // namespace
}  // namespace fourfold
