#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/output_guard.h"
#include "report/report_json.h"
#include "report/report_text.h"

namespace fourfold::cli {

void add_inspect(CLI::App& program, Runner& run) {
  struct Options : CommonOptions, InspectOptions {
    std::string model;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "inspect", "Parameters and work of a model, layer by layer, from its headers");
  set_examples(*command,
               "  fourfold inspect models/all-MiniLM-L6-v2\n"
               "  fourfold inspect model.safetensors --tensors\n"
               "  fourfold inspect org/name --seq-len 512 --json\n");
  command
      ->add_option("MODEL", options->model,
                   "folder, .safetensors file, or org/name in the local cache")
      ->required();
  command->add_flag("--tensors", options->tensors, "list every tensor");
  command
      ->add_option("--seq-len", options->seq_len,
                   "also count attention scores for sequences of S tokens")
      ->check(CLI::Range(1, 1 << 24));
  add_common(*command, *options, false);
  command->callback([options, &run] {
    run = [options] {
      check_outputs({options->json_out}, {}, options->model);
      const ModelSummary summary = inspect_model(options->model, *options);
      show(
          *options,
          [&] { return model_summary_text(summary, !summary.tensors.empty(), {color_wanted()}); },
          [&] { return model_summary_json(summary); });
      return kDone;
    };
  });
}

}  // namespace fourfold::cli
