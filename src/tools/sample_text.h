// data/sample_text.txt, the text that profile runs when none is given. Generated into the build
// from that file.
#pragma once

#include <string_view>

namespace fourfold {

extern const std::string_view kSampleText;

}  // namespace fourfold
