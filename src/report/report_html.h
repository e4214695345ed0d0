// The profile as one offline HTML file: static SVG charts, a table behind each, no network,
// complete without script.
#pragma once

#include <string>

#include "fourfold/profile.h"

namespace fourfold {

std::string profile_html(const ProfileReport& report);

}  // namespace fourfold
