// Decoding and character classes come from utf8proc; what is hidden or reorders text (categories
// Cc, Cf, Cn, Co, Zl, Zp) is escaped, except the two joiners that Persian, Indic and emoji text
// needs.
#include "report/safe_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace fourfold {
namespace {

constexpr utf8proc_int32_t kReplacement = 0xFFFD;
constexpr std::string_view kEllipsis = "…";

// Takes one character off the front of `rest`; a byte that starts none is U+FFFD.
utf8proc_int32_t take_character(std::string_view& rest) {
  utf8proc_int32_t character = kReplacement;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(rest.data());
  const auto limit = static_cast<utf8proc_ssize_t>(std::min<std::size_t>(rest.size(), 4));
  utf8proc_ssize_t taken = utf8proc_iterate(bytes, limit, &character);
  if (taken <= 0) {
    character = kReplacement;
    taken = 1;
  }
  rest.remove_prefix(static_cast<std::size_t>(taken));
  return character;
}

bool must_escape(utf8proc_int32_t character) {
  if (character == 0x200C || character == 0x200D) return false;
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return true;
    default: return false;
  }
}

void append_escape(std::string& out, utf8proc_int32_t character) {
  const auto code = static_cast<std::uint32_t>(character);
  switch (character) {
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  if (code < 0x100)
    fmt::format_to(std::back_inserter(out), "\\x{:02X}", code);
  else if (code < 0x10000)
    fmt::format_to(std::back_inserter(out), "\\u{:04X}", code);
  else
    fmt::format_to(std::back_inserter(out), "\\U{:08X}", code);
}

std::size_t character_width(utf8proc_int32_t character) {
  return static_cast<std::size_t>(std::max(0, utf8proc_charwidth(character)));
}

// Bytes of the longest prefix that takes at most `columns` columns.
std::size_t prefix_bytes(std::string_view text, std::size_t columns) {
  std::string_view rest = text;
  std::size_t used = 0;
  while (!rest.empty()) {
    std::string_view after = rest;
    used += character_width(take_character(after));
    if (used > columns) break;
    rest = after;
  }
  return text.size() - rest.size();
}

}  // namespace

std::string visible_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    const utf8proc_int32_t character = take_character(text);
    const std::size_t taken = before.size() - text.size();
    if (must_escape(character))
      append_escape(out, character);
    else if (character == kReplacement)
      out += "\xEF\xBF\xBD";
    else
      out += before.substr(0, taken);
  }
  return out;
}

std::size_t display_width(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) columns += character_width(take_character(text));
  return columns;
}

std::string shorten(std::string_view text, std::size_t columns, Keep keep) {
  const std::size_t width = display_width(text);
  if (width <= columns) return std::string(text);
  if (columns == 0) return {};
  if (keep == Keep::start)
    return std::string(text.substr(0, prefix_bytes(text, columns - 1))).append(kEllipsis);
  std::size_t left = width;
  while (left > columns - 1) left -= character_width(take_character(text));
  return std::string(kEllipsis).append(text);
}

std::string wrap_text(std::string_view text, std::size_t width, std::size_t indent) {
  const std::string visible = visible_text(text);
  const std::size_t room = std::max<std::size_t>(width > indent ? width - indent : 0, 8);
  std::string out;
  std::size_t used = 0;
  std::string_view rest = visible;
  const auto new_line = [&] {
    out += '\n';
    out.append(indent, ' ');
    used = 0;
  };
  while (!rest.empty()) {
    const std::size_t space = rest.find(' ');
    std::string_view word = rest.substr(0, space);
    rest = space == std::string_view::npos ? std::string_view{} : rest.substr(space + 1);
    std::size_t word_width = display_width(word);
    if (used > 0 && used + 1 + word_width > room) new_line();
    if (used > 0) {
      out += ' ';
      ++used;
    }
    while (word_width > room) {
      const std::size_t bytes = std::max<std::size_t>(prefix_bytes(word, room), 1);
      out += word.substr(0, bytes);
      word.remove_prefix(bytes);
      word_width = display_width(word);
      new_line();
    }
    out += word;
    used += word_width;
  }
  out += '\n';
  return out;
}

std::string html_text(std::string_view text, std::size_t columns) {
  std::string out;
  for (const char c : shorten(visible_text(text), columns)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string script_text(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  const auto append_unit = [&](std::uint32_t unit) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", unit);
  };
  while (!json.empty()) {
    const std::string_view before = json;
    const utf8proc_int32_t character = take_character(json);
    const auto code = static_cast<std::uint32_t>(character);
    if (character == '\n' || (character != '<' && !must_escape(character))) {
      out += before.substr(0, before.size() - json.size());
    } else if (code < 0x10000) {
      append_unit(code);
    } else {
      append_unit(0xD800 + ((code - 0x10000) >> 10));
      append_unit(0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }
  return out;
}

}  // namespace fourfold
