// What the numbers of a profile say, in a few plain sentences, and the layer lookups that text and
// HTML share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fourfold/profile.h"

namespace fourfold {

// Where time goes, how near the machine's limit, how many hidden values are small, what is known
// about dead neurons. A profile without layers, or without counted tokens, gets sentences that say
// so.
std::vector<std::string> profile_readings(const ProfileReport& report);

double ffn_ms(const StageTimesMs& time);    // expand, contract, router, gather, combine
double layer_ms(const StageTimesMs& time);  // all stages

// Something a neuron's firing cannot be told apart from a rate below this, at 95 %: 3 / tokens;
// empty for no tokens.
std::optional<double> unseen_rate_bound(std::uint64_t tokens);

}  // namespace fourfold
