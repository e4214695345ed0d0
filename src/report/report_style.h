// The style sheet of HTML reports: light and dark, phone and print, no fonts or images from
// outside.
#pragma once

#include <string_view>

namespace fourfold {

std::string_view report_style();

}  // namespace fourfold
