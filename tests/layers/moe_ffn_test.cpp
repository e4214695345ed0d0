// MoeFfn: values, bits, edge cases of routing, shared experts, scaling.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "expert_sample.h"
#include "fourfold/error.h"

namespace fourfold {
namespace {

constexpr std::size_t kModel = 13, kFf = 37, kExperts = 5, kTokens = 23;

std::vector<float> run(const MoeFfn& layer, std::span<const float> x, Workspace& workspace,
                       MoeSaved* save = nullptr, FfnObserver* observer = nullptr) {
  const std::size_t d = layer.d_model(), tokens = x.size() / d;
  std::vector<float> y(x.size(), -77.25F);
  layer.forward({x.data(), tokens, d}, {y.data(), tokens, d}, workspace, save, observer);
  return y;
}

Routing top(int k, bool renormalize = true) {
  Routing routing;
  routing.top_k = k;
  routing.renormalize = renormalize;
  return routing;
}

// All gradients of a mixture, zeroed.
struct Gradients {
  explicit Gradients(const SampleMixture& sample) : router(sample.router.size()) {
    const std::size_t d_ff = sample.experts.front().d_ff, d = sample.d_model;
    gate.assign(sample.experts.size(), std::vector<float>(d_ff * d));
    down.assign(sample.experts.size(), std::vector<float>(d_ff * d));
    bias.assign(sample.experts.size(), std::vector<float>(d_ff));
    std::vector<GatedGrads> experts(sample.experts.size());
    for (std::size_t e = 0; e < experts.size(); ++e) {
      experts[e].gate = {gate[e].data(), d_ff, d};
      experts[e].down = {down[e].data(), d, d_ff};
      experts[e].up_bias = bias[e];
    }
    views.router = {router.data(), sample.experts.size(), d};
    views.experts = std::move(experts);
  }
  std::vector<float> router;
  std::vector<std::vector<float>> gate, down, bias;
  MoeGrads views;
};

void backward(const MoeFfn& layer, std::span<const float> x, const MoeSaved& saved,
              std::span<float> dx, const MoeGrads& grads, Workspace& workspace) {
  const std::size_t d = layer.d_model(), tokens = x.size() / d;
  const auto dy = real_values(x.size(), 211);
  layer.backward({x.data(), tokens, d}, saved, {dy.data(), tokens, d}, {dx.data(), tokens, d},
                 grads, workspace);
}

TEST_CASE("the result is the weighted sum of the chosen experts") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleMixture sample(kExperts, kModel, kFf, 1000);
  const auto x = real_values(kTokens * kModel, 3);
  for (const int k : {1, 2, 5}) {
    const MoeFfn layer(sample.weights(), Activation::silu, top(k));
    MoeSaved saved;
    const auto y = run(layer, x, workspace, &saved);
    for (std::size_t t = 0; t < kTokens; ++t) {
      const reference::Values row(x.begin() + static_cast<long>(t * kModel),
                                  x.begin() + static_cast<long>((t + 1) * kModel));
      reference::Values expected(kModel);
      const auto n = static_cast<std::size_t>(k);
      for (std::size_t j = 0; j < n; ++j) {
        const auto out =
            sample.experts[saved.routing.experts[t * n + j]].gated_row(row, Activation::silu);
        for (std::size_t i = 0; i < kModel; ++i)
          expected[i] += saved.routing.weights[t * n + j] * out[i];
      }
      for (std::size_t i = 0; i < kModel; ++i)
        CHECK(y[t * kModel + i] == doctest::Approx(expected[i]).epsilon(3e-5));
    }
  }
}

TEST_CASE("threads, batch, place, saving and an observer change no bit") {
  struct Count : FfnObserver {
    void observe(const FfnSample& sample, Workspace&) override {
      CHECK(sample.token_rows.size() == sample.hidden.rows);
      rows += sample.hidden.rows;
    }
    void observe_routing(const RoutingResult& routing, Workspace&) override {
      pairs += routing.experts.size();
    }
    std::size_t rows = 0, pairs = 0;
  } count;
  const SampleMixture sample(kExperts, kModel, kFf, 1000);
  const auto x = real_values(64 * kModel, 5);
  std::vector<float> first;
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    const MoeFfn layer(sample.weights(), Activation::silu, top(2), Packing::forward_and_backward);
    MoeSaved saved;
    const auto y = run(layer, x, workspace);
    if (first.empty()) first = y;
    CHECK(same_bits(y, first));
    CHECK(same_bits(run(layer, x, workspace, &saved), first));
    CHECK(same_bits(run(layer, x, workspace, nullptr, &count), first));
    for (const std::size_t tokens : {1U, 2U, 3U, 17U})
      CHECK(same_bits(run(layer, std::span(x).first(tokens * kModel), workspace),
                      std::span(first).first(tokens * kModel)));
    CHECK(
        same_bits(run(layer, std::span(x).last(kModel), workspace), std::span(first).last(kModel)));
  }
  CHECK(count.rows == 3 * 128);
  CHECK(count.pairs == 3 * 128);
}

