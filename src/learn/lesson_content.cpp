// Reads the compiled-in lesson, schema fourfold.lesson/1. A test reads every entry, so a fault in
// the data file is found when the program is built, not when it runs.
#include <simdjson.h>

#include "formats/json_reader.h"
#include "fourfold/learn.h"

namespace fourfold {
namespace {

using Object = simdjson::dom::object;

simdjson::dom::element field(Object object, std::string_view key) {
  const auto value = json_field(object, key);
  if (!value)
    throw file_error({"lesson.json", "", "", Error::kNoOffset},
                     "an entry has no \"" + std::string(key) + "\"");
  return *value;
}

std::string text(Object object, std::string_view key) {
  const std::string_view value = field(object, key);
  return std::string(value);
}

std::vector<std::string> texts(Object object, std::string_view key) {
  std::vector<std::string> all;
  const simdjson::dom::array values = field(object, key);
  for (const std::string_view value : values) all.emplace_back(value);
  return all;
}

// One entry of `key` after the other through `read`.
template <class Entry, class Read>
std::vector<Entry> entries(Object object, std::string_view key, Read read) {
  std::vector<Entry> all;
  const simdjson::dom::array values = field(object, key);
  for (const Object one : values) all.push_back(read(one));
  return all;
}

Lesson read_lesson() {
  const simdjson::padded_string json(lesson_json());
  const JsonDocument document(json, {"lesson.json", JsonRules::all("")});
  const Object root = document.root();
  Lesson lesson;
  lesson.title = text(root, "title");
  const Object sources = field(root, "sources");
  for (const auto& one : sources) {
    const Object source = one.value;
    lesson.sources.push_back({std::string(one.key), text(source, "text"), text(source, "url")});
  }
  lesson.explanations = entries<LessonExplanation>(root, "explanations", [](Object one) {
    return LessonExplanation{text(one, "level"), text(one, "title"), texts(one, "paragraphs"),
                             texts(one, "sources")};
  });
  lesson.concepts = entries<LessonConcept>(root, "concepts", [](Object one) {
    return LessonConcept{text(one, "id"), text(one, "title"), text(one, "text"),
                         texts(one, "links"), texts(one, "sources")};
  });
  lesson.cards = entries<LessonCard>(root, "cards", [](Object one) {
    return LessonCard{text(one, "id"), text(one, "question"), text(one, "answer"),
                      texts(one, "concepts"), texts(one, "sources")};
  });
  lesson.claims = entries<LessonClaim>(root, "claims", [](Object one) {
    return LessonClaim{
        text(one, "name"),        text(one, "claim"),   text(one, "what_literature_says"),
        text(one, "how_to_test"), text(one, "verdict"), texts(one, "sources")};
  });
  lesson.mistakes = entries<LessonMistake>(root, "mistakes", [](Object one) {
    return LessonMistake{text(one, "id"), text(one, "title"), text(one, "believed"),
                         text(one, "correction"), texts(one, "sources")};
  });
  lesson.choices = entries<LessonChoice>(root, "choices", [](Object one) {
    const std::uint64_t answer = field(one, "answer");
    return LessonChoice{text(one, "id"),          text(one, "question"),
                        texts(one, "options"),    static_cast<std::size_t>(answer),
                        text(one, "explanation"), texts(one, "sources")};
  });
  return lesson;
}

}  // namespace

const Lesson& lesson() {
  static const Lesson content = read_lesson();
  return content;
}

}  // namespace fourfold
