// The choice of experts: weights of every scoring, ties, biases, groups, capacity, bad logits, and
// the router's own losses.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "fourfold/error.h"
#include "layers/moe_plan.h"
#include "ops/expert_router.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Rule {
  Routing routing;
  std::vector<float> selection_bias;
};

Rule rule_of(int top_k, Scoring scoring, bool renormalize) {
  Rule rule;
  rule.routing.top_k = top_k;
  rule.routing.scoring = scoring;
  rule.routing.renormalize = renormalize;
  return rule;
}

RoutingResult run(const Rule& rule, std::vector<float> logits, std::size_t n_experts,
                  unsigned threads = 1) {
  Runtime runtime({.count = threads});
  Workspace workspace(runtime);
  RoutingResult result;
  result.tokens = logits.size() / n_experts;
  result.n_experts = n_experts;
  result.top_k = static_cast<std::size_t>(rule.routing.top_k);
  result.logits = std::move(logits);
  result.experts.resize(result.tokens * result.top_k);
  result.weights.resize(result.tokens * result.top_k);
  result.dropped.resize(result.tokens * result.top_k);
  choose_experts(rule.routing, rule.selection_bias, result, workspace);
  drop_beyond_capacity(rule.routing, result, workspace);
  return result;
}

using Ids = std::vector<std::uint32_t>;

