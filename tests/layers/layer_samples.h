// Gated layers and mixtures with made-up weights, for tests that need whole layers of each kind.
#pragma once

#include <optional>
#include <vector>

#include "fourfold/ffn.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {

struct GatedSample {
  GatedSample(std::size_t model, std::size_t ff, std::uint64_t seed = 401, bool with_bias = true)
      : d_model(model),
        d_ff(ff),
        gate(real_values(ff * model, seed, -0.7F, 0.9F)),
        up(real_values(ff * model, seed + 1, -0.8F, 0.7F)),
        down(real_values(model * ff, seed + 2, -0.5F, 0.9F)) {
    if (!with_bias) return;
    gate_bias = real_values(ff, seed + 3);
    up_bias = real_values(ff, seed + 4);
    down_bias = real_values(model, seed + 5);
  }

  GatedWeights weights() const {
    return {ConstMatrix(gate.data(), d_ff, d_model),
            ConstMatrix(up.data(), d_ff, d_model),
            ConstMatrix(down.data(), d_model, d_ff),
            gate_bias,
            up_bias,
            down_bias};
  }

  std::size_t d_model, d_ff;
  std::vector<float> gate, up, down, gate_bias, up_bias, down_bias;
};

struct MoeSample {
  MoeSample(std::size_t model, std::size_t ff, std::size_t n_experts, std::size_t shared_ff = 0)
      : d_model(model), router(real_values(n_experts * model, 503, -1.1F, 1.3F)) {
    for (std::size_t e = 0; e < n_experts; ++e) experts.emplace_back(model, ff, 600 + 10 * e);
    if (shared_ff == 0) return;
    shared.emplace(model, shared_ff, 557);
    shared_gate = real_values(model, 571);
  }

  MoeFfn layer(Activation activation, const Routing& routing,
               Packing packing = Packing::forward_only) const {
    std::vector<GatedWeights> list;
    for (const GatedSample& expert : experts) list.push_back(expert.weights());
    MoeWeights weights;
    weights.router = ConstMatrix(router.data(), experts.size(), d_model);
    weights.router_bias = router_bias;
    weights.experts = std::span<const GatedWeights>(list);
    if (shared) weights.shared = SharedExpert{shared->weights(), Activation::relu, shared_gate};
    return MoeFfn(weights, activation, routing, packing);
  }
  // [n_experts * d_ff]
  std::vector<double> down_energy() const {
    std::vector<double> energy;
    for (const GatedSample& expert : experts)
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

  std::size_t d_model;
  std::vector<float> router, router_bias, shared_gate;
  std::vector<GatedSample> experts;
  std::optional<GatedSample> shared;
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
