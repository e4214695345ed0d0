// Plain means over layers: layers of one model share d_ff nearly always, and the sentences speak of
// layers.
#include "report/report_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "report/number_text.h"

namespace fourfold {
namespace {

std::string time_sentence(const ProfileReport& report) {
  const auto slowest = std::max_element(
      report.layers.begin(), report.layers.end(),
      [](const auto& a, const auto& b) { return layer_ms(a.time_ms) < layer_ms(b.time_ms); });
  const double ms = layer_ms(slowest->time_ms);
  const int decimals = decimals_for(report.forward_ms);
  std::string text =
      fmt::format("The FFNs take {} % of a forward pass", percent_number(report.ffn_time_share));
  if (report.forward_ms > 0)
    text += fmt::format("; layer {} takes the most time, {} of {} ms ({} %)", slowest->index,
                        fixed(ms, decimals), fixed(report.forward_ms, decimals),
                        percent_number(ms / report.forward_ms));
  return text + ".";
}

std::string limit_sentence(const ProfileReport& report) {
  const auto [low, high] = std::minmax_element(
      report.layers.begin(), report.layers.end(),
      [](const auto& a, const auto& b) { return a.share_of_limit < b.share_of_limit; });
  if (low == high)
    return fmt::format("The FFN of layer {} runs at {} % of what this machine allows.", low->index,
                       percent_number(low->share_of_limit));
  return fmt::format(
      "Measured against what this machine allows, the FFNs run at {} % (layer {}) to {} % (layer "
      "{}).",
      percent_number(low->share_of_limit), low->index, percent_number(high->share_of_limit),
      high->index);
}

std::string zero_sentence(const ProfileReport& report) {
  double zero = 0, small = 0, energy = 0;
  std::size_t with_energy = 0;
  for (const LayerProfile& layer : report.layers) {
    zero += layer.statistics.exact_zero;
    small += layer.statistics.below_thousandth_of_max;
    if (layer.statistics.energy_99) {
      energy += *layer.statistics.energy_99;
      ++with_energy;
    }
  }
  const auto n = static_cast<double>(report.layers.size());
  std::string text = fmt::format(
      "Mean over {} layers: {} % of the hidden values are exactly zero, {} % are at most a "
      "thousandth "
      "of their token's largest",
      report.layers.size() < report.n_layers ? "the chosen" : "all", percent_number(zero / n),
      percent_number(small / n));
  if (with_energy > 0)
    text += fmt::format(", and {} % of the neurons carry 99 % of the energy",
                        percent_number(energy / static_cast<double>(with_energy)));
  return text + ".";
}

bool zero_when_silent(std::string_view activation) {
  return activation == "relu" || activation == "relu2" || activation == "relu6";
}

std::string dead_sentence(const ProfileReport& report) {
  std::uint64_t dead = 0, neurons = 0, tokens = 0;
  const LayerProfile* undefined = nullptr;
  for (const LayerProfile& layer : report.layers) {
    if (!layer.statistics.dead) {
      undefined = &layer;
      continue;
    }
    dead += layer.statistics.dead->count;
    neurons += layer.d_ff;
    tokens = tokens == 0 ? layer.statistics.dead->tokens_seen
                         : std::min(tokens, layer.statistics.dead->tokens_seen);
  }
  if (neurons == 0)
    return fmt::format(
        "Dead neurons are not defined for {} unless --dead-threshold T is given: it calls those "
        "dead whose hidden value stays within T of zero on every token.",
        undefined->activation);
  // A threshold only counts where firing alone cannot say that a neuron is dead.
  const bool by_threshold =
      report.dead_threshold && !zero_when_silent(report.layers.front().activation);
  std::string text =
      by_threshold
          ? fmt::format(
                "{} of {} neurons are dead: |h| stayed at or below {} on every counted token",
                grouped(dead), grouped(neurons), short_number(*report.dead_threshold))
          : fmt::format("{} of {} neurons are dead: they fired on no counted token", grouped(dead),
                        grouped(neurons));
  if (const std::optional<double> bound = unseen_rate_bound(tokens))
    text += fmt::format(". {} tokens without {} bound its rate below 3/{} = {} % (95 % confidence)",
                        grouped(tokens), by_threshold ? "a larger value" : "firing",
                        grouped(tokens), percent_number(*bound));
  return text + ".";
}

}  // namespace

double ffn_ms(const StageTimesMs& time) {
  return time.expand + time.contract + time.router.value_or(0) + time.gather.value_or(0) +
         time.combine.value_or(0);
}

double layer_ms(const StageTimesMs& time) {
  return ffn_ms(time) + time.attention + time.norm + time.other;
}

std::optional<double> unseen_rate_bound(std::uint64_t tokens) {
  if (tokens == 0) return std::nullopt;
  return std::min(1.0, 3.0 / static_cast<double>(tokens));
}

std::vector<std::string> profile_readings(const ProfileReport& report) {
  std::vector<std::string> readings;
  if (!report.finite)
    readings.emplace_back(
        "The output held NaN or infinite values: the numbers below describe a broken run.");
  if (report.layers.empty()) {
    readings.emplace_back("The profile holds no layers.");
    return readings;
  }
  readings.push_back(time_sentence(report));
  readings.push_back(limit_sentence(report));
  if (report.tokens == 0) {
    readings.emplace_back("No token was counted, so nothing is known about the neurons.");
    return readings;
  }
  readings.push_back(zero_sentence(report));
  readings.push_back(dead_sentence(report));
  return readings;
}

}  // namespace fourfold
