// The counts that questions rest on are those of real layers.
#include <doctest/doctest.h>

#include <vector>

#include "fourfold/ffn.h"
#include "learn/ffn_size.h"

using namespace fourfold;

namespace {

constexpr std::size_t kModel = 5, kFf = 11, kExperts = 7;

// Enough memory for any view below.
const std::vector<float>& zeros() {
  static const std::vector<float> values(kExperts * kFf * kModel, 0.0F);
  return values;
}
ConstMatrix matrix(std::size_t rows, std::size_t cols) { return {zeros().data(), rows, cols}; }
std::span<const float> bias(bool on, std::size_t count) {
  return on ? std::span<const float>(zeros().data(), count) : std::span<const float>();
}

DenseWeights dense(bool on) {
  return {matrix(kFf, kModel), matrix(kModel, kFf), bias(on, kFf), bias(on, kModel)};
}
GatedWeights gated(bool on) {
  return {matrix(kFf, kModel), matrix(kFf, kModel), matrix(kModel, kFf),
          bias(on, kFf),       bias(on, kFf),       bias(on, kModel)};
}

FfnSize size(bool is_gated, bool has_bias) {
  FfnSize result;
  result.d_model = kModel;
  result.d_ff = kFf;
  result.gated = is_gated;
  result.bias = has_bias;
  return result;
}

}  // namespace

TEST_CASE("parameters of dense and gated layers") {
  for (const bool on : {false, true}) {
    CHECK(size(false, on).parameters() == DenseFfn(dense(on), Activation::relu).parameters());
    CHECK(size(true, on).parameters() == GatedFfn(gated(on), Activation::silu).parameters());
  }
  FfnSize bert;
  bert.d_model = 768;
  bert.d_ff = 3072;
  bert.bias = true;
  CHECK(bert.parameters() == 4'722'432);
  CHECK(bert.macs_per_token() == 4'718'592);
}

TEST_CASE("total and active parameters of mixtures") {
  for (const bool on : {false, true})
    for (const bool is_gated : {false, true})
      for (const int top_k : {1, 3}) {
        const std::vector<DenseWeights> plain(kExperts, dense(on));
        const std::vector<GatedWeights> with_gate(kExperts, gated(on));
        MoeWeights weights;
        weights.router = matrix(kExperts, kModel);
        if (is_gated)
          weights.experts = std::span<const GatedWeights>(with_gate);
        else
          weights.experts = std::span<const DenseWeights>(plain);
        Routing routing;
        routing.top_k = top_k;
        const MoeFfn layer(weights, Activation::silu, routing);
        FfnSize mixture = size(is_gated, on);
        mixture.n_experts = kExperts;
        mixture.top_k = static_cast<std::uint64_t>(top_k);
        CHECK(mixture.parameters() == layer.parameters());
        CHECK(mixture.active_parameters() == layer.active_parameters());
      }
}
