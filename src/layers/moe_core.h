// The parts of a mixture of experts: router, experts, shared expert, all packed.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fourfold/ffn.h"
#include "layers/ffn_core.h"
#include "ops/packed_weight.h"

namespace fourfold {

struct MoeCore {
  PackedWeight router, router_back;  // float32; the transpose is empty without backward
  std::vector<float> router_bias, selection_bias;
  std::vector<FfnCore> experts;
  std::optional<FfnCore> shared;
  std::vector<float> shared_gate;
  Routing routing;

  // Throws what MoeFfn's constructor throws.
  MoeCore(const MoeWeights& weights, Activation activation, const Routing& given_routing,
          Packing packing);

  std::size_t d_model() const { return router.in(); }
  std::size_t n_experts() const { return experts.size(); }
  std::size_t top_k() const { return static_cast<std::size_t>(routing.top_k); }
  void pack_backward();
  void check_weights(const MoeWeights& weights) const;
  void set_weights(const MoeWeights& weights, ThreadPool& pool);
};

}  // namespace fourfold
