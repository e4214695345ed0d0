// UTF-8, one code point at a time (RFC 3629), and text from files made fit for messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fourfold {

struct Utf8Step {
  char32_t code = 0xFFFD;  // U+FFFD when not valid
  std::size_t length = 1;  // bytes to advance; for invalid input the longest broken prefix
  bool valid = false;
};

// The code point that starts at text[at]; at must be < text.size(). Surrogates, overlong forms and
// values above U+10FFFF are not valid.
Utf8Step utf8_step(std::string_view text, std::size_t at);

// Offset of the first byte that is not UTF-8, or npos.
std::size_t first_invalid_utf8(std::string_view text);

// The text for a message: control, line-breaking and direction-changing characters become \u....,
// broken bytes \x.., and all after max_bytes is cut to "...".
std::string printable(std::string_view text, std::size_t max_bytes = 200);

// True for characters that printable() and the JSON writer never copy: C0, DEL, C1, U+2028, U+2029.
bool is_control(char32_t code);

}  // namespace fourfold
