// Reads the keys of a small JSON configuration file; every error names file, key, expected and
// found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/json_reader.h"

namespace fourfold {

// A JSON object of a configuration file. Errors cite rule C1 unless told otherwise.
class ConfigFields {
 public:
  // Throws Error{bad_file} when the element is not an object.
  ConfigFields(std::string path, simdjson::dom::element element);

  const std::string& path() const { return path_; }
  simdjson::dom::object object() const { return object_; }

  // Each throws Error{bad_file} for a missing key, another type, or a value out of range.
  std::uint64_t natural(std::string_view key, std::uint64_t low, std::uint64_t high) const;
  std::string_view text(std::string_view key, std::string_view rule = "C1") const;
  // Each takes the fallback when the key is absent.
  bool flag_or(std::string_view key, bool fallback) const;
  double number_or(std::string_view key, double fallback) const;
  std::string_view text_or(std::string_view key, std::string_view fallback) const;

  // For the caller to throw: the key and a sentence.
  Error bad(std::string_view key, std::string_view text, std::string_view rule = "C1") const;
  Error unsupported(std::string_view key, std::string_view text,
                    std::string_view rule = "C1") const;

 private:
  std::string path_;
  simdjson::dom::object object_;
};

}  // namespace fourfold
