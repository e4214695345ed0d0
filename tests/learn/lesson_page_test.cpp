#include "learn/lesson_page.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <algorithm>

#include "formats/json_reader.h"
#include "report/safe_text.h"
#include "report/sha256.h"

using namespace fourfold;

namespace {

const std::string& page() {
  static const std::string text = lesson_page_html();
  return text;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

// What stands between the first `open` and the next `close`.
std::string_view between(std::string_view text, std::string_view open, std::string_view close) {
  const std::size_t first = text.find(open);
  REQUIRE(first != std::string_view::npos);
  text.remove_prefix(first + open.size());
  return text.substr(0, text.find(close));
}

// Everything but style and scripts.
std::string markup() {
  std::string text = page();
  for (const auto& [open, close] : {std::pair{"<style>", "</style>"}, {"<script", "</script>"}})
    for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open))
      text.erase(at, text.find(close, at) - at);
  return text;
}

bool shows(std::string_view text) {
  return page().find(html_text(text, 100'000)) != std::string::npos;
}

}  // namespace

TEST_CASE("the page runs its own script and style, and nothing else") {
  const std::string_view style = between(page(), "<style>", "</style>");
  const std::string_view script = between(page(), "<script>", "</script>");
  CHECK(page().find("style-src 'sha256-" + sha256_base64(style) + "'") != std::string::npos);
  CHECK(page().find("script-src 'sha256-" + sha256_base64(script) + "'") != std::string::npos);
  CHECK(page().find("default-src 'none'") != std::string::npos);
  CHECK(count_of(page(), "<script") == 2);
  CHECK(count_of(page(), "</script") == 2);
  CHECK(page().find("{{") == std::string::npos);
  const std::string rest = markup();
  for (const std::string_view loads : {" src=", " style=", " srcset=", "<link", "<iframe", "<img",
                                       "@import", " onclick=", " onload=", "javascript:"})
    CHECK_MESSAGE(rest.find(loads) == std::string::npos, loads);
}

TEST_CASE("all content is in the page as text") {
  for (const LessonCard& card : lesson().cards) {
    CHECK(shows(card.question));
    CHECK(shows(card.answer.substr(0, card.answer.find('`'))));
  }
  for (const LessonClaim& claim : lesson().claims) {
    CHECK(shows(claim.claim));
    CHECK(page().find("<dd class=\"place\">" + html_text(claim.verdict)) != std::string::npos);
  }
  for (const LessonChoice& choice : lesson().choices) CHECK(shows(choice.question));
  for (const LessonConcept& one : lesson().concepts) {
    CHECK(shows(one.title));
    CHECK(page().find("href=\"#concept-" + one.id + "\"") != std::string::npos);
  }
  for (const LessonExplanation& one : lesson().explanations)
    for (const std::string& paragraph : one.paragraphs)
      CHECK(shows(paragraph.substr(0, paragraph.find('`'))));
  for (const LessonSource& source : lesson().sources)
    CHECK(page().find("<li id=\"source-" + source.id + "\"") != std::string::npos);
}

TEST_CASE("texts of the page cite known sources, and every section is there") {
  const PageText text = page_text();
  CHECK(text.sections.size() == 11);
  for (const PageSection& section : text.sections) {
    CHECK(page().find("<section id=\"" + section.id + "\"") != std::string::npos);
    for (const std::string& id : section.sources)
      CHECK(std::any_of(lesson().sources.begin(), lesson().sources.end(),
                        [&](const LessonSource& source) { return source.id == id; }));
  }
}

TEST_CASE("the numbers for the script are JSON with every activation") {
  const std::string_view json =
      between(page(), "<script type=\"application/json\" id=\"numbers\">", "</script>");
  const simdjson::padded_string padded(json);
  const JsonDocument document(padded, {"numbers", JsonRules::all("")});
  const simdjson::dom::array names = document.root()["activations"];
  // swiglu_oai is the last enumerator.
  const auto count = static_cast<std::size_t>(Activation::swiglu_oai) + 1;
  CHECK(names.size() == count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name = activation_name(static_cast<Activation>(i));
    CHECK(
        std::any_of(names.begin(), names.end(), [&](std::string_view one) { return one == name; }));
  }
}

TEST_CASE("numbers are written short, with a real minus sign") {
  CHECK(plain_number(0) == "0");
  CHECK(plain_number(-0.0004) == "0");
  CHECK(plain_number(-1.5) == "−1.5");
  CHECK(plain_number(2.0699) == "2.07");
  CHECK(plain_number(12345.6784) == "12,345.678");
}

TEST_CASE("prose escapes, and marks code") {
  CHECK(prose("a < b & `c > d`") == "a &lt; b &amp; <code>c &gt; d</code>");
  CHECK(prose("`open") == "<code>open</code>");
}
