// Faulty JSON is refused with kind and byte; the fault finder and the parser agree on what is
// valid.
#include "formats/json_reader.h"

#include <doctest/doctest.h>

#include <vector>

#include "formats/json_fault.h"
#include "formats/temp_folder.h"

using namespace fourfold;
using namespace fourfold::testing;

namespace {

constexpr JsonRules kRules{.utf8 = "utf8",
                           .syntax = "syntax",
                           .trailing = "trailing",
                           .depth = "depth",
                           .number = "number",
                           .duplicate = "duplicate"};

// The rule and offset of the refusal; "valid" when there is none.
std::pair<std::string, std::uint64_t> outcome(std::string_view text, std::size_t depth = 64) {
  try {
    const JsonDocument document(
        simdjson::padded_string(text),
        {.path = "x.json", .rules = kRules, .offset = 100, .max_depth = depth});
    return {"valid", 0};
  } catch (const Error& error) {
    CHECK(error.code == ErrorCode::bad_file);
    return {error.rule, error.offset};
  }
}

}  // namespace

TEST_CASE("faults by kind and byte") {
  struct Row {
    std::string_view text;
    const char* rule;
    std::uint64_t offset;
  };
  for (const Row& row : {
           Row{"", "syntax", 0},
           Row{"  ", "syntax", 2},
           Row{"{", "syntax", 1},
           Row{"[1,]", "syntax", 3},
           Row{"[1 2]", "syntax", 3},
           Row{"{\"a\":1,}", "syntax", 7},
           Row{"{a:1}", "syntax", 1},
           Row{"[tru]", "syntax", 1},
           Row{"[01]", "syntax", 2},
           Row{"[1.]", "syntax", 3},
           Row{"[-]", "syntax", 2},
           Row{"[\"ab]", "syntax", 1},
           Row{"[\"a\nb\"]", "syntax", 3},
           Row{"[\"\\x\"]", "syntax", 3},
           Row{"[\"\\u12g4\"]", "syntax", 6},
           Row{"[1}", "syntax", 2},
           Row{"[1]]", "trailing", 3},
           Row{"{} {}", "trailing", 3},
           Row{"[\"\xFF\"]", "utf8", 2},
           Row{"[18446744073709551616]", "number", 1},
           Row{"[-9223372036854775809]", "number", 1},
           Row{"[1e999]", "number", 1},
           Row{"{\"a\":1,\"b\":2,\"a\":3}", "duplicate", 13},
           Row{"[{\"a\":{\"b\":0,\"c\":0,\"b\":0}}]", "duplicate", 19},
       }) {
    CAPTURE(row.text);
    const auto [rule, offset] = outcome(row.text);
    CHECK(rule == row.rule);
    CHECK(offset == 100 + row.offset);
  }
}

TEST_CASE("a key spelt in two ways is still the same key") {
  CHECK(outcome("{\"a\":1,\"\\u0061\":2}").first == "duplicate");
  CHECK(outcome("{\"a\":{\"a\":1},\"b\":{\"a\":1}}").first == "valid");
}

TEST_CASE("the depth limit counts containers") {
  for (const std::size_t depth : {1U, 4U, 63U, 64U, 65U}) {
    const std::string fits = std::string(depth, '[') + std::string(depth, ']');
    const std::string deeper = "[" + fits + "]";
    CHECK(outcome(fits, depth).first == "valid");
    CHECK(outcome(deeper, depth).first == "depth");
    CHECK(outcome(deeper, depth).second == 100 + depth);
  }
  CHECK(outcome(std::string(200'000, '[')).first == "depth");
}

TEST_CASE("parser and fault finder agree on every small damage") {
  const std::string base =
      R"({"a":[0,-1.5e-3,true,null],"b\u00e9\\":{"c":"x\ud83d\ude00","d":false} , "e":12})";
  CHECK(outcome(base).first == "valid");
  constexpr std::string_view kBytes = "{}[]:,\"\\ \n0-.eEu9at\x01\x7F";
  int disagreements = 0;
  for (std::size_t at = 0; at < base.size(); ++at)
    for (const char byte : kBytes)
      for (const bool insert : {false, true}) {
        std::string text = base;
        if (insert)
          text.insert(at, 1, byte);
        else
          text[at] = byte;
        const bool refused = outcome(text).first != "valid";
        const bool faulty = find_json_fault(text, 64).kind != JsonFaultKind::none;
        // Two equal keys are valid JSON to the fault finder.
        if (refused != faulty && outcome(text).first != "duplicate") {
          MESSAGE(text);
          ++disagreements;
        }
      }
  CHECK(disagreements == 0);
}

TEST_CASE("files: size limit, absence and fields") {
  const TempFolder folder;
  const std::string path = folder.write("c.json", "{\"k\": [1.5], \"n\": null}");
  const JsonDocument document = read_json_file(path, "C1");
  simdjson::dom::object object;
  REQUIRE(document.root().get(object) == simdjson::SUCCESS);
  CHECK(json_type_name(*json_field(object, "k")) == "an array");
  CHECK(json_field(object, "n")->is_null());
  CHECK_FALSE(json_field(object, "absent").has_value());

  const auto failure = [](const std::string& file, std::uint64_t limit) {
    try {
      read_json_file(file, "C1", limit);
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorCode::invalid_argument, "accepted");
  };
  CHECK(failure(path, 10).rule == "C1");
  CHECK(failure(path, 10).offset == 10);
  CHECK(failure(folder.path() + "/none.json", 10).code == ErrorCode::io);
  CHECK(failure(folder.write("empty.json", ""), 10).code == ErrorCode::bad_file);
}
