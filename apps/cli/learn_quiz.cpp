// fourfold learn quiz: asks, marks, explains, scores. Answers come line by line, typed or piped.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>

#include "cli/learn_commands.h"
#include "cli/output.h"
#include "cli/output_guard.h"
#include "fourfold/learn.h"
#include "learn/quiz.h"
#include "report/number_text.h"
#include "report/safe_text.h"
#include "report/text_table.h"

namespace fourfold::cli {
namespace {

struct Options : CommonOptions {
  std::uint64_t count = 10, seed = 0;
  std::vector<std::string> kinds;
};

int ask(const std::vector<QuizQuestion>& quiz) {
  const bool typed = isatty(STDIN_FILENO) != 0;
  std::size_t asked = 0, right = 0;
  bool more = true;
  for (const QuizQuestion& question : quiz) {
    print(question_text(question, asked + 1, quiz.size()));
    std::string line;
    Mark mark = Mark::unreadable;
    do {
      if (typed) print("> ");
      more = static_cast<bool>(std::getline(std::cin, line));
      if (more) mark = mark_answer(question, line);
      if (more && typed && mark == Mark::unreadable && !line.empty())
        print(question.options.empty() ? "A number, please: 1234, 1,234 or 1.2e3.\n"
                                       : "A letter, please: a, b, c or d.\n");
    } while (more && typed && mark == Mark::unreadable && !line.empty());
    if (!more) break;
    ++asked;
    right += mark == Mark::right ? 1 : 0;
    print(feedback_text(question, mark) + "\n");
  }
  if (!more) print(fmt::format("\nThe answers end after {} of {}.\n", asked, quiz.size()));
  print(fmt::format("Score: {} of {} right{}\n", right, asked,
                    asked > 0 ? fmt::format(" ({} %)", percent_of(right, asked)) : ""));
  return kDone;
}

std::uint64_t seed_of_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

// In lines that fit behind the options' names.
std::string kinds_help() {
  constexpr std::size_t kColumns = kTextWidth - 30;
  std::string kinds = "only this kind, may be given again: generated (all but choice)";
  for (const std::string& kind : quiz_kinds()) kinds += ", " + kind;
  std::string text = wrap_text(kinds, kColumns, 0);
  text.pop_back();
  return text;
}

}  // namespace

void add_learn_quiz(CLI::App& learn, Runner& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = learn.add_subcommand("quiz", "Questions with numbers, marked and explained");
  set_examples(*command,
               "  fourfold learn quiz                          10 questions, other ones each time\n"
               "  fourfold learn quiz --kind layer_norm --count 3\n"
               "  fourfold learn quiz --seed 7 --json          the questions with their answers\n");
  command->add_option("--count", options->count, "questions")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  auto* seed = command->add_option("--seed", options->seed,
                                   "the same seed asks the same questions (default: the time)");
  command->add_option("--kind", options->kinds, kinds_help())->type_name("KIND")->expected(1);
  add_common(*command, *options, true);
  command->callback([options, seed, &run] {
    run = [options, seeded = seed->count() > 0] {
      check_outputs({options->json_out}, {}, "");
      if (!seeded) options->seed = seed_of_now();
      Runtime runtime(threads_of(*options));
      Workspace workspace(runtime);
      const std::vector<QuizQuestion> quiz =
          make_quiz(options->count, options->seed, workspace, options->kinds);
      if (!options->json_out.empty()) write_file(options->json_out, quiz_json(quiz, options->seed));
      if (!options->json) return ask(quiz);
      print(quiz_json(quiz, options->seed));
      return kDone;
    };
  });
}

}  // namespace fourfold::cli
