// bench: rows one after the other; in each, Fourfold and its peers take turns, round by round.
#include "fourfold/bench.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/check.h"
#include "kernels/limit_probe.h"
#include "platform/cpu_budget.h"
#include "platform/cpu_info.h"
#include "platform/mapped_file.h"
#include "platform/thread_pool.h"
#include "tools/bench_peer.h"
#include "tools/bench_work.h"

namespace fourfold {
namespace {

// Pages that this process had to wait for from disk, so far.
std::uint64_t major_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_majflt);
}

using Clock = std::chrono::steady_clock;

// One measurement lasts this long at least; a shorter pass is first run once without a clock, as
// others have just used the caches.
constexpr double kMeasurementMs = 20, kWarmPassMs = 10;
constexpr double kMostPasses = 1e6;
constexpr double kIdleShare = 0.01;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// One implementation in one row.
struct Contender {
  std::string name, version;
  PeerProcess* peer = nullptr;  // null: Fourfold
  bool skip_zeros = false;
  std::size_t passes = 1;
  bool warm = true;
  std::vector<double> ms;  // of one layer call, round by round
  BenchError error;
  bool has_error = false;

  bool out = false;
};

class Bench {
 public:
  Bench(const BenchOptions& options, Workspace& workspace, const BenchProgress& progress)
      : options_(options), workspace_(workspace), progress_(progress), folder_(options.scratch) {}

  BenchReport run();

 private:
  struct Peer {
    const BenchPeer* program;
    std::unique_ptr<PeerProcess> process;
    bool dropped = false;
  };

  void check_stop() const {
    if (options_.stop_requested && options_.stop_requested()) throw BenchStopped();
  }
  void row(BenchWork& work);
  void add_peers(BenchWork& work, std::vector<Contender>& contenders);
  double measure(BenchWork& work, Contender& contender, std::size_t passes, bool warm);
  void calibrate(BenchWork& work, Contender& contender);
  void find_error(BenchWork& work, Contender& contender);
  void add_rows(BenchWork& work, const std::vector<Contender>& contenders, double peak,
                double read);
  void drop(const Contender& contender, const std::string& reason);
  template <class Action>
  void guard(Contender& contender, Action&& action);
  double peers_cpu_seconds() const;

  const BenchOptions& options_;
  Workspace& workspace_;
  const BenchProgress& progress_;
  BenchFolder folder_;
  std::vector<Peer> peers_;
  BenchReport report_;
  std::uint64_t tokens_ = 0;
  std::vector<double> read_rates_;
  BenchOutputs ours_;
};

// A peer that fails is out of the row, or of the run; the others go on.
template <class Action>
void Bench::guard(Contender& contender, Action&& action) {
  try {
    action();
  } catch (const PeerCannot& error) {
    contender.out = true;
    report_.not_measured.push_back({contender.name, error.what(), tokens_});
  } catch (const PeerLost& error) {
    contender.out = true;
    drop(contender, error.what());
  }
}

void Bench::drop(const Contender& contender, const std::string& reason) {
  report_.not_measured.push_back({contender.name, reason, {}});
  for (Peer& peer : peers_)
    if (peer.program->name == contender.name) {
      peer.process.reset();
      peer.dropped = true;
    }
}

double Bench::peers_cpu_seconds() const {
  double seconds = 0;
  for (const Peer& peer : peers_)
    if (peer.process) seconds += peer.process->cpu_seconds();
  return seconds;
}