TEST_CASE("all tokens to one expert: the others' gradients are exactly zero") {
  SampleMixture sample(8, kModel, kFf, 2000);
  sample.router_bias.assign(8, 0.0F);
  sample.router_bias[3] = 1e4F;
  const auto x = real_values(kTokens * kModel, 7);
  for (const unsigned threads : {1U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    const MoeFfn layer(sample.weights(), Activation::silu, top(1, false),
                       Packing::forward_and_backward);
    MoeSaved saved;
    run(layer, x, workspace, &saved);
    Gradients grads(sample);
    std::vector<float> dx(x.size());
    backward(layer, x, saved, dx, grads.views, workspace);
    for (std::size_t e = 0; e < 8; ++e) {
      const bool used = e == 3;
      const auto is_zero = [](float value) { return value == 0; };
      CHECK(std::all_of(grads.gate[e].begin(), grads.gate[e].end(), is_zero) != used);
      CHECK(std::all_of(grads.down[e].begin(), grads.down[e].end(), is_zero) != used);
      CHECK(std::all_of(grads.bias[e].begin(), grads.bias[e].end(), is_zero) != used);
    }
  }
}

TEST_CASE("one expert; zero tokens") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleMixture one(1, kModel, kFf, 3000), many(kExperts, kModel, kFf, 3100);
  const auto x = real_values(kTokens * kModel, 11);
  const GatedFfn alone(one.gated[0], Activation::silu);
  std::vector<float> expected(x.size());
  alone.forward({x.data(), kTokens, kModel}, {expected.data(), kTokens, kModel}, workspace);
  const auto y = run(MoeFfn(one.weights(), Activation::silu, top(1)), x, workspace);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == doctest::Approx(expected[i]));
  const MoeFfn layer(many.weights(), Activation::silu, top(2), Packing::forward_and_backward);
  MoeSaved saved;
  CHECK(run(layer, {}, workspace, &saved).empty());
  Gradients grads(many);
  backward(layer, {}, saved, {}, grads.views, workspace);
  for (const float value : grads.router) CHECK(value == 0);
  for (const auto& gate : grads.gate)
    for (const float value : gate) CHECK(value == 0);
}

TEST_CASE("NaN in one token: its row is NaN, other tokens keep their bits") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleMixture sample(kExperts, kModel, kFf, 4000);
  auto x = real_values(kTokens * kModel, 13);
  const MoeFfn layer(sample.weights(), Activation::silu, top(2));
  const auto before = run(layer, x, workspace);
  x[5 * kModel + 2] = std::numeric_limits<float>::quiet_NaN();
  MoeSaved saved;
  const auto after = run(layer, x, workspace, &saved);
  CHECK(saved.routing.non_finite_tokens == 1);
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (i / kModel == 5)
      CHECK(std::isnan(after[i]));
    else
      CHECK(same_bits(after[i], before[i]));
  }
}

