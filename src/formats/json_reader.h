// JSON from files nobody vouches for: simdjson parses, and this wrapper adds a depth limit, the
// refusal of duplicate keys on every level, and the place and format rule of a fault.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "formats/file_error.h"
#include "formats/limits.h"

namespace fourfold {

// The rule that an error cites for each kind of fault.
struct JsonRules {
  std::string_view utf8, syntax, trailing, depth, number, duplicate;
  static constexpr JsonRules all(std::string_view rule) {
    return {rule, rule, rule, rule, rule, rule};
  }
};

struct JsonSource {
  std::string path;
  JsonRules rules;
  std::uint64_t offset = 0;  // where the text starts in the file
  std::size_t max_depth = limits::kJsonDepth;
};

class JsonDocument {
 public:
  // Throws Error{bad_file} with path, rule and, where known, offset; Error{out_of_memory}.
  JsonDocument(const simdjson::padded_string& text, JsonSource source);

  // The elements live as long as this document.
  simdjson::dom::element root() const { return root_; }
  const JsonSource& source() const { return source_; }

 private:
  void check_containers(std::string_view text) const;  // depth and duplicate keys

  JsonSource source_;
  std::unique_ptr<simdjson::dom::parser> parser_;  // its address is known to every element
  simdjson::dom::element root_;
};

// Reads and parses a whole file; every fault cites the one rule. Throws like JsonDocument, and
// Error{io} when the file cannot be read, Error{bad_file} when it is larger than max_bytes.
JsonDocument read_json_file(const std::string& path, std::string_view rule,
                            std::uint64_t max_bytes = limits::kConfigBytes);

// The value of a key, or nothing.
std::optional<simdjson::dom::element> json_field(simdjson::dom::object object,
                                                 std::string_view key);

// "a number", "an object" ...: for messages that say what was found.
std::string_view json_type_name(simdjson::dom::element value);

}  // namespace fourfold
