// The generators of quiz questions: each draws parameters, has the library compute the answer, and
// writes the arithmetic down.
#pragma once

#include <span>
#include <string_view>

#include "fourfold/learn.h"
#include "learn/question_random.h"

namespace fourfold {

struct QuestionKind {
  std::string_view name;
  QuizQuestion (*make)(QuestionRandom&, Workspace&);
};

std::span<const QuestionKind> count_questions();  // parameters, work, bytes, ratios: exact
std::span<const QuestionKind> value_questions();  // numbers that flow through a layer, by hand

// A multiple-choice question of the lesson with its options shuffled.
QuizQuestion choice_question(const LessonChoice& choice, QuestionRandom& random);

}  // namespace fourfold
