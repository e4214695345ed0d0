// Duplicate keys: simdjson's tree keeps them all, so neighbours in sorted order show them.
#include "formats/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "formats/json_fault.h"
#include "formats/utf8.h"
#include "platform/mapped_file.h"

namespace fourfold {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

Error out_of_memory(const JsonSource& source, std::size_t bytes) {
  return file_error({.path = source.path, .rule = {}, .tensor = {}},
                    fmt::format("not enough memory to parse {} bytes of JSON", bytes),
                    ErrorCode::out_of_memory);
}

Error broken_json(const JsonSource& source, std::string_view text, simdjson::error_code code) {
  const auto at = [&](std::string_view rule, std::size_t offset, std::string_view reason) {
    return file_error({.path = source.path,
                       .rule = std::string(rule),
                       .tensor = {},
                       .offset = source.offset + offset},
                      reason);
  };
  const JsonRules& rules = source.rules;
  const std::size_t invalid = first_invalid_utf8(text);
  if (invalid != std::string_view::npos)
    return at(rules.utf8, invalid, "the text is not UTF-8; expected valid UTF-8 throughout");
  const JsonFault fault = find_json_fault(text, source.max_depth);
  switch (fault.kind) {
    case JsonFaultKind::depth:
      return at(rules.depth, fault.offset,
                fmt::format("{}; at most {} levels are allowed", fault.reason, source.max_depth));
    case JsonFaultKind::number: return at(rules.number, fault.offset, fault.reason);
    case JsonFaultKind::trailing: return at(rules.trailing, fault.offset, fault.reason);
    case JsonFaultKind::syntax:
      return at(rules.syntax, fault.offset, fmt::format("not valid JSON: {}", fault.reason));
    case JsonFaultKind::duplicate:
    case JsonFaultKind::none: break;
  }
  return at(rules.syntax, 0, fmt::format("not valid JSON: {}", simdjson::error_message(code)));
}

}  // namespace

JsonDocument::JsonDocument(const simdjson::padded_string& text, JsonSource source)
    : source_(std::move(source)), parser_(std::make_unique<simdjson::dom::parser>()) {
  const std::string_view view(text.data() == nullptr ? "" : text.data(), text.size());
  if (view.empty()) throw broken_json(source_, view, simdjson::EMPTY);
  // The parser counts the document itself as one level.
  simdjson::error_code code = parser_->allocate(view.size(), source_.max_depth + 1);
  // The string brings its own padding, so the parser need not copy it.
  if (code == simdjson::SUCCESS) code = parser_->parse(view.data(), view.size(), false).get(root_);
  if (code == simdjson::MEMALLOC) throw out_of_memory(source_, view.size());
  if (code != simdjson::SUCCESS) throw broken_json(source_, view, code);
  check_containers(view);
}

void JsonDocument::check_containers(std::string_view text) const {
  struct Container {
    element value;
    std::size_t depth;
  };
  std::vector<Container> waiting{{root_, 1}};
  std::vector<std::string_view> keys;
  while (!waiting.empty()) {
    const Container container = waiting.back();
    waiting.pop_back();
    const auto wait_if_container = [&](element value) {
      if (value.is_object() || value.is_array()) waiting.push_back({value, container.depth + 1});
    };
    simdjson::dom::array array;
    simdjson::dom::object object;
    const bool is_array = container.value.get(array) == simdjson::SUCCESS;
    const bool is_object = container.value.get(object) == simdjson::SUCCESS;
    // The parser does not count an empty container as a level.
    if ((is_array || is_object) && container.depth > source_.max_depth)
      throw broken_json(source_, text, simdjson::DEPTH_ERROR);
    if (is_array)
      for (const element value : array) wait_if_container(value);
    if (!is_object) continue;
    keys.clear();
    bool ascending = true;
    for (const auto field : object) {
      ascending = ascending && (keys.empty() || keys.back() < field.key);
      keys.push_back(field.key);
      wait_if_container(field.value);
    }
    // Most writers sort their keys, and strictly ascending keys are all different.
    if (ascending) continue;
    std::sort(keys.begin(), keys.end());
    const auto twin = std::adjacent_find(keys.begin(), keys.end());
    if (twin == keys.end()) continue;
    const JsonFault fault = find_json_fault(text, source_.max_depth, *twin);
    const bool found = fault.kind == JsonFaultKind::duplicate;
    throw file_error(
        {.path = source_.path,
         .rule = std::string(source_.rules.duplicate),
         .tensor = {},
         .offset = source_.offset + (found ? fault.offset : 0)},
        fmt::format("key \"{}\" stands twice in one JSON object; expected once", printable(*twin)));
  }
}

JsonDocument read_json_file(const std::string& path, std::string_view rule,
                            std::uint64_t max_bytes) {
  const MappedFile file(path, FileAccess::pread);
  if (file.size() > max_bytes)
    throw file_error(
        {.path = path, .rule = std::string(rule), .tensor = {}, .offset = max_bytes},
        fmt::format("the file has {} bytes; at most {} are read", file.size(), max_bytes));
  const JsonSource source{.path = path, .rules = JsonRules::all(rule)};
  const auto size = static_cast<std::size_t>(file.size());
  simdjson::padded_string text(size);
  if (text.size() != size || text.data() == nullptr) throw out_of_memory(source, size);
  if (size > 0) file.read(0, std::as_writable_bytes(std::span(text.data(), size)));
  return {text, source};
}

std::optional<element> json_field(simdjson::dom::object object, std::string_view key) {
  element value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS) return std::nullopt;
  return value;
}

std::string_view json_type_name(element value) {
  switch (value.type()) {
    case element_type::ARRAY: return "an array";
    case element_type::OBJECT: return "an object";
    case element_type::INT64:
    case element_type::UINT64: return "an integer";
    case element_type::DOUBLE: return "a number with fraction or exponent";
    case element_type::STRING: return "a string";
    case element_type::BOOL: return "true or false";
    case element_type::NULL_VALUE: return "null";
  }
  return "something else";
}

}  // namespace fourfold
