// fourfold learn: the lesson in the terminal.
#include <memory>

#include "cli/command.h"
#include "cli/learn_commands.h"
#include "cli/output.h"
#include "cli/output_guard.h"
#include "formats/json_writer.h"
#include "fourfold/learn.h"
#include "learn/concept_map.h"
#include "learn/mistakes.h"
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

void add_map(CLI::App& learn, Runner& run) {
  struct Options : CommonOptions {
    std::string idea;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = learn.add_subcommand("map", "The ideas and where each leads");
  set_examples(*command,
               "  fourfold learn map                 all ideas as a tree\n"
               "  fourfold learn map moe             one idea, its links, cards and sources\n"
               "  fourfold learn map --json\n");
  auto* idea = command->add_option("IDEA", options->idea, "show this one");
  add_common(*command, *options, false);
  command->callback([options, idea, &run] {
    run = [options, one = idea->count() > 0] {
      check_outputs({options->json_out}, {}, "");
      const LessonConcept* only = one ? &find_concept(options->idea) : nullptr;
      show(
          *options, [&] { return only != nullptr ? concept_text(*only) : concept_tree_text(); },
          [&] { return concept_map_json(only); });
      return kDone;
    };
  });
}

void add_mistakes(CLI::App& learn, Runner& run) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* command =
      learn.add_subcommand("mistakes", "Two common mistakes, run so that they fail");
  set_examples(*command,
               "  fourfold learn mistakes\n"
               "  fourfold learn mistakes --json\n"
               "  fourfold learn mistakes --threads 1\n");
  add_common(*command, *options, true);
  command->callback([options, &run] {
    run = [options] {
      check_outputs({options->json_out}, {}, "");
      Runtime runtime(threads_of(*options));
      Workspace workspace(runtime);
      const FlattenedRun flattened = run_flattened_mistake(workspace);
      const RatioRun ratio = run_ratio_mistake(workspace);
      show(
          *options, [&] { return mistakes_text(flattened, ratio); },
          [&] { return mistakes_json(flattened, ratio); });
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
               "  fourfold learn page --html OUT     the lesson as a page to play with\n");
  learn->footer("Help of a part: fourfold learn PART --help");  // its parts take it over
  learn->require_subcommand(0, 1);
  add_learn_cards(*learn, run);
  add_learn_quiz(*learn, run);
  add_map(*learn, run);
  add_explain(*learn, run);
  add_mistakes(*learn, run);
  add_learn_page(*learn, run);
  learn->callback([learn, &run] {
    if (!learn->get_subcommands().empty()) return;
    run = [learn] {
      print(learn->help("fourfold"));
      return kDone;
    };
  });
}

}  // namespace fourfold::cli
