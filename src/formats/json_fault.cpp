// A JSON checker with an explicit stack: the stack holds the closing bracket of each open
// container.
#include "formats/json_fault.h"

#include <charconv>
#include <cstdint>
#include <string>

namespace fourfold {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Checker {
 public:
  Checker(std::string_view text, std::size_t max_depth, std::string_view twin)
      : text_(text), twin_(twin), max_depth_(max_depth) {}

  JsonFault run() {
    skip_space();
    while (fault_.kind == JsonFaultKind::none) {
      if (!value()) break;
      if (!after_value()) break;
    }
    return fault_;
  }

 private:
  bool more() const { return at_ < text_.size(); }
  char here() const { return text_[at_]; }
  bool fail(JsonFaultKind kind, std::size_t offset, std::string_view reason) {
    fault_ = {kind, offset, reason};
    return false;
  }
  bool fail(std::string_view reason) { return fail(JsonFaultKind::syntax, at_, reason); }

  void skip_space() {
    while (more() && (here() == ' ' || here() == '\t' || here() == '\n' || here() == '\r')) ++at_;
  }

  // One value; for a container its opening brackets up to the first plain value or empty container.
  bool value() {
    for (;;) {
      if (!more()) return fail("the text ends where a value is expected");
      const char c = here();
      if (c == '{' || c == '[') {
        if (closers_.size() == max_depth_)
          return fail(JsonFaultKind::depth, at_, "containers are nested too deeply");
        closers_ += c == '{' ? '}' : ']';
        twin_seen_ += '\0';
        ++at_;
        skip_space();
        if (more() && here() == closers_.back()) return close();
        if (c == '{' && !key()) return false;
        continue;
      }
      if (c == '"') return string();
      if (c == '-' || is_digit(c)) return number();
      for (const std::string_view word : {"true", "false", "null"})
        if (text_.substr(at_, word.size()) == word) {
          at_ += word.size();
          return true;
        }
      return fail("this is not a value");
    }
  }

  bool close() {
    closers_.pop_back();
    twin_seen_.pop_back();
    ++at_;
    return true;
  }

  // Closing brackets, then a comma (and a key). False at the end of the document or at a fault.
  bool after_value() {
    for (;;) {
      skip_space();
      if (closers_.empty()) {
        if (more()) fail(JsonFaultKind::trailing, at_, "there is more text after the JSON value");
        return false;
      }
      if (!more()) return fail("the text ends inside an object or array");
      if (here() == closers_.back()) {
        close();
        continue;
      }
      if (here() != ',') return fail("a comma or a closing bracket is expected");
      ++at_;
      skip_space();
      return closers_.back() == ']' || key();
    }
  }

  bool key() {
    if (!more() || here() != '"') return fail("a key in quotes is expected");
    const std::size_t start = at_;
    if (!string()) return false;
    if (!twin_.empty() && text_.substr(start + 1, at_ - start - 2) == twin_) {
      if (twin_seen_.back() != 0)
        return fail(JsonFaultKind::duplicate, start, "this key stands twice in one JSON object");
      twin_seen_.back() = 1;
    }
    skip_space();
    if (!more() || here() != ':') return fail("a colon is expected after the key");
    ++at_;
    skip_space();
    return true;
  }

  bool string() {
    const std::size_t start = at_++;
    while (more() && here() != '"') {
      if (static_cast<unsigned char>(here()) < 0x20)
        return fail("a control character stands inside a string");
      if (here() != '\\') {
        ++at_;
      } else if (!escape()) {
        return false;
      }
    }
    if (!more()) return fail(JsonFaultKind::syntax, start, "a string is not closed");
    ++at_;
    return true;
  }

  bool escape() {
    const std::size_t start = at_;
    ++at_;
    if (!more()) return fail("the text ends inside a string");
    if (here() != 'u') {
      if (std::string_view("\"\\/bfnrt").find(here()) == std::string_view::npos)
        return fail("this escape is not known to JSON");
      ++at_;
      return true;
    }
    ++at_;
    unsigned code = 0;
    if (!hex4(code)) return fail("\\u needs four hexadecimal digits");
    if (code < 0xD800 || code > 0xDFFF) return true;
    unsigned low = 0;
    if (code <= 0xDBFF && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      if (hex4(low) && low >= 0xDC00 && low <= 0xDFFF) return true;
    }
    return fail(JsonFaultKind::syntax, start, "half of a surrogate pair stands alone");
  }

  bool hex4(unsigned& code) {
    for (int i = 0; i < 4; ++i, ++at_) {
      if (!more() || !is_hex(here())) return false;
      const char c = here();
      const int digit = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
      code = code * 16 + static_cast<unsigned>(digit);
    }
    return true;
  }

  bool digits() {
    if (!more() || !is_digit(here())) return fail("a digit is expected");
    while (more() && is_digit(here())) ++at_;
    return true;
  }

  bool number() {
    const std::size_t start = at_;
    if (here() == '-') ++at_;
    if (more() && here() == '0') {
      ++at_;
      if (more() && is_digit(here())) return fail("a number must not start with 0");
    } else if (!digits()) {
      return false;
    }
    bool whole = true;
    if (more() && here() == '.') {
      whole = false;
      ++at_;
      if (!digits()) return false;
    }
    if (more() && (here() == 'e' || here() == 'E')) {
      whole = false;
      ++at_;
      if (more() && (here() == '+' || here() == '-')) ++at_;
      if (!digits()) return false;
    }
    if (in_range(text_.substr(start, at_ - start), whole)) return true;
    return fail(JsonFaultKind::number, start, "the number does not fit 64 bits");
  }

  static bool in_range(std::string_view token, bool whole) {
    const char* begin = token.data();
    const char* end = begin + token.size();
    if (whole && token.front() == '-') {
      std::int64_t value = 0;
      return std::from_chars(begin, end, value).ec == std::errc();
    }
    if (whole) {
      std::uint64_t value = 0;
      return std::from_chars(begin, end, value).ec == std::errc();
    }
    double value = 0;
    if (std::from_chars(begin, end, value).ec == std::errc()) return true;
    // Out of range both ways: a number too small is read as 0, only one too large is a fault.
    return token.find("e-") != std::string_view::npos || token.find("E-") != std::string_view::npos;
  }

  std::string_view text_, twin_;
  std::size_t max_depth_, at_ = 0;
  std::string closers_;
  std::string twin_seen_;  // one flag for each open container
  JsonFault fault_;
};

}  // namespace

JsonFault find_json_fault(std::string_view text, std::size_t max_depth, std::string_view twin) {
  return Checker(text, max_depth, twin).run();
}

}  // namespace fourfold
