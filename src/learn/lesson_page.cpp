// Puts the page together: the template's {{places}} are filled once, from left to right, so that no
// text can bring a place of its own.
#include "learn/lesson_page.h"

#include <simdjson.h>

#include <cmath>
#include <functional>
#include <map>

#include "formats/json_reader.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"
#include "report/number_text.h"
#include "report/safe_text.h"
#include "report/sha256.h"

namespace fourfold {
namespace {

std::string text_of(simdjson::dom::object object, std::string_view key) {
  const std::string_view value = object[key];
  return std::string(value);
}

std::vector<std::string> texts_of(simdjson::dom::object object, std::string_view key) {
  std::vector<std::string> all;
  const simdjson::dom::array values = object[key];
  for (const std::string_view value : values) all.emplace_back(value);
  return all;
}

std::string activation_options() {
  std::string out;
  for (const Activation activation : known_activations()) {
    const std::string name(activation_name(activation));
    out += "<option";
    if (activation == Activation::relu) out += " selected";
    if (is_gated_only(activation)) out += " disabled";
    out += ">" + name + "</option>";
  }
  return out;
}

std::string contents(const PageText& text) {
  std::string out;
  for (const PageSection& section : text.sections)
    out += "<li><a href=\"#" + section.id + "\">" + html_text(section.title) + "</a></li>\n";
  return out;
}

}  // namespace

PageText page_text() {
  const simdjson::padded_string json(lesson_json());
  const JsonDocument document(json, {"lesson.json", JsonRules::all("")});
  const simdjson::dom::object page = document.root()["page"];
  PageText text{text_of(page, "title"), text_of(page, "intro"), {}, {}};
  const simdjson::dom::array stages = page["stages"], sections = page["sections"];
  for (const simdjson::dom::object one : stages)
    text.stages.push_back({text_of(one, "id"), text_of(one, "title"), text_of(one, "text")});
  for (const simdjson::dom::object one : sections)
    text.sections.push_back({text_of(one, "id"), text_of(one, "title"), texts_of(one, "paragraphs"),
                             texts_of(one, "sources")});
  return text;
}

std::string plain_number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "NaN" : value < 0 ? "−∞" : "∞";
  std::string text = fixed(std::abs(value), 3);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return value < 0 && text != "0" ? "−" + text : text;
}

std::string number_cell(std::string_view name, float value, float largest) {
  const std::string_view sign = value > 0 ? "pos" : value < 0 ? "neg" : "zero";
  const double width = largest > 0 ? 100.0 * std::abs(value) / largest : 0;
  return "<span class=\"cell\" data-sign=\"" + std::string(sign) + "\"><span class=\"name\">" +
         std::string(name) + "</span><span class=\"value\">" + plain_number(value) +
         "</span><svg class=\"bar\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" "
         "aria-hidden=\"true\"><rect width=\"" +
         fixed(width, 1) + "\" height=\"4\"/></svg></span>";
}

std::string lesson_page_html() {
  Runtime runtime(Threads{1, false});
  const CallerScope caller(runtime.pool().caller_cpu());
  Workspace workspace(runtime);
  const PageText text = page_text();
  const Lesson& content = lesson();
  const MachineSetting start;
  const MachineNumbers machine = machine_numbers(start, workspace);
  const SentenceNumbers sentence = sentence_numbers(kInOrder, workspace);

  std::map<std::string, std::function<std::string()>, std::less<>> places{
      {"style-hash", [] { return sha256_base64(page_style()); }},
      {"script-hash", [] { return sha256_base64(page_script()); }},
      {"style", [] { return std::string(page_style()); }},
      {"script", [] { return std::string(page_script()); }},
      {"title", [&] { return html_text(text.title); }},
      {"intro", [&] { return prose(text.intro); }},
      {"contents", [&] { return contents(text); }},
      {"activation-options", activation_options},
      {"what-picture", [&] { return what_picture(machine, start); }},
      {"machine-steps", [&] { return machine_steps(text, machine, start); }},
      {"stage-notes", [&] { return stage_notes(text); }},
      {"together-pictures", [&] { return together_pictures(sentence); }},
      {"size-figure", size_figure},
      {"claims", [&] { return claims_html(content); }},
      {"mistakes", [&] { return mistakes_html(content, workspace); }},
      {"cards", [&] { return cards_html(content); }},
      {"choices", [&] { return choices_html(content); }},
      {"map", [&] { return map_html(content); }},
      {"explanations", [&] { return explanations_html(content); }},
      {"sources", [&] { return sources_html(content); }},
      {"numbers", [&] { return script_text(page_numbers(workspace)); }},
  };
  for (const PageSection& section : text.sections)
    places["section " + section.id] = [&section, &content] {
      return section_text(section, content);
    };

  std::string out;
  std::string_view rest = page_template();
  for (std::size_t open = rest.find("{{"); open != std::string_view::npos; open = rest.find("{{")) {
    const std::size_t close = rest.find("}}", open);
    const auto place = places.find(rest.substr(open + 2, close - open - 2));
    if (place == places.end())
      throw Error(ErrorCode::invalid_argument,
                  "[lesson_page] the template has an unknown place " +
                      std::string(rest.substr(open, close + 2 - open)));
    out += rest.substr(0, open);
    out += place->second();
    rest.remove_prefix(close + 2);
  }
  return out += rest;
}

}  // namespace fourfold
