// Panel kernels of each instruction set of this CPU: the bits that their additions in order give,
// the bound against float64, rows that do not depend on their batch; and the kernels that pack.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "dot_bf16.h"
#include "kernels/dispatch.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr float kGuard = -77.25F, kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kDepths[] = {1, 2, 3, 63, 64, 65, 129, 300};

template <class Check>
void on_each_table(Check check) {
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    check(*find_kernels(name));
  }
}

// Random operands of one product in one type of weights. x: [rows, k], w: [k, 64]; both as the
// kernels read them.
struct Operands {
  const KernelTable& table;
  bool bf16;
  std::size_t rows, k, stride;  // of stored values of x
  std::vector<float> x, w;      // as values
  std::vector<float> x_f32, panel_f32;
  std::vector<std::uint16_t> x_bf16;
  std::vector<std::uint32_t> panel_bf16;

  Operands(const KernelTable& of, bool in_bf16, std::size_t n_rows, std::size_t depth)
      : table(of),
        bf16(in_bf16),
        rows(n_rows),
        k(depth),
        stride((depth + 1) / 2 * 2 + 6),
        x(real_values(rows * k, 31 * k + rows)),
        w(real_values(k * 64, 37 * k)) {
    if (bf16)
      for (auto* values : {&x, &w})
        for (float& value : *values) value = round_to_bf16(value);
    x_f32.assign(rows * stride, kNan);
    x_bf16.assign(rows * stride, to_bf16(kNan).bits);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < (k + 1) / 2 * 2; ++i) {
        const float value = i < k ? x[r * k + i] : 0.0F;
        if (i < k || bf16) x_f32[r * stride + i] = value;
        x_bf16[r * stride + i] = to_bf16(value).bits;
      }
    panel_f32 = w;
    panel_bf16.assign((k + 1) / 2 * 64, 0);
    for (std::size_t i = 0; i < k * 64; ++i)
      panel_bf16[i / 128 * 64 + i % 64] |= static_cast<std::uint32_t>(to_bf16(w[i]).bits)
                                           << (i / 64 % 2 * 16);
  }

  // Rows first .. first + count; c holds their sums.
  void run(std::size_t first, std::size_t count, float* c, bool add) const {
    const GemmKernels& gemm = table.gemm;
    if (!bf16) {
      gemm.panel_f32(&x_f32[first * stride], stride, panel_f32.data(), nullptr, c, count, k, add);
      return;
    }
    const void* a = gemm.reads_bf16_rows ? static_cast<const void*>(&x_bf16[first * stride])
                                         : static_cast<const void*>(&x_f32[first * stride]);
    gemm.panel_bf16(a, stride, reinterpret_cast<const std::uint16_t*>(panel_bf16.data()), nullptr,
                    c, count, k, add);
  }
  Bf16Steps steps() const {
    const std::string name = table.name;
    if (bf16) return bf16_steps(name);
    return name == "scalar" ? Bf16Steps::rounded_products : Bf16Steps::fused;
  }
  float expected(std::size_t row, std::size_t column, float start) const {
    return bf16_sum(
        steps(), start, k, [&](std::size_t i) { return x[row * k + i]; },
        [&](std::size_t i) { return w[i * 64 + column]; });
  }
  // Whether c is the float64 sum within K eps sum of |terms|, start included.
  bool within_bound(std::size_t row, std::size_t column, double start, float found) const {
    double sum = start, size = std::fabs(start);
    for (std::size_t i = 0; i < k; ++i) {
      const double term =
          static_cast<double>(x[row * k + i]) * static_cast<double>(w[i * 64 + column]);
      sum += term;
      size += std::fabs(term);
    }
    return std::fabs(static_cast<double>(found) - sum) <=
           static_cast<double>(k + 1) * 0x1p-23 * size;
  }
};

TEST_CASE("products with a panel: every bit, close to float64, rows 1 to 13, added or not") {
  on_each_table([](const KernelTable& table) {
    for (const bool bf16 : {false, true})
      for (const std::size_t k : kDepths)
        for (std::size_t rows = 1; rows <= 13; ++rows)
          for (const bool add : {false, true}) {
            CAPTURE(bf16);
            CAPTURE(k);
            CAPTURE(rows);
            CAPTURE(add);
            const Operands operands(table, bf16, rows, k);
            std::vector<float> c = real_values((rows + 1) * 64, 41);
            std::fill(c.end() - 64, c.end(), kGuard);
            const std::vector<float> before = c;
            operands.run(0, rows, c.data(), add);
            std::size_t wrong = 0, far = 0;
            for (std::size_t i = 0; i < rows * 64; ++i) {
              const float start = add ? before[i] : 0.0F;
              wrong += !same_bits(c[i], operands.expected(i / 64, i % 64, start));
              far += !operands.within_bound(i / 64, i % 64, start, c[i]);
            }
            CHECK(wrong == 0);
            CHECK(far == 0);
            for (std::size_t i = rows * 64; i < c.size(); ++i) CHECK(c[i] == kGuard);
          }
  });
}

