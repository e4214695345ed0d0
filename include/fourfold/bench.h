// What `fourfold bench` measures: one feed-forward layer, or a whole encoder, timed in turns with
// other implementations, beside the machine's limits measured in the same run. docs/performance.md
// says how.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/activation.h"
#include "fourfold/dtype.h"
#include "fourfold/ffn_counts.h"
#include "fourfold/runtime.h"

namespace fourfold {

// Another implementation: a program that speaks the protocol of bench/README.md.
struct BenchPeer {
  std::string name;
  std::vector<std::string> command;
};

// A peer without a time, and why.
struct BenchAbsence {
  std::string implementation, reason;
  std::optional<std::uint64_t> tokens;  // empty: in the whole run
};

enum class BenchRouting { uniform, zipf, single, listed };
std::string_view bench_routing_name(BenchRouting routing);

struct BenchOptions {
  FfnKind kind = FfnKind::gated;
  Activation activation = Activation::silu;
  std::uint64_t d_model = 2048, d_ff = 5632;
  std::uint64_t n_experts = 8, top_k = 2;  // of a mixture
  std::vector<std::uint64_t> tokens{1, 4, 16, 64, 512};
  Dtype dtype = Dtype::f32;
  bool backward = false;  // set_weights + forward + backward in place of forward
  BenchRouting routing = BenchRouting::uniform;
  std::vector<std::uint32_t> experts;  // listed: top_k different experts per token, then again
  std::optional<double> sparsity;      // share of hidden values that are exactly 0
  std::string model;                   // when set: the whole encoder, batch x seq_len tokens
  std::uint64_t batch = 1, seq_len = 128;
  std::uint64_t repeat = 9;              // rounds
  std::vector<BenchPeer> peers;          // timed in turns with Fourfold
  std::vector<BenchAbsence> absent;      // known and not here; passed on to the report
  double peer_timeout_s = 180;           // for one answer of a peer
  std::string version;                   // of Fourfold, for its rows
  std::string scratch;                   // folder for the peers' inputs; empty: /tmp
  std::function<bool()> stop_requested;  // asked between measurements
};

struct BenchTimes {
  double median = 0, min = 0, max = 0;  // ms of one layer (or model) call
};

struct BenchRow {
  std::string kind, activation, dtype, routing;
  std::uint64_t d_model = 0, d_ff = 0, n_experts = 0, top_k = 0, tokens = 0;
  std::uint64_t batch = 0, seq_len = 0;  // of a model
  // Of a mixture: experts with tokens, and the tokens of the fullest over the mean of all experts.
  std::uint64_t experts_hit = 0;
  double largest_load = 0;
  bool backward = false;
  std::optional<double> sparsity, exact_zero;  // asked for, and counted in the hidden values
  std::string implementation, version;
  std::uint64_t copies = 1;  // of the weights, used in turn
  std::uint64_t passes = 1;  // over all copies, in one measurement
  std::uint64_t rounds = 0;
  BenchTimes ms;
  double gflops = 0, gbs = 0, share_of_limit = 0;
  double peak_gflops = 0, read_gbs = 0;  // measured beside this row
  std::optional<double> ratio_to_best_peer;
  std::string best_peer;
  std::optional<double> ratio_to_fourfold;  // of a peer: its ms / Fourfold's
  std::optional<double> max_relative_error;
  std::uint64_t error_samples = 0;  // elements compared with float64
  // Of a model, Fourfold only: expand, contract, attention, norm, other.
  std::optional<std::array<double, 5>> stages_ms;
};

struct BenchReport {
  std::string cpu, isa;
  unsigned threads = 0;
  double peak_gflops_f32 = 0, peak_gflops_bf16 = 0;
  double read_gbs = 0;  // median over the rows
  std::uint64_t repeat = 0;
  std::uint64_t major_faults = 0;  // pages that came from disk while Fourfold was timed
  std::string model;
  std::vector<BenchRow> rows;
  std::vector<BenchAbsence> not_measured;
  std::vector<std::string> warnings;
};

// Called with rows done and rows in all.
using BenchProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Thrown when stop_requested said yes; everything started and written is gone by then.
struct BenchStopped {};

// Throws Error{invalid_argument} for an option out of range, Error{unsupported} for what cannot be
// timed, Error{io} when the scratch folder cannot be written, and what loading the model throws.
BenchReport run_bench(const BenchOptions& options, Workspace& workspace,
                      const BenchProgress& progress = {});

}  // namespace fourfold
