#include "cli/token_ids.h"

#include <charconv>

#include "fourfold/error.h"
#include "report/safe_text.h"

namespace fourfold::cli {

std::vector<std::int32_t> parse_token_ids(const std::string& text, const std::string& source) {
  constexpr const char* kBetween = " \t\r\n,";
  std::vector<std::int32_t> ids;
  for (std::size_t at = text.find_first_not_of(kBetween); at != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    std::int32_t id = 0;
    const auto [rest, fault] = std::from_chars(text.data() + at, text.data() + end, id);
    if (fault != std::errc() || rest != text.data() + end || id < 0)
      throw Error(ErrorCode::invalid_argument,
                  source + ": \"" +
                      visible_text(text.substr(at, std::min<std::size_t>(end - at, 32))) +
                      "\" at byte " + std::to_string(at) +
                      " is not a token id; expected whole numbers from 0 to 2147483647");
    ids.push_back(id);
    at = text.find_first_not_of(kBetween, end);
  }
  return ids;
}

}  // namespace fourfold::cli
