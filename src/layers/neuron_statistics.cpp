#include "layers/neuron_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr std::size_t kMagnitudes = 1 << 15;  // upper 16 bits of a float without its sign
constexpr std::uint64_t kNoRow = UINT64_MAX;

}  // namespace

// What one thread counts over its rows; whole numbers, so the order of adding cannot matter.
struct alignas(64) NeuronStatistics::RowSums {
  std::uint64_t zeros = 0, below = 0, energy_neurons = 0, energy_tokens = 0;
  std::vector<std::uint64_t> magnitudes;
  std::vector<double> energies;  // scratch of one row
};

NeuronStatistics::NeuronStatistics(std::vector<double> down_energy, Detail detail)
    : detail_(detail),
      down_energy_(std::move(down_energy)),
      energy_(down_energy_.size()),
      fires_(down_energy_.size()),
      largest_(down_energy_.size()),
      magnitudes_(detail == Detail::full ? kMagnitudes : 0),
      strongest_(detail == Detail::full ? down_energy_.size() * kStrongest : 0,
                 NeuronSample{kNoRow, 0}) {}

void NeuronStatistics::observe(const FfnSample& sample, Workspace& workspace) {
  const ConstMatrix pre = sample.pre, hidden = sample.hidden;
  const std::size_t first_row = sample.first_row;
  FOURFOLD_CHECK(pre.cols == d_ff() && hidden.cols == d_ff(), shape_mismatch,
                 "[neuron_statistics] hidden has " + std::to_string(hidden.cols) +
                     " columns, expected " + std::to_string(d_ff()));
  rows_.clear();
  for (std::size_t row = 0; row < hidden.rows; ++row)
    if (counted_.empty() || (first_row + row < counted_.size() && counted_[first_row + row] != 0))
      rows_.push_back(row);

  ThreadPool& pool = workspace.runtime().pool();
  std::vector<RowSums> sums(pool.threads());
  for (RowSums& one : sums) {  // all memory is taken before the threads start
    if (detail_ == Detail::full) one.magnitudes.resize(kMagnitudes);
    if (detail_ == Detail::full) one.energies.resize(d_ff());
  }
  pool.parallel([&](unsigned thread, unsigned threads) {
    observe_columns(pre, hidden, d_ff() * thread / threads, d_ff() * (thread + 1) / threads);
    const std::size_t last = rows_.size() * (thread + 1) / threads;
    for (std::size_t i = rows_.size() * thread / threads; i < last; ++i)
      observe_row(hidden.row(rows_[i]), sums[thread]);
  });
  for (const RowSums& one : sums) {
    zeros_ += one.zeros;
    below_ += one.below;
    energy_neurons_ += one.energy_neurons;
    energy_tokens_ += one.energy_tokens;
    for (std::size_t i = 0; i < one.magnitudes.size(); ++i) magnitudes_[i] += one.magnitudes[i];
  }
  tokens_ += rows_.size();
}

// Neurons [first, last) over the counted rows: each neuron belongs to one thread and sees the
// tokens in order.
void NeuronStatistics::observe_columns(ConstMatrix pre, ConstMatrix hidden, std::size_t first,
                                       std::size_t last) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const float* p = pre.row(rows_[i]).data();
    for (std::size_t n = first; n < last; ++n) fires_[n] += p[n] > 0 ? 1 : 0;
    if (detail_ == Detail::counts) continue;
    const float* h = hidden.row(rows_[i]).data();
    for (std::size_t n = first; n < last; ++n) {
      const double value = h[n];
      energy_[n] += value * value * down_energy_[n];
      const float size = std::fabs(h[n]);
      if (std::isnan(size)) continue;  // has no rank
      if (size > largest_[n]) largest_[n] = size;
      NeuronSample* best = &strongest_[n * kStrongest];
      NeuronSample* last_best = best + kStrongest - 1;
      // Only a strictly larger value moves an earlier token down.
      if (last_best->row != kNoRow && !(size > std::fabs(last_best->value))) continue;
      NeuronSample* at = last_best;
      for (; at > best && (at[-1].row == kNoRow || size > std::fabs(at[-1].value)); --at)
        *at = at[-1];
      *at = {tokens_ + i, h[n]};
    }
  }
}

void NeuronStatistics::observe_row(std::span<const float> hidden, RowSums& sums) const {
  std::uint64_t zeros = 0;
  for (const float h : hidden) zeros += h == 0 ? 1 : 0;
  sums.zeros += zeros;
  if (detail_ == Detail::counts) return;

  float top = 0;
  for (const float h : hidden) {
    const float size = std::fabs(h);
    if (size > top) top = size;
    ++sums.magnitudes[std::bit_cast<std::uint32_t>(size) >> 16];
  }
  const double limit = 0.001 * static_cast<double>(top);
  for (const float h : hidden) sums.below += std::fabs(static_cast<double>(h)) <= limit ? 1 : 0;

  double total = 0;
  std::vector<double>& energies = sums.energies;
  for (std::size_t n = 0; n < hidden.size(); ++n) {
    const double value = hidden[n];
    energies[n] = value * value * down_energy_[n];
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
  for (std::size_t bin = 0; bin < magnitudes_.size(); ++bin) {
    seen += magnitudes_[bin];
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

std::vector<double> column_energy(ConstMatrix down) {
  std::vector<double> energy(down.cols);
  for (std::size_t row = 0; row < down.rows; ++row)
    for (std::size_t column = 0; column < down.cols; ++column) {
      const double value = down.row(row)[column];
      energy[column] += value * value;
    }
  return energy;
}

}  // namespace fourfold
