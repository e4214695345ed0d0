// Reads and marks answers, and shows questions: as text of 100 columns and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/learn.h"

namespace fourfold {

enum class Mark { right, wrong, unreadable };

// A number as people write it (1,234 or 1.2e3 or 33.3 %), or a letter for multiple choice ("b",
// "B)"). Commas may only part groups of three digits, so that 1,5 is never read as 15.
Mark mark_answer(const QuizQuestion& question, std::string_view text);

std::string right_answer(const QuizQuestion& question);  // "4,722,432 parameters", "b) Twice"
// The question with its options, wrapped; `number` counts from 1.
std::string question_text(const QuizQuestion& question, std::size_t number, std::size_t count);
// What to say after an answer: right or wrong, the right answer, the arithmetic.
std::string feedback_text(const QuizQuestion& question, Mark mark);

// Schema fourfold.learn-quiz/1.
std::string quiz_json(const std::vector<QuizQuestion>& quiz, std::uint64_t seed);

}  // namespace fourfold
