// profile: one pass without statistics for the times, one with observers for the statistics, limits
// measured around it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "fourfold/tools.h"
#include "kernels/limit_probe.h"
#include "layers/neuron_statistics.h"
#include "platform/caller_scope.h"
#include "platform/cpu_info.h"
#include "platform/stage_clock.h"
#include "platform/thread_pool.h"
#include "tools/layer_statistics.h"
#include "tools/model_place.h"
#include "tools/text_windows.h"

namespace fourfold {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFewestPasses = 5;
// On an idle machine equal passes differ by a few percent.
constexpr double kCalmSpread = 1.25;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Limits {
  double peak_gflops_f32 = 0, peak_gflops = 0, read_gbs = 0;

  // Limits are measured before and after the passes; the larger one is the limit.
  void measure(ThreadPool& pool, Dtype dtype, std::size_t bytes) {
    peak_gflops_f32 = std::max(peak_gflops_f32, measure_peak_gflops(pool, Dtype::f32));
    peak_gflops = dtype == Dtype::f32 ? peak_gflops_f32
                                      : std::max(peak_gflops, measure_peak_gflops(pool, dtype));
    read_gbs = std::max(read_gbs, measure_read_gbs(pool, bytes));
  }
};

struct TimedPass {
  double seconds = 0;
  std::size_t rows = 0, windows = 0;
  std::vector<StageClock::Seconds> stages;
};

// Sets the workspace's clock until its end, also when the pass throws.
class ClockScope {
 public:
  ClockScope(Workspace& workspace, StageClock& clock)
      : workspace_(workspace), before_(workspace.clock) {
    workspace_.clock = &clock;
  }
  ~ClockScope() { workspace_.clock = before_; }
  ClockScope(const ClockScope&) = delete;
  ClockScope& operator=(const ClockScope&) = delete;

 private:
  Workspace& workspace_;
  StageClock* before_;
};

// The type in which the model computes, and how its weights came to it.
std::string dtype_text(const LoadedEncoder& model) {
  const bool bf16 = model.encoder.dtype() == Dtype::bf16;
  std::string text(dtype_name(model.encoder.dtype()));
  if (model.stored != (bf16 ? "BF16" : "F32"))
    text += " (stored as " + model.stored + (bf16 ? ", rounded at load)" : ", widened at load)");
  return text;
}

class Profiler {
 public:
  Profiler(const std::string& model_name, const LoadedEncoder& model, const ProfileOptions& options,
           Workspace& workspace, const Progress& progress)
      : model_name_(model_name),
        model_(model),
        options_(options),
        workspace_(workspace),
        progress_(progress) {}

  ProfileReport run();

 private:
  const ModelConfig& config() const { return model_.encoder.config(); }
  void forward(const WindowBatch& batch, std::span<FfnObserver* const> observers);
  Matrix hidden() { return {hidden_.data(), hidden_.size() / config().d_model, config().d_model}; }
  TimedPass timing_pass(ProfileReport& report);
  std::vector<NeuronStatistics> statistics_pass(ProfileReport& report);
  LayerProfile layer_profile(std::size_t index, const TimedPass& pass,
                             const NeuronStatistics& statistics, ProfileReport& report) const;
  void step() {
    if (progress_) progress_(++done_, 2 * batches_.size());
  }

