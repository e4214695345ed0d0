// What the neurons of one FFN do on a text: firing, zeros, energy, outliers, strongest tokens.
// docs/numbers.md defines each number. Counts do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fourfold/ffn.h"

namespace fourfold {

struct NeuronSample {
  std::uint64_t row;  // which counted token, in order of counting
  float value;        // hidden value
};

class NeuronStatistics : public FfnObserver {
 public:
  static constexpr std::size_t kStrongest = 5;

  enum class Detail { counts, full };  // counts: firings and exact zeros only

  // down_energy: [d_ff], ||down[:, i]||^2. counts ignores it.
  NeuronStatistics(std::vector<double> down_energy, Detail detail);

  // Which rows of the coming pass count: counted[row] != 0. Without a call every row counts.
  void select_rows(std::vector<char> counted) { counted_ = std::move(counted); }
  void observe(const FfnSample& sample, Workspace& workspace) override;

  std::size_t d_ff() const { return fires_.size(); }
  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t zeros() const { return zeros_; }
  std::uint64_t below_thousandth() const { return below_; }
  const std::vector<std::uint64_t>& fires() const { return fires_; }
  // Sum over tokens of the fewest neurons that hold 99 % of the energy, and how many tokens have
  // energy.
  std::uint64_t energy_neurons() const { return energy_neurons_; }
  std::uint64_t energy_tokens() const { return energy_tokens_; }
  const std::vector<double>& energy() const { return energy_; }   // per neuron, summed over tokens
  const std::vector<float>& largest() const { return largest_; }  // per neuron, max |h|
  float max_abs() const;
  float median_abs() const;  // lower median, cut to the upper 16 bits of the float
  std::vector<NeuronSample> strongest(
      std::size_t neuron) const;  // by falling |h|, ties to the earlier

 private:
  struct RowSums;
  void observe_columns(ConstMatrix pre, ConstMatrix hidden, std::size_t first, std::size_t last);
  void observe_row(std::span<const float> hidden, RowSums& sums) const;

  Detail detail_;
  std::vector<char> counted_;
  std::vector<std::size_t> rows_;  // counted rows of the piece at hand
  std::uint64_t tokens_ = 0, zeros_ = 0, below_ = 0, energy_neurons_ = 0, energy_tokens_ = 0;
  std::vector<double> down_energy_, energy_;
  std::vector<std::uint64_t> fires_;
  std::vector<float> largest_;
  std::vector<std::uint64_t> magnitudes_;  // counts by the upper 16 bits of |h|
  std::vector<NeuronSample> strongest_;    // [d_ff, kStrongest], sorted
};

// ||down[:, i]||^2 per column i of down: [d_model, d_ff], in float64.
std::vector<double> column_energy(ConstMatrix down);

}  // namespace fourfold