// Milliseconds of `passes` passes, in the implementation's own clock.
double Bench::measure(BenchWork& work, Contender& contender, std::size_t passes, bool warm) {
  check_stop();
  if (contender.peer != nullptr) {
    const std::string answer = contender.peer->ask(fmt::format("go {} {}", passes, warm ? 1 : 0));
    char* end = nullptr;
    const double ms = std::strtod(answer.c_str(), &end);
    if (end == answer.c_str() || !(std::isfinite(ms) && ms > 0))
      throw PeerLost("it answers \"" + answer.substr(0, 40) + "\" where a time is expected");
    return ms;
  }
  work.skip_zeros(contender.skip_zeros);
  if (warm) work.run(1);
  const auto begin = Clock::now();
  work.run(passes);
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void Bench::calibrate(BenchWork& work, Contender& contender) {
  const double first = measure(work, contender, 1, false);
  const double second = first > 10 * kMeasurementMs ? first : measure(work, contender, 1, false);
  contender.warm = second < kWarmPassMs;
  contender.passes = static_cast<std::size_t>(
      std::clamp(std::ceil(1.1 * kMeasurementMs / second), 1.0, kMostPasses));
}

void Bench::add_peers(BenchWork& work, std::vector<Contender>& contenders) {
  if (peers_.empty()) return;
  const std::string question = "case " + work.write_case(folder_);
  std::vector<int> cpus = read_cpu_budget().cpus;
  const unsigned threads = workspace_.runtime().threads();
  if (cpus.size() > threads) cpus.resize(threads);
  for (Peer& peer : peers_) {
    if (peer.dropped) continue;
    Contender contender;
    contender.name = peer.program->name;
    guard(contender, [&] {
      if (!peer.process)
        peer.process =
            std::make_unique<PeerProcess>(*peer.program, folder_, threads, cpus,
                                          options_.peer_timeout_s, options_.stop_requested);
      contender.peer = peer.process.get();
      contender.version = contender.peer->ask(question);
    });
    if (!contender.out) contenders.push_back(std::move(contender));
  }
}

void Bench::find_error(BenchWork& work, Contender& contender) {
  if (contender.peer == nullptr) {
    work.skip_zeros(contender.skip_zeros);
    ours_ = work.our_outputs();
    contender.error = work.error(ours_);
    contender.has_error = true;
    return;
  }
  for (const char* name : {"y", "dx", "dgate", "dup", "ddown"})
    folder_.remove(std::string(name) + ".out");
  contender.peer->ask("result");
  std::map<std::string, std::vector<float>, std::less<>> read;
  const BenchOutputs theirs = [&](std::string_view name) -> std::span<const float> {
    if (const auto known = read.find(name); known != read.end()) return known->second;
    const std::string file_name = std::string(name) + ".out";
    if (!folder_.has(file_name)) throw PeerCannot("it wrote no " + std::string(name));
    const MappedFile file(folder_.file(file_name), FileAccess::pread);
    std::vector<float> values(ours_(name).size());
    if (file.size() != values.size() * sizeof(float))
      throw PeerCannot(fmt::format("its {} has {} bytes, expected {}", name, file.size(),
                                   values.size() * sizeof(float)));
    file.read(0, std::as_writable_bytes(std::span(values)));
    return read.emplace(name, std::move(values)).first->second;
  };
  contender.error = work.error(theirs);
  contender.has_error = true;
}

void Bench::row(BenchWork& work) {
  BenchRow shape;
  work.describe(shape);
  tokens_ = shape.tokens;
  std::vector<Contender> contenders;
  Contender fourfold;
  fourfold.name = "fourfold";
  fourfold.skip_zeros = options_.sparsity.has_value();
  contenders.push_back(fourfold);
  if (options_.sparsity) {
    fourfold.name = "fourfold, every neuron";
    fourfold.skip_zeros = false;
    contenders.push_back(fourfold);
  }
  add_peers(work, contenders);
  for (Contender& one : contenders) guard(one, [&] { calibrate(work, one); });

  ThreadPool& pool = workspace_.runtime().pool();
  // Before and after the rounds; a limit is what the machine has shown.
  double peak = measure_peak_gflops(pool, options_.dtype);
  double read = measure_read_gbs(pool, work.weight_bytes());
  double idle = 0, busy = 0;
  std::uint64_t faults = 0;
  for (std::uint64_t round = 0; round < options_.repeat; ++round)
    for (Contender& one : contenders) {
      if (one.out) continue;
      const bool ours = one.peer == nullptr;
      const double before = ours ? peers_cpu_seconds() : 0;
      const std::uint64_t faults_before = major_faults();
      guard(one, [&] {
        const double ms = measure(work, one, one.passes, one.warm);
        one.ms.push_back(ms / static_cast<double>(one.passes * work.copies()));
        if (ours) busy += ms / 1e3;
      });
      if (!ours) continue;
      idle += peers_cpu_seconds() - before;
      faults += major_faults() - faults_before;
    }
  peak = std::max(peak, measure_peak_gflops(pool, options_.dtype));
  read = std::max(read, measure_read_gbs(pool, work.weight_bytes()));
  read_rates_.push_back(read);
  if (idle > kIdleShare * busy)
    report_.warnings.push_back(fmt::format(
        "{} tokens: peers used {:.0f} ms of CPU time while Fourfold was timed for {:.0f} ms; "
        "they were not idle",
        tokens_, idle * 1e3, busy * 1e3));
  report_.major_faults += faults;
  if (faults > 0)
    report_.warnings.push_back(
        fmt::format("{} tokens: {} pages came from disk while Fourfold was timed; memory is short",
                    tokens_, faults));
  for (Contender& one : contenders)
    if (!one.out) guard(one, [&] { find_error(work, one); });
  add_rows(work, contenders, peak, read);
}

// Ratios are taken within each round, where both sides met the same machine.
double round_ratio(const std::vector<double>& peer, const std::vector<double>& ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(peer.size(), ours.size()); ++i)
    ratios.push_back(peer[i] / ours[i]);
  return median(std::move(ratios));
}

