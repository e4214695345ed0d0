#include "report/number_text.h"

#include <doctest/doctest.h>

#include <limits>

using namespace fourfold;

TEST_CASE("thousands are grouped from the right") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(22713216) == "22,713,216");
  CHECK(grouped(std::numeric_limits<std::uint64_t>::max()) == "18,446,744,073,709,551,615");
  CHECK(fixed(1234.567, 1) == "1,234.6");
  CHECK(fixed(-123456.0, 0) == "-123,456");
  CHECK(fixed(-0.0001, 2) == "0.00");
}

TEST_CASE("what is not finite, huge or missing has a word of its own") {
  CHECK(fixed(std::numeric_limits<double>::quiet_NaN(), 2) == "NaN");
  CHECK(short_number(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(fixed(1.5e300, 2).size() < 12);
  CHECK(percent_number(std::optional<double>{}) == "-");
  CHECK(percent_of(1, 0) == "-");
}

TEST_CASE("a small share never reads as nothing") {
  CHECK(percent_number(0.0) == "0.00");
  CHECK(percent_number(0.00004) == "<0.01");
  CHECK(percent_number(0.00006) == "0.01");
  CHECK(percent_number(0.6663) == "66.63");
  CHECK(percent_of(7, 8) == "87.50");
}

TEST_CASE("short numbers keep about four digits") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(0.01234) == "0.0123");
  CHECK(short_number(3.14159) == "3.142");
  CHECK(short_number(48210.4) == "48,210");
  CHECK(short_number(1.2e9) == "1.20e+09");
  CHECK(bytes_text(512) == "512 B");
  CHECK(bytes_text(std::uint64_t{45} << 20) == "45.0 MiB");
}
