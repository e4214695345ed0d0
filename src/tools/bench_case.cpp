#include "tools/bench_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fourfold {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): fast enough for hundreds of megabytes.
class Values {
 public:
  explicit Values(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  // Of variance `variance`, evenly spread.
  std::vector<float> matrix(std::size_t count, double variance, Dtype dtype) {
    const double width = std::sqrt(12 * variance);
    std::vector<float> values(count);
    for (float& value : values) {
      value = static_cast<float>((unit() - 0.5) * width);
      if (dtype == Dtype::bf16) value = round_to_bf16(value);
    }
    return values;
  }

 private:
  std::uint64_t state_;
};

// The point that a standard normal number stays below with probability p, by bisection.
double normal_quantile(double p) {
  double low = -9, high = 9;
  for (int step = 0; step < 80; ++step) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return low;
}

// Draws top_k different experts, each with probability proportional to its weight among those left.
void draw_experts(Values& values, std::vector<double> weights, std::span<std::uint32_t> chosen) {
  for (std::uint32_t& expert : chosen) {
    double point = values.unit() * std::accumulate(weights.begin(), weights.end(), 0.0);
    std::size_t at = 0;
    while (at + 1 < weights.size() && (weights[at] == 0 || point >= weights[at]))
      point -= weights[at++];
    while (weights[at] == 0) --at;  // rounding may lead past the last one left
    expert = static_cast<std::uint32_t>(at);
    weights[at] = 0;
  }
}

std::vector<std::uint32_t> choose_experts(const BenchCase& shape, const BenchOptions& options,
                                          Values& values) {
  std::vector<std::uint32_t> experts(shape.tokens * shape.top_k);
  std::vector<double> weights(shape.n_experts, 1.0);
  if (options.routing == BenchRouting::zipf)
    for (std::size_t e = 0; e < weights.size(); ++e) weights[e] = 1 / static_cast<double>(e + 1);
  for (std::size_t token = 0; token < shape.tokens; ++token) {
    const std::span<std::uint32_t> chosen(experts.data() + token * shape.top_k, shape.top_k);
    if (options.routing == BenchRouting::single)
      std::iota(chosen.begin(), chosen.end(), 0U);
    else if (options.routing == BenchRouting::listed)
      for (std::size_t k = 0; k < chosen.size(); ++k)
        chosen[k] = options.experts[(token * shape.top_k + k) % options.experts.size()];
    else
      draw_experts(values, weights, chosen);
  }
  return experts;
}

}  // namespace

std::string_view bench_routing_name(BenchRouting routing) {
  switch (routing) {
    case BenchRouting::uniform: return "uniform";
    case BenchRouting::zipf: return "zipf";
    case BenchRouting::single: return "single";
    case BenchRouting::listed: return "listed";
  }
  return "uniform";
}

BenchCase make_case(const BenchOptions& options, std::uint64_t tokens) {
  BenchCase shape;
  shape.kind = options.kind;
  shape.activation = options.activation;
  shape.dtype = options.dtype;
  shape.backward = options.backward;
  shape.d_model = options.d_model;
  shape.d_ff = options.d_ff;
  shape.tokens = tokens;
  if (shape.moe()) {
    shape.n_experts = options.n_experts;
    shape.top_k = options.top_k;
  }
  return shape;
}

BenchWeights make_weights(const BenchCase& shape, const BenchOptions& options) {
  const std::size_t d = shape.d_model, f = shape.d_ff, count = shape.n_experts * d * f;
  const double in = 1 / static_cast<double>(d), out = 1 / static_cast<double>(f);
  Values values(1);
  BenchWeights weights;
  weights.up = values.matrix(count, in, shape.dtype);
  if (shape.gated()) weights.gate = values.matrix(count, in, shape.dtype);
  weights.down = values.matrix(count, out, shape.dtype);
  if (options.sparsity) {
    // x[0] is 1 for every token (make_inputs), so the first column shifts each neuron's input,
    // which is otherwise about normal with variance 1: so many are below 0.
    std::vector<float>& first = shape.gated() ? weights.gate : weights.up;
    float shift = static_cast<float>(-normal_quantile(*options.sparsity));
    if (shape.dtype == Dtype::bf16) shift = round_to_bf16(shift);
    for (std::size_t row = 0; row < shape.n_experts * f; ++row) first[row * d] = shift;
  }
  if (shape.kind == FfnKind::dense) {
    weights.up_bias = values.matrix(f, options.sparsity ? 0 : 0.01, shape.dtype);
    weights.down_bias = values.matrix(d, 0.01, shape.dtype);
  }
  if (shape.moe()) {
    // The first n_experts inputs are the logits (make_inputs); the rest is too small to matter.
    weights.router = values.matrix(shape.n_experts * d, 1e-6 * in, shape.dtype);
    for (std::size_t e = 0; e < shape.n_experts; ++e)
      for (std::size_t i = 0; i < shape.n_experts; ++i)
        weights.router[e * d + i] = i == e ? 1.0F : 0.0F;
  }
  return weights;
}

BenchInputs make_inputs(const BenchCase& shape, const BenchOptions& options) {
  const std::size_t d = shape.d_model;
  Values values(2);
  BenchInputs inputs;
  inputs.x = values.matrix(shape.tokens * d, 1, shape.dtype);
  if (shape.backward) inputs.dy = values.matrix(shape.tokens * d, 1, shape.dtype);
  if (options.sparsity)
    for (std::size_t token = 0; token < shape.tokens; ++token) inputs.x[token * d] = 1;
  if (shape.moe()) {
    inputs.experts = choose_experts(shape, options, values);
    for (std::size_t token = 0; token < shape.tokens; ++token) {
      float* logits = inputs.x.data() + token * d;
      std::fill_n(logits, shape.n_experts, 0.0F);
      // Falling logits keep the order of choice; all are numbers that bf16 holds.
      for (std::size_t k = 0; k < shape.top_k; ++k)
        logits[inputs.experts[token * shape.top_k + k]] =
            1 + static_cast<float>(shape.top_k - k) / 8;
    }
  }
  return inputs;
}

}  // namespace fourfold