TEST_CASE("zeros are skipped in the experts where that is allowed, and no bit changes") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  SampleMixture sample(kExperts, kModel, kFf, 1500);
  sample.experts[0].down[kFf] = NAN;  // output 1 of expert 0, which then skips nothing
  const SampleExpert shared(kModel, kFf + 11, 1600);
  const auto x = real_values(kTokens * kModel, 25);
  for (const Activation shared_kind : {Activation::silu, Activation::relu2}) {
    MoeWeights weights = sample.weights();
    weights.shared = SharedExpert{shared.gated(), shared_kind, {}};
    MoeFfn layer(weights, Activation::relu, top(2));
    MoeSaved saved;
    const auto whole = run(layer, x, workspace, &saved);
    layer.set_skip_zeros(true);
    const auto skipped = run(layer, x, workspace);
    std::ptrdiff_t bad_rows = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      CHECK(same_value(whole[i], skipped[i]));
      bad_rows += std::isnan(skipped[i]) ? 1 : 0;
    }
    const auto& chosen = saved.routing.experts;
    CHECK(bad_rows == std::count(chosen.begin(), chosen.end(), 0U));
  }
}

TEST_CASE("scaling reaches the routed experts once, never the shared one") {
  // Identity experts on d_model 1: routed gives 1, shared gives 10, factor 2.5: 12.5.
  const std::vector<float> one{1}, ten{10}, zero{0}, x{1, 1, 1};
  const std::vector<DenseWeights> experts{
      {ConstMatrix(one.data(), 1, 1), ConstMatrix(one.data(), 1, 1), {}, {}}};
  MoeWeights weights;
  weights.router = ConstMatrix(zero.data(), 1, 1);
  weights.experts = std::span<const DenseWeights>(experts);
  const DenseWeights shared{ConstMatrix(one.data(), 1, 1), ConstMatrix(ten.data(), 1, 1), {}, {}};
  weights.shared = SharedExpert{shared, Activation::identity, {}};
  Routing routing = top(1);
  routing.scaling = 2.5F;
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  for (const std::size_t tokens : {1U, 3U})
    for (const float value :
         run(MoeFfn(weights, Activation::identity, routing), std::span(x).first(tokens), workspace))
      CHECK(value == 12.5F);
  // A gate whose logit is 0 halves the shared expert.
  weights.shared->gate = zero;
  routing.scaling = 1;
  for (const float value : run(MoeFfn(weights, Activation::identity, routing), x, workspace))
    CHECK(value == 1 + 5);
}

TEST_CASE("a token beyond the capacity adds nothing") {
  const SampleMixture sample(2, kModel, kFf, 5000);
  SampleMixture biased(2, kModel, kFf, 5000);
  biased.router_bias = {1e4F, 0};
  Routing routing = top(1, false);
  routing.capacity_factor = 0.75F;
  const auto x = real_values(8 * kModel, 17);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  MoeSaved saved;
  const auto y = run(MoeFfn(biased.weights(), Activation::silu, routing), x, workspace, &saved);
  CHECK(saved.routing.dropped_pairs == 5);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK((y[i] == 0) == (i / kModel >= 3));
}

TEST_CASE("a weight on the input differs from one on the result") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const std::vector<float> one{1}, half{0}, x{3};
  const std::vector<DenseWeights> experts{
      {ConstMatrix(one.data(), 1, 1), ConstMatrix(one.data(), 1, 1), one, {}}};
  MoeWeights weights;
  weights.router = ConstMatrix(half.data(), 1, 1);
  weights.experts = std::span<const DenseWeights>(experts);
  Routing routing = top(1, false);
  routing.scoring = Scoring::sigmoid;  // weight 0.5
  const auto plain = run(MoeFfn(weights, Activation::relu, routing), x, workspace);
  CHECK(plain[0] == 2.0F);
  routing.weight_input = true;
  CHECK(run(MoeFfn(weights, Activation::relu, routing), x, workspace)[0] == 2.5F);
}

