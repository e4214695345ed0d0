#include <csignal>
#include <filesystem>
#include <memory>

#include "cli/bench_options.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/output_guard.h"
#include "report/report_bench.h"

namespace fourfold::cli {
namespace {

struct Options : CommonOptions, BenchOptions {
  std::string kind_name = "gated", activation_text, tokens_text = "1,4,16,64,512",
              dtype_text = "f32", routing_text = "uniform", peers_text, peers_dir;
};

volatile std::sig_atomic_t stop_signal = 0;

extern "C" void note_stop(int signal) { stop_signal = signal; }

// While peers run, a signal to stop is noted and acted upon between two measurements: their
// processes and files go first.
class StopsNoted {
 public:
  StopsNoted() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      if (action.sa_handler == SIG_IGN) continue;
      action.sa_handler = note_stop;
      action.sa_flags = 0;
      sigaction(signal, &action, nullptr);
    }
  }
  ~StopsNoted() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      if (action.sa_handler == note_stop) std::signal(signal, SIG_DFL);
    }
  }
  StopsNoted(const StopsNoted&) = delete;
  StopsNoted& operator=(const StopsNoted&) = delete;
};

FfnKind parse_kind(const std::string& name) {
  for (const FfnKind kind : {FfnKind::dense, FfnKind::gated, FfnKind::moe})
    if (name == ffn_kind_name(kind)) return kind;
  throw Error(ErrorCode::invalid_argument,
              "--kind " + name + ": expected one of dense, gated, moe");
}

Dtype parse_dtype(const std::string& name) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    if (name == dtype_name(dtype)) return dtype;
  throw Error(ErrorCode::unsupported, "--dtype " + name + ": supported are f32 and bf16");
}

int bench(Options& options) {
  options.kind = parse_kind(options.kind_name);
  options.dtype = parse_dtype(options.dtype_text);
  if (!options.activation_text.empty())
    options.activation = parse_activation(options.activation_text);
  else if (options.kind == FfnKind::dense)
    options.activation = options.sparsity ? Activation::relu : Activation::gelu_erf;
  else
    options.activation = options.sparsity ? Activation::relu : Activation::silu;
  options.tokens = parse_token_counts(options.tokens_text);
  if (options.kind == FfnKind::moe) read_routing(options.routing_text, options);
  find_peers(options.peers_text, options.peers_dir, options);
  options.version = FOURFOLD_VERSION;
  std::error_code ignored;
  options.scratch = std::filesystem::temp_directory_path(ignored).string();
  check_outputs({options.json_out}, {options.kind == FfnKind::moe ? options.routing_text : ""},
                options.model);
  options.stop_requested = [] { return stop_signal != 0; };
  Runtime runtime(threads_of(options));
  Workspace workspace(runtime);
  BenchReport report;
  try {
    const StopsNoted noted;
    report = run_bench(options, workspace, progress_line(options, "rows"));
  } catch (const BenchStopped&) {
    std::raise(stop_signal);
  }
  show(
      options, [&] { return bench_text(report, {color_wanted()}); },
      [&] { return bench_json(report); });
  return kDone;
}

}  // namespace

void add_bench(CLI::App& program, Runner& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "bench", "Times FFN layers or a model against peers and the machine's limits");
  set_examples(*command,
               "  fourfold bench --tokens 1,16-64+16,512 --dtype bf16\n"
               "  fourfold bench --kind moe --d-model 1024 --d-ff 2816 --tokens 1024 --backward\n"
               "  fourfold bench models/all-MiniLM-L6-v2 --batch 32 --seq-len 128 --peers torch\n");
  auto* model = command->add_option("MODEL", options->model,
                                    "time a whole encoder: folder, .safetensors file or "
                                    "org/name");
  std::vector<CLI::Option*> of_layer{
      command->add_option("--kind", options->kind_name, "dense, gated or moe")
          ->capture_default_str(),
      command->add_option("--activation", options->activation_text,
                          "default: gelu for dense, else silu; relu with --sparsity"),
      command->add_option("--d-model", options->d_model, "width of the layer")
          ->capture_default_str(),
      command->add_option("--d-ff", options->d_ff, "hidden width, of one expert in a mixture")
          ->capture_default_str(),
      command->add_option("--experts", options->n_experts, "experts of a mixture")
          ->capture_default_str(),
      command->add_option("--top-k", options->top_k, "experts per token")->capture_default_str(),
      command->add_option("--tokens", options->tokens_text, "list and ranges: 1,4,16-64,64-512+64")
          ->type_name("LIST")
          ->capture_default_str(),
      command
          ->add_option("--routing", options->routing_text,
                       "uniform, zipf, single, or a file: the experts of one token per line")
          ->capture_default_str(),
      command
          ->add_option("--sparsity", options->sparsity,
                       "share of hidden values that are 0; times with and without skipping")
          ->type_name("P"),
      command->add_flag("--backward", options->backward, "time set_weights + forward + backward")};
  command->add_option("--dtype", options->dtype_text, "f32 or bf16")->capture_default_str();
  command->add_option("--batch", options->batch, "sequences of a MODEL")
      ->needs(model)
      ->capture_default_str();
  command->add_option("--seq-len", options->seq_len, "their length in tokens")
      ->needs(model)
      ->capture_default_str();
  command->add_option("--repeat", options->repeat, "rounds")->capture_default_str();
  command
      ->add_option("--peers", options->peers_text,
                   "of onednn,torch,onnxruntime,openvino, or none (default: all here)")
      ->type_name("LIST");
  command->add_option("--peers-dir", options->peers_dir, "where the peers' programs are")
      ->type_name("DIR");
  command
      ->add_option("--peer-timeout", options->peer_timeout_s,
                   "seconds after which a silent peer is dropped")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  add_common(*command, *options, true);
  command->callback([options, of_layer, &run] {
    if (!options->model.empty())
      for (const CLI::Option* option : of_layer)
        if (option->count() > 0)
          throw Error(ErrorCode::invalid_argument,
                      option->get_name() + " is of a layer, and MODEL was given; leave one out");
    run = [options] { return bench(*options); };
  });
}

}  // namespace fourfold::cli
