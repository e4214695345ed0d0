// fourfold learn cards: flashcards that come back when they are due. Each grade is written at
// once, so Ctrl-C loses nothing.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <deque>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/learn_commands.h"
#include "cli/output.h"
#include "cli/output_guard.h"
#include "formats/json_writer.h"
#include "fourfold/learn.h"
#include "learn/review_state.h"
#include "report/number_text.h"
#include "report/safe_text.h"
#include "report/text_table.h"

namespace fourfold::cli {
namespace {

struct Options : CommonOptions {
  std::string state, date;
  std::uint64_t count = 0;
  bool list = false, all = false;
};

struct Asked {
  const LessonCard* card;
  bool first = true;  // false: once more after an answer below 4
};

// $XDG_DATA_HOME, which must be absolute to count, else ~/.local/share.
std::string usual_state_path() {
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  if (data != nullptr && data[0] == '/') return std::string(data) + "/fourfold/cards.json";
  if (home != nullptr && home[0] != '\0')
    return std::string(home) + "/.local/share/fourfold/cards.json";
  throw Error(ErrorCode::invalid_argument,
              "neither XDG_DATA_HOME nor HOME says where the cards' file is; give --state FILE");
}

Day today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return Day(
      std::chrono::year_month_day(std::chrono::year(local.tm_year + 1900),
                                  std::chrono::month(static_cast<unsigned>(local.tm_mon) + 1),
                                  std::chrono::day(static_cast<unsigned>(local.tm_mday))));
}

Day day_of(const std::string& date) {
  if (date.empty()) return today();
  const std::optional<Day> day = parse_day(date);
  if (!day)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--date is \"{}\", expected a day like 2026-02-28", date));
  return *day;
}

Review review_of(const ReviewState& state, const std::string& id) {
  const auto found = state.cards.find(id);
  return found == state.cards.end() ? Review() : found->second;
}

bool seen(const ReviewState& state, const std::string& id) { return state.cards.count(id) > 0; }

// Longest overdue first, then new ones in the order of the lesson.
std::vector<const LessonCard*> chosen_cards(const Options& options, const ReviewState& state,
                                            Day day) {
  std::vector<const LessonCard*> cards;
  for (const LessonCard& card : lesson().cards)
    if (options.all || !seen(state, card.id) || review_of(state, card.id).due <= day)
      cards.push_back(&card);
  std::stable_sort(cards.begin(), cards.end(), [&](const LessonCard* a, const LessonCard* b) {
    if (seen(state, a->id) != seen(state, b->id)) return seen(state, a->id);
    return review_of(state, a->id).due < review_of(state, b->id).due;
  });
  if (options.count > 0 && options.count < cards.size()) cards.resize(options.count);
  return cards;
}

void save(const std::string& path, const ReviewState& state) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed)
    throw WriteError(
        fmt::format("{}: cannot make the folder: {}", folder.string(), failed.message()));
  write_file(path, review_state_json(state));
}

std::string list_text(const std::vector<const LessonCard*>& cards, const ReviewState& state) {
  std::string text;
  for (const LessonCard* card : cards) {
    text += fmt::format(
        "{}  ({})\n", card->id,
        seen(state, card->id) ? "due " + day_text(review_of(state, card->id).due) : "new");
    text += "  " + wrap_text(card->question, kTextWidth, 2);
    text += "  " + wrap_text(card->answer, kTextWidth, 2) + "\n";
  }
  return text + fmt::format("{} of {} cards\n", cards.size(), lesson().cards.size());
}

