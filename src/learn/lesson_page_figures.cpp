// The pictures of the page at its first setting, from the library's numbers. The script takes the
// same elements over and keeps their classes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "learn/lesson_page.h"
#include "report/number_text.h"
#include "report/safe_text.h"

namespace fourfold {
namespace {

constexpr std::array<std::string_view, kMachineTokens> kTokens{"the", "cat", "sat", "still"};

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

std::string_view sign_of(float value) { return value > 0 ? "pos" : value < 0 ? "neg" : "zero"; }

// A row of cells of the picture, centred in 360 units.
struct PictureRow {
  std::span<const float> values;
  double top;
  static constexpr double kCell = 40, kStep = 44, kHeight = 30;

  double left(std::size_t i) const {
    return 180 - kStep * static_cast<double>(values.size()) / 2 + kStep * static_cast<double>(i) +
           (kStep - kCell) / 2;
  }
  double middle(std::size_t i) const { return left(i) + kCell / 2; }
  std::string svg() const {
    std::string out;
    for (std::size_t i = 0; i < values.size(); ++i)
      out += fmt::format(
          "<rect class=\"box {}\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
          "rx=\"4\"/><text class=\"number\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
          sign_of(values[i]), left(i), top, kCell, kHeight, middle(i), top + 20,
          plain_number(values[i]));
    return out;
  }
};

// A line from every value above to every value below, as thick as the weight is large.
std::string weight_lines(const PictureRow& from, const PictureRow& to, bool hidden_above) {
  const MachineWeights& weights = machine_weights();
  std::string out;
  for (std::size_t j = 0; j < to.values.size(); ++j)
    for (std::size_t i = 0; i < from.values.size(); ++i) {
      const std::size_t unit = hidden_above ? i : j, other = hidden_above ? j : i;
      const float weight = (hidden_above ? weights.down : weights.up)[unit * kMachineWidth + other];
      const float moved = weight * from.values[i];
      out += fmt::format(
          "<line class=\"{}\" x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\" "
          "stroke-width=\"{:.1f}\"/>\n",
          sign_of(moved), from.middle(i), from.top + PictureRow::kHeight, to.middle(j), to.top,
          0.4F + 2.6F * std::abs(weight));
    }
  return out;
}

std::string cells(std::string_view letter, std::span<const float> values) {
  const float largest = largest_of(values);
  std::string out = "<div class=\"cells\">";
  for (std::size_t i = 0; i < values.size(); ++i)
    out += number_cell(fmt::format("{}<sub>{}</sub>", letter, i + 1), values[i], largest);
  return out + "</div>\n";
}

std::string step(const PageText& text, std::string_view id, std::string_view formula,
                 const std::string& body) {
  const auto at = std::find_if(text.stages.begin(), text.stages.end(),
                               [&](const PageStage& stage) { return stage.id == id; });
  const std::string title = at == text.stages.end() ? std::string(id) : at->title;
  const std::string note = at == text.stages.end() ? std::string() : at->text;
  return fmt::format(
      "<section class=\"step\" data-step=\"{}\">\n<div><h3>{}</h3>\n<p class=\"formula\">{}</p>\n"
      "<p class=\"why\">{}</p></div>\n<div>{}</div></section>\n",
      id, html_text(title), formula, prose(note), body);
}

std::string vectors(const std::vector<float>& values, std::string_view kind) {
  std::string out = fmt::format("<div class=\"vectors {}\">\n", kind);
  for (std::size_t token = 0; token < kMachineTokens; ++token) {
    out += fmt::format("<div class=\"vector\" data-token=\"{}\"><span class=\"token\">{}</span>",
                       token, kTokens[token]);
    for (std::size_t j = 0; j < kMachineWidth; ++j) {
      const float value = values[token * kMachineWidth + j];
      out += fmt::format("<span class=\"num\" data-sign=\"{}\">{}</span>", sign_of(value),
                         plain_number(value));
    }
    out += "</div>\n";
  }
  return out + "</div>\n";
}

// Row i: how much token i takes from each token.
std::array<std::array<double, kMachineTokens>, kMachineTokens> shares(const std::vector<float>& x) {
  std::array<std::array<double, kMachineTokens>, kMachineTokens> all{};
  for (std::size_t i = 0; i < kMachineTokens; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < kMachineTokens; ++j) {
      double score = 0;
      for (std::size_t c = 0; c < kMachineWidth; ++c)
        score += static_cast<double>(x[i * kMachineWidth + c]) * x[j * kMachineWidth + c];
      sum += all[i][j] = std::exp(score / std::sqrt(static_cast<double>(kMachineWidth)));
    }
    for (double& share : all[i]) share /= sum;
  }
  return all;
}

std::string mix(std::string_view id, std::string_view caption, const std::vector<float>& in,
                const std::vector<float>& out, bool all_to_all) {
  std::string svg;
  const auto share = shares(in);
  for (std::size_t to = 0; to < kMachineTokens; ++to)
    for (std::size_t from = 0; from < kMachineTokens; ++from)
      if (all_to_all || to == from)
        svg += fmt::format(
            "<line data-from=\"{}\" data-to=\"{}\" x1=\"{}\" y1=\"0\" x2=\"{}\" y2=\"60\" "
            "stroke-width=\"{:.2f}\"/>",
            from, to, 50 + 100 * from, 50 + 100 * to, all_to_all ? 0.5 + 6 * share[to][from] : 3);
  return fmt::format(
      "<figure class=\"mix\" id=\"{}\">\n<figcaption>{}</figcaption>\n{}<svg class=\"links\" "
      "viewBox=\"0 0 400 60\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{}</svg>\n{}"
      "</figure>\n",
      id, caption, vectors(in, "in"), svg, vectors(out, "out"));
}

std::string bar(std::string_view id, std::string_view name, std::string_view formula, double value,
                double largest) {
  return fmt::format(
      "<div class=\"size-bar\" data-bar=\"{}\"><dt>{} <span class=\"figure\">{}</span></dt>"
      "<dd><svg viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect "
      "width=\"{:.2f}\" height=\"4\"/></svg><span class=\"formula\">{}</span></dd></div>\n",
      id, name, grouped(static_cast<std::uint64_t>(value)), 100 * value / largest, formula);
}

}  // namespace

