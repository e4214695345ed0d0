// An HTML table in a box that scrolls by itself, so that a wide table never makes the page scroll
// sideways.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

struct HtmlColumn {
  std::string header;
  bool number = true;  // aligned right
};

// All texts are escaped here. The first cell of a row is its header.
std::string html_table(std::string_view caption, const std::vector<HtmlColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows);

// The scrolling box that html_table uses; `content` is finished HTML, `name` is read out by screen
// readers.
std::string scroll_box(std::string_view name, std::string_view content);

// A chart with its caption, and the table with the same numbers folded away under it.
std::string figure(std::string_view caption, std::string_view charts, std::string_view table);

}  // namespace fourfold
