// Widths are settled first (natural, then shrunk), columns are then dealt into blocks that fit.
#include "report/text_table.h"

#include <algorithm>
#include <numeric>

#include "report/safe_text.h"

namespace fourfold {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 10;      // a shortened column keeps at least this much
constexpr std::size_t kLongestNumber = 26;  // 18,446,744,073,709,551,615

std::vector<std::string> header_lines(std::string_view header) {
  std::vector<std::string> lines;
  while (true) {
    const std::size_t end = header.find('\n');
    lines.push_back(visible_text(header.substr(0, end)));
    if (end == std::string_view::npos) return lines;
    header.remove_prefix(end + 1);
  }
}

void append_cell(std::string& line, std::string_view text, std::size_t width, Align align) {
  const std::string shown = shorten(text, width);
  const std::size_t pad = width - std::min(width, display_width(shown));
  if (align == Align::right) line.append(pad, ' ');
  line += shown;
  if (align == Align::left) line.append(pad, ' ');
}

void strip_end(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

std::size_t total_width(const std::vector<std::size_t>& widths) {
  if (widths.empty()) return 0;
  return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
}

}  // namespace

std::string labelled(std::string_view label, std::string_view text, std::size_t column,
                     TextStyle style) {
  std::string out = bold(label, style);
  out.append(column > label.size() ? column - label.size() : 1, ' ');
  return out + wrap_text(text, kTextWidth, column);
}

std::string bold(std::string_view text, TextStyle style) {
  return style.color ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
}

std::string dim(std::string_view text, TextStyle style) {
  return style.color ? "\x1b[2m" + std::string(text) + "\x1b[0m" : std::string(text);
}

void TextTable::add_row(const std::vector<std::string>& cells) {
  Row row;
  row.cells.resize(columns_.size());
  for (std::size_t i = 0; i < std::min(cells.size(), columns_.size()); ++i)
    row.cells[i] = visible_text(cells[i]);
  rows_.push_back(std::move(row));
}

void TextTable::add_rule() { rows_.push_back({{}, true}); }

std::vector<std::size_t> TextTable::widths(std::size_t width) const {
  std::vector<std::size_t> result(columns_.size(), 0);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    for (const std::string& line : header_lines(columns_[i].header))
      result[i] = std::max(result[i], display_width(line));
    for (const Row& row : rows_)
      if (!row.rule) result[i] = std::max(result[i], display_width(row.cells[i]));
    // Two of the longest numbers stand side by side, whatever a file holds.
    result[i] = std::min(result[i], columns_[i].may_shrink ? width : kLongestNumber);
  }
  while (total_width(result) > width) {
    std::size_t widest = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i].may_shrink && result[i] > kNarrowest &&
          (widest == columns_.size() || result[i] > result[widest]))
        widest = i;
    if (widest == columns_.size()) break;
    --result[widest];
  }
  return result;
}

void TextTable::render_block(std::string& out, const std::vector<std::size_t>& shown,
                             const std::vector<std::size_t>& widths, TextStyle style) const {
  std::size_t header_rows = 0;
  std::size_t block_width = 0;
  std::vector<std::vector<std::string>> headers;
  for (const std::size_t i : shown) {
    headers.push_back(header_lines(columns_[i].header));
    header_rows = std::max(header_rows, headers.back().size());
    block_width += widths[i] + (block_width == 0 ? 0 : kGap);
  }
  for (std::size_t r = 0; r < header_rows; ++r) {
    std::string line;
    for (std::size_t s = 0; s < shown.size(); ++s) {
      if (s > 0) line.append(kGap, ' ');
      const std::size_t above = header_rows - headers[s].size();
      append_cell(line, r < above ? std::string_view{} : headers[s][r - above], widths[shown[s]],
                  columns_[shown[s]].align);
    }
    strip_end(line);
    out += bold(line, style) + '\n';
  }
  std::string rule;
  for (std::size_t i = 0; i < block_width; ++i) rule += "─";
  out += dim(rule, style) + '\n';
  for (const Row& row : rows_) {
    if (row.rule) {
      out += dim(rule, style) + '\n';
      continue;
    }
    std::string line;
    for (std::size_t s = 0; s < shown.size(); ++s) {
      if (s > 0) line.append(kGap, ' ');
      append_cell(line, row.cells[shown[s]], widths[shown[s]], columns_[shown[s]].align);
    }
    strip_end(line);
    out += line + '\n';
  }
}

std::string TextTable::render(TextStyle style, std::size_t width) const {
  std::string out;
  if (columns_.empty()) return out;
  const std::vector<std::size_t> all = widths(width);
  std::size_t next = 1;
  do {
    std::vector<std::size_t> shown{0};
    std::size_t used = all[0];
    while (next < columns_.size() && (shown.size() == 1 || used + kGap + all[next] <= width)) {
      used += kGap + all[next];
      shown.push_back(next++);
    }
    if (!out.empty()) out += '\n';
    render_block(out, shown, all, style);
  } while (next < columns_.size());
  return out;
}

}  // namespace fourfold
