// The box can be reached and scrolled with the keyboard.
#include "report/html_table.h"

#include "report/safe_text.h"

namespace fourfold {

std::string scroll_box(std::string_view name, std::string_view content) {
  return "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + html_text(name) +
         "\">\n" + std::string(content) + "</div>\n";
}

std::string html_table(std::string_view caption, const std::vector<HtmlColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<table>\n<caption>" + html_text(caption) + "</caption>\n<thead><tr>";
  for (const HtmlColumn& column : columns)
    out += std::string(column.number ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">") +
           html_text(column.header) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      const std::string tag = i == 0 ? "th" : "td";
      out += '<' + tag + (i == 0 ? " scope=\"row\"" : "") +
             (columns[i].number ? " class=\"n\">" : ">") + html_text(row[i]) + "</" + tag + '>';
    }
    out += "</tr>\n";
  }
  return scroll_box(caption, out + "</tbody>\n</table>\n");
}

std::string figure(std::string_view caption, std::string_view charts, std::string_view table) {
  std::string out = "<figure>\n<figcaption>" + html_text(caption) + "</figcaption>\n";
  out += charts;
  out += "<details>\n<summary>Table</summary>\n";
  out += table;
  return out + "</details>\n</figure>\n";
}

}  // namespace fourfold
