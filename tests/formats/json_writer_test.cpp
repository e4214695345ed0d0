// The writer's text against expected text, and numbers read back by the C library.
#include "formats/json_writer.h"

#include <doctest/doctest.h>

#include <clocale>
#include <cmath>
#include <cstdlib>
#include <limits>

using namespace fourfold;

namespace {

template <class T>
std::string one(T value) {
  JsonWriter writer(false);
  return writer.value(value).take();
}

}  // namespace

TEST_CASE("pretty text") {
  JsonWriter writer;
  writer.begin_object().field("name", "x").key("row").begin_array(true);
  writer.value(1).value(-2).value(0.5).end_array();
  writer.key("nested").begin_array().begin_object().field("ok", true).end_object().null();
  writer.end_array().key("none").begin_object().end_object().end_object();
  CHECK(writer.take() ==
        "{\n"
        "  \"name\": \"x\",\n"
        "  \"row\": [1, -2, 0.5],\n"
        "  \"nested\": [\n"
        "    {\n"
        "      \"ok\": true\n"
        "    },\n"
        "    null\n"
        "  ],\n"
        "  \"none\": {}\n"
        "}\n");
}

TEST_CASE("compact text, and the writer is empty after take") {
  JsonWriter writer(false);
  for (int i = 0; i < 2; ++i) {
    writer.begin_array().value(std::string("a")).begin_array(true).value(7U).value(8U);
    CHECK(writer.end_array().end_array().take() == "[\"a\",[7,8]]\n");
  }
}

TEST_CASE("whole numbers at their limits") {
  CHECK(one(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808\n");
  CHECK(one(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615\n");
  CHECK(one(false) == "false\n");
}

TEST_CASE("floats are short and read back exactly") {
  CHECK(one(0.1) == "0.1\n");
  CHECK(one(0.1F) == "0.1\n");
  for (const double value : {1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e21, 123456789.25}) {
    const double back = std::strtod(one(value).c_str(), nullptr);
    CHECK(back == value);
    CHECK(std::signbit(back) == std::signbit(value));
  }
  const float third = 1.0F / 3;
  CHECK(std::strtof(one(third).c_str(), nullptr) == third);
}

TEST_CASE("what JSON cannot say becomes null") {
  CHECK(one(std::nan("")) == "null\n");
  CHECK(one(std::numeric_limits<double>::infinity()) == "null\n");
  CHECK(one(-std::numeric_limits<float>::infinity()) == "null\n");
}

TEST_CASE("a locale with a decimal comma changes nothing") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  if (std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr) CHECK(one(1234.5) == "1234.5\n");
  std::setlocale(LC_ALL, before.c_str());
  CHECK(one(1234.5) == "1234.5\n");
}

TEST_CASE("strings are safe inside HTML and terminals") {
  CHECK(one("</script>") == "\"\\u003c/script>\"\n");
  CHECK(one("q\"b\\") == "\"q\\\"b\\\\\"\n");
  CHECK(one("\n\t\r\x01\x7f") == "\"\\n\\t\\u000d\\u0001\\u007f\"\n");
  CHECK(one("\xE2\x80\xA8\xE2\x80\xA9\xC2\x85") == "\"\\u2028\\u2029\\u0085\"\n");
  CHECK(one("\xC3\xA9\xF0\x9F\x98\x80") == "\"\xC3\xA9\xF0\x9F\x98\x80\"\n");
  CHECK(one("a\xFF"
            "b\xE2\x82") ==
        "\"a\xEF\xBF\xBD"
        "b\xEF\xBF\xBD\"\n");
  CHECK(one(std::string_view("a\0b", 3)) == "\"a\\u0000b\"\n");
}
