// Puts a quiz together: in five questions two are multiple choice and three are generated, each
// kind once before one comes again.
#include "learn/quiz_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "fourfold/error.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr std::string_view kChoice = "choice", kGenerated = "generated";

std::vector<QuestionKind> generated_kinds() {
  std::vector<QuestionKind> all;
  for (const QuestionKind& kind : count_questions()) all.push_back(kind);
  for (const QuestionKind& kind : value_questions()) all.push_back(kind);
  return all;
}

// Deals cards, and shuffles them anew whenever all are dealt.
template <class T>
class Deck {
 public:
  explicit Deck(std::vector<T> cards) : cards_(std::move(cards)), next_(cards_.size()) {}
  bool empty() const { return cards_.empty(); }
  const T& deal(QuestionRandom& random) {
    if (next_ == cards_.size()) {
      random.shuffle(cards_);
      next_ = 0;
    }
    return cards_[next_++];
  }

 private:
  std::vector<T> cards_;
  std::size_t next_;
};

}  // namespace

std::vector<std::string> quiz_kinds() {
  std::vector<std::string> names{std::string(kChoice)};
  for (const QuestionKind& kind : generated_kinds()) names.emplace_back(kind.name);
  return names;
}

QuizQuestion choice_question(const LessonChoice& choice, QuestionRandom& random) {
  std::vector<std::size_t> order{0, 1, 2, 3};
  random.shuffle(order);
  QuizQuestion question;
  question.kind = kChoice;
  question.question = choice.question;
  question.parameters = {{"id", choice.id}};
  for (std::size_t i = 0; i < order.size(); ++i) {
    question.options.push_back(choice.options.at(order[i]));
    if (order[i] == choice.answer) question.answer = static_cast<double>(i);
  }
  question.working = choice.explanation;
  question.sources = choice.sources;
  return question;
}

std::vector<QuizQuestion> make_quiz(std::size_t count, std::uint64_t seed, Workspace& workspace,
                                    const std::vector<std::string>& kinds) {
  const std::vector<std::string> known = quiz_kinds();
  for (const std::string& kind : kinds)
    if (kind != kGenerated && std::find(known.begin(), known.end(), kind) == known.end())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("[quiz] unknown kind of question \"{}\", expected {} or {}", kind,
                              kGenerated, fmt::join(known, ", ")));
  const auto wanted = [&](std::string_view name, bool generated) {
    return kinds.empty() || std::find(kinds.begin(), kinds.end(), name) != kinds.end() ||
           (generated && std::find(kinds.begin(), kinds.end(), kGenerated) != kinds.end());
  };
  std::vector<QuestionKind> chosen;
  for (const QuestionKind& kind : generated_kinds())
    if (wanted(kind.name, true)) chosen.push_back(kind);
  Deck<QuestionKind> generated(std::move(chosen));
  Deck<LessonChoice> choices(wanted(kChoice, false) ? lesson().choices
                                                    : std::vector<LessonChoice>());

  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  QuestionRandom random(seed);
  std::vector<QuizQuestion> quiz;
  quiz.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool choose = generated.empty() || (!choices.empty() && i % 5 % 2 == 1);
    if (choose) {
      quiz.push_back(choice_question(choices.deal(random), random));
      continue;
    }
    const QuestionKind& kind = generated.deal(random);
    quiz.push_back(kind.make(random, workspace));
    quiz.back().kind = kind.name;
  }
  return quiz;
}

}  // namespace fourfold