void check_weights(const RoutingResult& result, const std::vector<double>& expected) {
  REQUIRE(result.weights.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(result.weights[i] == doctest::Approx(expected[i]).epsilon(2e-6));
}

TEST_CASE("logits 2, 1, 0, -1: weights of each scoring, divided by their sum or not") {
  const std::vector<float> logits{2, 1, 0, -1};
  const auto check = [&](Scoring scoring, bool renormalize, double first, double second) {
    const RoutingResult result = run(rule_of(2, scoring, renormalize), logits, 4);
    CHECK(result.experts == Ids{0, 1});
    check_weights(result, {first, second});
  };
  check(Scoring::softmax, false, .643914, .236883);
  check(Scoring::softmax, true, .731059, .268941);
  check(Scoring::softmax_topk, false, .731059, .268941);
  check(Scoring::softmax_topk, true, .731059, .268941);
  check(Scoring::sigmoid, false, .880797, .731059);
  check(Scoring::sigmoid, true, .546449, .453551);
  const double a = std::sqrt(std::log1p(std::exp(2.0))), b = std::sqrt(std::log1p(std::exp(1.0)));
  check(Scoring::sqrt_softplus, false, a, b);
  check(Scoring::sqrt_softplus, true, a / (a + b), b / (a + b));
}

TEST_CASE("a selection bias moves the choice, never the weights") {
  Rule rule = rule_of(2, Scoring::sigmoid, false);
  rule.selection_bias = {0, 0, 1};
  const auto logit = [](double p) { return static_cast<float>(std::log(p / (1 - p))); };
  const RoutingResult result = run(rule, {logit(.9), logit(.8), logit(.1)}, 3);
  CHECK(result.experts == Ids{2, 0});
  check_weights(result, {.1, .9});
}

TEST_CASE("tiny scores beside a large bias keep their ratio") {
  Rule rule = rule_of(2, Scoring::sigmoid, true);
  rule.selection_bias = {12, 12};
  check_weights(run(rule, {-18, -18.5F}, 2), {.62246, .37754});
  check_weights(run(rule, {-1800, -1800.5F}, 2), {.62246, .37754});  // both scores are 0 in float32
}

TEST_CASE("only experts of the best groups are chosen, also when all scores are negative") {
  Rule rule = rule_of(2, Scoring::softmax_topk, true);
  rule.routing.n_groups = 2;
  rule.routing.top_groups = 1;
  CHECK(run(rule, {-.2F, -.3F, -.9F, -.8F}, 4).experts == Ids{0, 1});
  rule.routing.scoring = Scoring::sigmoid;  // the sum of the two best of a group decides
  CHECK(run(rule, {5, -5, 1, 1}, 4).experts == Ids{2, 3});
  rule.routing.scoring = Scoring::softmax;  // the best one decides
  CHECK(run(rule, {5, -5, 1, 1}, 4).experts == Ids{0, 1});
}

TEST_CASE("ties go to the lowest index, at any place and for any number of threads") {
  for (const unsigned threads : {1U, 2U, 7U}) {
    const RoutingResult result =
        run(rule_of(3, Scoring::softmax, true), std::vector<float>(5 * 8, 0.25F), 8, threads);
    for (std::size_t token = 0; token < 5; ++token)
      for (std::uint32_t j = 0; j < 3; ++j) CHECK(result.experts[token * 3 + j] == j);
  }
  Rule rule = rule_of(3, Scoring::softmax, true);
  rule.selection_bias.assign(8, -kInf);
  rule.selection_bias[2] = 0;
  CHECK(run(rule, std::vector<float>(8, 0.0F), 8).experts == Ids{2, 0, 1});
}

TEST_CASE("logits that bf16 cannot tell apart are told apart") {
  const Rule rule = rule_of(1, Scoring::softmax, false);
  CHECK(run(rule, {10.001F, 10.0F}, 2).experts == Ids{0});
  CHECK(run(rule, {10.0F, 10.001F}, 2).experts == Ids{1});
  CHECK(run(rule_of(1, Scoring::sigmoid, false), {40.0F, 41.0F}, 2).experts == Ids{1});
}

TEST_CASE("bad logits: distinct ids in range, NaN weights, counted; other tokens keep their bits") {
  const std::vector<float> good{0.5F, -0.25F, 0.75F, 0.125F, -1.5F};
  for (const Scoring scoring :
       {Scoring::softmax, Scoring::sigmoid, Scoring::softmax_topk, Scoring::sqrt_softplus})
    for (const bool renormalize : {false, true}) {
      const Rule rule = rule_of(3, scoring, renormalize);
      const RoutingResult alone = run(rule, good, 5);
      CHECK(alone.non_finite_tokens == 0);
      for (const std::vector<float>& bad : {std::vector<float>(5, kNan),
                                            {1, kNan, 2, 3, 4},
                                            std::vector<float>(5, kInf),
                                            std::vector<float>(5, -kInf),
                                            {kNan, kInf, -kInf, 0, 1}}) {
        std::vector<float> logits = good;
        logits.insert(logits.end(), bad.begin(), bad.end());
        logits.insert(logits.end(), good.begin(), good.end());
        const RoutingResult result = run(rule, logits, 5);
        CHECK(result.non_finite_tokens == 1);
        for (std::size_t j = 0; j < 3; ++j) {
          CHECK(result.experts[3 + j] < 5);
          CHECK(std::isnan(result.weights[3 + j]));
          for (std::size_t i = 0; i < j; ++i) CHECK(result.experts[3 + i] != result.experts[3 + j]);
          for (const std::size_t other : {j, 6 + j}) {
            CHECK(result.experts[other] == alone.experts[j]);
            CHECK(same_bits(result.weights[other], alone.weights[j]));
          }
        }
      }
    }
}

TEST_CASE("17 of 64 experts, all experts, one of one") {
  const auto logits = real_values(3 * 64, 59);
  const RoutingResult many = run(rule_of(17, Scoring::softmax, true), logits, 64);
  for (std::size_t token = 0; token < 3; ++token) {
    double sum = 0;
    for (std::size_t j = 0; j < 17; ++j) {
      sum += many.weights[token * 17 + j];
      if (j > 0)
        CHECK(logits[token * 64 + many.experts[token * 17 + j]] <=
              logits[token * 64 + many.experts[token * 17 + j - 1]]);
    }
    CHECK(sum == doctest::Approx(1).epsilon(1e-6));
  }
  CHECK(run(rule_of(3, Scoring::softmax, false), {1, 3, 2}, 3).experts == Ids{1, 2, 0});
  CHECK(run(rule_of(1, Scoring::softmax, false), {-7}, 1).weights == std::vector<float>{1});
  for (const Scoring scoring : {Scoring::softmax, Scoring::sigmoid, Scoring::sqrt_softplus})
    for (const float weight : run(rule_of(1, scoring, true), logits, 64).weights)
      CHECK(weight == 1.0F);
}

TEST_CASE("capacity keeps earlier tokens and counts first choices before second ones") {
  Rule rule = rule_of(1, Scoring::softmax, false);
  rule.routing.capacity_factor = 0.75F;  // 3 of 8 tokens over 2 experts
  std::vector<float> logits;
  for (int token = 0; token < 8; ++token) logits.insert(logits.end(), {-1, -2});
  const RoutingResult result = run(rule, logits, 2);
  CHECK(result.dropped == std::vector<char>{0, 0, 0, 1, 1, 1, 1, 1});
  CHECK(result.dropped_pairs == 5);
  rule.routing.capacity_factor = 8.0F;
  CHECK(run(rule, {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}, 4).dropped_pairs == 0);
  // Factors that float32 rounds up do not make room for one more.
  for (const auto& [factor, room] : {std::pair(1.1F, 11U), {1.2F, 12U}, {2.2F, 22U}}) {
    rule.routing.capacity_factor = factor;
    std::vector<float> many;
    for (int token = 0; token < 30; ++token) many.insert(many.end(), {1, 0, 0});
    CHECK(run(rule, many, 3).dropped_pairs == 30 - room);
  }
  // Token 0 chooses 0 then 1, token 1 chooses 1 then 0; one place each: both keep their first
  // choice.
  rule = rule_of(2, Scoring::softmax, true);
  rule.routing.capacity_factor = 0.5F;
  CHECK(run(rule, {2, 1, 1, 2}, 2).dropped == std::vector<char>{0, 1, 0, 1});
}

TEST_CASE("the gradient of the two largest goes back to where they came from") {
  const Rule rule = rule_of(2, Scoring::sigmoid, false);
  const RoutingResult result = run(rule, {1, 2, 6, 4, 5}, 5);
  CHECK(result.experts == Ids{2, 4});
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  std::vector<float> dlogits(5, 7);
  choose_experts_backward(rule.routing, result, std::vector<float>{1, 1}, {dlogits.data(), 1, 5},
                          workspace);
  for (const std::size_t e : {0U, 1U, 3U}) CHECK(dlogits[e] == 0);
  CHECK(dlogits[2] == doctest::Approx(std::exp(-6.0) / std::pow(1 + std::exp(-6.0), 2)));
  CHECK(dlogits[4] == doctest::Approx(std::exp(-5.0) / std::pow(1 + std::exp(-5.0), 2)));
}

TEST_CASE("load balance is 1 when uniform, n_experts when collapsed, per layer") {
  const Rule top1 = rule_of(1, Scoring::softmax, false);
  CHECK(router_losses(run(top1, {40, 0, 40, 0}, 2), Scoring::softmax).load_balance ==
        doctest::Approx(2));
  CHECK(router_losses(run(top1, {0, 40, 0, 40}, 2), Scoring::softmax).load_balance ==
        doctest::Approx(2));
  CHECK(router_losses(run(top1, {40, 0, 0, 40}, 2), Scoring::softmax).load_balance ==
        doctest::Approx(1));
  const std::vector<float> zeros(4 * 4, 0.0F);
  const RouterLosses uniform =
      router_losses(run(rule_of(2, Scoring::softmax, true), zeros, 4), Scoring::softmax);
  CHECK(uniform.load_balance == doctest::Approx(1));
  CHECK(uniform.z == doctest::Approx(1.9218).epsilon(1e-4));
  std::vector<float> collapsed;
  for (int token = 0; token < 4; ++token) collapsed.insert(collapsed.end(), {60, 0, 0, 0});
  CHECK(router_losses(run(top1, collapsed, 4), Scoring::softmax).load_balance ==
        doctest::Approx(4));
}

TEST_CASE("losses stay finite when every score underflows") {
  const Rule rule = rule_of(1, Scoring::sigmoid, true);
  const RouterLosses losses = router_losses(run(rule, {-1800, -1801}, 2), Scoring::sigmoid);
  CHECK(losses.load_balance == doctest::Approx(2 / (1 + std::exp(-1.0))));
}

TEST_CASE("padding counts neither in the losses nor in the load") {
  const Rule rule = rule_of(1, Scoring::softmax, false);
  std::vector<float> real = real_values(4 * 3, 61), padded = real;
  for (int pad = 0; pad < 4; ++pad) padded.insert(padded.end(), {9, 0, 0});
  const std::vector<char> counted{1, 1, 1, 1, 0, 0, 0, 0};
  const RoutingResult alone = run(rule, real, 3), both = run(rule, padded, 3);
  const RouterLosses a = router_losses(alone, Scoring::softmax),
                     b = router_losses(both, Scoring::softmax, counted);
  CHECK(a.load_balance == b.load_balance);
  CHECK(a.z == b.z);
  RouterLoad first, second;
  first.add(alone);
  second.add(both, counted);
  CHECK(first.load == second.load);
  CHECK(second.tokens == 4);
  const RouterLosses none = router_losses(both, Scoring::softmax, std::vector<char>(8));
  CHECK(none.load_balance == 0);
  CHECK(none.z == 0);
}

TEST_CASE("load adds up over calls, with entropy and what was never used") {
  const Rule rule = rule_of(2, Scoring::softmax, true);
  const auto logits = real_values(8 * 5, 67);
  RouterLoad whole, split;
  whole.add(run(rule, logits, 5));
  for (std::size_t token = 0; token < 8; ++token)
    split.add(run(rule,
                  {logits.begin() + static_cast<long>(token * 5),
                   logits.begin() + static_cast<long>(token * 5 + 5)},
                  5));
  CHECK(whole.load == split.load);
  std::uint64_t sum = 0;
  for (const std::uint64_t pairs : whole.load) sum += pairs;
  CHECK(sum == 16);
  RouterLoad two;
  two.add(run(rule, {9, 8, 0, 0, 9, 8, 0, 0}, 4));
  CHECK(two.entropy() == doctest::Approx(0.5));
  CHECK(two.max_over_mean() == doctest::Approx(2));
  CHECK(two.never_used() == std::vector<std::size_t>{2, 3});
  CHECK(RouterLoad().entropy() == 0);
  CHECK_THROWS_WITH_AS(two.add(run(rule, logits, 5)), doctest::Contains("4 experts"), Error);
}

}  // namespace
}  // namespace fourfold
