// Claims, cards, questions, explanations and sources of the lesson as HTML.
#include <fmt/format.h>

#include <algorithm>

#include "learn/lesson_page.h"
#include "report/safe_text.h"

namespace fourfold {
namespace {

constexpr std::size_t kWholeText = 100'000;  // columns: nothing is shortened

std::string escaped(std::string_view text) { return html_text(text, kWholeText); }

// 1 for the first source of the list; 0 for an unknown id.
std::size_t source_number(const Lesson& lesson, std::string_view id) {
  const auto at = std::find_if(lesson.sources.begin(), lesson.sources.end(),
                               [&](const LessonSource& source) { return source.id == id; });
  return at == lesson.sources.end() ? 0 : static_cast<std::size_t>(at - lesson.sources.begin()) + 1;
}

}  // namespace

std::string prose(std::string_view text) {
  std::string out;
  bool code = false;
  for (const char c : escaped(text)) {
    if (c != '`') {
      out += c;
      continue;
    }
    out += code ? "</code>" : "<code>";
    code = !code;
  }
  return code ? out + "</code>" : out;
}

std::string source_links(const std::vector<std::string>& ids, const Lesson& lesson) {
  std::string out;
  for (const std::string& id : ids) {
    const std::size_t number = source_number(lesson, id);
    if (number > 0)
      out += fmt::format("{}<a href=\"#source-{}\" aria-label=\"source {}\">{}</a>",
                         out.empty() ? "" : ", ", escaped(id), number, number);
  }
  return out.empty() ? out : " <span class=\"cites\">[" + out + "]</span>";
}

std::string section_text(const PageSection& section, const Lesson& lesson) {
  std::string out =
      fmt::format("<h2 id=\"{}-title\">{}</h2>\n", section.id, escaped(section.title));
  for (std::size_t i = 0; i < section.paragraphs.size(); ++i) {
    const bool last = i + 1 == section.paragraphs.size();
    out += "<p>" + prose(section.paragraphs[i]) +
           (last ? source_links(section.sources, lesson) : "") + "</p>\n";
  }
  return out;
}

std::string claims_html(const Lesson& lesson) {
  std::string out = "<div class=\"claims\">\n";
  for (const LessonClaim& claim : lesson.claims)
    out += fmt::format(
        "<article class=\"claim\" id=\"claim-{}\">\n<h3>{}</h3>\n<dl>\n"
        "<dt>What the literature says</dt><dd>{}{}</dd>\n<dt>How to test it</dt><dd>{}</dd>\n"
        "<dt>Our verdict</dt><dd class=\"place\">{}</dd>\n</dl>\n</article>\n",
        escaped(claim.name), prose(claim.claim), prose(claim.what_literature_says),
        source_links(claim.sources, lesson), prose(claim.how_to_test), prose(claim.verdict));
  return out + "</div>\n";
}

std::string cards_html(const Lesson& lesson) {
  std::string out;
  for (const LessonCard& card : lesson.cards)
    out += fmt::format(
        "<details class=\"card\" id=\"card-{}\">\n<summary>{}</summary>\n<p>{}{}</p>\n</details>\n",
        escaped(card.id), prose(card.question), prose(card.answer),
        source_links(card.sources, lesson));
  return out;
}

std::string choices_html(const Lesson& lesson) {
  std::string out;
  for (const LessonChoice& choice : lesson.choices) {
    const std::string id = escaped(choice.id);
    out += fmt::format(
        "<form class=\"choice\" id=\"choice-{}\" data-answer=\"{}\">\n<fieldset>\n"
        "<legend>{}</legend>\n",
        id, choice.answer, prose(choice.question));
    for (std::size_t i = 0; i < choice.options.size(); ++i)
      out +=
          fmt::format("<label><input type=\"radio\" name=\"choice-{}\" value=\"{}\"> {}</label>\n",
                      id, i, prose(choice.options[i]));
    out += fmt::format(
        "</fieldset>\n<button type=\"submit\" class=\"live\">Check</button>\n"
        "<p class=\"verdict live\" aria-live=\"polite\"></p>\n"
        "<details class=\"answer\">\n<summary>Answer</summary>\n<p><strong>{}</strong>. "
        "{}{}</p>\n</details>\n</form>\n",
        prose(choice.options[choice.answer]), prose(choice.explanation),
        source_links(choice.sources, lesson));
  }
  return out;
}

std::string explanations_html(const Lesson& lesson) {
  std::string out;
  for (const LessonExplanation& one : lesson.explanations) {
    const std::string_view language = one.level == "hinglish" ? " lang=\"hi-Latn\"" : "";
    out += fmt::format("<article class=\"explanation\" data-level=\"{}\"{}>\n<h3>{}</h3>\n",
                       escaped(one.level), language, escaped(one.title));
    for (std::size_t i = 0; i < one.paragraphs.size(); ++i) {
      const bool last = i + 1 == one.paragraphs.size();
      out += "<p>" + prose(one.paragraphs[i]) + (last ? source_links(one.sources, lesson) : "") +
             "</p>\n";
    }
    out += "</article>\n";
  }
  return out;
}

std::string sources_html(const Lesson& lesson) {
  std::string out;
  for (const LessonSource& source : lesson.sources) {
    out += fmt::format("<li id=\"source-{}\">{}", escaped(source.id), prose(source.text));
    if (source.url.starts_with("https://"))
      out += fmt::format(" <a href=\"{}\" rel=\"noreferrer\">{}</a>", escaped(source.url),
                         escaped(std::string_view(source.url).substr(8)));
    out += "</li>\n";
  }
  return out;
}

}  // namespace fourfold
