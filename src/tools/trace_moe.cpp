// The tiny mixture of experts of `trace`: the router's scores, the choice, each chosen expert, and
// the weighted sum.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "fourfold/tools.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"
#include "tools/trace_steps.h"

namespace fourfold {
namespace {

constexpr std::size_t kModel = 3, kFf = 2, kExperts = 4, kTopK = 2;

struct Expert {
  std::vector<float> gate, up, down;  // [kFf, kModel], [kFf, kModel], [kModel, kFf]

  GatedWeights weights() const {
    return {ConstMatrix(gate.data(), kFf, kModel),
            ConstMatrix(up.data(), kFf, kModel),
            ConstMatrix(down.data(), kModel, kFf),
            {},
            {},
            {}};
  }
};

struct Mixture {
  // Halves, so that the logits of experts 1 and 2 are equal to the bit.
  std::vector<float> router{0.5F, 0, 0.5F, 1, 0.5F, 0, 0, 0.5F, 0.5F, -1, 1, 0.5F};
  std::vector<Expert> experts{{{0.4F, -0.2F, 0.3F, -0.5F, 0.1F, 0.2F},
                               {0.2F, 0.6F, 0.5F, 0.9F, -0.3F, 0.1F},
                               {0.5F, -0.4F, 0.3F, 0.8F, -0.7F, 0.2F}},
                              {{-0.6F, 0.3F, 0.4F, 0.8F, -0.1F, -0.2F},
                               {0.7F, -0.5F, 0.2F, -0.3F, 0.4F, 0.6F},
                               {-0.2F, 0.9F, 0.6F, 0.1F, 0.4F, -0.5F}},
                              {{0.1F, 0.7F, -0.3F, 0.5F, -0.6F, 0.2F},
                               {0.4F, 0.2F, -0.8F, -0.1F, 0.3F, 0.5F},
                               {0.8F, -0.1F, -0.3F, 0.6F, 0.2F, 0.7F}},
                              {{-0.4F, 0.5F, 0.9F, 0.3F, -0.8F, -0.1F},
                               {0.6F, -0.7F, 0.1F, 0.2F, 0.4F, -0.5F},
                               {0.1F, 0.3F, -0.9F, 0.5F, 0.4F, -0.6F}}};
};

class RoutingRecorder : public FfnObserver {
 public:
  void observe(const FfnSample&, Workspace&) override {}
  void observe_routing(const RoutingResult& result, Workspace&) override { routing = result; }
  RoutingResult routing;
};

TraceStep score_step(const RoutingResult& routing) {
  double sum = 0;
  std::string terms;
  for (const float logit : routing.logits) {
    sum += std::exp(static_cast<double>(logit));
    terms += fmt::format("{}exp({:g})", terms.empty() ? "" : " + ", logit);
  }
  TraceStep step{"score", "s = softmax(logit)", 0, 0, kExperts, {}, {}};
  step.workings.push_back(fmt::format("sum = {} = {:g}", terms, sum));
  for (std::size_t e = 0; e < kExperts; ++e) {
    const double power = std::exp(static_cast<double>(routing.logits[e]));
    step.values.push_back(static_cast<float>(power / sum));
    step.workings.push_back(fmt::format("s{} = exp({:g}) / sum = {:g} / {:g} = {:g}", e,
                                        routing.logits[e], power, sum, power / sum));
  }
  return step;
}

TraceStep choose_step(const RoutingResult& routing, const std::vector<float>& scores) {
  TraceStep step{"choose", fmt::format("the {} highest scores", kTopK), 0, 0, 0, {}, {}};
  std::vector<bool> taken(kExperts);
  for (const std::uint32_t chosen : routing.experts) {
    std::string why = fmt::format("expert {}: s{} = {:g} is the highest{}", chosen, chosen,
                                  scores[chosen], step.values.empty() ? "" : " that is left");
    taken[chosen] = true;
    for (std::size_t e = 0; e < kExperts; ++e)
      if (!taken[e] && routing.logits[e] == routing.logits[chosen])
        why += fmt::format("; s{} is equal, and of equal scores the lowest index wins", e);
    step.workings.push_back(why);
    step.values.push_back(static_cast<float>(chosen));
  }
  return step;
}

TraceStep weigh_step(const RoutingResult& routing, const std::vector<float>& scores) {
  TraceStep step{"weigh", "w = s / the sum of the chosen s", 0, 0, 0, routing.weights, {}};
  std::string terms;
  for (const std::uint32_t e : routing.experts)
    terms += fmt::format("{}{:g}", terms.empty() ? "" : " + ", scores[e]);
  for (std::size_t j = 0; j < kTopK; ++j)
    step.workings.push_back(fmt::format("w{} = {:g} / ({}) = {:g}", routing.experts[j],
                                        scores[routing.experts[j]], terms, routing.weights[j]));
  return step;
}

}  // namespace

TraceReport trace_tiny_moe(Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const Mixture mixture;
  std::vector<GatedWeights> experts;
  for (const Expert& expert : mixture.experts) experts.push_back(expert.weights());
  MoeWeights weights;
  weights.router = ConstMatrix(mixture.router.data(), kExperts, kModel);
  weights.experts = std::span<const GatedWeights>(experts);
  Routing rule;
  rule.top_k = kTopK;
  const MoeFfn moe(weights, Activation::silu, rule);

  FfnShape shape;
  shape.kind = FfnKind::moe;
  shape.d_model = kModel;
  shape.d_ff = kFf;
  shape.n_experts = kExperts;
  shape.top_k = kTopK;
  TraceReport trace =
      begin_trace("Tiny mixture: 4 gated experts of 3 -> 2 -> 3 with SiLU, 2 per token", shape,
                  Activation::silu, {1, -1, 2});
  trace.notes = {
      "Experts count from 0, as everywhere; units count from 1. docs/tiny_example.md has all "
      "weights.",
      "The norm has gamma 1, beta 0, eps 0."};

  RoutingRecorder seen;
  std::vector<float> y(kModel);
  moe.forward(ConstMatrix(trace.x.data(), 1, kModel), Matrix(y.data(), 1, kModel), workspace,
              nullptr, &seen);
  const RoutingResult& routing = seen.routing;
  const ConstMatrix router(mixture.router.data(), kExperts, kModel);
  trace.steps.push_back({"router", "logit = router x", kExperts * kModel, kExperts * kModel, 0,
                         routing.logits,
                         product_workings("logit", 0, router, trace.x, {}, routing.logits)});
  trace.steps.push_back(score_step(routing));
  const std::vector<float> scores = trace.steps.back().values;
  trace.steps.push_back(choose_step(routing, scores));
  trace.steps.push_back(weigh_step(routing, scores));

  // Sums run over experts in ascending order, whatever the order of choice.
  std::vector<std::pair<std::uint32_t, float>> chosen;
  for (std::size_t j = 0; j < kTopK; ++j)
    chosen.emplace_back(routing.experts[j], routing.weights[j]);
  std::sort(chosen.begin(), chosen.end());
  std::vector<std::string> sums(kModel);
  for (const auto& one : chosen) {
    const GatedFfn expert(experts[one.first], Activation::silu);
    const std::vector<float> part =
        trace_gated(expert, &experts[one.first], one.first, trace, workspace);
    for (std::size_t i = 0; i < kModel; ++i)
      sums[i] += fmt::format("{}{:g} * {}", sums[i].empty() ? "" : " + ", one.second,
                             trace_number(part[i]));
  }
  TraceStep combine{"combine", "y = the sum of w * the expert's y",   0,
                    0,         kTopK * kModel + (kTopK - 1) * kModel, y,
                    {}};
  for (std::size_t i = 0; i < kModel; ++i)
    combine.workings.push_back(fmt::format("y{} = {} = {:g}", i + 1, sums[i], y[i]));
  trace.steps.push_back(std::move(combine));
  const LayerNorm norm(std::vector<float>(kModel, 1.0F), std::vector<float>(kModel, 0.0F), 0.0F);
  trace_norm(norm, y, true, trace, workspace);
  return trace;
}

}  // namespace fourfold
