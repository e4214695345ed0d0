// Valid and broken UTF-8 by the table of RFC 3629, and text made printable.
#include "formats/utf8.h"

#include <doctest/doctest.h>

using namespace fourfold;

TEST_CASE("valid sequences of one to four bytes") {
  CHECK(utf8_step("A", 0).code == U'A');
  CHECK(utf8_step("x\xC3\xA9", 1).code == 0xE9);
  CHECK(utf8_step("\xE2\x82\xAC", 0).code == 0x20AC);
  CHECK(utf8_step("\xF0\x9F\x98\x80", 0).code == 0x1F600);
  CHECK(utf8_step("\xF4\x8F\xBF\xBF", 0).code == 0x10FFFF);
  CHECK(first_invalid_utf8("A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") == std::string_view::npos);
}

TEST_CASE("broken sequences and how far they reach") {
  struct Row {
    std::string_view text;
    std::size_t length;
  };
  for (const Row row :
       {Row{"\x80", 1}, Row{"\xC0\xAF", 1}, Row{"\xC3", 1}, Row{"\xC3(", 1}, Row{"\xE0\x80\x80", 1},
        Row{"\xED\xA0\x80", 1}, Row{"\xE2\x82", 2}, Row{"\xE2\x82(", 2}, Row{"\xF0\x9F\x98", 3},
        Row{"\xF4\x90\x80\x80", 1}, Row{"\xF5\x80", 1}, Row{"\xFF", 1}}) {
    const Utf8Step step = utf8_step(row.text, 0);
    CHECK_FALSE(step.valid);
    CHECK(step.code == 0xFFFD);
    CHECK(step.length == row.length);
    CHECK(first_invalid_utf8("ab" + std::string(row.text)) == 2);
  }
}

TEST_CASE("printable text has no control characters and a bounded length") {
  CHECK(printable("plain \xC3\xA9") == "plain \xC3\xA9");
  CHECK(printable("a\x1b[0m\n") == "a\\u001b[0m\\u000a");
  CHECK(printable("\xE2\x80\xAE") == "\\u202e");
  CHECK(printable("\xC2\x85") == "\\u0085");
  CHECK(printable("\xE2\x82") == "\\xe2\\x82");
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("ab\xC3\xA9", 3) == "ab...");
}
