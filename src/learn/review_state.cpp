// {"schema": "fourfold.cards/1", "cards": {id: {repetitions, interval_days, easiness, due}}}.
#include "learn/review_state.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "formats/json_reader.h"
#include "formats/json_writer.h"
#include "formats/utf8.h"

namespace fourfold {
namespace {

constexpr std::string_view kSchema = "fourfold.cards/1";
constexpr std::string_view kAdvice =
    "mend the file, or move it away and the cards start anew; it was left as it is";

Error damaged(const std::string& path, const std::string& what) {
  return file_error({path, "", "", Error::kNoOffset}, fmt::format("{}; {}", what, kAdvice));
}

simdjson::dom::element field(const std::string& path, simdjson::dom::object object,
                             std::string_view where, std::string_view key,
                             std::string_view expected) {
  const auto value = json_field(object, key);
  if (!value)
    throw damaged(path, fmt::format("{} has no \"{}\", expected {}", where, key, expected));
  return *value;
}

Review read_review(const std::string& path, std::string_view where, simdjson::dom::object object) {
  Review review;
  const auto whole = [&](std::string_view key, std::int64_t most) {
    std::int64_t value = -1;
    const auto found = field(path, object, where, key, "a whole number");
    if (found.get(value) != simdjson::SUCCESS || value < 0 || value > most)
      throw damaged(path, fmt::format("{}: \"{}\" is {}, expected a whole number from 0 to {}",
                                      where, key, simdjson::minify(found), most));
    return value;
  };
  review.repetitions = static_cast<std::uint32_t>(
      whole("repetitions", std::numeric_limits<std::uint32_t>::max() - 1));
  review.interval_days = whole("interval_days", Review::kMostDays);
  const auto easiness = field(path, object, where, "easiness", "a number");
  if (easiness.get(review.easiness) != simdjson::SUCCESS ||
      !(review.easiness >= Review::kLeastEasiness && review.easiness <= 1e6))
    throw damaged(path, fmt::format("{}: \"easiness\" is {}, expected a number of at least 1.3",
                                    where, printable(simdjson::minify(easiness), 64)));
  const auto due = field(path, object, where, "due", "a day");
  std::string_view text;
  const auto day = due.get(text) == simdjson::SUCCESS ? parse_day(text) : std::optional<Day>();
  if (!day)
    throw damaged(path, fmt::format("{}: \"due\" is {}, expected a day like 2026-02-28", where,
                                    printable(simdjson::minify(due), 64)));
  review.due = *day;
  return review;
}

}  // namespace

ReviewState read_review_state(const std::string& path) {
  ReviewState state;
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return state;
  try {
    const JsonDocument document = read_json_file(path, "");
    simdjson::dom::object root, cards;
    if (document.root().get(root) != simdjson::SUCCESS)
      throw damaged(path, fmt::format("the file holds {}, expected an object",
                                      json_type_name(document.root())));
    std::string_view schema;
    const auto named = field(path, root, "the file", "schema", fmt::format("\"{}\"", kSchema));
    if (named.get(schema) != simdjson::SUCCESS || schema != kSchema)
      throw damaged(path, fmt::format("\"schema\" is {}, expected \"{}\"",
                                      printable(simdjson::minify(named), 64), kSchema));
    const auto listed = field(path, root, "the file", "cards", "an object");
    if (listed.get(cards) != simdjson::SUCCESS)
      throw damaged(path,
                    fmt::format("\"cards\" is {}, expected an object", json_type_name(listed)));
    for (const auto& card : cards) {
      const std::string where = fmt::format("card \"{}\"", printable(card.key, 64));
      simdjson::dom::object review;
      if (card.value.get(review) != simdjson::SUCCESS)
        throw damaged(
            path, fmt::format("{} is {}, expected an object", where, json_type_name(card.value)));
      state.cards[std::string(card.key)] = read_review(path, where, review);
    }
  } catch (const Error& error) {
    if (error.code != ErrorCode::bad_file || std::string_view(error.what()).ends_with(kAdvice))
      throw;
    Error advised(error.code, fmt::format("{}; {}", error.what(), kAdvice));
    advised.path = error.path;
    advised.offset = error.offset;
    throw advised;
  }
  return state;
}

std::string review_state_json(const ReviewState& state) {
  JsonWriter json;
  json.begin_object().field("schema", kSchema).key("cards").begin_object();
  for (const auto& card : state.cards) {
    const Review& review = card.second;
    json.key(card.first).begin_object();
    json.field("repetitions", review.repetitions).field("interval_days", review.interval_days);
    json.field("easiness", review.easiness).field("due", day_text(review.due)).end_object();
  }
  json.end_object().end_object();
  return json.take();
}

}  // namespace fourfold
