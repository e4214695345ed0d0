#include "learn/sample_machine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace fourfold;

namespace {

constexpr std::size_t kWidth = kMachineWidth;

double weight(const std::vector<float>& values, std::size_t row, std::size_t column) {
  return values[row * kWidth + column];
}

// Float64 loops over one expert; ReLU, with or without gate.
std::vector<double> expert_result(std::size_t index, const MachineSetting& setting) {
  const MachineWeights& all = machine_weights();
  std::vector<double> out(kWidth);
  for (std::size_t j = 0; j < kWidth; ++j) out[j] = weight(all.down_bias, index, j);
  for (std::size_t unit = 0; unit < setting.ratio * kWidth; ++unit) {
    const std::size_t row = index * kMachineUnits + unit;
    double up = all.up_bias[row], gate = 0;
    for (std::size_t j = 0; j < kWidth; ++j) {
      up += weight(all.up, row, j) * setting.x[j];
      gate += weight(all.gate, row, j) * setting.x[j];
    }
    const double hidden = setting.gated ? std::max(gate, 0.0) * up : std::max(up, 0.0);
    for (std::size_t j = 0; j < kWidth; ++j) out[j] += hidden * weight(all.down, row, j);
  }
  return out;
}

std::vector<double> layer_result(const MachineSetting& setting) {
  if (setting.n_experts == 1) return expert_result(0, setting);
  std::vector<double> logits(setting.n_experts);
  for (std::size_t e = 0; e < setting.n_experts; ++e)
    for (std::size_t j = 0; j < kWidth; ++j)
      logits[e] += weight(machine_weights().router, e, j) * setting.x[j];
  std::vector<std::size_t> order(setting.n_experts);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  order.resize(setting.top_k);
  double sum = 0;
  for (const std::size_t e : order) sum += std::exp(logits[e]);
  std::vector<double> y(kWidth);
  for (const std::size_t e : order) {
    const std::vector<double> out = expert_result(e, setting);
    for (std::size_t j = 0; j < kWidth; ++j) y[j] += std::exp(logits[e]) / sum * out[j];
  }
  return y;
}

void check_near(const std::vector<float>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(std::abs(found[i] - expected[i]) < 1e-5 * std::max(1.0, std::abs(expected[i])));
}

}  // namespace

TEST_CASE("the machine starts with the tiny example's numbers") {
  Runtime runtime(Threads{1, false});
  Workspace workspace(runtime);
  const MachineNumbers numbers = machine_numbers({}, workspace);
  check_near(numbers.experts[0].pre, {1.3, -1.5, 1.3, -0.3, -0.3, -1.9, 2.9, -0.4});
  check_near(numbers.experts[0].hidden, {1.3, 0, 1.3, 0, 0, 0, 2.9, 0});
  check_near(numbers.y, {0.26, 0.14, 2.07, 0.44});
  check_near(numbers.sum, {1.26, 0.14, 1.07, 2.44});
  const double mean = 1.2275,
               variance =
                   (0.0325 * 0.0325 + 1.0875 * 1.0875 + 0.1575 * 0.1575 + 1.2125 * 1.2125) / 4;
  const double root = std::sqrt(variance + 1e-5);
  check_near(numbers.normal, {(1.26 - mean) / root, (0.14 - mean) / root, (1.07 - mean) / root,
                              (2.44 - mean) / root});
}

TEST_CASE("every kind of machine equals float64 loops") {
  Runtime runtime(Threads{1, false});
  Workspace workspace(runtime);
  MachineSetting setting;
  setting.x = {-0.7F, 1.3F, 0.2F, -1.1F};
  for (const bool gated : {false, true})
    for (std::size_t ratio = 1; ratio <= 4; ++ratio)
      for (std::size_t n_experts = 1; n_experts <= kMachineExperts; ++n_experts)
        for (std::size_t top_k = 1; top_k <= n_experts; ++top_k) {
          setting.gated = gated;
          setting.ratio = ratio;
          setting.n_experts = n_experts;
          setting.top_k = top_k;
          const MachineNumbers numbers = machine_numbers(setting, workspace);
          check_near(numbers.y, layer_result(setting));
          CHECK(numbers.experts.size() == top_k);
        }
}

TEST_CASE("a shuffled sentence keeps the FFN's bits and changes the network over all of it") {
  Runtime runtime(Threads{1, false});
  Workspace workspace(runtime);
  const SentenceNumbers first = sentence_numbers(kInOrder, workspace);
  const SentenceNumbers second = sentence_numbers(kReversed, workspace);
  float changed = 0;
  for (std::size_t token = 0; token < kMachineTokens; ++token)
    for (std::size_t j = 0; j < kWidth; ++j) {
      const std::size_t here = token * kWidth + j;
      const std::size_t there = (kMachineTokens - 1 - token) * kWidth + j;
      CHECK(first.x[here] == second.x[there]);
      CHECK(first.ffn[here] == second.ffn[there]);
      CHECK(std::abs(first.attention[here] - second.attention[there]) < 1e-5F);
      changed = std::max(changed, std::abs(first.flattened[here] - second.flattened[there]));
    }
  CHECK(changed > 1);
}

TEST_CASE("units joined by lines meet the curve at their knots") {
  Runtime runtime(Threads{1, false});
  Workspace workspace(runtime);
  for (const std::size_t n : {1U, 3U, 8U, 32U}) {
    std::vector<float> t(n + 1), y(n + 1);
    for (std::size_t i = 0; i <= n; ++i) t[i] = static_cast<float>(i) / static_cast<float>(n);
    join_lines(n, t, y, workspace);
    for (std::size_t i = 0; i <= n; ++i) CHECK(std::abs(y[i] - std::sin(5 * t[i])) < 1e-4F);
  }
}
