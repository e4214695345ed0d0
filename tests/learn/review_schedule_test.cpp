// Algorithm SM-2 against intervals worked out by hand from its published formulas.
#include "learn/review_schedule.h"

#include <doctest/doctest.h>

#include <vector>

#include "fourfold/error.h"

using namespace fourfold;

namespace {

const Day kStart = Day(std::chrono::days(20'000));

struct Step {
  int grade;
  std::int64_t interval;
  double easiness;
};

void check_steps(const std::vector<Step>& steps) {
  Review review;
  Day day = kStart;
  for (const Step& step : steps) {
    CAPTURE(step.grade);
    review = next_review(review, step.grade, day);
    CHECK(review.interval_days == step.interval);
    CHECK(review.easiness == doctest::Approx(step.easiness).epsilon(1e-12));
    CHECK(review.due == day + std::chrono::days(step.interval));
    day = review.due;
  }
}

}  // namespace

TEST_CASE("grade 4 leaves the easiness: 1, 6, then times 2.5 rounded up") {
  check_steps({{4, 1, 2.5}, {4, 6, 2.5}, {4, 15, 2.5}, {4, 38, 2.5}, {4, 95, 2.5}, {4, 238, 2.5}});
}

TEST_CASE("grade 5 adds 0.1 each time: 6 * 2.8 = 16.8, 17 * 2.9 = 49.3") {
  check_steps({{5, 1, 2.6}, {5, 6, 2.7}, {5, 17, 2.8}, {5, 50, 2.9}, {5, 150, 3.0}});
}

TEST_CASE("grade 3 takes 0.14 each time: 6 * 2.08 = 12.48, 13 * 1.94 = 25.22") {
  check_steps({{3, 1, 2.36}, {3, 6, 2.22}, {3, 13, 2.08}, {3, 26, 1.94}});
}

TEST_CASE("a wrong answer starts again and leaves the easiness") {
  check_steps({{4, 1, 2.5},
               {4, 6, 2.5},
               {3, 15, 2.36},
               {2, 1, 2.36},
               {4, 1, 2.36},
               {0, 1, 2.36},
               {4, 1, 2.36},
               {4, 6, 2.36},
               {4, 15, 2.36}});
}

TEST_CASE("the easiness stays at 1.3 or above, the interval within a hundred years") {
  Review review;
  for (int i = 0; i < 20; ++i) review = next_review(review, 3, review.due);
  CHECK(review.easiness == 1.3);
  for (int i = 0; i < 200; ++i) review = next_review(review, 5, review.due);
  CHECK(review.interval_days == Review::kMostDays);
}

TEST_CASE("before the card is due a right answer changes nothing, a wrong one counts") {
  const Review review = next_review(next_review({}, 4, kStart), 4, kStart + std::chrono::days(1));
  CHECK(review.due == kStart + std::chrono::days(7));
  const Review early = next_review(review, 5, kStart + std::chrono::days(3));
  CHECK(early.due == review.due);
  CHECK(early.repetitions == review.repetitions);
  CHECK(early.easiness == review.easiness);
  const Review missed = next_review(review, 1, kStart + std::chrono::days(3));
  CHECK(missed.repetitions == 0);
  CHECK(missed.due == kStart + std::chrono::days(4));
}

TEST_CASE("grades outside 0 to 5 are refused") {
  CHECK_THROWS_AS(next_review({}, -1, kStart), Error);
  CHECK_THROWS_AS(next_review({}, 6, kStart), Error);
}

TEST_CASE("grades as words, letters and digits") {
  CHECK(parse_grade("again") == 1);
  CHECK(parse_grade("h") == 3);
  CHECK(parse_grade("good") == 4);
  CHECK(parse_grade("e") == 5);
  for (int grade = 0; grade <= 5; ++grade) CHECK(parse_grade(std::to_string(grade)) == grade);
  for (const char* text : {"", "6", "-1", "goo", "Good ", "10", "q"})
    CHECK(!parse_grade(text).has_value());
}

TEST_CASE("days read back, and days that do not exist are refused") {
  CHECK(day_text(Day(std::chrono::days(0))) == "1970-01-01");
  for (const char* text : {"1970-01-01", "2024-02-29", "2026-12-31", "9999-12-31"}) {
    CAPTURE(text);
    REQUIRE(parse_day(text).has_value());
    CHECK(day_text(*parse_day(text)) == text);
  }
  for (const char* text : {"", "2025-02-29", "2026-13-01", "2026-00-10", "2026-1-01", "26-01-01",
                           "2026/01/01", "2026-01-0a", "1969-12-31", "2026-01-01 ", "-026-01-01"}) {
    CAPTURE(text);
    CHECK(!parse_day(text).has_value());
  }
}
