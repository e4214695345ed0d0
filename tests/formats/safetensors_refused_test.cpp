// Every rule of the safetensors reader refuses with its own id, in both ways of reading.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "formats/refused_cases.h"
#include "formats/safetensors.h"
#include "formats/temp_folder.h"
#include "fourfold/error.h"

using namespace fourfold;
using namespace fourfold::testing;

namespace {

std::optional<Error> refusal(const std::string& path, FileAccess access) {
  try {
    SafetensorsFile::open(path, access);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// The refusal of these bytes; both ways of reading must agree.
Error refusal_of(const TempFolder& folder, std::string_view bytes) {
  const std::string path = folder.write("file.safetensors", bytes);
  const auto mapped = refusal(path, FileAccess::mmap);
  const auto read = refusal(path, FileAccess::pread);
  REQUIRE(mapped.has_value());
  REQUIRE(read.has_value());
  CHECK(std::string(mapped->what()) == read->what());
  return *mapped;
}

bool holds(const Error& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

}  // namespace

TEST_CASE("the base of the mutations is valid") {
  const TempFolder folder;
  const auto path = folder.write("file.safetensors", small_valid_file());
  CHECK(SafetensorsFile::open(path).tensors().size() == 2);
}

TEST_CASE("each broken file is refused by its rule, with a place and no control bytes") {
  const TempFolder folder;
  std::set<std::string> rules;
  for (const RefusedCase& broken : refused_cases()) {
    CAPTURE(broken.what);
    const Error error = refusal_of(folder, broken.bytes);
    CAPTURE(error.what());
    CHECK(error.code == ErrorCode::bad_file);
    CHECK(error.rule == broken.rule);
    CHECK(error.path == folder.path() + "/file.safetensors");
    CHECK((error.offset != Error::kNoOffset || !error.tensor.empty()));
    CHECK(holds(error, error.path));
    CHECK(holds(error, "rule " + broken.rule));
    const std::string_view message = error.what();
    CHECK(std::none_of(message.begin(), message.end(),
                       [](unsigned char c) { return c < 0x20 || c == 0x7F; }));
    rules.insert(broken.rule);
  }
  for (int i = 1; i <= 15; ++i) CHECK(rules.count("S" + std::to_string(i)) == 1);
}

TEST_CASE("messages of different faults differ") {
  const TempFolder folder;
  std::set<std::string> messages;
  for (const char* what :
       {"same tensor twice", "overlap", "hole", "end before begin", "end beyond the file",
        "product wraps to 4", "negative dimension", "fraction", "span too short"}) {
    for (const RefusedCase& broken : refused_cases())
      if (broken.what == what) messages.insert(refusal_of(folder, broken.bytes).what());
  }
  CHECK(messages.size() == 9);
}

TEST_CASE("a file that is something else is called by its name") {
  const TempFolder folder;
  CHECK(holds(refusal_of(folder, "version https://git-lfs.github.com/spec/v1\n"), "Git LFS"));
  CHECK(holds(refusal_of(folder, "\n<!doctype html><html></html>"), "web page"));
  CHECK(holds(refusal_of(folder, "GGUF" + std::string(20, '\2')), "GGUF"));
}

TEST_CASE("the offset is that of the faulty byte") {
  const TempFolder folder;
  CHECK(refusal_of(folder, safetensors_bytes("{\"a\" 1}")).offset == 8 + 5);
  CHECK(refusal_of(folder, safetensors_bytes("{\"a\":\"\xFF\"}")).offset == 8 + 6);
  CHECK(refusal_of(folder, safetensors_bytes("{}  \t ")).offset == 8 + 4);
  CHECK(refusal_of(folder, safetensors_bytes("{\"k\":{},\"k\":{}}")).offset == 8 + 8);
  CHECK(refusal_of(folder, safetensors_bytes("{\"k\":18446744073709551616}")).offset == 8 + 5);
  CHECK(refusal_of(folder, safetensors_bytes("{}", "x")).offset == 8 + 2);
}

TEST_CASE("a truncated file names the first tensor beyond its end") {
  const TempFolder folder;
  const std::string whole = safetensors_bytes("{\"c\":" + entry("U8", "[7]", 16, 23) +
                                                  ",\"a\":" + entry("U8", "[5]", 0, 5) +
                                                  ",\"b\":" + entry("U8", "[11]", 5, 16) + "}",
                                              std::string(23, 'x'));
  for (std::size_t cut = 1; cut <= 23; ++cut) {
    CAPTURE(cut);
    const std::size_t left = 23 - cut;
    const Error error = refusal_of(folder, whole.substr(0, whole.size() - cut));
    CHECK(error.rule == "S14");
    CHECK(error.tensor == (left < 5 ? "a" : (left < 16 ? "b" : "c")));
    CHECK(holds(error, "truncated"));
  }
}

TEST_CASE("no prefix of a valid file is accepted") {
  const TempFolder folder;
  const std::string whole = small_valid_file();
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK(refusal_of(folder, whole.substr(0, size)).code == ErrorCode::bad_file);
}

TEST_CASE("a metadata number is refused naming its key") {
  const TempFolder folder;
  CHECK(holds(refusal_of(folder, safetensors_bytes("{\"__metadata__\":{\"total\":7}}")),
              "\"total\""));
}

TEST_CASE("names from the file reach messages without control bytes") {
  const TempFolder folder;
  const Error error = refusal_of(
      folder,
      safetensors_bytes("{\"a\\u001b[31m\\u202e\\n\":" + entry("F99", "[1]", 0, 1) + "}", "x"));
  CHECK(holds(error, "a\\u001b[31m\\u202e\\u000a"));
  CHECK(error.tensor == "a\x1b[31m\xE2\x80\xAE\n");
}

TEST_CASE("a file that cannot be read is an io error") {
  const TempFolder folder;
  const auto missing = refusal(folder.path() + "/absent.safetensors", FileAccess::automatic);
  REQUIRE(missing.has_value());
  CHECK(missing->code == ErrorCode::io);
}

TEST_CASE("limits on names and metadata hold exactly") {
  const TempFolder folder;
  const auto named = [](std::size_t bytes) {
    return safetensors_bytes(
        "{\"" + std::string(bytes, 'n') + "\":" + entry("U8", "[1]", 0, 1) + "}", "x");
  };
  CHECK_FALSE(refusal(folder.write("name", named(65'535)), FileAccess::pread).has_value());
  CHECK(refusal_of(folder, named(65'536)).rule == "L4");
  const auto metadata = [](int entries) {
    std::string header = "{\"__metadata__\":{\"0\":\"\"";
    for (int i = 1; i < entries; ++i) header += ",\"" + std::to_string(i) + "\":\"\"";
    return safetensors_bytes(header + "}}");
  };
  CHECK_FALSE(refusal(folder.write("meta", metadata(65'536)), FileAccess::pread).has_value());
  CHECK(refusal_of(folder, metadata(65'537)).rule == "L2");
}
