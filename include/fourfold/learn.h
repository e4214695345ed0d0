// The lesson on the feed-forward sublayer: its content (data/lesson.json, compiled in), a quiz
// whose numbers the library computes, and the lesson page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fourfold/runtime.h"

namespace fourfold {

// `sources` hold ids of Lesson::sources wherever they occur.
struct LessonSource {
  std::string id, text, url;  // url may be empty: then text is the arithmetic itself
};

struct LessonExplanation {
  std::string level, title;  // level: engineer, twelve, hinglish
  std::vector<std::string> paragraphs, sources;
};

struct LessonConcept {
  std::string id, title, text;
  std::vector<std::string> links, sources;  // links: ids of other concepts
};

struct LessonCard {
  std::string id, question, answer;
  std::vector<std::string> concepts, sources;
};

struct LessonClaim {
  std::string name, claim, what_literature_says, how_to_test, verdict;
  std::vector<std::string> sources;
};

struct LessonMistake {
  std::string id, title, believed, correction;
  std::vector<std::string> sources;
};

struct LessonChoice {
  std::string id, question;
  std::vector<std::string> options;  // four
  std::size_t answer = 0;            // index of the right option
  std::string explanation;
  std::vector<std::string> sources;
};

struct Lesson {
  std::string title;
  std::vector<LessonSource> sources;
  std::vector<LessonExplanation> explanations;
  std::vector<LessonConcept> concepts;
  std::vector<LessonCard> cards;
  std::vector<LessonClaim> claims;
  std::vector<LessonMistake> mistakes;
  std::vector<LessonChoice> choices;
};

// Parsed at the first call, then shared.
const Lesson& lesson();
// data/lesson.json as it was compiled in, schema fourfold.lesson/1.
std::string_view lesson_json();

// A value that a question was made from.
using QuizParameter = std::variant<std::uint64_t, double, bool, std::string, std::vector<double>>;

struct QuizQuestion {
  std::string kind;  // of quiz_kinds()
  std::string question;
  std::vector<std::pair<std::string, QuizParameter>> parameters;  // all that the answer rests on
  std::vector<std::string> options;                               // a, b, c, d; empty: a number
  double answer = 0;     // the number, or the option's index
  double tolerance = 0;  // right: |given - answer| is at most this
  int decimals = 0;      // with which the answer is shown
  std::string unit;      // "%", "bytes"; may be empty
  std::string working;   // the arithmetic that leads to the answer
  std::vector<std::string> sources;
};

// "choice", the multiple-choice questions of the lesson, and the kinds that are generated.
std::vector<std::string> quiz_kinds();
// `count` questions, the same ones for the same seed and kinds. kinds: of quiz_kinds(), or
// "generated" for all but choice; empty: all. Answers are computed by this library. Throws
// Error{invalid_argument} for an unknown kind.
std::vector<QuizQuestion> make_quiz(std::size_t count, std::uint64_t seed, Workspace& workspace,
                                    const std::vector<std::string>& kinds = {});

// The whole lesson as one offline HTML page.
std::string lesson_page_html();

}  // namespace fourfold
