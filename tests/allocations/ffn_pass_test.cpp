// A forward pass after the first asks for no memory: feed-forward layers and norms, in float32 and
// bf16, unsaved and saved.
#include <doctest/doctest.h>

#include <vector>

#include "allocations/allocation_count.h"
#include "fourfold/norm.h"
#include "layers/expert_sample.h"

namespace fourfold {
namespace {

constexpr std::size_t kModel = 37, kFf = 151, kTokens = 67, kExperts = 5;

std::vector<Bf16> narrow(const std::vector<float>& values) {
  std::vector<Bf16> result;
  for (const float value : values) result.push_back(to_bf16(value));
  return result;
}

// The weights of an expert in bf16.
struct NarrowExpert {
  explicit NarrowExpert(const SampleExpert& wide)
      : sample(wide), gate(narrow(wide.gate)), up(narrow(wide.up)), down(narrow(wide.down)) {}
  DenseWeights dense() const {
    return {ConstBf16Matrix(up.data(), kFf, kModel), ConstBf16Matrix(down.data(), kModel, kFf),
            sample.up_bias, sample.down_bias};
  }
  GatedWeights gated() const {
    const DenseWeights rest = dense();
    return {ConstBf16Matrix(gate.data(), kFf, kModel),
            rest.up,
            rest.down,
            sample.gate_bias,
            rest.up_bias,
            rest.down_bias};
  }
  const SampleExpert& sample;
  std::vector<Bf16> gate, up, down;
};

// Passes of the largest size first, then smaller ones, by both overloads, with and without save.
template <class Save, class Layer>
void check_layer(const Layer& layer) {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::vector<float> x = real_values(kTokens * kModel, 701);
  std::vector<float> y(x.size());
  const std::vector<Bf16> x_narrow = narrow(x);
  std::vector<Bf16> y_narrow(x.size());
  Save save;
  const auto wide = [&](std::size_t tokens, Save* kept) {
    layer.forward(ConstMatrix(x.data(), tokens, kModel), Matrix(y.data(), tokens, kModel),
                  workspace, kept);
  };
  const auto in_bf16 = [&](std::size_t tokens, Save* kept) {
    layer.forward(ConstBf16Matrix(x_narrow.data(), tokens, kModel),
                  Bf16Matrix(y_narrow.data(), tokens, kModel), workspace, kept);
  };
  CHECK(count_allocations([&] { in_bf16(kTokens, &save); }) > 0);
  in_bf16(kTokens, nullptr);
  for (const std::size_t tokens :
       {kTokens, std::size_t{9}, std::size_t{1}, std::size_t{0}, kTokens})
    for (Save* kept : {static_cast<Save*>(nullptr), &save}) {
      CAPTURE(tokens);
      CHECK(count_allocations([&] { wide(tokens, kept); }) == 0);
      CHECK(count_allocations([&] { in_bf16(tokens, kept); }) == 0);
    }
}

TEST_CASE("a second forward pass of a dense or gated layer") {
  const SampleExpert sample(kModel, kFf, 709);
  const NarrowExpert in_bf16(sample);
  for (const Activation kind : {Activation::relu, Activation::silu}) {
    check_layer<DenseSaved>(DenseFfn(sample.dense(), kind));
    check_layer<DenseSaved>(DenseFfn(in_bf16.dense(), kind));
    for (const GatedWeights& weights : {sample.gated(), in_bf16.gated()}) {
      GatedFfn layer(weights, kind);
      check_layer<GatedSaved>(layer);
      if (kind != Activation::relu) continue;
      layer.keep_neuron_rows(true);
      check_layer<GatedSaved>(layer);
    }
  }
}

TEST_CASE("a second forward pass of a mixture") {
  const SampleMixture sample(kExperts, kModel, kFf, 719);
  const SampleExpert shared(kModel, 83, 727);
  const std::vector<float> shared_gate = real_values(kModel, 733);
  std::vector<NarrowExpert> in_bf16(sample.experts.begin(), sample.experts.end());
  std::vector<GatedWeights> narrow_gated;
  for (const NarrowExpert& expert : in_bf16) narrow_gated.push_back(expert.gated());
  Routing plain, crowded;
  crowded.capacity_factor = 0.7F;
  crowded.weight_input = true;
  crowded.scoring = Scoring::sigmoid;
  for (const Routing& routing : {plain, crowded})
    for (const ExpertWeights& experts :
         {ExpertWeights(std::span<const GatedWeights>(sample.gated)),
          ExpertWeights(std::span<const DenseWeights>(sample.dense)),
          ExpertWeights(std::span<const GatedWeights>(narrow_gated))})
      for (const bool with_shared : {false, true}) {
        MoeWeights weights = sample.weights();
        weights.experts = experts;
        if (with_shared)
          weights.shared = SharedExpert{shared.gated(), Activation::silu, shared_gate};
        check_layer<MoeSaved>(MoeFfn(weights, Activation::relu, routing));
      }
}

TEST_CASE("a mixture inside a pass of another one has a plan of its own") {
  struct RunOther : FfnObserver {
    const MoeFfn& other;
    ConstMatrix x;
    Matrix y;
    RunOther(const MoeFfn& layer, ConstMatrix input, Matrix result)
        : other(layer), x(input), y(result) {}
    void observe(const FfnSample&, Workspace& workspace) override {
      other.forward(x, y, workspace);
    }
  };
  Runtime runtime({.count = 2});
  Workspace workspace(runtime), another(runtime);
  const SampleMixture outer(kExperts, kModel, kFf, 739), inner(3, kModel, kFf, 743);
  const MoeFfn layer(outer.weights(), Activation::silu, Routing());
  const MoeFfn other(inner.weights(), Activation::silu, Routing());
  const std::vector<float> x = real_values(kTokens * kModel, 751);
  std::vector<float> expected(x.size()), y(x.size()), own(9 * kModel), own_expected(9 * kModel);
  const ConstMatrix all(x.data(), kTokens, kModel), some(x.data(), 9, kModel);
  layer.forward(all, {expected.data(), kTokens, kModel}, another);
  other.forward(some, {own_expected.data(), 9, kModel}, another);
  RunOther watcher(other, some, {own.data(), 9, kModel});
  layer.forward(all, {y.data(), kTokens, kModel}, workspace, nullptr, &watcher);
  CHECK(same_bits(y, expected));
  CHECK(same_bits(own, own_expected));
}

TEST_CASE("a second forward pass of a norm in bf16") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::vector<float> gamma = real_values(kModel, 757), beta = real_values(kModel, 761);
  const LayerNorm layer_norm(gamma, beta, 1e-5F);
  const RmsNorm rms_norm(gamma, {});
  const std::vector<Bf16> x = narrow(real_values(kTokens * kModel, 769));
  std::vector<Bf16> y(x.size());
  const ConstBf16Matrix rows(x.data(), kTokens, kModel);
  const Bf16Matrix result(y.data(), kTokens, kModel);
  CHECK(count_allocations([&] { layer_norm.forward(rows, result, workspace); }) > 0);
  CHECK(count_allocations([&] { layer_norm.forward(rows, result, workspace); }) == 0);
  CHECK(count_allocations([&] { rms_norm.forward(rows, result, workspace); }) == 0);
}

}  // namespace
}  // namespace fourfold
