#include "layers/neuron_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr std::size_t kMagnitudes = 1 << 15;  // upper 16 bits of a float without its sign
constexpr std::uint64_t kNoRow = UINT64_MAX;

double widened(float value) { return value; }
double widened(Bf16 value) { return to_float(value); }

template <class M>
std::vector<double> squares_by_column(M matrix) {
  std::vector<double> sums(matrix.cols);
  for (std::size_t row = 0; row < matrix.rows; ++row)
    for (std::size_t column = 0; column < matrix.cols; ++column) {
      const double value = widened(matrix.row(row)[column]);
      sums[column] += value * value;
    }
  return sums;
}

}  // namespace

NeuronStatistics::NeuronStatistics(std::vector<double> down_energy, Detail detail,
                                   const NeuronOptions& options)
    : detail_(detail),
      options_(options),
      d_ff_(options.n_experts == 0 ? 0 : down_energy.size() / options.n_experts),
      tokens_seen_(options.n_experts),
      down_energy_(std::move(down_energy)),
      energy_(down_energy_.size()),
      fires_(down_energy_.size()),
      largest_(down_energy_.size()),
      strongest_(detail == Detail::full ? down_energy_.size() * kStrongest : 0,
                 NeuronSample{kNoRow, 0}) {
  FOURFOLD_CHECK(d_ff_ * options.n_experts == down_energy_.size(), shape_mismatch,
                 "[neuron_statistics] down_energy has " + std::to_string(down_energy_.size()) +
                     " elements, expected d_ff for each of " + std::to_string(options.n_experts) +
                     " experts");
}

void NeuronStatistics::observe(const FfnSample& sample, Workspace& workspace) {
  rows_.clear();
  row_ids_.clear();
  for (std::size_t row = 0; row < sample.hidden.rows; ++row) {
    const std::size_t at = sample.first_row + row;
    if (!counted_.empty() && (at >= counted_.size() || counted_[at] == 0)) continue;
    row_ids_.push_back(tokens_ + rows_.size());
    rows_.push_back(row);
  }
  add(sample, 0, rows_, row_ids_, workspace);
}

// All memory of a thread is taken before the threads start.
void NeuronStatistics::prepare(RowSums& sums, bool gated) const {
  sums.zeros = sums.gate_zeros = sums.small = sums.below = 0;
  sums.energy_neurons = sums.energy_tokens = 0;
  if (gated) {
    // swiglu_oai, which exists only with a gate, multiplies with up + 1.
    sums.ones.assign(d_ff_, is_gated_only(options_.activation) ? 0.0F : 1.0F);
    sums.activated.resize(d_ff_);
  }
  if (detail_ == Detail::full) {
    sums.magnitudes.resize(kMagnitudes);
    sums.energies.resize(d_ff_);
  }
}

void NeuronStatistics::add(const FfnSample& sample, std::size_t expert,
                           std::span<const std::size_t> rows, std::span<const std::uint64_t> tokens,
                           Workspace& workspace) {
  const bool gated = sample.up.data != nullptr;
  FOURFOLD_CHECK(sample.pre.cols == d_ff_ && sample.hidden.cols == d_ff_, shape_mismatch,
                 "[neuron_statistics] hidden has " + std::to_string(sample.hidden.cols) +
                     " columns, expected " + std::to_string(d_ff_));
  FOURFOLD_CHECK(expert < tokens_seen_.size(), shape_mismatch,
                 "[neuron_statistics] a sample of expert " + std::to_string(expert) +
                     ", expected one below " + std::to_string(tokens_seen_.size()));
  ThreadPool& pool = workspace.runtime().pool();
  if (sums_.size() < pool.threads()) sums_.resize(pool.threads());
  for (RowSums& one : sums_) prepare(one, gated);
  const Rows shown{sample, expert, rows, tokens};
  pool.parallel([&](unsigned thread, unsigned threads) {
    observe_columns(shown, d_ff_ * thread / threads, d_ff_ * (thread + 1) / threads);
    const std::size_t last = rows.size() * (thread + 1) / threads;
    for (std::size_t i = rows.size() * thread / threads; i < last; ++i)
      observe_row(shown, rows[i], sums_[thread]);
  });
  for (const RowSums& one : sums_) {
    zeros_ += one.zeros;
    gate_zeros_ += one.gate_zeros;
    small_ += one.small;
    below_ += one.below;
    energy_neurons_ += one.energy_neurons;
    energy_tokens_ += one.energy_tokens;
  }
  is_gated_ = gated;
  tokens_ += rows.size();
  tokens_seen_[expert] += rows.size();
}