TEST_CASE("a row alone, in a batch of 64, and as the last of some rows: the same bits") {
  on_each_table([](const KernelTable& table) {
    for (const bool bf16 : {false, true})
      for (const std::size_t k : {65U, 300U, 1031U}) {
        CAPTURE(bf16);
        CAPTURE(k);
        const Operands operands(table, bf16, 64, k);
        std::vector<float> all(std::size_t{64} * 64), some(all.size());
        operands.run(0, 64, all.data(), false);
        std::size_t wrong = 0;
        const auto compare = [&](std::size_t first, std::size_t count) {
          operands.run(first, count, some.data(), false);
          wrong += !same_bits(std::span(some).first(count * 64),
                              std::span(all).subspan(first * 64, count * 64));
        };
        for (std::size_t row = 0; row < 64; ++row) compare(row, 1);
        for (std::size_t count = 1; count <= 64; ++count) compare(64 - count, count);
        CHECK(wrong == 0);
      }
  });
}

TEST_CASE("the depth may be cut at an even k: the sum goes on where it was") {
  on_each_table([](const KernelTable& table) {
    for (const bool bf16 : {false, true}) {
      const Operands operands(table, bf16, 5, 300);
      std::vector<float> whole(5 * 64), parts(5 * 64);
      operands.run(0, 5, whole.data(), false);
      for (const std::size_t cut : {std::size_t{2}, std::size_t{64}, std::size_t{298}}) {
        Operands first = operands, rest = operands;
        first.k = cut;
        rest.k = 300 - cut;
        rest.x_f32.erase(rest.x_f32.begin(), rest.x_f32.begin() + static_cast<long>(cut));
        rest.x_bf16.erase(rest.x_bf16.begin(), rest.x_bf16.begin() + static_cast<long>(cut));
        rest.panel_f32.erase(rest.panel_f32.begin(),
                             rest.panel_f32.begin() + static_cast<long>(cut * 64));
        rest.panel_bf16.erase(rest.panel_bf16.begin(),
                              rest.panel_bf16.begin() + static_cast<long>(cut * 32));
        first.run(0, 5, parts.data(), false);
        rest.run(0, 5, parts.data(), true);
        CAPTURE(bf16);
        CAPTURE(cut);
        CHECK(same_bits(parts, whole));
      }
    }
  });
}

TEST_CASE("a pair of bf16 with tiny values: dot products flush them, other products keep them") {
  on_each_table([](const KernelTable& table) {
    const float tiny = 0x1p-130F, small = 0x1p-70F;  // the square of small is below 2^-126
    Operands operands(table, true, 1, 2);
    const auto run = [&](float x0, float w0, float x1, float w1) {
      const float x[] = {x0, x1};
      for (std::size_t i = 0; i < 2; ++i) {
        operands.x_f32[i] = x[i];
        operands.x_bf16[i] = to_bf16(x[i]).bits;
      }
      std::fill(operands.panel_bf16.begin(), operands.panel_bf16.end(),
                to_bf16(w0).bits | static_cast<std::uint32_t>(to_bf16(w1).bits) << 16);
      std::vector<float> c(64);
      operands.run(0, 1, c.data(), false);
      for (const float value : c) CHECK(same_bits(value, c[0]));
      return c[0];
    };
    const bool flushes = table.gemm.reads_bf16_rows;
    CHECK(run(tiny, 8, 0, 0) == (flushes ? 0.0F : 8 * tiny));
    CHECK(run(0, 0, 8, tiny) == (flushes ? 0.0F : 8 * tiny));
    CHECK(run(small, small, 0, 0) == (flushes ? 0.0F : 0x1p-140F));
    CHECK(run(tiny, 8, 1, 3) == 3);
    CHECK(run(small, small, small, 0x1p-40F) == (flushes ? 0x1p-110F : 0x1p-110F + 0x1p-140F));
    CHECK(std::isnan(run(kNan, 1, 1, 1)));
    CHECK(std::isnan(run(1, 1, kNan, 0)));
    CHECK(std::isnan(run(kInfinity, 0, 1, 1)));
    CHECK(std::isnan(run(kInfinity, 1, 1, -kInfinity)));
    CHECK(run(1, 1, kInfinity, 2) == kInfinity);
  });
}

