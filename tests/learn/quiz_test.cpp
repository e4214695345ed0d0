// Marking of answers, and what a quiz is made of. tests/python/test_learn.py computes the answers
// of 10,000 questions a second time.
#include "learn/quiz.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "fourfold/error.h"

using namespace fourfold;

namespace {

struct Bench {
  Runtime runtime{{.count = 2}};
  Workspace workspace{runtime};
};

QuizQuestion numeric(double answer, double tolerance) {
  QuizQuestion question;
  question.answer = answer;
  question.tolerance = tolerance;
  question.working = "6 * 7 = 42.";
  return question;
}

}  // namespace

TEST_CASE("numbers are read as people write them") {
  const QuizQuestion question = numeric(1234, 0);
  for (const char* text :
       {"1234", "1,234", " 1234 ", "1234.0", "1.234e3", "+1234", "1,234.0", "1234\r"}) {
    CAPTURE(text);
    CHECK(mark_answer(question, text) == Mark::right);
  }
  for (const char* text : {"1235", "1,235", "-1234", "0"}) {
    CAPTURE(text);
    CHECK(mark_answer(question, text) == Mark::wrong);
  }
  for (const char* text :
       {"", "abc", "12,34", "1,2345", ",234", "1234,", "1,234,56", "1.0,234", "nan", "inf", "1e999",
        "0x4d2", "1234 5", "--1234", "%", "+", "12345,678"}) {
    CAPTURE(text);
    CHECK(mark_answer(question, text) == Mark::unreadable);
  }
  CHECK(mark_answer(numeric(4722432, 0), "4,722,432") == Mark::right);
  CHECK(mark_answer(numeric(66.67, 0.06), "66.7 %") == Mark::right);
  CHECK(mark_answer(numeric(-0.15, 0.001), "-0.1495") == Mark::right);
  CHECK(mark_answer(numeric(-0.15, 0.001), "-0.148") == Mark::wrong);
}

TEST_CASE("letters answer multiple choice") {
  QuizQuestion question;
  question.options = {"one", "two", "three", "four"};
  question.answer = 1;
  for (const char* text : {"b", "B", "b)", "(b)", " b. "})
    CHECK(mark_answer(question, text) == Mark::right);
  CHECK(mark_answer(question, "a") == Mark::wrong);
  for (const char* text : {"", "e", "2", "bb", "two", "(", ")"})
    CHECK(mark_answer(question, text) == Mark::unreadable);
  CHECK(right_answer(question) == "b) two");
}

TEST_CASE("a wrong answer is met with the right one and the arithmetic") {
  QuizQuestion question = numeric(4722432, 0);
  question.unit = "parameters";
  CHECK(feedback_text(question, Mark::wrong) ==
        "Wrong, it is 4,722,432 parameters.\n  6 * 7 = 42.\n");
  CHECK(feedback_text(question, Mark::right) == "Right: 4,722,432 parameters.\n  6 * 7 = 42.\n");
  question = numeric(-0.1496, 0.001);
  question.decimals = 3;
  CHECK(right_answer(question) == "-0.150");
}

TEST_CASE("the right answer as it is shown is marked right") {
  Bench bench;
  for (const QuizQuestion& question : make_quiz(1000, 11, bench.workspace)) {
    CAPTURE(question.question);
    std::string shown = right_answer(question);
    if (!question.options.empty())
      shown.resize(1);
    else if (!question.unit.empty())
      shown.resize(shown.size() - question.unit.size() - 1);
    CHECK(mark_answer(question, shown) == Mark::right);
    CHECK(!question.working.empty());
    CHECK(!question.sources.empty());
    for (const std::string& source : question.sources)
      CHECK(std::any_of(lesson().sources.begin(), lesson().sources.end(),
                        [&](const LessonSource& one) { return one.id == source; }));
  }
}

TEST_CASE("a seed asks the same questions, for any number of threads") {
  Bench bench;
  Runtime one_thread({.count = 1});
  Workspace single(one_thread);
  const std::string first = quiz_json(make_quiz(100, 7, bench.workspace), 7);
  CHECK(first == quiz_json(make_quiz(100, 7, single), 7));
  CHECK(first != quiz_json(make_quiz(100, 8, bench.workspace), 7));
}

TEST_CASE("every kind comes up, choices among them, and kinds can be picked") {
  Bench bench;
  std::set<std::string> seen;
  for (const QuizQuestion& question : make_quiz(30, 3, bench.workspace)) seen.insert(question.kind);
  const std::vector<std::string> kinds = quiz_kinds();
  CHECK(seen == std::set<std::string>(kinds.begin(), kinds.end()));
  for (const QuizQuestion& question : make_quiz(9, 3, bench.workspace, {"layer_norm"}))
    CHECK(question.kind == "layer_norm");
  for (const QuizQuestion& question : make_quiz(40, 3, bench.workspace, {"generated"}))
    CHECK(question.kind != "choice");
  std::set<std::string> choices;
  for (const QuizQuestion& question :
       make_quiz(lesson().choices.size(), 3, bench.workspace, {"choice"}))
    choices.insert(std::get<std::string>(question.parameters.at(0).second));
  CHECK(choices.size() == lesson().choices.size());
  CHECK(make_quiz(0, 3, bench.workspace).empty());
  CHECK_THROWS_AS(make_quiz(1, 3, bench.workspace, {"riddle"}), Error);
}
