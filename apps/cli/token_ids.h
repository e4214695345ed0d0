// Token ids given by the user: whole numbers, separated by white space or commas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fourfold::cli {

// Throws Error{invalid_argument} naming the source and the first thing that is not an id.
std::vector<std::int32_t> parse_token_ids(const std::string& text, const std::string& source);

}  // namespace fourfold::cli
