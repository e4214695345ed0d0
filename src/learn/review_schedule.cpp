// Easiness EF' = EF + 0.1 - (5 - q) (0.08 + (5 - q) 0.02), at least 1.3.
#include "learn/review_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "fourfold/error.h"

namespace fourfold {

Review next_review(const Review& before, int grade, Day today) {
  if (grade < 0 || grade > 5)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("[review] grade is {}, expected 0 to 5", grade));
  Review after = before;
  if (grade < 3) {
    after.repetitions = 0;
    after.interval_days = 1;
  } else {
    if (today < before.due) return before;
    const double missing = 5 - grade;
    after.easiness =
        std::max(Review::kLeastEasiness, before.easiness + 0.1 - missing * (0.08 + missing * 0.02));
    // A step of rounding must not make 15.000000000000002 days 16.
    const double stretched =
        std::ceil(static_cast<double>(before.interval_days) * after.easiness - 1e-9);
    after.interval_days = before.repetitions == 0   ? 1
                          : before.repetitions == 1 ? 6
                          : stretched < static_cast<double>(Review::kMostDays)
                              ? static_cast<std::int64_t>(stretched)
                              : Review::kMostDays;
    ++after.repetitions;
  }
  after.due = today + std::chrono::days(after.interval_days);
  return after;
}

std::optional<int> parse_grade(std::string_view text) {
  struct Word {
    std::string_view name;
    int grade;
  };
  static constexpr std::array<Word, 4> kWords{
      {{"again", 1}, {"hard", 3}, {"good", 4}, {"easy", 5}}};
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '5') return text[0] - '0';
  for (const Word& word : kWords)
    if (text == word.name || text == word.name.substr(0, 1)) return word.grade;
  return std::nullopt;
}

std::string day_text(Day day) {
  const std::chrono::year_month_day date(day);
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

std::optional<Day> parse_day(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  unsigned parts[3] = {0, 0, 0};
  std::size_t part = 0;
  for (const char letter : text) {
    if (letter == '-')
      ++part;
    else if (letter >= '0' && letter <= '9' && part < 3)
      parts[part] = parts[part] * 10 + static_cast<unsigned>(letter - '0');
    else
      return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(parts[0])),
                                         std::chrono::month(parts[1]), std::chrono::day(parts[2])};
  if (part != 2 || !date.ok() || parts[0] < 1970) return std::nullopt;
  return Day(date);
}

}  // namespace fourfold