void Bench::add_rows(BenchWork& work, const std::vector<Contender>& contenders, double peak,
                     double read) {
  const std::vector<double>& ours = contenders.front().ms;
  const Contender* best = nullptr;
  for (const Contender& one : contenders)
    if (one.peer != nullptr && !one.ms.empty() && !one.out &&
        (best == nullptr || median(one.ms) < median(best->ms)))
      best = &one;
  for (const Contender& one : contenders) {
    if (one.out || one.ms.empty()) continue;
    BenchRow row;
    work.skip_zeros(one.peer == nullptr && one.skip_zeros);
    work.describe(row);
    row.implementation = one.name;
    row.version = one.peer != nullptr ? one.version : options_.version;
    row.copies = work.copies();
    row.passes = one.passes;
    row.rounds = one.ms.size();
    row.ms = {median(one.ms), *std::min_element(one.ms.begin(), one.ms.end()),
              *std::max_element(one.ms.begin(), one.ms.end())};
    const BenchCost cost = work.cost();
    const double seconds = row.ms.median / 1e3;
    row.peak_gflops = peak;
    row.read_gbs = read;
    row.gflops = cost.flops / seconds / 1e9;
    row.gbs = cost.bytes / seconds / 1e9;
    row.share_of_limit = std::max(cost.flops / (peak * 1e9), cost.bytes / (read * 1e9)) / seconds;
    if (one.has_error) {
      row.max_relative_error = one.error.max_relative;
      row.error_samples = one.error.samples;
    }
    if (&one != &contenders.front()) {
      row.ratio_to_fourfold = round_ratio(one.ms, ours);
    } else {
      work.add_details(row);
      if (best != nullptr) {
        row.best_peer = best->name;
        row.ratio_to_best_peer = round_ratio(best->ms, ours);
      }
      if (row.share_of_limit > 1.05)
        report_.warnings.push_back(fmt::format(
            "{} tokens: share of limit {:.2f} is above 1.05; the machine's speed changed during "
            "the run, or the limit was measured too low",
            tokens_, row.share_of_limit));
    }
    report_.rows.push_back(std::move(row));
  }
}

BenchReport Bench::run() {
  ThreadPool& pool = workspace_.runtime().pool();
  report_.cpu = read_cpu_info().name;
  report_.isa = workspace_.runtime().isa();
  report_.threads = workspace_.runtime().threads();
  report_.repeat = options_.repeat;
  report_.model = options_.model;
  report_.not_measured = options_.absent;
  report_.peak_gflops_f32 = measure_peak_gflops(pool, Dtype::f32);
  report_.peak_gflops_bf16 = measure_peak_gflops(pool, Dtype::bf16);
  for (const BenchPeer& peer : options_.peers) peers_.push_back({&peer, nullptr, false});
  const std::size_t rows = options_.model.empty() ? options_.tokens.size() : 1;
  std::unique_ptr<BenchWork> work;
  for (std::size_t i = 0; i < rows; ++i) {
    work = options_.model.empty()
               ? make_ffn_work(options_, options_.tokens[i], workspace_, std::move(work))
               : make_model_work(options_, workspace_);
    row(*work);
    if (progress_) progress_(i + 1, rows);
  }
  report_.read_gbs = median(read_rates_);
  return std::move(report_);
}

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 36;

