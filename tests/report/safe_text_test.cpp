#include "report/safe_text.h"

#include <doctest/doctest.h>

#include <string>

using namespace fourfold;

namespace {
constexpr const char* kOverride = "\xE2\x80\xAE";  // U+202E
}

TEST_CASE("hidden characters become visible escapes") {
  CHECK(visible_text("plain Übung 日本") == "plain Übung 日本");
  CHECK(visible_text(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(visible_text("a\x1b[31m\n\t") == "a\\x1B[31m\\n\\t");
  CHECK(visible_text(std::string("x") + kOverride + "y") == "x\\u202Ey");
  CHECK(visible_text("\xE2\x81\xA6\xEF\xBB\xBF\xC2\x85") == "\\u2066\\uFEFF\\x85");
  CHECK(visible_text("\xF3\xA0\x81\x81") == "\\U000E0041");
}

TEST_CASE("bytes that are not UTF-8 become U+FFFD") {
  CHECK(visible_text("a\xff"
                     "b") ==
        "a\xEF\xBF\xBD"
        "b");
  CHECK(visible_text("\xC3") == "\xEF\xBF\xBD");
  CHECK(visible_text("\xED\xA0\x80").find('\xED') == std::string::npos);  // a lone surrogate
}

TEST_CASE("width counts terminal columns") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("日本") == 4);
  CHECK(display_width("e\xCC\x81") == 1);
}

TEST_CASE("shortened text fits and says where it was cut") {
  CHECK(shorten("abcdef", 6) == "abcdef");
  CHECK(shorten("abcdefg", 6) == "abcde…");
  CHECK(shorten("abcdefg", 6, Keep::end) == "…cdefg");
  for (std::size_t columns = 0; columns < 9; ++columns) {
    CHECK(display_width(shorten("日本語日本語", columns)) <= columns);
    CHECK(display_width(shorten("日本語日本語", columns, Keep::end)) <= columns);
  }
}

TEST_CASE("wrapped lines keep within the width and lose no word") {
  const std::string text =
      "seven small words and one " + std::string(71, 'x') + " stand here in a row";
  const std::string wrapped = wrap_text(text, 23, 3);
  std::string joined;
  std::size_t begin = 0;
  for (std::size_t end = wrapped.find('\n'); end != std::string::npos;
       end = wrapped.find('\n', begin)) {
    const std::string line = wrapped.substr(begin, end - begin);
    CHECK(display_width(line) + (begin == 0 ? 3 : 0) <= 23);
    for (const char c : line)
      if (c != ' ') joined += c;
    begin = end + 1;
  }
  std::string expected;
  for (const char c : text)
    if (c != ' ') expected += c;
  CHECK(joined == expected);
}

TEST_CASE("HTML text holds no markup") {
  CHECK(html_text("<a href=\"x\">&'") == "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  CHECK(html_text("abcdefgh", 4) == "abc…");
}

TEST_CASE("script text escapes what could end the script or hide") {
  CHECK(script_text("{\"a\":\"</x>\"}\n") == "{\"a\":\"\\u003c/x>\"}\n");
  CHECK(script_text(std::string("\"") + kOverride + "\"") == "\"\\u202e\"");
  CHECK(script_text("\"\xF3\xA0\x81\x81\"") == "\"\\udb40\\udc41\"");
}