TEST_CASE("NaN and infinities of one row stay in it") {
  on_each_table([](const KernelTable& table) {
    for (const bool bf16 : {false, true}) {
      CAPTURE(bf16);
      Operands operands(table, bf16, 7, 65);
      std::vector<float> clean(7 * 64), c(7 * 64);
      operands.run(0, 7, clean.data(), false);
      operands.x_f32[3 * operands.stride + 64] = kNan;
      operands.x_bf16[3 * operands.stride + 64] = to_bf16(kNan).bits;
      operands.x_f32[5 * operands.stride] = kInfinity;
      operands.x_bf16[5 * operands.stride] = to_bf16(kInfinity).bits;
      operands.run(0, 7, c.data(), false);
      for (std::size_t i = 0; i < c.size(); ++i) {
        if (i / 64 == 3)
          CHECK(std::isnan(c[i]));
        else if (i / 64 == 5)
          CHECK(c[i] == std::copysign(kInfinity, operands.w[i % 64]));
        else
          CHECK(same_bits(c[i], clean[i]));
      }
    }
  });
}

TEST_CASE("listed unit rows: the sum over them alone, in their order") {
  on_each_table([](const KernelTable& table) {
    for (const bool bf16 : {false, true}) {
      CAPTURE(bf16);
      const Operands operands(table, bf16, 1, 129);
      const std::size_t units = bf16 ? 65 : 129, depth = bf16 ? 2 : 1;
      for (const std::size_t step : {1U, 2U, 3U, 17U, 200U}) {
        CAPTURE(step);
        std::vector<std::uint32_t> index;
        for (std::size_t u = step - 1; u < units; u += step)
          index.push_back(static_cast<std::uint32_t>(u));
        const std::size_t listed = index.size();
        index.resize(listed + kListAhead);  // read ahead, not used
        std::vector<float> c(65, kGuard);
        if (!bf16)
          table.gemm.listed_f32(operands.x_f32.data(), 130, index.data(), listed,
                                operands.panel_f32.data(), c.data(), 1);
        else
          table.gemm.listed_bf16(
              table.gemm.reads_bf16_rows ? static_cast<const void*>(operands.x_bf16.data())
                                         : static_cast<const void*>(operands.x_f32.data()),
              130, index.data(), listed,
              reinterpret_cast<const std::uint16_t*>(operands.panel_bf16.data()), c.data(), 1);
        for (std::size_t column = 0; column < 64; ++column) {
          const auto k = [&](std::size_t i) { return index[i / depth] * depth + i % depth; };
          const float expected = bf16_sum(
              operands.steps(), 0, listed * depth,
              [&](std::size_t i) { return k(i) < 129 ? operands.x[k(i)] : 0.0F; },
              [&](std::size_t i) { return k(i) < 129 ? operands.w[k(i) * 64 + column] : 0.0F; });
          CHECK(same_bits(c[column], expected));
        }
        CHECK(c[64] == kGuard);
      }
    }
  });
}

TEST_CASE("the transpose moves every word, NaN patterns too, and nothing beside it") {
  on_each_table([](const KernelTable& table) {
    for (const std::size_t rows : {0U, 1U, 7U, 8U, 9U, 16U, 29U, 64U})
      for (const std::size_t cols : {0U, 1U, 5U, 8U, 15U, 17U, 64U, 67U}) {
        CAPTURE(rows);
        CAPTURE(cols);
        SampleValues source(43);
        std::vector<float> from(rows * (cols + 3)), to(cols * (rows + 5) + 1, kGuard);
        for (float& value : from) {  // any pattern
          const auto word = static_cast<std::uint32_t>(source.bits());
          std::memcpy(&value, &word, sizeof(word));
        }
        if (!from.empty()) {
          const std::uint32_t signalling = 0x7F800001U;
          std::memcpy(from.data(), &signalling, sizeof(signalling));
        }
        table.gemm.transpose(from.data(), cols + 3, rows, cols, to.data(), rows + 5);
        std::size_t wrong = 0;
        for (std::size_t c = 0; c < cols; ++c)
          for (std::size_t r = 0; r < rows + 5; ++r) {
            const float* expected = r < rows ? &from[r * (cols + 3) + c] : &kGuard;
            wrong += std::memcmp(&to[c * (rows + 5) + r], expected, sizeof(float)) != 0;
          }
        CHECK(wrong == 0);
        CHECK(to.back() == kGuard);
      }
  });
}