  const std::string& model_name_;
  const LoadedEncoder& model_;
  const ProfileOptions& options_;
  Workspace& workspace_;
  const Progress& progress_;
  TextWindows text_;
  std::vector<WindowBatch> batches_;
  std::vector<float> hidden_;
  std::size_t done_ = 0;
};

// hidden_: [tokens, d_model] receives the last layer.
void Profiler::forward(const WindowBatch& batch, std::span<FfnObserver* const> observers) {
  hidden_.resize(batch.ids.size() * config().d_model);
  model_.encoder.forward(batch.ids, batch.lengths, hidden(), workspace_, observers);
}

// The pass of the (lower) median time among those of full windows; a short text runs several times.
TimedPass Profiler::timing_pass(ProfileReport& report) {
  const CallerScope caller(workspace_.runtime().pool().caller_cpu());
  forward(batches_.front(), {});  // warm-up: pages, scratch, clock speed
  workspace_.runtime().reset_thread_times();
  const auto begin = Clock::now();
  std::vector<TimedPass> passes;
  for (bool first = true; first || passes.size() < kFewestPasses; first = false)
    for (const WindowBatch& batch : batches_) {
      if (!first && !batch.full) continue;
      StageClock clock(config().n_layers);
      const ClockScope timed(workspace_, clock);
      const auto start = Clock::now();
      forward(batch, {});
      const double seconds = seconds_since(start);
      if (batch.full)
        passes.push_back({seconds, batch.ids.size(), batch.lengths.size(), clock.seconds()});
      if (first) step();
    }
  report.timing_seconds = seconds_since(begin);
  report.machine.thread_times = workspace_.runtime().thread_times();
  std::sort(passes.begin(), passes.end(),
            [](const TimedPass& a, const TimedPass& b) { return a.seconds < b.seconds; });
  const TimedPass& middle = passes[(passes.size() - 1) / 2];
  if (passes.back().seconds > kCalmSpread * middle.seconds ||
      middle.seconds > kCalmSpread * passes.front().seconds) {
    const auto ms = [](const TimedPass& pass) {
      return fmt::format("{:.1f}", pass.seconds * 1e3 / static_cast<double>(pass.windows));
    };
    report.warnings.push_back("times differ between " + std::to_string(passes.size()) +
                              " equal passes: " + ms(passes.front()) + " to " + ms(passes.back()) +
                              " ms a window, median " + ms(middle) +
                              ". Something else used this machine; run again when it is idle.");
  }
  return middle;
}

std::vector<NeuronStatistics> Profiler::statistics_pass(ProfileReport& report) {
  const auto begin = Clock::now();
  std::vector<NeuronStatistics> statistics;
  for (std::size_t i = 0; i < config().n_layers; ++i)
    statistics.emplace_back(model_.encoder.down_energy(i), NeuronStatistics::Detail::full);
  std::vector<FfnObserver*> observers;
  for (auto& one : statistics) observers.push_back(&one);
  for (const WindowBatch& batch : batches_) {
    for (auto& one : statistics) one.select_rows(batch.counted);
    forward(batch, observers);
    report.finite = all_finite(hidden()) && report.finite;
    step();
  }
  report.statistics_seconds = seconds_since(begin);
  return statistics;
}

LayerProfile Profiler::layer_profile(std::size_t index, const TimedPass& pass,
                                     const NeuronStatistics& statistics,
                                     ProfileReport& report) const {
  const auto& ffn = std::get<DenseFfn>(model_.encoder.blocks()[index].ffn());
  const auto& stages = pass.stages[index];
  const auto windows = static_cast<double>(pass.windows);
  const auto ms = [&](Stage stage) {
    return stages[static_cast<std::size_t>(stage)] * 1e3 / windows;
  };
  LayerProfile layer;
  layer.index = index;
  layer.kind = "dense";
  layer.activation = activation_name(ffn.activation());
  layer.d_model = ffn.d_model();
  layer.d_ff = ffn.d_ff();
  layer.time_ms.expand = ms(Stage::expand);
  layer.time_ms.contract = ms(Stage::contract);
  layer.time_ms.attention = ms(Stage::attention);
  layer.time_ms.norm = ms(Stage::norm);
  layer.time_ms.other = ms(Stage::other);
  const auto rows = static_cast<double>(pass.rows);
  const double flops =
      4.0 * static_cast<double>(ffn.d_model()) * static_cast<double>(ffn.d_ff()) * rows;
  const double bytes = static_cast<double>(ffn.packed_bytes()) +
                       2.0 * sizeof(float) * static_cast<double>(ffn.d_model()) * rows;
  const double seconds = (layer.time_ms.expand + layer.time_ms.contract) * windows / 1e3;
  if (seconds > 0) {
    layer.gflops = flops / seconds / 1e9;
    layer.gbs = bytes / seconds / 1e9;
    const MachineReport& machine = report.machine;
    const double peak = machine.peak_gflops_bf16.value_or(machine.peak_gflops_f32);
    const double least = std::max(flops / (peak * 1e9), bytes / (report.machine.read_gbs * 1e9));
    layer.share_of_limit = least / seconds;
  }
  if (layer.share_of_limit > 1.05)
    report.warnings.push_back(
        "layer " + std::to_string(index) +
        ": share of limit above 1.05; the machine's speed changed during the run, or the limit was "
        "measured too low. Run again on an idle machine.");
  layer.statistics = layer_statistics(statistics, ffn.activation(), options_.dead_threshold, text_,
                                      model_.tokenizer);
  return layer;
}

ProfileReport Profiler::run() {
  ProfileReport report;
  report.model_path = model_name_;
  report.architecture = config().architecture;
  report.dtype = dtype_text(model_);
  report.text_name = options_.text_name;
  report.n_layers = config().n_layers;
  report.d_model = config().d_model;
  report.batch = options_.batch;
  report.count_special = options_.count_special;
  report.dead_threshold = options_.dead_threshold;

  text_ = cut_text(model_, options_);
  batches_ = make_batches(text_, model_.tokenizer, options_);
  report.seq_len = text_.seq_len;
  report.windows = text_.windows.size();
  report.text_tokens = text_.total;

  ThreadPool& pool = workspace_.runtime().pool();
  const std::size_t buffer = model_.encoder.packed_bytes();
  Limits limits;
  limits.measure(pool, model_.encoder.dtype(), buffer);
  const TimedPass pass = timing_pass(report);
  const std::vector<NeuronStatistics> statistics = statistics_pass(report);
  limits.measure(pool, model_.encoder.dtype(), buffer);

  report.tokens = statistics.front().tokens();
  report.machine.cpu = read_cpu_info().name;
  report.machine.isa = workspace_.runtime().isa();
  report.machine.threads = workspace_.runtime().threads();
  report.machine.peak_gflops_f32 = limits.peak_gflops_f32;
  if (model_.encoder.dtype() == Dtype::bf16) report.machine.peak_gflops_bf16 = limits.peak_gflops;
  report.machine.read_gbs = limits.read_gbs;
  report.machine.read_buffer_bytes = buffer;

  double inside = 0, ffn = 0;
  for (std::size_t i = 0; i < config().n_layers; ++i) {
    for (const double part : pass.stages[i]) inside += part;
    ffn += pass.stages[i][static_cast<std::size_t>(Stage::expand)] +
           pass.stages[i][static_cast<std::size_t>(Stage::contract)];
    if (!options_.layers.empty() &&
        std::find(options_.layers.begin(), options_.layers.end(), i) == options_.layers.end())
      continue;
    report.layers.push_back(layer_profile(i, pass, statistics[i], report));
  }
  const auto windows = static_cast<double>(pass.windows);
  report.forward_ms = pass.seconds * 1e3 / windows;
  report.outside_layers_ms = std::max(0.0, (pass.seconds - inside) * 1e3 / windows);
  report.ffn_time_share = ffn / pass.seconds;
  report.tokens_per_s = static_cast<double>(pass.rows) / pass.seconds;
  return report;
}

}  // namespace

ProfileReport profile_model(const std::string& model_name, const ProfileOptions& options,
                            Workspace& workspace, const Progress& progress) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const LoadedEncoder model = load_encoder(model_name, options.dtype);
  for (const std::uint64_t layer : options.layers)
    FOURFOLD_CHECK(layer < model.encoder.config().n_layers, invalid_argument,
                   "layer " + std::to_string(layer) + " is asked for; the model has layers 0 to " +
                       std::to_string(model.encoder.config().n_layers - 1));
  // Before the run: a failure here must not cost its result.
  const ParameterCounts parameters = inspect_model(model_name).parameters;
  ProfileReport report = Profiler(model_name, model, options, workspace, progress).run();
  report.parameters = parameters;
  return report;
}

}  // namespace fourfold
