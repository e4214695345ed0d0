#include <cmath>
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/output_guard.h"
#include "cli/token_ids.h"
#include "report/report_html.h"
#include "report/report_json.h"
#include "report/report_text.h"
#include "report/safe_text.h"
#include "tools/sample_text.h"

namespace fourfold::cli {
namespace {

struct Options : CommonOptions, ProfileOptions {
  std::string model, text_file, ids_file, html, dtype_text = "auto";
  bool details = false, decode = false;
};

void check_supported(const Options& options) {
  if (options.decode)
    throw Error(ErrorCode::unsupported,
                "--decode: an encoder has no cache to decode with; leave the option out. Supported "
                "models: bert");
  if (options.dead_threshold &&
      !(std::isfinite(*options.dead_threshold) && *options.dead_threshold >= 0))
    throw Error(ErrorCode::invalid_argument,
                "--dead-threshold: expected a finite number, 0 or more");
}

void read_text(Options& options) {
  if (!options.ids_file.empty()) {
    options.ids = parse_token_ids(read_input(options.ids_file), options.ids_file);
    options.text_name = options.ids_file == "-" ? "standard input" : options.ids_file;
  } else if (!options.text_file.empty()) {
    options.text = read_input(options.text_file);
    options.text_name = options.text_file == "-" ? "standard input" : options.text_file;
  } else {
    options.text = kSampleText;
    options.text_name = "built-in sample";
  }
}

int profile(Options& options) {
  check_supported(options);
  options.dtype = parse_model_dtype(options.dtype_text);
  check_outputs({options.html, options.json_out}, {options.text_file, options.ids_file},
                options.model);
  read_text(options);
  Runtime runtime(threads_of(options));
  Workspace workspace(runtime);
  const ProfileReport report =
      profile_model(options.model, options, workspace, progress_line(options, "passes"));
  if (!options.html.empty()) write_file(options.html, profile_html(report));
  show(
      options, [&] { return profile_text(report, options.details, {color_wanted()}); },
      [&] { return profile_json(report); });
  if (!options.html.empty() && !options.json)
    print("\nThe report is " + visible_text(options.html) + ": open it in a browser.\n");
  return report.finite ? kDone : kFinding;
}

}  // namespace

void add_profile(CLI::App& program, Runner& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "profile", "Runs a model on a text; shows where time and capacity go, FFN by FFN");
  set_examples(
      *command,
      "  fourfold profile models/all-MiniLM-L6-v2\n"
      "  fourfold profile MODEL --text book.txt --html report.html\n"
      "  cat notes.txt | fourfold profile MODEL --text - --layers --json-out profile.json\n");
  command
      ->add_option("MODEL", options->model,
                   "folder, .safetensors file, or org/name in the local cache")
      ->required();
  auto* text = command->add_option("--text", options->text_file,
                                   "text to run (default: a built-in sample); - for stdin");
  command
      ->add_option("--ids", options->ids_file,
                   "token ids to run instead, without [CLS] and [SEP]; - for stdin")
      ->type_name("FILE")
      ->excludes(text);
  text->type_name("FILE");
  command->add_option("--seq-len", options->seq_len,
                      "tokens of a window (default: 512, or the model's positions)");
  command->add_option("--batch", options->batch, "windows per forward pass")->capture_default_str();
  command->add_option("--max-tokens", options->max_tokens, "counted tokens, at most")
      ->capture_default_str();
  command->add_flag("--count-special", options->count_special,
                    "count [CLS] and [SEP] in the statistics, too");
  command
      ->add_option("--dead-threshold", options->dead_threshold,
                   "for gelu, silu: a neuron is dead when |h| <= T always")
      ->type_name("T");
  command->add_flag("--layers", options->details,
                    "also firing rates and strongest neurons of each layer");
  command->add_option("--html", options->html, "also write the report as one HTML file")
      ->type_name("OUT");
  command->add_option("--dtype", options->dtype_text, kModelDtypes)->capture_default_str();
  command->add_flag("--decode", options->decode, "one token at a time (decoders only)");
  add_common(*command, *options, true);
  command->callback([options, &run] { run = [options] { return profile(*options); }; });
}

}  // namespace fourfold::cli