TEST_CASE("more rows of one expert than one piece: gradients are the sum over tokens") {
  constexpr std::size_t tokens = 2503;
  const SampleMixture sample(1, 3, 5, 9000);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const MoeFfn layer(sample.weights(), Activation::silu, top(1), Packing::forward_and_backward);
  const GatedFfn alone(sample.gated[0], Activation::silu, Packing::forward_and_backward);
  const auto x = real_values(tokens * 3, 23);
  MoeSaved saved;
  GatedSaved alone_saved;
  const auto y = run(layer, x, workspace, &saved);
  std::vector<float> expected(y.size());
  const ConstMatrix x_view(x.data(), tokens, 3);
  alone.forward(x_view, {expected.data(), tokens, 3}, workspace, &alone_saved);
  CHECK(y == expected);
  // Weight 1, one expert: the mixture is the expert, also backward.
  Gradients grads(sample);
  std::vector<float> dx(x.size()), dx_alone(x.size()), gate(15), down(15), bias(5);
  backward(layer, x, saved, dx, grads.views, workspace);
  GatedGrads alone_grads;
  alone_grads.gate = {gate.data(), 5, 3};
  alone_grads.down = {down.data(), 3, 5};
  alone_grads.up_bias = bias;
  const auto dy = real_values(x.size(), 211);
  alone.backward(x_view, alone_saved, {dy.data(), tokens, 3}, {dx_alone.data(), tokens, 3},
                 alone_grads, workspace);
  CHECK(dx == dx_alone);
  CHECK(grads.gate[0] == gate);
  CHECK(grads.down[0] == down);
  CHECK(grads.bias[0] == bias);
}

TEST_CASE("saved values or gradients of another layer are refused") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const SampleMixture sample(kExperts, kModel, kFf, 9100);
  const SampleExpert shared(kModel, 17, 9200);
  const std::vector<float> shared_gate = real_values(kModel, 29);
  const auto x = real_values(kTokens * kModel, 31);
  std::vector<float> dx(x.size());
  MoeWeights plain = sample.weights(), with_gate = plain, without_gate = plain, dense = plain;
  with_gate.shared = SharedExpert{shared.gated(), Activation::silu, shared_gate};
  without_gate.shared = SharedExpert{shared.gated(), Activation::silu, {}};
  dense.shared = SharedExpert{shared.dense(), Activation::silu, {}};
  const auto build = [](const MoeWeights& weights) {
    return MoeFfn(weights, Activation::silu, top(2), Packing::forward_and_backward);
  };
  const MoeFfn layer = build(with_gate);
  for (const MoeWeights& other : {plain, without_gate, dense}) {
    MoeSaved saved;
    run(build(other), x, workspace, &saved);
    CHECK_THROWS_AS(backward(layer, x, saved, dx, {}, workspace), Error);
  }
  MoeSaved saved;
  run(layer, x, workspace, &saved);
  backward(layer, x, saved, dx, {}, workspace);
  const auto refused = [&](auto change) {
    MoeSaved changed = saved;
    change(changed);
    CHECK_THROWS_AS(backward(layer, x, changed, dx, {}, workspace), Error);
  };
  refused([](MoeSaved& s) { s.pairs[3] = 1'000'000; });
  refused([](MoeSaved& s) { s.offsets[1] = 1'000'000; });
  refused([](MoeSaved& s) { s.offsets.pop_back(); });
  refused([](MoeSaved& s) { s.routing.experts[2] = kExperts; });
  refused([](MoeSaved& s) { s.routing.logits.pop_back(); });
  refused([](MoeSaved& s) { s.shared_logits.clear(); });
  refused([](MoeSaved& s) { s.up.rows -= 1; });
  MoeGrads grads;
  grads.experts = std::vector<DenseGrads>(kExperts);
  CHECK_THROWS_AS(backward(layer, x, saved, dx, grads, workspace), Error);
  grads.experts = std::vector<GatedGrads>(kExperts - 1);
  CHECK_THROWS_AS(backward(layer, x, saved, dx, grads, workspace), Error);
  std::vector<float> up(17 * kModel);
  MoeGrads shared_grads;
  shared_grads.shared = DenseGrads{{up.data(), 17, kModel}, {}, {}, {}};
  CHECK_THROWS_AS(backward(layer, x, saved, dx, shared_grads, workspace), Error);
}

