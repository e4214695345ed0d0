// MoeStatistics against plain counting over the pairs of token and expert; any split of a text into
// calls gives the same numbers; watching changes no bit.
#include "layers/moe_statistics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fourfold/error.h"
#include "layers/layer_samples.h"

namespace fourfold {
namespace {

using Detail = NeuronStatistics::Detail;
constexpr std::size_t kModel = 13, kFf = 11, kExperts = 8, kTokens = 29, kShared = 7;

NeuronOptions options() {
  NeuronOptions result;
  result.n_experts = kExperts;
  result.activation = Activation::relu;
  return result;
}

// Expert 5 is never chosen.
struct Sample : MoeSample {
  Sample() : MoeSample(kModel, kFf, kExperts, kShared) {
    router_bias.assign(kExperts, 0.0F);
    router_bias[5] = -1000;
  }
};

MoeStatistics statistics(const MoeSample& moe) {
  MoeStatistics result(moe.down_energy(), Detail::full, options());
  result.watch_shared(std::vector<double>(kShared, 1.0), Activation::relu);
  return result;
}

std::vector<float> tokens_of(const std::vector<float>& x, std::size_t first, std::size_t count) {
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first * kModel);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * kModel)};
}

void check_equal(const NeuronStatistics& a, const NeuronStatistics& b, std::size_t experts) {
  CHECK(a.tokens() == b.tokens());
  for (std::size_t e = 0; e < experts; ++e) CHECK(a.tokens_seen(e) == b.tokens_seen(e));
  CHECK(a.zeros() == b.zeros());
  CHECK(a.gate_zeros() == b.gate_zeros());
  CHECK(a.small() == b.small());
  CHECK(a.below_share() == b.below_share());
  CHECK(a.fires() == b.fires());
  CHECK(a.energy() == b.energy());  // every bit of the sums
  CHECK(a.energy_neurons() == b.energy_neurons());
  CHECK(a.energy_tokens() == b.energy_tokens());
  CHECK(a.largest() == b.largest());
  CHECK(a.median_abs() == b.median_abs());
  for (std::size_t n = 0; n < a.neurons(); ++n) {
    const auto first = a.strongest(n), second = b.strongest(n);
    REQUIRE(first.size() == second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      CHECK(first[i].row == second[i].row);
      CHECK(same_bits(first[i].value, second[i].value));
    }
  }
}

void check_equal(const MoeStatistics& a, const MoeStatistics& b) {
  CHECK(a.tokens() == b.tokens());
  CHECK(a.load().load == b.load().load);
  check_equal(a.experts(), b.experts(), kExperts);
  REQUIRE(a.shared());
  REQUIRE(b.shared());
  check_equal(*a.shared(), *b.shared(), 1);
}

TEST_CASE("pairs, zeros, firings and energy of each expert against plain loops") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Sample moe;
  const MoeFfn layer = moe.layer(Activation::relu, {});
  const std::vector<float> x = real_values(kTokens * kModel, 601);
  MoeStatistics seen = statistics(moe);
  run_layer(layer, x, workspace, &seen);

  std::vector<std::uint64_t> load(kExperts), fires(kExperts * kFf);
  std::vector<double> energy(kExperts * kFf);
  std::uint64_t zeros = 0, gate_zeros = 0;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const reference::Values row = reference::widened(tokens_of(x, t, 1));
    const reference::Values logits =
        reference::linear(row, reference::widened(moe.router), reference::widened(moe.router_bias),
                          1, kExperts, kModel);
    std::vector<std::size_t> order(kExperts);
    for (std::size_t e = 0; e < kExperts; ++e) order[e] = e;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
    for (const std::size_t e : {order[0], order[1]}) {
      ++load[e];
      const SampleExpert& expert = moe.experts[e];
      using reference::widened;
      const reference::Values gate =
          reference::linear(row, widened(expert.gate), widened(expert.gate_bias), 1, kFf, kModel);
      const reference::Values up =
          reference::linear(row, widened(expert.up), widened(expert.up_bias), 1, kFf, kModel);
      for (std::size_t i = 0; i < kFf; ++i) {
        const double h = gate[i] > 0 ? gate[i] * up[i] : 0;
        fires[e * kFf + i] += gate[i] > 0 ? 1 : 0;
        gate_zeros += gate[i] > 0 ? 0 : 1;
        zeros += h == 0 ? 1 : 0;
        energy[e * kFf + i] += h * h * moe.down_energy()[e * kFf + i];
      }
    }
  }
  CHECK(load[5] == 0);
  CHECK(seen.load().load == load);
  CHECK(seen.load().never_used() == std::vector<std::size_t>{5});
  CHECK(seen.tokens() == kTokens);
  CHECK(seen.experts().tokens() == 2 * kTokens);
  for (std::size_t e = 0; e < kExperts; ++e) CHECK(seen.experts().tokens_seen(e) == load[e]);
  CHECK(seen.experts().fires() == fires);
  CHECK(seen.experts().zeros() == zeros);
  CHECK(seen.experts().gate_zeros() == gate_zeros);
  for (std::size_t n = 0; n < energy.size(); ++n)
    CHECK(seen.experts().energy()[n] == doctest::Approx(energy[n]).epsilon(1e-4));
  double entropy = 0;
  for (const std::uint64_t pairs : load) {
    const double p = static_cast<double>(pairs) / (2 * kTokens);
    if (p > 0) entropy -= p * std::log(p) / std::log(double{kExperts});
  }
  CHECK(seen.load().entropy() == doctest::Approx(entropy));
  CHECK(seen.shared()->tokens() == kTokens);  // apart: neither in the load nor among the pairs
}

