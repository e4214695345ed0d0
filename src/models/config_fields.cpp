// Type and range checks on the fields of a configuration object.
#include "models/config_fields.h"

#include <fmt/format.h>

#include <utility>

#include "formats/utf8.h"

namespace fourfold {
namespace {

Error about_key(const std::string& path, std::string_view key, std::string_view text,
                std::string_view rule, ErrorCode code) {
  return file_error({.path = path, .rule = std::string(rule), .tensor = {}},
                    fmt::format("key \"{}\": {}", printable(key), text), code);
}

}  // namespace

ConfigFields::ConfigFields(std::string path, simdjson::dom::element element)
    : path_(std::move(path)) {
  if (element.get(object_) != simdjson::SUCCESS)
    throw file_error({.path = path_, .rule = "C1", .tensor = {}, .offset = 0},
                     fmt::format("found {}; expected an object", json_type_name(element)));
}

Error ConfigFields::bad(std::string_view key, std::string_view text, std::string_view rule) const {
  return about_key(path_, key, text, rule, ErrorCode::bad_file);
}

Error ConfigFields::unsupported(std::string_view key, std::string_view text,
                                std::string_view rule) const {
  return about_key(path_, key, text, rule, ErrorCode::unsupported);
}

std::uint64_t ConfigFields::natural(std::string_view key, std::uint64_t low,
                                    std::uint64_t high) const {
  const auto value = json_field(object_, key);
  if (!value) throw bad(key, "is missing; expected an integer");
  std::uint64_t number = 0;
  if (value->get(number) == simdjson::SUCCESS && number >= low && number <= high) return number;
  std::string found(json_type_name(*value));
  if (value->is_uint64()) {
    found = std::to_string(number);
  } else if (std::int64_t negative = 0; value->get(negative) == simdjson::SUCCESS) {
    found = std::to_string(negative);
  }
  throw bad(key, fmt::format("found {}; expected an integer from {} to {}", found, low, high));
}

std::string_view ConfigFields::text(std::string_view key, std::string_view rule) const {
  const auto value = json_field(object_, key);
  if (!value) throw bad(key, "is missing; expected a string", rule);
  std::string_view result;
  if (value->get(result) != simdjson::SUCCESS)
    throw bad(key, fmt::format("found {}; expected a string", json_type_name(*value)), rule);
  return result;
}

std::string_view ConfigFields::text_or(std::string_view key, std::string_view fallback) const {
  return json_field(object_, key) ? text(key) : fallback;
}

bool ConfigFields::flag_or(std::string_view key, bool fallback) const {
  const auto value = json_field(object_, key);
  if (!value) return fallback;
  bool result = false;
  if (value->get(result) != simdjson::SUCCESS)
    throw bad(key, fmt::format("found {}; expected true or false", json_type_name(*value)));
  return result;
}

double ConfigFields::number_or(std::string_view key, double fallback) const {
  const auto value = json_field(object_, key);
  if (!value) return fallback;
  double result = 0;
  if (value->get(result) != simdjson::SUCCESS)
    throw bad(key, fmt::format("found {}; expected a number", json_type_name(*value)));
  return result;
}

}  // namespace fourfold
