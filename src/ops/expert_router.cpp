#include "ops/expert_router.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

bool is_own_scoring(Scoring scoring) {
  return scoring == Scoring::sigmoid || scoring == Scoring::sqrt_softplus;
}

// s(logit) of the two scorings that look at one expert at a time.
double own_score(Scoring scoring, double logit) {
  return scoring == Scoring::sigmoid ? sigmoid(logit) : std::sqrt(softplus(logit));
}

double own_score_slope(Scoring scoring, double logit) {
  if (scoring == Scoring::sigmoid) return sigmoid(logit) * sigmoid(-logit);
  return own_score(scoring, logit) * log_score_slope(scoring, logit);
}

bool divides_by_sum(const Routing& routing) {
  return routing.renormalize || routing.scoring == Scoring::softmax_topk;
}

// The logits of one token, and what their softmax needs.
struct TokenLogits {
  std::span<const float> values;
  double top = kLowest, sum = 0;  // sum of exp(value - top)
  bool usable = true;             // a softmax exists

  explicit TokenLogits(std::span<const float> logits) : values(logits) {
    for (const float value : values) {
      usable = usable && !std::isnan(value) && value != std::numeric_limits<float>::infinity();
      top = std::max(top, static_cast<double>(value));  // keeps top when value is NaN
    }
    usable = usable && top != kLowest;
    for (const float value : values) sum += std::exp(value - top);
  }
  double softmax(std::size_t expert) const { return std::exp(values[expert] - top) / sum; }
};

class Chooser {
 public:
  // scratch: 2 * n_experts doubles of one thread.
  Chooser(const Routing& routing, std::span<const float> selection_bias, double* scratch,
          std::size_t n_experts)
      : routing_(routing),
        bias_(selection_bias),
        scores_(scratch, n_experts),
        group_scores_(scratch + n_experts, static_cast<std::size_t>(routing.n_groups)) {}

  void choose(const TokenLogits& logits, std::span<std::uint32_t> experts) {
    score(logits);
    if (routing_.n_groups > 1) keep_best_groups();
    // NaN marks what cannot be chosen (any more); -inf itself may be, when nothing better is left.
    for (std::uint32_t& expert : experts) {
      std::size_t best = scores_.size();
      for (std::size_t e = 0; e < scores_.size(); ++e)
        if (!std::isnan(scores_[e]) && (best == scores_.size() || scores_[e] > scores_[best]))
          best = e;
      expert = static_cast<std::uint32_t>(best);
      scores_[best] = std::numeric_limits<double>::quiet_NaN();
    }
  }

 private:
  // What experts are ranked by. NaN ranks lowest, as NaN means taken here.
  void score(const TokenLogits& logits) {
    const bool by_logit =
        routing_.scoring == Scoring::softmax_topk ||
        (bias_.empty() && (routing_.n_groups == 1 || routing_.scoring == Scoring::softmax));
    for (std::size_t e = 0; e < scores_.size(); ++e) {
      const double logit = logits.values[e];
      double value = by_logit                           ? logit
                     : is_own_scoring(routing_.scoring) ? own_score(routing_.scoring, logit)
                                                        : logits.softmax(e);
      if (!bias_.empty()) value += bias_[e];
      scores_[e] = std::isnan(value) ? kLowest : value;
    }
  }

  void keep_best_groups() {
    const std::size_t size = scores_.size() / group_scores_.size();
    for (std::size_t g = 0; g < group_scores_.size(); ++g) {
      double first = kLowest, second = kLowest;
      for (const double value : scores_.subspan(g * size, size)) {
        second = std::max(second, std::min(first, value));
        first = std::max(first, value);
      }
      const bool best_only = routing_.scoring == Scoring::softmax || size == 1;
      const double both = first + second;
      group_scores_[g] = best_only ? first : std::isnan(both) ? kLowest : both;
    }
    for (int kept = 0; kept < routing_.top_groups; ++kept) {
      std::size_t best = group_scores_.size();
      for (std::size_t g = 0; g < group_scores_.size(); ++g)
        if (!std::isnan(group_scores_[g]) &&
            (best == group_scores_.size() || group_scores_[g] > group_scores_[best]))
          best = g;
      group_scores_[best] = std::numeric_limits<double>::quiet_NaN();  // kept
    }
    for (std::size_t g = 0; g < group_scores_.size(); ++g)
      if (!std::isnan(group_scores_[g]))
        for (double& value : scores_.subspan(g * size, size))
          value = std::numeric_limits<double>::quiet_NaN();
  }

  const Routing& routing_;
  std::span<const float> bias_;
  std::span<double> scores_;        // NaN: not to be chosen (any more)
  std::span<double> group_scores_;  // NaN: kept
};

