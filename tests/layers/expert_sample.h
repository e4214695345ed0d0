// Seeded weights of gated layers and mixtures for the tests of layers, and their float64 results.
#pragma once

#include <cmath>
#include <vector>

#include "fourfold/ffn.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {

// One expert or one gated layer; gate is unused in a dense one.
struct SampleExpert {
  SampleExpert(std::size_t model, std::size_t ff, std::uint64_t seed)
      : d_model(model),
        d_ff(ff),
        gate(real_values(ff * model, seed, -0.9F, 0.7F)),
        up(real_values(ff * model, seed + 1, -0.6F, 0.8F)),
        down(real_values(model * ff, seed + 2, -0.7F, 0.5F)),
        gate_bias(real_values(ff, seed + 3)),
        up_bias(real_values(ff, seed + 4)),
        down_bias(real_values(model, seed + 5)) {}

  DenseWeights dense() const {
    return {ConstMatrix(up.data(), d_ff, d_model), ConstMatrix(down.data(), d_model, d_ff), up_bias,
            down_bias};
  }
  GatedWeights gated() const {
    return {ConstMatrix(gate.data(), d_ff, d_model),
            ConstMatrix(up.data(), d_ff, d_model),
            ConstMatrix(down.data(), d_model, d_ff),
            gate_bias,
            up_bias,
            down_bias};
  }
  // One token through the gated layer.
  reference::Values gated_row(const reference::Values& x, Activation kind) const {
    using reference::widened;
    const auto g = reference::linear(x, widened(gate), widened(gate_bias), 1, d_ff, d_model);
    auto h = reference::linear(x, widened(up), widened(up_bias), 1, d_ff, d_model);
    for (std::size_t i = 0; i < d_ff; ++i) h[i] *= reference::activation(kind, g[i]);
    return reference::linear(h, widened(down), widened(down_bias), 1, d_model, d_ff);
  }

  std::size_t d_model, d_ff;
  std::vector<float> gate, up, down, gate_bias, up_bias, down_bias;
};

struct SampleMixture {
  SampleMixture(std::size_t n_experts, std::size_t model, std::size_t ff, std::uint64_t seed)
      : d_model(model), router(real_values(n_experts * model, seed)) {
    for (std::size_t e = 0; e < n_experts; ++e)
      experts.emplace_back(model, ff, seed + 10 * (e + 1));
    for (const SampleExpert& expert : experts) {
      gated.push_back(expert.gated());
      dense.push_back(expert.dense());
    }
  }
  SampleMixture(const SampleMixture&) = delete;

  MoeWeights weights() const {
    MoeWeights result;
    result.router = ConstMatrix(router.data(), experts.size(), d_model);
    result.router_bias = router_bias;
    result.selection_bias = selection_bias;
    result.experts = std::span<const GatedWeights>(gated);
    return result;
  }

  std::size_t d_model;
  std::vector<float> router, router_bias, selection_bias;
  std::vector<SampleExpert> experts;
  std::vector<GatedWeights> gated;
  std::vector<DenseWeights> dense;
};

}  // namespace fourfold
