#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/output_guard.h"
#include "report/report_trace.h"

namespace fourfold::cli {
namespace {

struct Options : CommonOptions, TraceOptions {
  std::string model, example, text_file;
  bool for_model = false;  // an option was given that only a model has
};

bool finite(const TraceReport& trace) {
  return std::all_of(trace.steps.begin(), trace.steps.end(), [](const TraceStep& step) {
    return std::all_of(step.values.begin(), step.values.end(),
                       [](float value) { return std::isfinite(value); });
  });
}

TraceReport example(const std::string& name, Workspace& workspace) {
  if (name == "tiny-gated") return trace_tiny_gated(workspace);
  if (name == "tiny-moe") return trace_tiny_moe(workspace);
  if (name == "bert-base") return trace_bert_base(workspace);
  return trace_tiny_example(workspace);
}

int trace(Options& options) {
  if (!options.model.empty() && !options.example.empty())
    throw Error(ErrorCode::invalid_argument, "give MODEL or --example, not both");
  if (options.model.empty() && options.for_model)
    throw Error(ErrorCode::invalid_argument,
                "--layer, --token and --text belong to a MODEL; the examples have one layer and "
                "one vector");
  check_outputs({options.json_out}, {options.text_file}, options.model);
  Runtime runtime(threads_of(options));
  Workspace workspace(runtime);
  if (options.text.empty()) options.text = "The cat sat on the mat and thought about transformers.";
  if (!options.text_file.empty()) options.text = read_input(options.text_file);
  const TraceReport report = options.model.empty() ? example(options.example, workspace)
                                                   : trace_model(options.model, options, workspace);
  show(
      options, [&] { return trace_text(report); }, [&] { return trace_json(report); });
  return finite(report) ? kDone : kFinding;
}

}  // namespace

void add_trace(CLI::App& program, Runner& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("trace", "Every number of one FFN on one vector, step by step");
  set_examples(
      *command,
      "  fourfold trace                        the tiny example, each multiplication shown\n"
      "  fourfold trace --example tiny-moe     a mixture: router, choice, experts, weighted sum\n"
      "  fourfold trace MODEL --layer 3 --token 2 --json\n");
  command->add_option("MODEL", options->model, "trace a layer of this model instead of an example");
  command
      ->add_option("--example", options->example,
                   "tiny (default), tiny-gated, tiny-moe or bert-base")
      ->check(CLI::IsMember({"tiny", "tiny-gated", "tiny-moe", "bert-base"}));
  auto* layer =
      command->add_option("--layer", options->layer, "layer of MODEL")->capture_default_str();
  auto* token = command->add_option("--token", options->token, "which token of the text")
                    ->capture_default_str();
  auto* text = command
                   ->add_option("--text", options->text_file,
                                "text whose token is traced (default: one sentence); - for stdin")
                   ->type_name("FILE");
  add_common(*command, *options, true);
  command->callback([options, layer, token, text, &run] {
    options->for_model = layer->count() + token->count() + text->count() > 0;
    run = [options] { return trace(*options); };
  });
}

}  // namespace fourfold::cli
