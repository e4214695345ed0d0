// Reports as the JSON objects of docs/json.md. Numbers that are NaN or infinite, and fields that
// are not defined for a layer, are null.
#pragma once

#include <string>

#include "fourfold/profile.h"

namespace fourfold {

// "fourfold.inspect/1". The tensors array is there only when the summary holds tensors.
std::string model_summary_json(const ModelSummary& summary);

// "fourfold.profile/1". pretty: one field a line, else all on one.
std::string profile_json(const ProfileReport& report, bool pretty = true);

}  // namespace fourfold
