// fourfold learn: the lesson in the terminal.
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/output_guard.h"
#include "formats/json_writer.h"
#include "fourfold/learn.h"
#include "report/safe_text.h"
#include "report/text_table.h"

namespace fourfold::cli {
namespace {

struct ExplainOptions : CommonOptions {
  std::string level = "engineer";
};

const LessonExplanation& explanation_of(const std::string& level) {
  for (const LessonExplanation& one : lesson().explanations)
    if (one.level == level) return one;
  throw Error(ErrorCode::invalid_argument, "no explanation of level \"" + level + "\"");
}

std::string explanation_text(const LessonExplanation& one) {
  std::string text = bold(one.title, {color_wanted()}) + "\n";
  for (const std::string& paragraph : one.paragraphs)
    text += "\n" + wrap_text(paragraph, kTextWidth, 0);
  return text;
}

std::string explanation_json(const LessonExplanation& one) {
  JsonWriter json;
  json.begin_object().field("schema", "fourfold.learn-explain/1");
  json.field("level", one.level).field("title", one.title);
  json.key("paragraphs").begin_array();
  for (const std::string& paragraph : one.paragraphs) json.value(paragraph);
  json.end_array().key("sources").begin_array(true);
  for (const std::string& source : one.sources) json.value(source);
  json.end_array().end_object();
  return json.take();
}

void add_explain(CLI::App& learn, Runner& run) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = learn.add_subcommand("explain", "The sublayer explained, at three levels");
  set_examples(*command,
               "  fourfold learn explain                    for an engineer\n"
               "  fourfold learn explain --level twelve     for a twelve-year-old\n"
               "  fourfold learn explain --level hinglish   chhota sa, Hinglish mein\n");
  command->add_option("--level", options->level, "engineer, twelve or hinglish")
      ->check(CLI::IsMember({"engineer", "twelve", "hinglish"}))
      ->capture_default_str();
  add_common(*command, *options, false);
  command->callback([options, &run] {
    run = [options] {
      check_outputs({options->json_out}, {}, "");
      const LessonExplanation& one = explanation_of(options->level);
      show(
          *options, [&] { return explanation_text(one); }, [&] { return explanation_json(one); });
      return kDone;
    };
  });
}

}  // namespace

void add_learn(CLI::App& program, Runner& run) {
  CLI::App* learn = program.add_subcommand("learn", "The lesson: cards, quiz, map, explanations");
  set_examples(*learn,
               "  fourfold learn cards               flashcards that come back when they are due\n"
               "  fourfold learn quiz --count 10     questions with numbers, scored\n"
               "  fourfold learn map                 the ideas and how they hang together\n");
  learn->require_subcommand(0, 1);
  add_explain(*learn, run);
  learn->callback([learn, &run] {
    if (!learn->get_subcommands().empty()) return;
    run = [learn] {
      print(learn->help());
      return kDone;
    };
  });
}

}  // namespace fourfold::cli
