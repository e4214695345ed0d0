// Attention kernels with factors in bf16, on every instruction set of this CPU: products of whole
// numbers exactly, exponentials as the float32 kernel's after rounding, and keys that stay unread.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr float kGuard = -77.25F;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class Check>
void on_each_table(Check check) {
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    check(*find_kernels(name));
  }
}

// Value i of a row of words.
float value_at(const float* words, std::size_t i, std::size_t per_word) {
  if (per_word == 1) return words[i];
  const auto word = std::bit_cast<std::uint32_t>(words[i / 2]);
  return to_float(Bf16{static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16)});
}

void set_value(float* words, std::size_t i, std::size_t per_word, float value) {
  if (per_word == 1) {
    words[i] = value;
    return;
  }
  const std::uint32_t old = std::bit_cast<std::uint32_t>(words[i / 2]), bits = to_bf16(value).bits;
  words[i / 2] =
      std::bit_cast<float>(i % 2 == 0 ? (old & 0xFFFF0000U) | bits : (old & 0xFFFFU) | bits << 16);
}

TEST_CASE("scores of whole numbers are exact; other queries and keys are rounded first") {
  on_each_table([](const KernelTable& table) {
    const AttentionBf16Kernels& bf16 = table.attention_bf16;
    for (const bool whole : {true, false})
      for (const std::size_t head_dim : {1U, 2U, 5U, 16U, 17U, 32U, 37U})
        for (const std::size_t count : {1U, 7U, 8U, 31U, 33U, 67U})
          for (const std::size_t rows : {1U, 2U, 11U, 12U, 13U, 25U}) {
            CAPTURE(head_dim);
            CAPTURE(count);
            CAPTURE(rows);
            const auto values = [&](std::size_t n, std::uint64_t seed) {
              return whole ? whole_values(n, seed, -8, 8) : real_values(n, seed);
            };
            const std::vector<float> q = values(rows * head_dim, 3),
                                     keys = values(count * head_dim, 4);
            const std::size_t wide = (count + kKeyGroup - 1) / kKeyGroup * kKeyGroup,
                              stride = head_dim + 3;
            std::vector<float> packed(rows * stride, kGuard), panels(wide * head_dim + 8, kGuard),
                scores(rows * wide + 8, kGuard);
            bf16.pack_queries(q.data(), head_dim, rows, head_dim, packed.data(), stride);
            bf16.pack_keys(keys.data(), head_dim, count, head_dim, panels.data());
            bf16.score_rows(packed.data(), stride, panels.data(), scores.data(), wide, rows, count,
                            head_dim);
            std::size_t wrong = 0;
            for (std::size_t r = 0; r < rows; ++r) {
              for (std::size_t i = head_dim; i < stride; ++i)
                wrong += packed[r * stride + i] != kGuard;
              for (std::size_t j = 0; j < count; ++j) {
                double expected = 0, size = 0;
                for (std::size_t c = 0; c < head_dim; ++c) {
                  const double term = static_cast<double>(round_to_bf16(q[r * head_dim + c])) *
                                      static_cast<double>(round_to_bf16(keys[j * head_dim + c]));
                  expected += term;
                  size += std::fabs(term);
                }
                const double bound =
                    whole ? 0 : static_cast<double>(head_dim) * std::ldexp(size, -23);
                wrong += !(std::fabs(scores[r * wide + j] - expected) <= bound);
              }
            }
            for (std::size_t i = wide * head_dim; i < panels.size(); ++i)
              wrong += panels[i] != kGuard;
            for (std::size_t i = rows * wide; i < scores.size(); ++i) wrong += scores[i] != kGuard;
            CHECK(wrong == 0);
          }
  });
}