TEST_CASE("counts: parameters, those one token uses, bytes") {
  const SampleMixture sample(kExperts, kModel, kFf, 6000);
  MoeWeights weights = sample.weights();
  const SampleExpert shared(kModel, 17, 6100);
  weights.shared = SharedExpert{shared.gated(), Activation::silu, {}};
  const MoeFfn layer(weights, Activation::silu, top(2));
  const std::uint64_t expert = 3 * kModel * kFf + 2 * kFf + kModel;
  const std::uint64_t rest = kExperts * kModel + 3 * kModel * 17 + 2 * 17 + kModel;
  CHECK(layer.parameters() == kExperts * expert + rest);
  CHECK(layer.active_parameters() == 2 * expert + rest);
  CHECK(layer.shared_d_ff() == 17);
  // Panels of 64 columns: each expert 2 x 13 x 64 and 37 x 64 values, the shared one as many of 17.
  CHECK(layer.packed_bytes() ==
        4 * 64 * (kExperts * (2 * kModel + kFf) + (2 * kModel + 17) + kModel));
  CHECK(layer.router_has_task_gradient());
  CHECK_FALSE(MoeFfn(weights, Activation::silu, top(1)).router_has_task_gradient());
  CHECK(MoeFfn(weights, Activation::silu, top(1, false)).router_has_task_gradient());
}

TEST_CASE("new weights behave like a new layer; refused ones change nothing") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleMixture old(kExperts, kModel, kFf, 8000), fresh(kExperts, kModel, kFf, 8100);
  const SampleMixture wide(kExperts, kModel, kFf + 2, 8200);
  const SampleExpert shared(kModel, 17, 8300), other(kModel, 19, 8400);
  const auto with_shared = [](const SampleMixture& sample, const SampleExpert& expert) {
    MoeWeights weights = sample.weights();
    weights.shared = SharedExpert{expert.gated(), Activation::silu, {}};
    return weights;
  };
  const auto x = real_values(kTokens * kModel, 19);
  MoeFfn layer(with_shared(old, shared), Activation::silu, top(2));
  const auto before = run(layer, x, workspace);
  for (const MoeWeights& bad :
       {with_shared(wide, shared), with_shared(fresh, other), fresh.weights()}) {
    CHECK_THROWS_AS(layer.set_weights(bad, workspace), Error);
    CHECK(same_bits(run(layer, x, workspace), before));
  }
  layer.set_weights(with_shared(fresh, shared), workspace);
  const MoeFfn expected(with_shared(fresh, shared), Activation::silu, top(2));
  CHECK(same_bits(run(layer, x, workspace), run(expected, x, workspace)));
}

TEST_CASE("what cannot be is refused with names and numbers") {
  const SampleMixture sample(kExperts, kModel, kFf, 7000);
  const auto build = [&](const MoeWeights& weights, const Routing& routing) {
    MoeFfn(weights, Activation::silu, routing);
  };
  const auto refused = [&](const Routing& routing, const char* text) {
    CHECK_THROWS_WITH_AS(build(sample.weights(), routing), doctest::Contains(text), Error);
  };
  refused(top(0), "top_k is 0");
  refused(top(6), "top_k is 6, expected 1 to 5");
  refused(top(-1), "top_k is -1");
  Routing routing = top(2);
  routing.n_groups = 2;
  refused(routing, "divisor of 5");
  routing.n_groups = 5;
  refused(routing, "leaves only 1");
  routing = top(2);
  routing.scaling = NAN;
  refused(routing, "scaling");
  routing = top(2);
  routing.capacity_factor = 0.0F;
  refused(routing, "capacity_factor");
  MoeWeights weights = sample.weights();
  weights.experts = std::span<const GatedWeights>();
  CHECK_THROWS_WITH_AS(build(weights, top(1)), doctest::Contains("no experts"), Error);
  weights = sample.weights();
  weights.router = ConstMatrix(sample.router.data(), kExperts - 1, kModel);
  CHECK_THROWS_WITH_AS(build(weights, top(1)), doctest::Contains("router is [4, 13]"), Error);
  std::vector<GatedWeights> uneven = sample.gated;
  const SampleExpert wide(kModel, kFf + 2, 7100);
  uneven[3] = wide.gated();
  weights = sample.weights();
  weights.experts = uneven;
  CHECK_THROWS_WITH_AS(build(weights, top(1)), doctest::Contains("expert 3"), Error);
}

}  // namespace
}  // namespace fourfold