// False when the weights are NaN.
bool weigh(const Routing& routing, const TokenLogits& logits,
           std::span<const std::uint32_t> experts, std::span<float> weights) {
  double top = kLowest, sum = 0;
  const bool divided = divides_by_sum(routing);
  if (divided) {
    for (const std::uint32_t e : experts)
      top = std::max(top, log_score(routing.scoring, logits.values[e]));
    for (const std::uint32_t e : experts)
      sum += std::exp(log_score(routing.scoring, logits.values[e]) - top);
  }
  bool good = logits.usable;
  for (std::size_t j = 0; j < experts.size(); ++j) {
    const double logit = logits.values[experts[j]];
    const double weight = divided ? std::exp(log_score(routing.scoring, logit) - top) / sum
                          : routing.scoring == Scoring::softmax ? logits.softmax(experts[j])
                                                                : own_score(routing.scoring, logit);
    weights[j] = static_cast<float>(weight * routing.scaling);
    good = good && !std::isnan(weights[j]);
  }
  if (!good) std::fill(weights.begin(), weights.end(), std::numeric_limits<float>::quiet_NaN());
  return good;
}

std::span<const float> logits_of(const RoutingResult& result, std::size_t token) {
  return std::span(result.logits).subspan(token * result.n_experts, result.n_experts);
}

}  // namespace

float exact_sigmoid(float x) { return static_cast<float>(sigmoid(x)); }

double log_score(Scoring scoring, double logit) {
  switch (scoring) {
    case Scoring::sigmoid: return std::min(logit, 0.0) - std::log1p(std::exp(-std::fabs(logit)));
    case Scoring::sqrt_softplus:  // softplus(x) is e^x where e^x is tiny
      return 0.5 * (logit < -40 ? logit : std::log(softplus(logit)));
    default: return logit;
  }
}

double log_score_slope(Scoring scoring, double logit) {
  switch (scoring) {
    case Scoring::sigmoid: return sigmoid(-logit);
    case Scoring::sqrt_softplus:
      return 0.5 * (logit < -40 ? 1.0 : sigmoid(logit) / softplus(logit));
    default: return 1;
  }
}

void choose_experts(const Routing& routing, std::span<const float> selection_bias,
                    RoutingResult& result, Workspace& workspace) {
  ThreadPool& pool = workspace.runtime().pool();
  const std::size_t threads = pool.threads();
  const ScratchScope scratch(workspace);
  static_assert(sizeof(double) == 2 * sizeof(float));
  const std::size_t per_thread = 2 * result.n_experts;  // doubles
  auto* scores = reinterpret_cast<double*>(workspace.take(threads * 2 * per_thread));
  auto* bad = reinterpret_cast<double*>(workspace.take(threads * 2));
  std::fill_n(bad, threads, 0.0);
  const std::size_t k = result.top_k;
  pool.for_each(result.tokens, [&](std::size_t token, unsigned thread) {
    const TokenLogits logits(logits_of(result, token));
    const auto experts = std::span(result.experts).subspan(token * k, k);
    Chooser(routing, selection_bias, scores + thread * per_thread, result.n_experts)
        .choose(logits, experts);
    if (!weigh(routing, logits, experts, std::span(result.weights).subspan(token * k, k)))
      bad[thread] += 1;
  });
  result.non_finite_tokens = 0;
  for (std::size_t thread = 0; thread < threads; ++thread)
    result.non_finite_tokens += static_cast<std::uint64_t>(bad[thread]);
}

void choose_experts_backward(const Routing& routing, const RoutingResult& result,
                             std::span<const float> dweights, Matrix dlogits,
                             Workspace& workspace) {
  const std::size_t k = result.top_k;
  workspace.runtime().pool().for_each(result.tokens, [&](std::size_t token, unsigned) {
    const TokenLogits logits(logits_of(result, token));
    const auto out = dlogits.row(token);
    std::fill(out.begin(), out.end(), 0.0F);
    const std::uint32_t* experts = &result.experts[token * k];
    const float* dw = &dweights[token * k];
    if (!divides_by_sum(routing) && is_own_scoring(routing.scoring)) {
      for (std::size_t j = 0; j < k; ++j)
        out[experts[j]] =
            static_cast<float>(static_cast<double>(dw[j]) * routing.scaling *
                               own_score_slope(routing.scoring, logits.values[experts[j]]));
      return;
    }
    // Both other cases are a softmax: p_j (g_j - sum p g) with g the gradient of p.
    const bool divided = divides_by_sum(routing);
    double top = kLowest, sum = 0, mean = 0;
    if (divided) {
      for (std::size_t j = 0; j < k; ++j)
        top = std::max(top, log_score(routing.scoring, logits.values[experts[j]]));
      for (std::size_t j = 0; j < k; ++j)
        sum += std::exp(log_score(routing.scoring, logits.values[experts[j]]) - top);
    }
    const auto share = [&](std::size_t expert) {
      return divided ? std::exp(log_score(routing.scoring, logits.values[expert]) - top) / sum
                     : logits.softmax(expert);
    };
    for (std::size_t j = 0; j < k; ++j)
      mean += share(experts[j]) * static_cast<double>(dw[j]) * routing.scaling;
    if (!divided)
      for (std::size_t e = 0; e < out.size(); ++e) out[e] = static_cast<float>(-share(e) * mean);
    for (std::size_t j = 0; j < k; ++j) {
      const std::size_t e = experts[j];
      const double slope = divided ? log_score_slope(routing.scoring, logits.values[e]) : 1.0;
      out[e] = static_cast<float>(share(e) * (static_cast<double>(dw[j]) * routing.scaling - mean) *
                                  slope);
    }
  });
}

}  // namespace fourfold
