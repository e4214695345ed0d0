// The concept map: a picture for wide screens, columns by distance from the first concept, and a
// list of the same ideas and links for every screen.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "learn/lesson_page.h"
#include "report/safe_text.h"

namespace fourfold {
namespace {

constexpr std::size_t kNodeWidth = 184, kLineHeight = 17, kNodeGap = 14, kColumnGap = 44;
constexpr std::size_t kLabelColumns = 22, kMaxColumns = 4;

struct Node {
  const LessonConcept* entry = nullptr;
  std::vector<std::string> lines;
  std::size_t column = 0, top = 0;  // top in the picture's units

  std::size_t height() const { return 14 + kLineHeight * lines.size(); }
  std::size_t left() const { return 2 + column * (kNodeWidth + kColumnGap); }
  std::size_t middle() const { return top + height() / 2; }
};

std::vector<std::string> label_lines(std::string_view title) {
  std::vector<std::string> lines;
  const std::string wrapped = wrap_text(title, kLabelColumns, 0);
  for (std::size_t first = 0; first < wrapped.size();) {
    const std::size_t end = wrapped.find('\n', first);
    lines.push_back(wrapped.substr(first, end - first));
    first = end + 1;
  }
  return lines;
}

using Nodes = std::map<std::string, Node, std::less<>>;

// Columns by the fewest links from the first concept, either way along a link.
void place_columns(const std::vector<LessonConcept>& concepts, Nodes& nodes) {
  std::map<std::string, std::set<std::string>> near;
  for (const LessonConcept& one : concepts)
    for (const std::string& link : one.links) {
      near[one.id].insert(link);
      near[link].insert(one.id);
    }
  std::vector<std::string> ring{concepts.front().id};
  std::set<std::string> seen{ring.front()};
  for (std::size_t column = 0; !ring.empty(); ++column) {
    std::vector<std::string> next;
    for (const std::string& id : ring) {
      const auto node = nodes.find(id);
      if (node != nodes.end()) node->second.column = std::min(column, kMaxColumns - 1);
      for (const std::string& other : near[id])
        if (seen.insert(other).second) next.push_back(other);
    }
    ring = std::move(next);
  }
  for (auto& [id, node] : nodes)
    if (!seen.contains(id)) node.column = kMaxColumns - 1;
}

// Heights column by column, each column centred; returns the picture's height.
std::size_t place_rows(const std::vector<LessonConcept>& concepts, Nodes& nodes) {
  std::array<std::size_t, kMaxColumns> filled{};
  for (const LessonConcept& one : concepts) {
    Node& node = nodes[one.id];
    node.top = filled[node.column];
    filled[node.column] += node.height() + kNodeGap;
  }
  const std::size_t height = *std::max_element(filled.begin(), filled.end());
  for (auto& [id, node] : nodes) node.top += (height - filled[node.column]) / 2 + kNodeGap / 2;
  return height;
}

std::string link_path(const Node& from, const Node& to) {
  const Node& left = from.column <= to.column ? from : to;
  const Node& right = from.column <= to.column ? to : from;
  const std::size_t x1 = left.left() + kNodeWidth, y1 = left.middle(), y2 = right.middle();
  if (left.column == right.column)  // a bow beside the column
    return fmt::format("M{0} {1}C{2} {1} {2} {3} {0} {3}", x1, y1, x1 + kColumnGap / 2, y2);
  const std::size_t x2 = right.left(), mid = x2 - kColumnGap / 2;
  return fmt::format("M{} {}C{} {} {} {} {} {}", x1, y1, x1 + kColumnGap / 2, y1, mid, y2, x2, y2);
}

std::string node_svg(const Node& node) {
  std::string out = fmt::format(
      "<a href=\"#concept-{}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\"/>"
      "<text>",
      html_text(node.entry->id), node.left(), node.top, kNodeWidth, node.height());
  for (std::size_t i = 0; i < node.lines.size(); ++i)
    out += fmt::format("<tspan x=\"{}\" y=\"{}\">{}</tspan>", node.left() + 10,
                       node.top + 19 + i * kLineHeight, html_text(node.lines[i]));
  return out + "</text></a>\n";
}

}  // namespace

std::string map_html(const Lesson& lesson) {
  const std::vector<LessonConcept>& concepts = lesson.concepts;
  Nodes nodes;
  for (const LessonConcept& one : concepts) nodes[one.id] = {&one, label_lines(one.title), 0, 0};
  place_columns(concepts, nodes);
  const std::size_t height = place_rows(concepts, nodes);
  std::size_t columns = 1;
  for (const auto& [id, node] : nodes) columns = std::max(columns, node.column + 1);

  std::string out = fmt::format(
      "<svg class=\"map\" viewBox=\"0 0 {} {}\" role=\"group\" aria-label=\"Concept map; the list "
      "below holds the same links\">\n<g class=\"map-links\" aria-hidden=\"true\">\n",
      columns * (kNodeWidth + kColumnGap) - kColumnGap / 2, height);
  for (const LessonConcept& one : concepts)
    for (const std::string& link : one.links) {
      const auto other = nodes.find(link);
      if (other != nodes.end())
        out += "<path d=\"" + link_path(nodes[one.id], other->second) + "\"/>\n";
    }
  out += "</g>\n";
  for (const LessonConcept& one : concepts) out += node_svg(nodes[one.id]);
  out += "</svg>\n<div class=\"concepts\">\n";
  for (const LessonConcept& one : concepts) {
    out += fmt::format("<article class=\"concept\" id=\"concept-{}\">\n<h3>{}</h3>\n<p>{}{}</p>\n",
                       html_text(one.id), html_text(one.title), prose(one.text),
                       source_links(one.sources, lesson));
    std::string links;
    for (const std::string& link : one.links) {
      const auto other = nodes.find(link);
      if (other != nodes.end())
        links += fmt::format("{}<a href=\"#concept-{}\">{}</a>", links.empty() ? "" : " · ",
                             html_text(link), html_text(other->second.entry->title));
    }
    if (!links.empty()) out += "<p class=\"leads\">Leads to " + links + "</p>\n";
    out += "</article>\n";
  }
  return out + "</div>\n";
}

}  // namespace fourfold
