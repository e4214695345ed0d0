// When a flashcard comes back: algorithm SM-2 (Wozniak 1990, Optimization of learning, section
// 3.2). Intervals 1 day, 6 days, then the last one times the easiness, rounded up.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fourfold {

using Day = std::chrono::sys_days;

struct Review {
  static constexpr double kFirstEasiness = 2.5, kLeastEasiness = 1.3;
  static constexpr std::int64_t kMostDays = 36'500;

  std::uint32_t repetitions = 0;  // right answers in a row
  std::int64_t interval_days = 0;
  double easiness = kFirstEasiness;
  Day due{};
};

// The review after an answer of `grade` on `today`: 5 perfect, 4 after hesitation, 3 with
// difficulty, 2 to 0 wrong. The easiness moves first and the new one makes the interval; a wrong
// answer starts the repetitions again and leaves the easiness. A right answer before the card is
// due changes nothing, so that cramming does not stretch intervals. Throws Error{invalid_argument}
// for another grade.
Review next_review(const Review& before, int grade, Day today);

// again 1, hard 3, good 4, easy 5, their first letters, or 0 to 5; nothing for other texts.
std::optional<int> parse_grade(std::string_view text);

std::string day_text(Day day);                        // 2026-02-28
std::optional<Day> parse_day(std::string_view text);  // real days of the years 1970 to 9999 only

}  // namespace fourfold
