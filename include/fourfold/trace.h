// Every number of one feed-forward layer on one vector, step by step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fourfold {

struct TraceStep {
  // dense: "expand", "activate", "contract"; gated: "gate", "up", "activate", "product",
  // "contract"; moe: "router", "score", "choose", "weigh", the steps of each chosen expert,
  // "combine"; then "add", "normalise".
  std::string name;
  std::string formula;  // "pre = up x + up_bias"
  std::uint64_t parameters = 0, macs = 0, elementwise_flops = 0;
  std::vector<float> values;  // the step's result
  std::vector<std::string>
      workings;  // for small layers: one line a value, each multiplication shown
  std::optional<std::uint64_t> expert = std::nullopt;  // whose step it is
};

struct TraceReport {
  std::string title, kind = "dense", activation;
  std::uint64_t d_model = 0, d_ff = 0;            // d_ff: of one expert
  std::optional<std::uint64_t> n_experts, top_k;  // of a mixture
  // Of the FFN, without the norm; active: without the experts that x does not use.
  std::uint64_t parameters = 0, active_parameters = 0, macs = 0;
  std::vector<std::string> notes;  // where the numbers come from
  std::vector<float> x;            // input, [d_model]
  std::vector<TraceStep> steps;
};

}  // namespace fourfold
