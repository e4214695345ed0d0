// Reports as text tables that fit 100 columns, and as the JSON objects of docs/json.md.
#pragma once

#include <string>

#include "fourfold/profile.h"

namespace fourfold {

struct TextStyle {
  bool color = false;  // ANSI colours, for terminals only
};

std::string model_summary_text(const ModelSummary& summary, bool tensors, TextStyle style = {});
std::string profile_text(const ProfileReport& report, bool layers, TextStyle style = {});

}  // namespace fourfold
