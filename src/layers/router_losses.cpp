// Load, entropy and the router's own losses, in float64, tokens in ascending order.
#include "layers/router_losses.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "ops/expert_router.h"

namespace fourfold {
namespace {

bool counts(std::span<const char> counted, std::size_t token) {
  return counted.empty() || counted[token] != 0;
}

void check_mask(const RoutingResult& routing, std::span<const char> counted) {
  FOURFOLD_CHECK(counted.empty() || counted.size() == routing.tokens, shape_mismatch,
                 "[router] counted has " + std::to_string(counted.size()) +
                     " values, expected one for each of " + std::to_string(routing.tokens) +
                     " tokens");
}

// What both losses need of one layer's counted tokens.
struct Balance {
  std::vector<double> share;  // f_e
  std::vector<double> mean;   // P_e
  double tokens = 0, z = 0;

  Balance(const RoutingResult& routing, Scoring scoring, std::span<const char> counted)
      : share(routing.n_experts), mean(routing.n_experts) {
    std::vector<double> p(routing.n_experts);
    for (std::size_t t = 0; t < routing.tokens; ++t) {
      if (!counts(counted, t)) continue;
      tokens += 1;
      const double lse = probabilities(routing, scoring, t, p);
      z += lse * lse;
      for (std::size_t e = 0; e < p.size(); ++e) mean[e] += p[e];
      for (std::size_t j = 0; j < routing.top_k; ++j)
        share[routing.experts[t * routing.top_k + j]] += 1;
    }
    for (double& value : share) value /= tokens * static_cast<double>(routing.top_k);
    for (double& value : mean) value /= tokens;
    z /= tokens;
  }

  // p: [n_experts] receives the token's probabilities; returns logsumexp of its logits.
  static double probabilities(const RoutingResult& routing, Scoring scoring, std::size_t token,
                              std::vector<double>& p) {
    const float* logits = &routing.logits[token * routing.n_experts];
    softmax(p, [&](std::size_t e) { return log_score(scoring, logits[e]); });
    std::vector<double> unused(p.size());
    return softmax(unused, [&](std::size_t e) { return static_cast<double>(logits[e]); });
  }

  // p = softmax of value(e); returns the logarithm of the sum of exponentials.
  template <class Value>
  static double softmax(std::vector<double>& p, const Value& value) {
    double top = value(0), sum = 0;
    for (std::size_t e = 1; e < p.size(); ++e) top = std::max(top, value(e));
    for (std::size_t e = 0; e < p.size(); ++e) sum += p[e] = std::exp(value(e) - top);
    for (double& share : p) share /= sum;
    return top + std::log(sum);
  }
};

}  // namespace

void RouterLoad::add(const RoutingResult& routing, std::span<const char> counted) {
  check_mask(routing, counted);
  if (load.empty()) load.resize(routing.n_experts);
  FOURFOLD_CHECK(load.size() == routing.n_experts, shape_mismatch,
                 "[router] the load of " + std::to_string(load.size()) +
                     " experts cannot take a routing over " + std::to_string(routing.n_experts));
  for (std::size_t t = 0; t < routing.tokens; ++t) {
    if (!counts(counted, t)) continue;
    ++tokens;
    for (std::size_t pair = t * routing.top_k; pair < (t + 1) * routing.top_k; ++pair) {
      ++load[routing.experts[pair]];
      if (!routing.dropped.empty() && routing.dropped[pair] != 0) ++dropped_pairs;
    }
    if (routing.top_k > 0 && std::isnan(routing.weights[t * routing.top_k])) ++non_finite_tokens;
  }
}

double RouterLoad::entropy() const {
  double total = 0, sum = 0;
  for (const std::uint64_t pairs : load) total += static_cast<double>(pairs);
  if (total == 0) return 0;
  if (load.size() == 1) return 1;
  for (const std::uint64_t pairs : load) {
    const double p = static_cast<double>(pairs) / total;
    if (p > 0) sum -= p * std::log(p);
  }
  return sum / std::log(static_cast<double>(load.size()));
}

double RouterLoad::max_over_mean() const {
  double total = 0, most = 0;
  for (const std::uint64_t pairs : load) {
    total += static_cast<double>(pairs);
    most = std::max(most, static_cast<double>(pairs));
  }
  return total == 0 ? 0 : most * static_cast<double>(load.size()) / total;
}

std::vector<std::size_t> RouterLoad::never_used() const {
  std::vector<std::size_t> unused;
  for (std::size_t e = 0; e < load.size(); ++e)
    if (load[e] == 0) unused.push_back(e);
  return unused;
}

RouterLosses router_losses(const RoutingResult& routing, Scoring scoring,
                           std::span<const char> counted) {
  check_mask(routing, counted);
  const Balance balance(routing, scoring, counted);
  if (balance.tokens == 0) return {};
  RouterLosses losses;
  for (std::size_t e = 0; e < routing.n_experts; ++e)
    losses.load_balance += balance.share[e] * balance.mean[e];
  losses.load_balance *= static_cast<double>(routing.n_experts);
  losses.z = balance.z;
  return losses;
}

void router_losses_backward(const RoutingResult& routing, Scoring scoring,
                            const RouterLossScale& scale, Matrix dlogits) {
  if (scale.load_balance == 0 && scale.z == 0) return;
  const Balance balance(routing, scoring, scale.counted);
  const std::size_t n = routing.n_experts;
  std::vector<double> p(n), softmax(n);
  for (std::size_t t = 0; t < routing.tokens; ++t) {
    if (!counts(scale.counted, t)) continue;
    const float* logits = &routing.logits[t * n];
    Balance::probabilities(routing, scoring, t, p);
    const double lse = Balance::probabilities(routing, Scoring::softmax, t, softmax);
    const auto slope = [&](std::size_t e) {  // of the loss, by P of this token
      return scale.load_balance * static_cast<double>(n) * balance.share[e] / balance.tokens;
    };
    double mean = 0;
    for (std::size_t e = 0; e < n; ++e) mean += p[e] * slope(e);
    for (std::size_t e = 0; e < n; ++e) {
      const double from_balance = p[e] * (slope(e) - mean) * log_score_slope(scoring, logits[e]);
      const double from_z = scale.z * 2 * lse * softmax[e] / balance.tokens;
      dlogits.row(t)[e] += static_cast<float>(from_balance + from_z);
    }
  }
}

}  // namespace fourfold
