// One row's work of `bench`: the inputs, Fourfold's side of it, and the float64 answer. A pass
// computes it once with each copy of the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "fourfold/bench.h"
#include "tools/bench_folder.h"

namespace fourfold {

struct BenchCost {
  double flops = 0;  // of one layer call
  double bytes = 0;  // weights read, inputs and outputs, once
};

struct BenchError {
  double max_relative = 0;  // |y - y64| / rms(y64), the worst over all outputs
  std::uint64_t samples = 0;
};

// The outputs of an implementation by name (y, dx, dgate, dup, ddown), as float32.
using BenchOutputs = std::function<std::span<const float>(std::string_view name)>;

class BenchWork {
 public:
  virtual ~BenchWork() = default;

  // What peers must know: the arrays as files, the rest as one line of key=value.
  virtual std::string write_case(BenchFolder& folder) = 0;
  virtual void run(std::size_t passes) = 0;
  virtual BenchOutputs our_outputs() = 0;  // of one fresh call
  virtual BenchError error(const BenchOutputs& outputs) = 0;

  virtual std::size_t copies() const = 0;
  virtual std::uint64_t weight_bytes() const = 0;  // of all copies
  virtual BenchCost cost() const = 0;
  virtual void describe(BenchRow& row) const = 0;
  // Sparsity alone: with or without skipping of zeros.
  virtual void skip_zeros(bool) {}
  // After the rounds, for Fourfold's row: stages of a model.
  virtual void add_details(BenchRow&) {}
};

// Weights of an earlier row with the same shapes are taken over from `before` when it is given.
std::unique_ptr<BenchWork> make_ffn_work(const BenchOptions& options, std::uint64_t tokens,
                                         Workspace& workspace, std::unique_ptr<BenchWork> before);
std::unique_ptr<BenchWork> make_model_work(const BenchOptions& options, Workspace& workspace);

}  // namespace fourfold