// The nearest bf16 by its definition, in float64: the two neighbours are one upper half apart.
std::uint16_t nearest(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto below = static_cast<std::uint16_t>(bits >> 16);
  if (std::isinf(value) || (bits & 0xFFFFU) == 0) return below;
  const auto above = static_cast<std::uint16_t>(below + 1);  // further from 0; the first may be inf
  const double low = to_float({below}), top = to_float({above});
  const double high = std::isinf(top) ? std::copysign(0x1p128, top) : top,
               middle = (low + high) / 2;
  if (std::fabs(value) == std::fabs(middle)) return below % 2 == 0 ? below : above;
  return std::fabs(value) < std::fabs(middle) ? below : above;
}

TEST_CASE("rounding rows to bf16: nearest, ties to even, NaN, infinities, no neighbour touched") {
  std::vector<float> values{0.0F,
                            -0.0F,
                            1.0F,
                            kInfinity,
                            -kInfinity,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min()};
  for (const std::uint32_t bits :
       {0x3F808000U, 0x3F818000U, 0xBF808000U, 0xBF818000U, 0x3F808001U, 0x3F807FFFU, 0x00008000U,
        0x00018000U, 0x7F7F7FFFU, 0x7F7F8000U, 0xFF7FFFFFU, 0x00000001U})
    values.push_back(std::bit_cast<float>(bits));
  SampleValues source(47);
  while (values.size() < 331) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(source.bits()));
    if (!std::isnan(value)) values.push_back(value);
  }
  on_each_table([&](const KernelTable& table) {
    const GemmKernels& gemm = table.gemm;
    for (std::size_t n = 0; n <= values.size(); n = n < 70 ? n + 1 : n + 87) {
      CAPTURE(n);
      const float* second = values.data() + values.size() - n;
      std::vector<float> wide(n + 1, kGuard);
      std::vector<std::uint16_t> narrow(n + 1, 0xABCD);
      std::vector<std::uint32_t> pairs(n + 1, 0xABCDEF01U);
      gemm.round_rows(values.data(), 0, wide.data(), 0, 1, n);
      gemm.narrow_rows(values.data(), 0, narrow.data(), 0, 1, n);
      gemm.pair_rows(values.data(), second, pairs.data(), n);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t low = nearest(values[i]), high = nearest(second[i]);
        wrong += std::bit_cast<std::uint32_t>(wide[i]) != low << 16;
        wrong += narrow[i] != low;
        wrong += pairs[i] != (low | high << 16);
      }
      CHECK(wrong == 0);
      CHECK(wide[n] == kGuard);
      CHECK(narrow[n] == 0xABCD);
      CHECK(pairs[n] == 0xABCDEF01U);
    }
  });
}

TEST_CASE("a NaN stays one, whichever bits make it, and touches nothing else of its word") {
  on_each_table([](const KernelTable& table) {
    for (const std::uint32_t bits :
         {0x7F800001U, 0x7FC00000U, 0xFF80FFFFU, 0xFFFFFFFFU, 0x7FFFFFFFU}) {
      CAPTURE(bits);
      const std::vector<float> row(17, std::bit_cast<float>(bits)), ones(17, 1.0F);
      std::vector<float> wide(17);
      std::vector<std::uint16_t> narrow(17);
      std::vector<std::uint32_t> low(17), high(17);
      table.gemm.round_rows(row.data(), 0, wide.data(), 0, 1, 17);
      table.gemm.narrow_rows(row.data(), 0, narrow.data(), 0, 1, 17);
      table.gemm.pair_rows(row.data(), ones.data(), low.data(), 17);
      table.gemm.pair_rows(ones.data(), row.data(), high.data(), 17);
      const auto is_nan = [](std::uint32_t half) { return (half & 0x7FFFU) > 0x7F80U; };
      for (std::size_t i = 0; i < 17; ++i) {
        CHECK(std::isnan(wide[i]));
        CHECK(is_nan(narrow[i]));
        CHECK(is_nan(low[i] & 0xFFFFU));
        CHECK((low[i] >> 16) == 0x3F80U);
        CHECK(is_nan(high[i] >> 16));
        CHECK((high[i] & 0xFFFFU) == 0x3F80U);
      }
    }
  });
}

}  // namespace
}  // namespace fourfold