// Neurons [first, last) of the expert over the counted rows: each neuron belongs to one thread and
// sees the tokens in order.
void NeuronStatistics::observe_columns(const Rows& shown, std::size_t first, std::size_t last) {
  const std::size_t start = shown.expert * d_ff_;
  for (std::size_t i = 0; i < shown.rows.size(); ++i) {
    const float* p = shown.sample.pre.row(shown.rows[i]).data();
    std::uint64_t* fires = fires_.data() + start;
    for (std::size_t n = first; n < last; ++n) fires[n] += p[n] > 0 ? 1 : 0;
    if (detail_ == Detail::counts) continue;
    const float* h = shown.sample.hidden.row(shown.rows[i]).data();
    for (std::size_t n = first; n < last; ++n) {
      const double value = h[n];
      energy_[start + n] += value * value * down_energy_[start + n];
      const float size = std::fabs(h[n]);
      if (std::isnan(size)) continue;  // has no rank
      if (size > largest_[start + n]) largest_[start + n] = size;
      NeuronSample* best = &strongest_[(start + n) * kStrongest];
      NeuronSample* last_best = best + kStrongest - 1;
      // Only a strictly larger value moves an earlier token down.
      if (last_best->row != kNoRow && !(size > std::fabs(last_best->value))) continue;
      NeuronSample* at = last_best;
      for (; at > best && (at[-1].row == kNoRow || size > std::fabs(at[-1].value)); --at)
        *at = at[-1];
      *at = {shown.tokens[i], h[n]};
    }
  }
}

void NeuronStatistics::observe_row(const Rows& shown, std::size_t row, RowSums& sums) const {
  const std::span<const float> hidden = shown.sample.hidden.row(row);
  const auto count_zeros = [](std::span<const float> values) {
    std::uint64_t zeros = 0;
    for (const float value : values) zeros += value == 0 ? 1 : 0;
    return zeros;
  };
  sums.zeros += count_zeros(hidden);
  if (shown.sample.up.data != nullptr) {
    kernels().activations.glu[static_cast<std::size_t>(options_.activation)](
        shown.sample.pre.row(row).data(), sums.ones.data(), sums.activated.data(), d_ff_);
    sums.gate_zeros += count_zeros(sums.activated);
  }
  if (detail_ == Detail::counts) return;

  float top = 0;
  for (const float h : hidden) {
    const float size = std::fabs(h);
    if (size > top) top = size;
    ++sums.magnitudes[std::bit_cast<std::uint32_t>(size) >> 16];
  }
  const double limit = options_.share_of_max * static_cast<double>(top);
  for (const float h : hidden) {
    const double size = std::fabs(static_cast<double>(h));
    sums.below += size <= limit ? 1 : 0;
    sums.small += size <= options_.small ? 1 : 0;
  }

  double total = 0;
  std::vector<double>& energies = sums.energies;
  const double* down_energy = down_energy_.data() + shown.expert * d_ff_;
  for (std::size_t n = 0; n < hidden.size(); ++n) {
    const double value = hidden[n];
    energies[n] = value * value * down_energy[n];
    total += energies[n];
  }
  if (!(total > 0) || !std::isfinite(total)) return;
  std::sort(energies.begin(), energies.end(), std::greater<>());
  double reached = 0;
  std::size_t neurons = 0;
  while (neurons < energies.size() && reached < 0.99 * total) reached += energies[neurons++];
  sums.energy_neurons += neurons;
  ++sums.energy_tokens;
}

float NeuronStatistics::max_abs() const {
  return largest_.empty() ? 0 : *std::max_element(largest_.begin(), largest_.end());
}

float NeuronStatistics::median_abs() const {
  const std::uint64_t values = tokens_ * d_ff();
  if (values == 0) return 0;
  std::uint64_t seen = 0;
  for (std::size_t bin = 0; bin < kMagnitudes; ++bin) {
    for (const RowSums& one : sums_) seen += one.magnitudes.empty() ? 0 : one.magnitudes[bin];
    if (seen > (values - 1) / 2) return std::bit_cast<float>(static_cast<std::uint32_t>(bin) << 16);
  }
  return 0;
}

std::vector<NeuronSample> NeuronStatistics::strongest(std::size_t neuron) const {
  std::vector<NeuronSample> samples;
  for (std::size_t i = 0; i < kStrongest && !strongest_.empty(); ++i) {
    const NeuronSample& sample = strongest_[neuron * kStrongest + i];
    if (sample.row != kNoRow) samples.push_back(sample);
  }
  return samples;
}

std::vector<double> column_energy(ConstMatrix down) { return squares_by_column(down); }
std::vector<double> column_energy(ConstBf16Matrix down) { return squares_by_column(down); }

}  // namespace fourfold
