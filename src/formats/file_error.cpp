// Puts a place and a sentence together.
#include "formats/file_error.h"

#include <fmt/format.h>

#include "formats/utf8.h"

namespace fourfold {

Error file_error(const FilePlace& place, std::string_view text, ErrorCode code) {
  std::string message = printable(place.path, 4096);
  std::string_view separator = ": ";
  const auto add = [&](const std::string& part) {
    message += separator;
    message += part;
    separator = ", ";
  };
  if (!place.rule.empty()) add("rule " + place.rule);
  if (!place.tensor.empty()) add(fmt::format("tensor \"{}\"", printable(place.tensor)));
  if (place.offset != Error::kNoOffset) add(fmt::format("byte {}", place.offset));
  message += ": ";
  message += text;
  Error error(code, message);
  error.path = place.path;
  error.rule = place.rule;
  error.tensor = place.tensor;
  error.offset = place.offset;
  return error;
}

}  // namespace fourfold
