// The second byte of a sequence carries all special cases, so one table row per lead byte is
// enough.
#include "formats/utf8.h"

#include <fmt/format.h>

#include <algorithm>

namespace fourfold {
namespace {

struct Lead {
  std::size_t length;
  unsigned char low, high;  // allowed second byte
};

Lead lead_of(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

bool changes_direction(char32_t code) {
  return code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

Utf8Step utf8_step(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {};
  char32_t code = first & (0xFFU >> (lead.length + 1));
  for (std::size_t i = 1; i < lead.length; ++i) {
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (at + i >= text.size() || byte(i) < low || byte(i) > high) return {0xFFFD, i, false};
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  return {code, lead.length, true};
}

std::size_t first_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    if (!step.valid) return at;
    at += step.length;
  }
  return std::string_view::npos;
}

bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029;
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string result;
  result.reserve(std::min(text.size(), max_bytes) + 3);
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    if (at + step.length > max_bytes) return result + "...";
    if (!step.valid) {
      for (std::size_t i = 0; i < step.length; ++i)
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at + i]));
    } else if (is_control(step.code) || changes_direction(step.code)) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(step.code));
    } else {
      result.append(text.substr(at, step.length));
    }
    at += step.length;
  }
  return result;
}

}  // namespace fourfold