std::string what_picture(const MachineNumbers& numbers, const MachineSetting& setting) {
  const PictureRow x{setting.x, 24}, hidden{numbers.experts[0].hidden, 124}, y{numbers.y, 224};
  return "<figure class=\"what\">\n<svg viewBox=\"0 0 360 262\" role=\"img\" "
         "aria-label=\"Four numbers widen to eight, of which three are active, and narrow to four "
         "again\">\n<text class=\"label\" x=\"6\" y=\"44\">x: 4</text>\n"
         "<text class=\"label\" x=\"6\" y=\"76\">h: 8</text>\n"
         "<text class=\"label\" x=\"6\" y=\"244\">y: 4</text>\n<g class=\"weights\">\n" +
         weight_lines(x, hidden, false) + weight_lines(hidden, y, true) + "</g>\n" + x.svg() +
         hidden.svg() + y.svg() +
         "</svg>\n<figcaption>A line is one weight, as thick as the weight is large; its colour is "
         "the sign of what it carries. Units at zero carry nothing.</figcaption>\n</figure>\n";
}

std::string machine_steps(const PageText& text, const MachineNumbers& numbers,
                          const MachineSetting& setting) {
  const ExpertNumbers& expert = numbers.experts[0];
  return step(text, "input", "x", cells("x", setting.x)) +
         step(text, "expand", "pre = W1 x + b1", cells("pre", expert.pre)) +
         step(text, "activate", "h = relu(pre)", cells("h", expert.hidden)) +
         step(text, "contract", "y = W2 h + b2", cells("y", numbers.y)) +
         step(text, "add", "s = x + y", cells("s", numbers.sum)) +
         step(text, "normalise", "n = (s − mean) / √(variance + 0.00001)",
              cells("n", numbers.normal));
}

std::string stage_notes(const PageText& text) {
  std::string out;
  for (const PageStage& stage : text.stages)
    out += fmt::format("<p data-step=\"{}\" data-title=\"{}\">{}</p>\n", stage.id,
                       html_text(stage.title), prose(stage.text));
  return out;
}

std::string together_pictures(const SentenceNumbers& numbers) {
  return mix("mix-attention", "Attention: each hears all", numbers.x, numbers.attention, true) +
         mix("mix-ffn", "FFN: each alone", numbers.x, numbers.ffn, false);
}

std::string size_figure() {
  FfnShape shape;
  shape.d_model = 768;
  shape.d_ff = 3072;
  const FfnCounts counts = count_ffn(shape);
  const double ffn = static_cast<double>(counts.parameters), attention = 4.0 * 768 * 768;
  const double work = 2.0 * static_cast<double>(counts.macs_per_token);
  return "<div id=\"size-figure\">\n<h3>Numbers stored</h3>\n<dl class=\"bars\">\n" +
         bar("attention", "Attention", "4 × 768² = 2,359,296", attention, ffn) +
         bar("total", "FFN, all of it", "2 × 768 × 3,072 = 4,718,592", ffn, ffn) +
         bar("active", "FFN, used by one token", "2 × 768 × 3,072 = 4,718,592", ffn, ffn) +
         "</dl>\n<h3>FLOPs a token</h3>\n<dl class=\"bars\">\n" +
         bar("attention-flops", "Attention", "2 × 2,359,296 = 4,718,592", 2 * attention, work) +
         bar("ffn-flops", "FFN", "2 × 4,718,592 = 9,437,184", work, work) +
         "</dl>\n<p class=\"verdict\" id=\"size-verdict\" aria-live=\"polite\">The FFN holds " +
         fixed(100 * ffn / (attention + ffn), 1) +
         " % of this layer’s weights and does the same share of its work.</p>\n</div>\n";
}

}  // namespace fourfold