TEST_CASE("mixed rows of whole numbers are exact; keys beyond the count are not read") {
  on_each_table([](const KernelTable& table) {
    const AttentionBf16Kernels& bf16 = table.attention_bf16;
    const std::size_t per_word = bf16.values_per_word;
    for (const std::size_t head_dim : {1U, 16U, 32U, 37U, 67U})
      for (const std::size_t count : {0U, 1U, 2U, 3U, 66U, 67U})
        for (const std::size_t rows : {1U, 2U, 12U, 13U, 25U})
          for (const bool add : {false, true}) {
            CAPTURE(head_dim);
            CAPTURE(count);
            CAPTURE(rows);
            const std::size_t width = (head_dim + kValueGroup - 1) / kValueGroup * kValueGroup;
            const std::vector<float> weights = whole_values(rows * 71, 3, -8, 8);
            // One key more than is mixed, a NaN.
            std::vector<float> values = whole_values((count + 1) * head_dim, 4, -8, 8);
            for (std::size_t c = 0; c < head_dim; ++c) values[count * head_dim + c] = kNan;
            std::vector<float> packed((count + 2) * width, kGuard), words(rows * 71, 0.0F);
            bf16.pack_values(values.data(), head_dim, count + 1, head_dim, packed.data(), width);
            for (std::size_t r = 0; r < rows; ++r)
              for (std::size_t j = 0; j < count; ++j)
                set_value(words.data() + r * 71, j, per_word, weights[r * 71 + j]);
            const std::vector<float> start = whole_values(rows * width, 5, -8, 8);
            std::vector<float> sums = start;
            bf16.mix_rows(words.data(), 71, packed.data(), sums.data(), width, rows, count, add);
            std::size_t wrong = 0;
            for (std::size_t r = 0; r < rows; ++r)
              for (std::size_t c = 0; c < head_dim; ++c) {
                float expected = add ? start[r * width + c] : 0.0F;
                for (std::size_t j = 0; j < count; ++j)
                  expected += weights[r * 71 + j] * values[j * head_dim + c];
                wrong += sums[r * width + c] != expected;
              }
            CHECK(wrong == 0);
          }
  });
}

TEST_CASE("exponentials are those of the float32 kernel, rounded; totals are of what is left") {
  on_each_table([](const KernelTable& table) {
    const AttentionBf16Kernels& bf16 = table.attention_bf16;
    constexpr std::size_t kRows = 25, kStride = 113;
    for (const std::size_t growth : {0U, 1U})
      for (const std::size_t count : {1U, 2U, 15U, 16U, 17U, 37U, 64U}) {
        CAPTURE(count);
        std::vector<float> scores = real_values(kRows * kStride, 7, -190.0F, 230.0F);
        std::vector<float> exact = scores, words = scores, exact_totals(kRows), totals(kRows);
        table.attention.exp_rows(exact.data(), kStride, kRows, count, growth, 0.3F,
                                 exact_totals.data());
        bf16.exp_rows(words.data(), kStride, kRows, count, growth, 0.3F, totals.data());
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < kRows; ++r) {
          const std::size_t n = count + r * growth, per_word = bf16.values_per_word;
          double total = 0;
          for (std::size_t i = 0; i < n; ++i) {
            const float found = value_at(words.data() + r * kStride, i, per_word);
            wrong += found != round_to_bf16(exact[r * kStride + i]);
            total += static_cast<double>(found);
          }
          if (per_word == 2 && n % 2 == 1)
            wrong += value_at(words.data() + r * kStride, n, per_word) != 0.0F;
          wrong += std::fabs(totals[r] / total - 1) > std::ldexp(static_cast<double>(n), -23);
          for (std::size_t i = n; i < kStride; ++i)
            wrong += words[r * kStride + i] != scores[r * kStride + i];
        }
        CHECK(wrong == 0);
      }
  });
}

TEST_CASE("one NaN or infinity makes the total NaN") {
  on_each_table([](const KernelTable& table) {
    for (const std::size_t n : {1U, 3U, 16U, 37U})
      for (std::size_t at = 0; at < n; ++at)
        for (const float special : {kNan, std::numeric_limits<float>::infinity()}) {
          std::vector<float> x = real_values(n, 5);
          x[at] = special;
          float total = 0;
          table.attention_bf16.exp_rows(x.data(), n, 1, n, 0, 0.3F, &total);
          CHECK(std::isnan(total));
        }
  });
}

}  // namespace
}  // namespace fourfold
