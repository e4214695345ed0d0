// A table of aligned columns for terminals that never grows wider than it may: long names are
// shortened, and columns that still do not fit move to a second block that repeats the first
// column.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/report_text.h"

namespace fourfold {

inline constexpr std::size_t kTextWidth = 100;

enum class Align { left, right };

struct TextColumn {
  std::string header;  // '\n' starts its second line
  Align align = Align::right;
  bool may_shrink = false;  // shortened first when the table is too wide
};

class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty, surplus ones are dropped. Cells are made visible here, so raw text
  // from files may come in.
  void add_row(const std::vector<std::string>& cells);
  void add_rule();

  std::string render(TextStyle style, std::size_t width = kTextWidth) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool rule = false;
  };
  std::vector<std::size_t> widths(std::size_t width) const;
  void render_block(std::string& out, const std::vector<std::size_t>& shown,
                    const std::vector<std::size_t>& widths, TextStyle style) const;

  std::vector<TextColumn> columns_;
  std::vector<Row> rows_;
};

// "label   text", the text wrapped and indented by `column`.
std::string labelled(std::string_view label, std::string_view text, std::size_t column,
                     TextStyle style);

// `text` in bold, or dim, when the style has colour.
std::string bold(std::string_view text, TextStyle style);
std::string dim(std::string_view text, TextStyle style);

}  // namespace fourfold