std::string list_json(const std::vector<const LessonCard*>& cards, const ReviewState& state,
                      Day day) {
  JsonWriter json;
  json.begin_object().field("schema", "fourfold.learn-cards/1").field("date", day_text(day));
  json.field("cards_in_all", lesson().cards.size()).key("cards").begin_array();
  for (const LessonCard* card : cards) {
    const Review review = review_of(state, card->id);
    json.begin_object().field("id", card->id).field("question", card->question);
    json.field("answer", card->answer).key("due");
    if (seen(state, card->id))
      json.value(day_text(review.due));
    else
      json.null();
    json.field("repetitions", review.repetitions).field("interval_days", review.interval_days);
    json.field("easiness", review.easiness);
    json.key("concepts").begin_array(true);
    for (const std::string& id : card->concepts) json.value(id);
    json.end_array().key("sources").begin_array(true);
    for (const std::string& id : card->sources) json.value(id);
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.take();
}

std::string next_due_text(const ReviewState& state) {
  std::optional<Day> next;
  for (const LessonCard& card : lesson().cards)
    if (seen(state, card.id) && (!next || review_of(state, card.id).due < *next))
      next = review_of(state, card.id).due;
  return next ? "The next card is due on " + day_text(*next) + "." : "";
}

// SM-2 asks again, on the same day, what was graded below 4, without moving the schedule.
int ask(const Options& options, const std::vector<const LessonCard*>& cards, ReviewState& state,
        Day day) {
  std::deque<Asked> left;
  for (const LessonCard* card : cards) left.push_back({card});
  std::size_t graded = 0;
  std::string line;
  print(fmt::format("{} to review. Enter shows the answer, q stops.\n\n",
                    counted(left.size(), "card")));
  while (!left.empty()) {
    const Asked asked = left.front();
    left.pop_front();
    print(wrap_text((asked.first ? "" : "Once more: ") + asked.card->question, kTextWidth, 0));
    if (!std::getline(std::cin, line) || line == "q") break;
    print("  " + wrap_text(asked.card->answer, kTextWidth, 2));
    std::optional<int> grade;
    bool stop = false;
    while (!grade && !stop) {
      print("again, hard, good, easy (or 0 to 5)> ");
      stop = !std::getline(std::cin, line) || line == "q";
      if (!stop) grade = parse_grade(line);
    }
    if (stop) break;
    if (asked.first) {
      const Review review = next_review(review_of(state, asked.card->id), *grade, day);
      state.cards[asked.card->id] = review;
      save(options.state, state);
      ++graded;
      print(fmt::format("  back on {}, in {}\n\n", day_text(review.due),
                        counted(static_cast<std::uint64_t>((review.due - day).count()), "day")));
    } else {
      print("\n");
    }
    if (*grade < 4) left.push_back({asked.card, false});
  }
  print(fmt::format("{} graded, kept in {}. {}\n", counted(graded, "card"),
                    visible_text(options.state), next_due_text(state)));
  return kDone;
}

int cards(Options& options) {
  if (options.state.empty()) options.state = usual_state_path();
  check_outputs({options.json_out}, {options.state}, "");
  const Day day = day_of(options.date);
  ReviewState state = read_review_state(options.state);
  const std::vector<const LessonCard*> chosen = chosen_cards(options, state, day);
  const bool talk =
      !options.list && !options.json && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  if (talk && !options.json_out.empty())
    write_file(options.json_out, list_json(chosen, state, day));
  if (talk && chosen.empty()) {
    print("Nothing is due. " + next_due_text(state) + " --all asks anyway.\n");
    return kDone;
  }
  if (talk) return ask(options, chosen, state, day);
  show(
      options, [&] { return list_text(chosen, state); },
      [&] { return list_json(chosen, state, day); });
  return kDone;
}

}  // namespace

void add_learn_cards(CLI::App& learn, Runner& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = learn.add_subcommand("cards", "Flashcards that come back when they are due");
  set_examples(
      *command,
      "  fourfold learn cards                 asks what is due, at most a few minutes a day\n"
      "  fourfold learn cards --list          prints what is due, with answers\n"
      "  fourfold learn cards --all --json    every card with its schedule\n");
  command->add_flag("--list", options->list, "print the cards that are due and ask nothing");
  command->add_flag("--all", options->all, "also cards that are not due yet");
  command->add_option("--count", options->count, "at most this many cards (default: all due)")
      ->check(CLI::Range(1, 100000));
  command
      ->add_option("--state", options->state,
                   "what the cards remember (default: fourfold/cards.json in\n"
                   "$XDG_DATA_HOME or ~/.local/share)")
      ->type_name("FILE");
  command->add_option("--date", options->date, "the day of the review (default: today)")
      ->type_name("YYYY-MM-DD");
  add_common(*command, *options, false);
  command->callback([options, &run] { run = [options] { return cards(*options); }; });
}

}  // namespace fourfold::cli
