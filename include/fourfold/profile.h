// What `fourfold inspect` and `fourfold profile` report. Plain data; every number is defined in
// docs/numbers.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/runtime.h"

namespace fourfold {

// Each floating-point element once. The parts add up to total.
struct ParameterCounts {
  std::uint64_t total = 0, active = 0;
  std::uint64_t ffn = 0, attention = 0, norm = 0, embedding = 0, other = 0;
};

struct LayerSummary {
  std::size_t index = 0;
  std::string kind;        // dense, gated or moe
  std::string activation;  // printed name
  std::uint64_t d_model = 0, d_ff = 0;
  std::optional<std::uint64_t> n_experts, top_k;  // of a mixture
  std::string dtype;                              // as stored, for example "F32"
  std::uint64_t ffn_parameters = 0, ffn_active_parameters = 0;
  std::uint64_t attention_parameters = 0, norm_parameters = 0;
  double ffn_share = 0;  // ffn / (ffn + attention + norm) of the layer
  std::uint64_t ffn_macs_per_token = 0;
  std::uint64_t attention_macs_per_token = 0;  // projections; with seq_len also the score work
  std::uint64_t elementwise_flops_per_token = 0;
};

struct TensorSummary {
  std::string name, dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t parameters = 0, bytes = 0;
};

struct ModelSummary {
  std::string path, architecture;
  ParameterCounts parameters;
  std::vector<LayerSummary> layers;
  std::vector<TensorSummary> tensors;
  std::optional<std::uint64_t> seq_len;  // set when score work is counted
};

// Milliseconds; a stage that the layer does not have is empty.
struct StageTimesMs {
  double expand = 0, contract = 0;
  std::optional<double> router, gather, combine;
  double attention = 0, norm = 0, other = 0;
};

struct StrongToken {
  std::uint64_t token = 0;  // token id
  // Index in the tokenised text; empty for a token the tokenizer adds.
  std::optional<std::uint64_t> position;
  float value = 0;            // hidden value
  std::string text, context;  // the token, and the words around it
};

struct TopNeuron {
  std::uint64_t neuron = 0;
  double mean_energy = 0;
  std::vector<StrongToken> tokens;  // strongest first, at most 5
};

struct DeadNeurons {
  std::uint64_t count = 0, tokens_seen = 0;
  std::vector<std::uint64_t> indices;
};

// How a mixture's router spread the counted tokens.
struct ExpertUse {
  std::vector<std::uint64_t> load;         // (token, choice) pairs per expert
  std::vector<std::uint64_t> tokens_seen;  // the same without pairs beyond the capacity
  double entropy = 0;                      // 1: balanced, 0: one expert takes all
  std::vector<std::uint64_t> never_used;
};

struct LayerStatistics {
  double exact_zero = 0;
  std::optional<double> gate_exact_zero;  // of act(gate) in a gated layer
  double below_thousandth_of_max = 0;
  std::optional<double> energy_99;
  std::optional<DeadNeurons> dead;
  std::array<std::uint64_t, 21> firing_rate_histogram{};
  double mean_firing_rate = 0;
  std::vector<TopNeuron> top_neurons;
  float max_abs = 0, median_abs = 0;
  std::optional<ExpertUse> experts;
};

struct LayerProfile {
  std::size_t index = 0;
  std::string kind, activation;
  std::uint64_t d_model = 0, d_ff = 0;
  StageTimesMs time_ms;
  double gflops = 0, gbs = 0;  // of the FFN: expand + contract
  double share_of_limit = 0;
  LayerStatistics statistics;
};

struct MachineReport {
  std::string cpu, isa;
  unsigned threads = 0;
  double peak_gflops_f32 = 0;
  std::optional<double> peak_gflops_bf16;  // measured when the model computes in bf16
  double read_gbs = 0;
  std::uint64_t read_buffer_bytes = 0;
  std::vector<ThreadTime> thread_times;
};

struct ProfileReport {
  std::string model_path, architecture, dtype, text_name;
  std::uint64_t n_layers = 0, d_model = 0;
  ParameterCounts parameters;
  std::uint64_t tokens = 0;       // counted tokens
  std::uint64_t text_tokens = 0;  // of the whole text, without added ones
  std::uint64_t windows = 0, seq_len = 0, batch = 1;
  bool count_special = false;
  std::optional<double> dead_threshold;
  MachineReport machine;
  double timing_seconds = 0, statistics_seconds = 0;
  std::vector<LayerProfile> layers;
  double forward_ms = 0, outside_layers_ms = 0, ffn_time_share = 0, tokens_per_s = 0;
  bool finite = true;                 // false when the output held NaN or Inf
  std::vector<std::string> warnings;  // for people, for example a share of limit above 1.05
};

}  // namespace fourfold
