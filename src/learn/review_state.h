// What a learner's cards remember: one review per card in a JSON file, schema fourfold.cards/1.
#pragma once

#include <map>
#include <string>

#include "learn/review_schedule.h"

namespace fourfold {

struct ReviewState {
  std::map<std::string, Review> cards;  // by id; cards that the lesson no longer has are kept
};

// A file that is not there is an empty state. Throws Error{bad_file} for a damaged one, with the
// place and what to do, Error{io} when it cannot be read.
ReviewState read_review_state(const std::string& path);
// The text to write; reading it gives the same state.
std::string review_state_json(const ReviewState& state);

}  // namespace fourfold
