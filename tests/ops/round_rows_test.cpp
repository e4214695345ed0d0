// bf16 rounding: every upper half, ties, overflow and NaN.
#include "ops/round_rows.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sample_values.h"

namespace fourfold {
namespace {

float of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Round to nearest in float64: the two neighbours are 2^16 apart in the pattern.
float nearest(std::uint32_t bits) {
  const std::uint32_t low = bits & 0xFFFF0000U, high = low + 0x10000U, rest = bits & 0xFFFFU;
  if (rest < 0x8000U || (rest == 0x8000U && (low & 0x10000U) == 0)) return of_bits(low);
  return of_bits(high);
}

TEST_CASE("all bf16 values survive widening and rounding") {
  for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
    const Bf16 value{static_cast<std::uint16_t>(upper)};
    const float wide = to_float(value);
    if (std::isnan(wide))
      CHECK(std::isnan(round_to_bf16(wide)));
    else if (to_bf16(wide).bits != value.bits)
      FAIL("changed: ", upper);
  }
}

TEST_CASE("between two values the nearer one wins, and of equals the even one") {
  std::size_t wrong = 0;
  for (std::uint32_t upper = 0; upper < 0x7F80U; ++upper)
    for (const std::uint32_t lower : {0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU})
      for (const std::uint32_t sign : {0U, 0x80000000U}) {
        const std::uint32_t bits = sign | upper << 16 | lower;
        wrong += !same_bits(round_to_bf16(of_bits(bits)), nearest(bits));
      }
  CHECK(wrong == 0);
  CHECK(round_to_bf16(std::numeric_limits<float>::max()) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(round_to_bf16(of_bits(0x7F800001U))));
}

TEST_CASE("rows are rounded, widened and narrowed with strides, in place too") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  std::vector<float> x = real_values(5 * 11, 53), y(5 * 7);
  round_rows_to_bf16({x.data(), 5, 7, 11}, {y.data(), 5, 7}, workspace);
  std::vector<Bf16> narrow(5 * 9);
  narrow_rows({x.data(), 5, 7, 11}, {narrow.data(), 5, 7, 9}, workspace);
  std::vector<float> wide(5 * 7);
  widen_rows({narrow.data(), 5, 7, 9}, {wide.data(), 5, 7}, workspace);
  CHECK(same_bits(wide, y));
  for (std::size_t i = 0; i < 35; ++i) CHECK(y[i] == round_to_bf16(x[i / 7 * 11 + i % 7]));
  const std::vector<float> before = x;
  round_rows_to_bf16({x.data(), 5, 7, 11}, {x.data(), 5, 7, 11}, workspace);
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(x[i] == (i % 11 < 7 ? round_to_bf16(before[i]) : before[i]));
}

}  // namespace
}  // namespace fourfold
