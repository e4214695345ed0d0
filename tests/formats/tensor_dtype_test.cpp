// Half-width floats against their definition, for every bit pattern.
#include "formats/tensor_dtype.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

using namespace fourfold;

TEST_CASE("every half widens to its exact value") {
  int wrong = 0;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>((bits >> 10U) & 31U);
    const int fraction = static_cast<int>(bits & 1023U);
    const float value = widen_f16(static_cast<std::uint16_t>(bits));
    if (std::signbit(value) != (bits >= 0x8000)) ++wrong;
    if (exponent == 31) {
      if (fraction == 0 ? !std::isinf(value) : !std::isnan(value)) ++wrong;
      continue;
    }
    const double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (std::fabs(static_cast<double>(value)) != expected) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a bfloat16 is the upper half of a float") {
  CHECK(widen_bf16(0x3F80) == 1.0F);
  CHECK(widen_bf16(0xC040) == -3.0F);
  CHECK(widen_bf16(0x7F7F) == 0x1.FEp127F);
  CHECK(widen_bf16(0x0001) == 0x1p-133F);
  CHECK(std::isnan(widen_bf16(0x7FC1)));
  CHECK(std::signbit(widen_bf16(0x8000)));
}

TEST_CASE("names and widths of element types") {
  CHECK(parse_dtype("F8_E4M3") == TensorDtype::f8_e4m3);
  CHECK_FALSE(parse_dtype("f32").has_value());
  CHECK_FALSE(parse_dtype("").has_value());
  CHECK(dtype_bits(TensorDtype::f6_e3m2) == 6);
  CHECK(is_floating(TensorDtype::bf16));
  CHECK_FALSE(is_floating(TensorDtype::i64));
}
