// Parameters and forward work of a feed-forward layer from its sizes alone; sizes up to 2^20 and
// 4,096 experts stay below 2^56.
#pragma once

#include <cstdint>

namespace fourfold {

struct FfnSize {
  std::uint64_t d_model = 0, d_ff = 0;
  bool gated = false, bias = false;
  std::uint64_t n_experts = 0, top_k = 0;  // 0 experts: no mixture, no router

  std::uint64_t matrices() const { return gated ? 3 : 2; }
  std::uint64_t expert_weights() const { return matrices() * d_model * d_ff; }
  std::uint64_t expert_biases() const { return bias ? (matrices() - 1) * d_ff + d_model : 0; }
  std::uint64_t expert() const { return expert_weights() + expert_biases(); }
  std::uint64_t router() const { return n_experts * d_model; }
  std::uint64_t parameters() const {
    return n_experts > 0 ? router() + n_experts * expert() : expert();
  }
  std::uint64_t active_parameters() const {
    return n_experts > 0 ? router() + top_k * expert() : expert();
  }
  // 1 MAC = 1 multiply-add.
  std::uint64_t macs_per_token() const {
    return n_experts > 0 ? router() + top_k * expert_weights() : expert_weights();
  }
};

}  // namespace fourfold
