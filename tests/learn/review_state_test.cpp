// The cards' file: it reads back, keeps what it does not know, and is refused whole when damaged.
#include "learn/review_state.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "formats/temp_folder.h"
#include "fourfold/error.h"

using namespace fourfold;
using fourfold::testing::TempFolder;

namespace {

std::string refusal(const std::string& path) {
  try {
    read_review_state(path);
  } catch (const Error& error) {
    CHECK(error.code == ErrorCode::bad_file);
    CHECK(error.path == path);
    return error.what();
  }
  return "";
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string card(const std::string& fields) {
  return R"({"schema": "fourfold.cards/1", "cards": {"formula": {)" + fields + "}}}";
}

}  // namespace

TEST_CASE("a state reads back, unknown cards included") {
  const TempFolder folder;
  const std::string path = folder.path() + "/cards.json";
  ReviewState state;
  state.cards["formula"] = next_review({}, 5, *parse_day("2026-03-01"));
  state.cards["a card of another lesson"] = next_review({}, 3, *parse_day("2026-03-02"));
  write(path, review_state_json(state));
  const ReviewState read = read_review_state(path);
  CHECK(read.cards.size() == 2);
  CHECK(read.cards.at("formula").easiness == 2.6);
  CHECK(read.cards.at("formula").repetitions == 1);
  CHECK(read.cards.at("formula").interval_days == 1);
  CHECK(day_text(read.cards.at("formula").due) == "2026-03-02");
  CHECK(review_state_json(read) == review_state_json(state));
}

TEST_CASE("no file is an empty state") {
  const TempFolder folder;
  CHECK(read_review_state(folder.path() + "/none.json").cards.empty());
}

TEST_CASE("a folder in the file's place cannot be read") {
  const TempFolder folder;
  CHECK_THROWS_AS(read_review_state(folder.path()), Error);
}

TEST_CASE("damaged files are refused with the place, the reason and the way out, and stay") {
  const TempFolder folder;
  const std::string path = folder.path() + "/cards.json";
  const std::string whole = R"("repetitions": 2, "interval_days": 6, "easiness": 2.5, )";
  const std::pair<std::string, std::string> cases[] = {
      {"", "cards.json"},
      {"{", "byte"},
      {"\xff\xfe", "cards.json"},
      {"[]", "expected an object"},
      {"{}", "no \"schema\""},
      {R"({"schema": "fourfold.cards/2", "cards": {}})", "fourfold.cards/1"},
      {R"({"schema": 1, "cards": {}})", "fourfold.cards/1"},
      {R"({"schema": "fourfold.cards/1"})", "no \"cards\""},
      {R"({"schema": "fourfold.cards/1", "cards": []})", "expected an object"},
      {R"({"schema": "fourfold.cards/1", "cards": {"formula": 3}})", "card \"formula\""},
      {card(""), "no \"repetitions\""},
      {card(R"("repetitions": -1)"), "\"repetitions\" is -1"},
      {card(R"("repetitions": 1.5)"), "1.5"},
      {card(R"("repetitions": 2, "interval_days": 40000)"), "40000"},
      {card(R"("repetitions": 2, "interval_days": 6, "easiness": 1.2)"), "1.2"},
      {card(R"("repetitions": 2, "interval_days": 6, "easiness": "x")"), "\"easiness\""},
      {card(whole + R"("due": "2026-02-30")"), "2026-02-30"},
      {card(whole + R"("due": 5)"), "\"due\" is 5"},
      {card(whole + R"("due": "2026-02-28", "due": "2026-02-27")"), "due"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.first);
    write(path, one.first);
    const std::string message = refusal(path);
    CHECK(message.find(one.second) != std::string::npos);
    CHECK(message.find("move it away") != std::string::npos);
    std::ostringstream after;
    after << std::ifstream(path, std::ios::binary).rdbuf();
    CHECK(after.str() == one.first);
  }
}
