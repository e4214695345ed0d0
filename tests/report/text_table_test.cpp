#include "report/text_table.h"

#include <doctest/doctest.h>

#include "report/text_lines.h"

using namespace fourfold;

TEST_CASE("numbers stand right, names left, and nothing trails") {
  TextTable table({{"layer"}, {"name", Align::left}, {"count"}});
  table.add_row({"0", "ab", "7"});
  table.add_row({"10", "日本", "1,234"});
  const std::vector<std::string> lines = lines_of(table.render({}));
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "layer  name  count");
  CHECK(lines[2] == "    0  ab        7");
  CHECK(lines[3] == "   10  日本  1,234");
}

TEST_CASE("a long name is cut before numbers are") {
  TextTable table({{"tensor", Align::left, true}, {"count"}});
  table.add_row({std::string(1000, 'n'), "18,446,744,073,709,551,615"});
  const std::vector<std::string> lines = lines_of(table.render({}, 61));
  CHECK(widest(lines) <= 61);
  CHECK(lines.back().find("18,446,744,073,709,551,615") != std::string::npos);
  CHECK(lines.back().find("n…") != std::string::npos);
}

TEST_CASE("columns that do not fit move below and repeat the first column") {
  std::vector<TextColumn> columns{{"layer"}};
  std::vector<std::string> cells{"17"};
  for (int i = 0; i < 11; ++i) {
    columns.push_back({"c" + std::to_string(i)});
    cells.push_back("18,446,744,073,709,551,615");
  }
  TextTable table(columns);
  table.add_row(cells);
  const std::string text = table.render({});
  const std::vector<std::string> lines = lines_of(text);
  CHECK(widest(lines) <= 100);
  std::size_t whole = 0, keys = 0;
  for (std::size_t at = text.find("551,615"); at != std::string::npos;
       at = text.find("551,615", at + 1))
    ++whole;
  for (const std::string& line : lines) keys += line.rfind("   17", 0) == 0;
  CHECK(whole == 11);
  CHECK(keys == 4);
}

TEST_CASE("colour changes no character of the table") {
  TextTable table({{"layer"}, {"two\nlines"}});
  table.add_row({"3", "5"});
  table.add_rule();
  table.add_row({"all", "8"});
  const std::string plain = table.render({});
  const std::string colored = table.render({.color = true});
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK(colored.find("\x1b[1m") != std::string::npos);
  CHECK(without_colors(colored) == plain);
}

TEST_CASE("control characters of a cell cannot reach the terminal") {
  TextTable table({{"name", Align::left}});
  table.add_row({"\x1b[2J\n\xE2\x80\xAE"});
  const std::string text = table.render({});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\\x1B[2J\\n\\u202E") != std::string::npos);
}
