// Finds the byte where a JSON text (RFC 8259) breaks. Used only after the fast parser has refused
// the text without saying where.
#pragma once

#include <cstddef>
#include <string_view>

namespace fourfold {

enum class JsonFaultKind { none, syntax, depth, number, trailing, duplicate };

struct JsonFault {
  JsonFaultKind kind = JsonFaultKind::none;
  std::size_t offset = 0;
  std::string_view reason;  // "a string is not closed"
};

// The first fault of the text; one pass, no recursion. A document may nest max_depth containers.
// The text must be valid UTF-8. number: a number outside 64-bit integers and doubles. duplicate:
// the key twin, spelt without escapes, stands for the second time in one object.
JsonFault find_json_fault(std::string_view text, std::size_t max_depth, std::string_view twin = {});

}  // namespace fourfold
