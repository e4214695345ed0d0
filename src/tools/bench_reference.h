// The float64 answer of an FFN row of `bench`, for a sample: all outputs of a few tokens and, with
// backward, the weight gradients of a few neurons over all tokens.
#pragma once

#include "fourfold/runtime.h"
#include "tools/bench_case.h"
#include "tools/bench_work.h"

namespace fourfold {

// d_ff of one expert is never padded here; all products run in float64 on the pool's threads.
class BenchReference {
 public:
  static constexpr std::size_t kTokens = 8, kNeurons = 4;

  BenchReference(const BenchCase& shape, const BenchWeights& weights, const BenchInputs& inputs,
                 Workspace& workspace);

  BenchError error(const BenchOutputs& outputs) const;

 private:
  struct Sample {
    std::string output;
    std::vector<std::size_t> places;  // flat indices into the output
    std::vector<double> values;
  };
  void add_tokens(Workspace& workspace);
  void add_neurons(std::size_t expert);
  double routing_weight(std::size_t token, std::size_t expert) const;

  const BenchCase& shape_;
  const BenchWeights& weights_;
  const BenchInputs& inputs_;
  std::vector<Sample> samples_;
};

}  // namespace fourfold
