// The promise on bits, for each kind and type: a row alone, in any batch, at any place, on any
// number of threads, saved, watched, with zeros skipped, gives one result.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "layers/layer_samples.h"

namespace fourfold {
namespace {

constexpr std::size_t kModel = 67, kFf = 131, kExperts = 5, kSharedFf = 197;

std::vector<Bf16> narrowed(const std::vector<float>& values) {
  std::vector<Bf16> result;
  for (const float value : values) result.push_back(to_bf16(value));
  return result;
}

// The weights of one expert in either type.
struct TypedExpert {
  SampleExpert wide;
  std::vector<Bf16> gate, up, down;

  explicit TypedExpert(const SampleExpert& sample)
      : wide(sample), gate(narrowed(wide.gate)), up(narrowed(wide.up)), down(narrowed(wide.down)) {}
  GatedWeights gated(Dtype dtype) const {
    GatedWeights result = wide.gated();
    if (dtype == Dtype::f32) return result;
    result.gate = ConstBf16Matrix(gate.data(), wide.d_ff, wide.d_model);
    result.up = ConstBf16Matrix(up.data(), wide.d_ff, wide.d_model);
    result.down = ConstBf16Matrix(down.data(), wide.d_model, wide.d_ff);
    return result;
  }
  DenseWeights dense(Dtype dtype) const {
    const GatedWeights all = gated(dtype);
    return {all.up, all.down, all.up_bias, all.down_bias};
  }
};

struct Ignore : FfnObserver {
  void observe(const FfnSample&, Workspace&) override {}
};

using Rows = std::vector<float>;

template <class Saved, class Layer>
void check_layer(Layer& layer, const std::function<void(const char*, const Rows&)>& expect,
                 const Rows& x, Workspace& workspace) {
  const std::size_t tokens = x.size() / kModel;
  const auto run = [&](std::size_t first, std::size_t count, Saved* save = nullptr,
                       FfnObserver* observer = nullptr) {
    Rows y(x.size(), -77.25F);
    layer.forward({x.data() + first * kModel, count, kModel},
                  {y.data() + first * kModel, count, kModel}, workspace, save, observer);
    return y;
  };
  Saved saved;
  Ignore ignore;
  expect("in a batch", run(0, tokens));
  expect("saved", run(0, tokens, &saved));
  expect("watched", run(0, tokens, nullptr, &ignore));
  for (const std::size_t first : {std::size_t{0}, std::size_t{31}, tokens - 1})
    expect("alone", run(first, 1));
  for (const std::size_t count : {2U, 3U, 5U, 13U, 29U})
    expect("as the last row", run(tokens - count, count));
  expect("of many", run(0, tokens - 1));
  layer.set_skip_zeros(true);
  expect("zeros skipped", run(0, tokens));
  layer.set_skip_zeros(false);
}

// Runs check(threads, workspace, expect) for several numbers of threads; expect compares the rows
// that were computed (the others hold the guard) with those of the first call.
template <class Check>
void on_threads(const Check& check) {
  Rows first;
  for (const unsigned threads : {1U, 2U, 7U}) {
    CAPTURE(threads);
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    check(workspace, [&](const char* how, const Rows& y) {
      CAPTURE(how);
      if (first.empty()) first = y;
      std::size_t different = 0;
      for (std::size_t i = 0; i < y.size(); ++i)
        different += y[i] != -77.25F && !same_bits(y[i], first[i]);
      CHECK(different == 0);
    });
  }
}

TEST_CASE("dense and gated layers") {
  const TypedExpert expert(SampleExpert(kModel, kFf, 811));
  for (const std::size_t tokens : {64U, 601U})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
      for (const bool gated : {false, true})
        for (const Activation kind : {Activation::relu, Activation::silu}) {
          CAPTURE(tokens);
          CAPTURE(std::string(dtype_name(dtype)));
          CAPTURE(gated);
          CAPTURE((kind == Activation::relu));
          const Rows x = real_values(tokens * kModel, 821);
          on_threads([&](Workspace& workspace, const auto& expect) {
            if (gated) {
              GatedFfn layer(expert.gated(dtype), kind, Packing::forward_and_backward);
              check_layer<GatedSaved>(layer, expect, x, workspace);
            } else {
              DenseFfn layer(expert.dense(dtype), kind);
              check_layer<DenseSaved>(layer, expect, x, workspace);
            }
          });
        }
}

TEST_CASE("mixtures with a shared expert") {
  const SampleMixture sample(kExperts, kModel, kFf, 823);
  std::vector<TypedExpert> experts(sample.experts.begin(), sample.experts.end());
  const TypedExpert shared(SampleExpert(kModel, kSharedFf, 827));
  const std::vector<float> shared_gate = real_values(kModel, 829);
  for (const std::size_t tokens : {64U, 601U})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
      for (const bool gated : {false, true})
        for (const bool weight_input : {false, true}) {
          CAPTURE(tokens);
          CAPTURE(std::string(dtype_name(dtype)));
          CAPTURE(gated);
          CAPTURE(weight_input);
          const Rows x = real_values(tokens * kModel, 839);
          std::vector<GatedWeights> gated_experts;
          std::vector<DenseWeights> dense_experts;
          for (const TypedExpert& one : experts) {
            gated_experts.push_back(one.gated(dtype));
            dense_experts.push_back(one.dense(dtype));
          }
          MoeWeights weights = sample.weights();
          if (gated)
            weights.experts = std::span<const GatedWeights>(gated_experts);
          else
            weights.experts = std::span<const DenseWeights>(dense_experts);
          weights.shared = SharedExpert{shared.gated(dtype), Activation::silu, shared_gate};
          Routing routing;
          routing.top_k = 3;
          routing.weight_input = weight_input;
          on_threads([&](Workspace& workspace, const auto& expect) {
            MoeFfn layer(weights, Activation::relu, routing);
            check_layer<MoeSaved>(layer, expect, x, workspace);
          });
        }
}

TEST_CASE("gradients have the same bits for any number of threads") {
  const TypedExpert expert(SampleExpert(kModel, kFf, 853));
  constexpr std::size_t kTokens = 601;
  const Rows x = real_values(kTokens * kModel, 857), dy = real_values(kTokens * kModel, 859);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    CAPTURE(std::string(dtype_name(dtype)));
    std::vector<Rows> first;
    for (const unsigned threads : {1U, 2U, 7U}) {
      CAPTURE(threads);
      Runtime runtime({.count = threads});
      Workspace workspace(runtime);
      const GatedFfn layer(expert.gated(dtype), Activation::silu, Packing::forward_and_backward);
      GatedSaved saved;
      Rows y(x.size());
      layer.forward({x.data(), kTokens, kModel}, {y.data(), kTokens, kModel}, workspace, &saved);
      Rows dx(x.size()), gate(kFf * kModel), up(gate.size()), down(gate.size()), gate_bias(kFf),
          up_bias(kFf), down_bias(kModel);
      layer.backward({x.data(), kTokens, kModel}, saved, {dy.data(), kTokens, kModel},
                     {dx.data(), kTokens, kModel},
                     {{gate.data(), kFf, kModel},
                      {up.data(), kFf, kModel},
                      {down.data(), kModel, kFf},
                      gate_bias,
                      up_bias,
                      down_bias},
                     workspace);
      const std::vector<Rows> all{dx, gate, up, down, gate_bias, up_bias, down_bias};
      if (first.empty()) first = all;
      for (std::size_t i = 0; i < all.size(); ++i) CHECK(same_bits(all[i], first[i]));
    }
  }
}

}  // namespace
}  // namespace fourfold
