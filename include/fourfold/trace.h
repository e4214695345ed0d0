// Every number of one feed-forward layer on one vector, step by step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fourfold {

struct TraceStep {
  std::string name;     // "expand", "activate", "contract", "add", "normalise"
  std::string formula;  // "pre = up x + up_bias"
  std::uint64_t parameters = 0, macs = 0, elementwise_flops = 0;
  std::vector<float> values;  // the step's result
  std::vector<std::string>
      workings;  // for small layers: one line a value, each multiplication shown
};

struct TraceReport {
  std::string title, activation;
  std::uint64_t d_model = 0, d_ff = 0;
  std::uint64_t parameters = 0, macs = 0;  // of the FFN, without the norm
  std::vector<std::string> notes;          // where the numbers come from
  std::vector<float> x;                    // input, [d_model]
  std::vector<TraceStep> steps;
};

}  // namespace fourfold
