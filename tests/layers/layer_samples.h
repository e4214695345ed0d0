// Mixtures with a shared expert, and one way to run any kind of layer.
#pragma once

#include <optional>
#include <vector>

#include "layers/expert_sample.h"

namespace fourfold {

struct MoeSample : SampleMixture {
  MoeSample(std::size_t model, std::size_t ff, std::size_t n_experts, std::size_t shared_ff = 0)
      : SampleMixture(n_experts, model, ff, 503) {
    if (shared_ff == 0) return;
    shared.emplace(model, shared_ff, 557);
    shared_gate = real_values(model, 571);
  }

  MoeFfn layer(Activation activation, const Routing& routing) const {
    MoeWeights all = weights();
    if (shared) all.shared = SharedExpert{shared->gated(), Activation::relu, shared_gate};
    return MoeFfn(all, activation, routing);
  }
  // ||down[:, i]||^2, [n_experts * d_ff]
  std::vector<double> down_energy() const {
    std::vector<double> energy;
    for (const SampleExpert& expert : experts)
      for (std::size_t i = 0; i < expert.d_ff; ++i) {
        double sum = 0;
        for (std::size_t r = 0; r < d_model; ++r) {
          const double value = expert.down[r * expert.d_ff + i];
          sum += value * value;
        }
        energy.push_back(sum);
      }
    return energy;
  }

  std::vector<float> shared_gate;
  std::optional<SampleExpert> shared;
};

// y: [tokens, d_model] of any kind of layer.
template <class Layer>
std::vector<float> run_layer(const Layer& layer, const std::vector<float>& x, Workspace& workspace,
                             FfnObserver* observer = nullptr) {
  const std::size_t tokens = x.size() / layer.d_model();
  std::vector<float> y(x.size(), -77.25F);
  layer.forward(ConstMatrix(x.data(), tokens, layer.d_model()),
                Matrix(y.data(), tokens, layer.d_model()), workspace, nullptr, observer);
  return y;
}

}  // namespace fourfold
