// Two common mistakes, shown failing on the library's numbers: one network over the whole sentence,
// and a ratio without meaning.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "learn/lesson_page.h"
#include "report/number_text.h"
#include "report/safe_text.h"

namespace fourfold {
namespace {

constexpr std::size_t kCat = 1;          // its place in the sentence, and token number
constexpr std::size_t kCatReversed = 2;  // its place when the order is reversed

std::string row(std::string_view name, std::string_view id, const std::vector<float>& values,
                std::size_t token) {
  std::string out = fmt::format("<tr id=\"{}\"><th scope=\"row\">{}</th>", id, name);
  for (std::size_t j = 0; j < kMachineWidth; ++j) {
    const float value = values[token * kMachineWidth + j];
    out += fmt::format("<td class=\"num\" data-sign=\"{}\">{}</td>",
                       value > 0   ? "pos"
                       : value < 0 ? "neg"
                                   : "zero",
                       plain_number(value));
  }
  return out + "</tr>\n";
}

double distance(const std::vector<float>& a, std::size_t row_a, const std::vector<float>& b,
                std::size_t row_b) {
  double largest = 0;
  for (std::size_t j = 0; j < kMachineWidth; ++j)
    largest = std::max(largest, std::abs(static_cast<double>(a[row_a * kMachineWidth + j]) -
                                         b[row_b * kMachineWidth + j]));
  return largest;
}

std::string flattened_figure(Workspace& workspace) {
  const SentenceNumbers first = sentence_numbers(kInOrder, workspace);
  const SentenceNumbers second = sentence_numbers(kReversed, workspace);
  constexpr std::size_t all = kMachineTokens * kMachineWidth;
  return "<div class=\"buttons live\"><button type=\"button\" id=\"flat-shuffle\">Shuffle the "
         "sentence</button></div>\n<p id=\"flat-order\">Order: still, sat, cat, the</p>\n"
         "<div class=\"pair\">\n<table><caption>The FFN: “cat”</caption>\n<tbody>\n" +
         row("in order", "flat-ffn-before", first.ffn, kCat) +
         row("shuffled", "flat-ffn-after", second.ffn, kCatReversed) +
         "</tbody></table>\n<table><caption>One network over the sentence: "
         "“cat”</caption>\n<tbody>\n" +
         row("in order", "flat-net-before", first.flattened, kCat) +
         row("shuffled", "flat-net-after", second.flattened, kCatReversed) +
         fmt::format(
             "</tbody></table>\n</div>\n<p class=\"verdict\" id=\"flat-verdict\" "
             "aria-live=\"polite\">Largest change: {} for the FFN, {} for the network over the "
             "sentence.</p>\n<p>The FFN stores 76 numbers, for sentences of any length. This "
             "network stores {} and takes exactly four tokens.</p>\n",
             plain_number(distance(first.ffn, kCat, second.ffn, kCatReversed)),
             plain_number(distance(first.flattened, kCat, second.flattened, kCatReversed)),
             grouped(2 * all * kFlattenedUnits));
}

constexpr double kPictureWidth = 320, kPictureHeight = 120;

std::string curve(std::span<const float> t, std::span<const float> y) {
  std::string path;
  for (std::size_t i = 0; i < t.size(); ++i)
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", 10 + kPictureWidth * t[i],
                        10 + kPictureHeight * (1 - y[i]) / 2);
  return path;
}

std::string ratio_figure(Workspace& workspace) {
  constexpr std::size_t points = 201;
  std::vector<float> t(points), target(points), y(points);
  for (std::size_t i = 0; i < points; ++i) {
    t[i] = static_cast<float>(i) / (points - 1);
    target[i] = std::sin(5 * t[i]);
  }
  std::string rows, drawn;
  for (const std::size_t n : {1U, 2U, 4U, 8U, 16U, 32U}) {
    join_lines(n, t, y, workspace);
    double error = 0;
    for (std::size_t i = 0; i < points; ++i)
      error = std::max(error, std::abs(static_cast<double>(y[i]) - target[i]));
    if (n == 4) drawn = curve(t, y);
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>\n", n,
                        grouped(3 * n), fixed(error, 4));
  }
  return "<figure class=\"fit\">\n<label class=\"control live\" for=\"fit-units\">Hidden units "
         "<output "
         "id=\"fit-units-text\">4</output><input type=\"range\" id=\"fit-units\" min=\"1\" "
         "max=\"32\" "
         "step=\"1\" value=\"4\"></label>\n<svg viewBox=\"0 0 340 140\" role=\"img\" "
         "aria-label=\"A smooth curve and the bent line that the hidden units make of it\">\n"
         "<path class=\"target\" d=\"" +
         curve(t, target) + "\"/>\n<path class=\"fitted\" id=\"fit-line\" d=\"" + drawn +
         "\"/>\n</svg>\n<figcaption>Dashed: sin(5t). Solid: a layer 1 → n → 1 with ReLU, one bend "
         "a "
         "unit, weights chosen by hand.</figcaption>\n</figure>\n<p class=\"verdict\" "
         "id=\"fit-verdict\" aria-live=\"polite\"></p>\n<table><caption>More units: smaller error, "
         "more numbers to store</caption>\n<thead><tr><th scope=\"col\">units</th><th "
         "scope=\"col\">numbers</th><th scope=\"col\">largest error</th></tr></thead>\n<tbody>\n" +
         rows +
         "</tbody></table>\n<p>Twice the units cost twice the numbers and leave about a quarter of "
         "the error, again and again; nothing special happens at 4. This is a picture of the "
         "trade, not of a language model.</p>\n";
}

}  // namespace

std::string mistakes_html(const Lesson& lesson, Workspace& workspace) {
  std::string out;
  for (std::size_t i = 0; i < lesson.mistakes.size(); ++i) {
    const LessonMistake& one = lesson.mistakes[i];
    out += fmt::format(
        "<article class=\"mistake\" id=\"mistake-{}\">\n<h3>“{}”</h3>\n<p>{}</p>\n{}<p "
        "class=\"correction\">{}{}</p>\n</article>\n",
        html_text(one.id), html_text(one.title), prose(one.believed),
        i == 0   ? flattened_figure(workspace)
        : i == 1 ? ratio_figure(workspace)
                 : std::string(),
        prose(one.correction), source_links(one.sources, lesson));
  }
  return out;
}

}  // namespace fourfold