void check_options(const BenchOptions& options) {
  const auto refuse = [](ErrorCode code, const std::string& what) {
    throw Error(code, "[bench] " + what);
  };
  const auto in_range = [&](const char* name, std::uint64_t value, std::uint64_t most) {
    if (value == 0 || value > most)
      refuse(ErrorCode::invalid_argument,
             fmt::format("{} is {}, expected 1 to {}", name, value, most));
  };
  in_range("repeat", options.repeat, 100'000);
  if (!options.model.empty()) {
    in_range("batch", options.batch, 65536);
    in_range("seq_len", options.seq_len, 1U << 20);
    return;
  }
  in_range("d_model", options.d_model, 1U << 20);
  in_range("d_ff", options.d_ff, 1U << 22);
  if (options.tokens.empty())
    refuse(ErrorCode::invalid_argument, "there are no token counts, expected at least one");
  for (const std::uint64_t tokens : options.tokens) {
    in_range("tokens", tokens, 1U << 20);
    if (tokens * std::max(options.d_ff, options.d_model) > kMostElements)
      refuse(ErrorCode::invalid_argument,
             fmt::format("{} tokens of this size are too many", tokens));
  }
  const bool moe = options.kind == FfnKind::moe;
  if (moe) {
    in_range("experts", options.n_experts, std::min<std::uint64_t>(4096, options.d_model));
    if (options.top_k == 0 || options.top_k > options.n_experts)
      refuse(ErrorCode::invalid_argument,
             fmt::format("top_k is {}, expected 1 to the number of experts, {}", options.top_k,
                         options.n_experts));
  }
  if (options.d_model * options.d_ff * (moe ? options.n_experts : 1) > kMostElements)
    refuse(ErrorCode::invalid_argument,
           "weights of this size do not fit; choose smaller dimensions");
  if (options.kind == FfnKind::dense && is_gated_only(options.activation))
    refuse(ErrorCode::unsupported, fmt::format("{} needs a gate; choose kind gated or moe",
                                               activation_name(options.activation)));
  if (options.sparsity) {
    if (!(*options.sparsity > 0 && *options.sparsity < 1))
      refuse(ErrorCode::invalid_argument,
             fmt::format("sparsity is {}, expected a share above 0 and below 1, such as 0.9",
                         *options.sparsity));
    if (moe || !gives_exact_zeros(options.activation))
      refuse(ErrorCode::unsupported,
             "sparsity needs kind dense or gated and an activation with exact zeros: relu, relu2, "
             "relu6");
    if (options.backward)
      refuse(ErrorCode::unsupported, "sparsity is measured in forward passes only");
  }
  if (moe && options.routing == BenchRouting::listed) {
    if (options.experts.empty() || options.experts.size() % options.top_k != 0)
      refuse(ErrorCode::invalid_argument,
             fmt::format("the list of experts has {} entries, expected {} for each token",
                         options.experts.size(), options.top_k));
    for (std::size_t at = 0; at < options.experts.size(); ++at) {
      const std::size_t first = at - at % options.top_k;
      if (options.experts[at] >= options.n_experts)
        refuse(ErrorCode::invalid_argument,
               fmt::format("expert {} is listed; there are {}, counted from 0", options.experts[at],
                           options.n_experts));
      for (std::size_t other = first; other < at; ++other)
        if (options.experts[other] == options.experts[at])
          refuse(ErrorCode::invalid_argument, fmt::format("token {} lists expert {} twice",
                                                          at / options.top_k, options.experts[at]));
    }
  }
}

}  // namespace

BenchReport run_bench(const BenchOptions& options, Workspace& workspace,
                      const BenchProgress& progress) {
  check_options(options);
  return Bench(options, workspace, progress).run();
}

}  // namespace fourfold