TEST_CASE("strongest tokens are named by token, not by pair") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const Sample moe;
  const std::vector<float> x = real_values(kTokens * kModel, 601);
  MoeStatistics seen = statistics(moe);
  run_layer(moe.layer(Activation::relu, {}), x, workspace, &seen);
  for (std::size_t n = 0; n < kExperts * kFf; ++n) {
    const SampleExpert& expert = moe.experts[n / kFf];
    const auto weights = [&](const std::vector<float>& all) {
      return reference::widened({all.data() + n % kFf * kModel, kModel});
    };
    for (const NeuronSample& one : seen.experts().strongest(n)) {
      REQUIRE(one.row < kTokens);
      const reference::Values row = reference::widened(tokens_of(x, one.row, 1));
      const double gate = reference::linear(row, weights(expert.gate), {expert.gate_bias[n % kFf]},
                                            1, 1, kModel)[0];
      const double up =
          reference::linear(row, weights(expert.up), {expert.up_bias[n % kFf]}, 1, 1, kModel)[0];
      CHECK(one.value == doctest::Approx(std::max(gate, 0.0) * up).epsilon(1e-4));
    }
  }
}

TEST_CASE("the same numbers for any threads and any split into calls, padding left out") {
  const Sample moe;
  const MoeFfn layer = moe.layer(Activation::relu, {});
  const std::vector<float> x = real_values(kTokens * kModel, 601);
  std::vector<char> counted(kTokens);
  for (std::size_t t = 0; t < kTokens; ++t) counted[t] = t % 5 != 3;
  Runtime one({.count = 1});
  Workspace alone(one);
  MoeStatistics whole = statistics(moe);
  whole.select_rows(counted);
  run_layer(layer, x, alone, &whole);
  CHECK(whole.tokens() == 23);
  CHECK(whole.load().tokens == 23);
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    for (const std::size_t piece : {29U, 8U, 1U}) {
      CAPTURE(threads);
      CAPTURE(piece);
      MoeStatistics split = statistics(moe), kept = statistics(moe);
      for (std::size_t first = 0; first < kTokens; first += piece) {
        const std::size_t count = std::min<std::size_t>(piece, kTokens - first);
        const auto begin = counted.begin() + static_cast<std::ptrdiff_t>(first);
        split.select_rows({begin, begin + static_cast<std::ptrdiff_t>(count)});
        run_layer(layer, tokens_of(x, first, count), workspace, &split);
      }
      check_equal(split, whole);
      for (std::size_t t = 0; t < kTokens; ++t)
        if (counted[t] != 0) run_layer(layer, tokens_of(x, t, 1), workspace, &kept);
      check_equal(kept, whole);
    }
  }
}

TEST_CASE("watching changes no bit of y, and one expert's rows may come in several pieces") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  MoeSample moe(5, 7, 3);
  moe.router_bias = {0, 1000, 0};  // most rows go to expert 1, more than one piece holds
  const MoeFfn layer = moe.layer(Activation::silu, {});
  const std::vector<float> x = real_values(2503 * 5, 607);
  NeuronOptions three = options();
  three.n_experts = 3;
  three.activation = Activation::silu;
  MoeStatistics seen(moe.down_energy(), Detail::full, three);
  const std::vector<float> watched = run_layer(layer, x, workspace, &seen);
  CHECK(same_bits(watched, run_layer(layer, x, workspace)));
  CHECK(seen.experts().tokens_seen(1) == 2503);
  CHECK(seen.experts().tokens() == 2 * 2503);
  for (const NeuronSample& one : seen.experts().strongest(7)) CHECK(one.row < 2503);
}

TEST_CASE("pairs beyond an expert's capacity are in the load, but no sample") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  Sample moe;
  moe.router_bias[2] = 1000;  // every token's first choice
  Routing routing;
  routing.capacity_factor = 1;  // ceil(29 * 2 / 8) = 8 pairs
  MoeStatistics seen = statistics(moe);
  run_layer(moe.layer(Activation::relu, routing), real_values(kTokens * kModel, 613), workspace,
            &seen);
  CHECK(seen.load().load[2] == kTokens);
  CHECK(seen.experts().tokens_seen(2) == 8);
  CHECK(seen.load().dropped_pairs == 2 * kTokens - seen.experts().tokens());
}

TEST_CASE("samples that belong to no routing or no expert are refused") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  MoeStatistics seen(std::vector<double>(6, 1.0), Detail::full, [] {
    NeuronOptions two;
    two.n_experts = 2;
    return two;
  }());
  const std::vector<float> values(6, 1.0F);
  FfnSample one;
  one.pre = one.hidden = ConstMatrix(values.data(), 2, 3);
  one.expert = 1;
  const auto refused = [&] {
    try {
      seen.observe(one, workspace);
    } catch (const Error& error) {
      return error.code == ErrorCode::shape_mismatch;
    }
    return false;
  };
  CHECK(refused());  // no routing yet
  RoutingResult routing;
  routing.tokens = 2;
  routing.n_experts = 2;
  routing.top_k = 1;
  routing.experts = {1, 1};
  routing.weights = {1, 1};
  seen.observe_routing(routing, workspace);
  CHECK_FALSE(refused());
  CHECK(seen.experts().tokens_seen(1) == 2);
  one.expert = 2;
  CHECK(refused());
  one.expert = FfnSample::kSharedExpert;  // not watched: left out
  CHECK_FALSE(refused());
  CHECK(seen.experts().tokens() == 2);
  routing.n_experts = 3;
  CHECK_THROWS_AS(seen.observe_routing(routing, workspace), Error);
}

}  // namespace
}  // namespace fourfold
