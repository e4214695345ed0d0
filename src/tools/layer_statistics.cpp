#include "tools/layer_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fourfold {
namespace {

constexpr std::size_t kTopNeurons = 10, kContextTokens = 5;

// 0 stays 0; otherwise the upper end of (rate - 1/20, rate] in twentieths, in whole numbers.
std::size_t rate_bin(std::uint64_t fires, std::uint64_t tokens) {
  return (fires * 20 + tokens - 1) / tokens;
}

// Tokens as text: pieces that continue a word ("##" in BERT) join what stands before them.
std::string context_of(const TextWindows& text, std::size_t position,
                       const WordPieceTokenizer& tokenizer) {
  const std::size_t first = position > kContextTokens ? position - kContextTokens : 0;
  const std::size_t last = std::min(text.ids.size(), position + kContextTokens + 1);
  std::string words;
  for (std::size_t i = first; i < last; ++i) {
    std::string_view piece = tokenizer.piece(text.ids[i]);
    const std::string_view prefix = tokenizer.continuing_prefix();
    const bool joined = !prefix.empty() && piece.starts_with(prefix);
    if (joined) piece.remove_prefix(prefix.size());
    if (!words.empty() && !joined) words += ' ';
    words += piece;
  }
  return words;
}

bool stays_silent(const NeuronStatistics& neurons, std::size_t index, bool by_firing,
                  double threshold) {
  // The neurons of an expert that no token chose are not dead.
  if (neurons.tokens_seen(index / neurons.d_ff()) == 0) return false;
  return by_firing ? neurons.fires()[index] == 0
                   : static_cast<double>(neurons.largest()[index]) <= threshold;
}

std::optional<DeadNeurons> find_dead(const NeuronStatistics& neurons, Activation activation,
                                     std::optional<double> threshold) {
  const bool by_firing = gives_exact_zeros(activation);
  if (neurons.tokens() == 0 || (!by_firing && !threshold)) return std::nullopt;
  DeadNeurons dead;
  dead.tokens_seen = neurons.tokens();
  for (std::size_t i = 0; i < neurons.neurons(); ++i)
    if (stays_silent(neurons, i, by_firing, threshold.value_or(0))) dead.indices.push_back(i);
  dead.count = dead.indices.size();
  return dead;
}

TopNeuron top_neuron(const NeuronStatistics& neurons, std::size_t index, std::uint64_t tokens,
                     const TextWindows& text, const WordPieceTokenizer& tokenizer) {
  TopNeuron top;
  top.neuron = index;
  top.mean_energy = neurons.energy()[index] / static_cast<double>(tokens);
  for (const NeuronSample& sample : neurons.strongest(index)) {
    StrongToken token;
    token.value = sample.value;
    const std::int64_t position = text.counted_positions[sample.row];
    std::int32_t id = 0;
    if (position >= 0) {
      const auto at = static_cast<std::size_t>(position);
      id = text.ids[at];
      token.position = at;
      token.context = context_of(text, at, tokenizer);
    } else {
      const auto added = tokenizer.with_added_tokens({});
      id = position == TextWindows::kAddedFront ? added.front() : added.back();
      token.context = tokenizer.piece(id);
    }
    token.token = static_cast<std::uint64_t>(id);
    token.text = tokenizer.piece(id);
    top.tokens.push_back(std::move(token));
  }
  return top;
}

// counted: tokens, which in a mixture are fewer than the samples.
LayerStatistics summarize(const NeuronStatistics& neurons, std::uint64_t counted,
                          Activation activation, std::optional<double> dead_threshold,
                          const TextWindows& text, const WordPieceTokenizer& tokenizer) {
  LayerStatistics result;
  const std::uint64_t tokens = neurons.tokens(), d_ff = neurons.d_ff();
  if (tokens == 0) return result;
  const double values = static_cast<double>(tokens) * static_cast<double>(d_ff);
  result.exact_zero = static_cast<double>(neurons.zeros()) / values;
  if (neurons.is_gated())
    result.gate_exact_zero = static_cast<double>(neurons.gate_zeros()) / values;
  result.below_thousandth_of_max = static_cast<double>(neurons.below_share()) / values;
  if (neurons.energy_tokens() > 0)
    result.energy_99 = static_cast<double>(neurons.energy_neurons()) /
                       (static_cast<double>(neurons.energy_tokens()) * static_cast<double>(d_ff));
  result.dead = find_dead(neurons, activation, dead_threshold);
  std::uint64_t fires = 0;
  for (std::size_t i = 0; i < neurons.neurons(); ++i) {
    const std::uint64_t seen = neurons.tokens_seen(i / d_ff), count = neurons.fires()[i];
    if (seen > 0) ++result.firing_rate_histogram[rate_bin(count, seen)];
    fires += count;
  }
  result.mean_firing_rate = static_cast<double>(fires) / values;
  result.max_abs = neurons.max_abs();
  result.median_abs = neurons.median_abs();

  // NaN has no order; such neurons come last.
  const auto rank = [&](std::size_t i) {
    return std::isnan(neurons.energy()[i]) ? -1.0 : neurons.energy()[i];
  };
  std::vector<std::size_t> order(neurons.neurons());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t shown = std::min(kTopNeurons, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      const double x = rank(a), y = rank(b);
                      return x != y ? x > y : a < b;
                    });
  for (std::size_t i = 0; i < shown; ++i)
    result.top_neurons.push_back(top_neuron(neurons, order[i], counted, text, tokenizer));
  return result;
}

}  // namespace

LayerStatistics layer_statistics(const NeuronStatistics& neurons, Activation activation,
                                 std::optional<double> dead_threshold, const TextWindows& text,
                                 const WordPieceTokenizer& tokenizer) {
  return summarize(neurons, neurons.tokens(), activation, dead_threshold, text, tokenizer);
}

LayerStatistics layer_statistics(const MoeStatistics& moe, Activation activation,
                                 std::optional<double> dead_threshold, const TextWindows& text,
                                 const WordPieceTokenizer& tokenizer) {
  LayerStatistics result =
      summarize(moe.experts(), moe.tokens(), activation, dead_threshold, text, tokenizer);
  ExpertUse& use = result.experts.emplace();
  use.load = moe.load().load;
  use.entropy = moe.load().entropy();
  for (const std::size_t expert : moe.load().never_used()) use.never_used.push_back(expert);
  for (std::size_t e = 0; e < use.load.size(); ++e)
    use.tokens_seen.push_back(moe.experts().tokens_seen(e));
  return result;
}

}  // namespace fourfold
