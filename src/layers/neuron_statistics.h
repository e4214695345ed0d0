// What the neurons of one FFN do on a text: firing, zeros, energy, outliers, strongest tokens.
// docs/numbers.md defines each number. In a mixture every (token, expert) pair is one sample, and
// neuron i of expert e has the number e * d_ff + i. Counts do not depend on the number of threads,
// nor on how a text is split into passes.
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

struct NeuronOptions {
  std::size_t n_experts = 1;
  Activation activation = Activation::identity;  // of a gated layer: what its gate goes through
  double small = 1e-6;                           // |h| <= small counts as small
  double share_of_max = 1e-3;  // |h| <= share * the sample's largest |h| counts as below
};

class NeuronStatistics : public FfnObserver {
 public:
  static constexpr std::size_t kStrongest = 5;

  enum class Detail { counts, full };  // counts: firings and exact zeros only

  // down_energy: [n_experts * d_ff], ||down[:, i]||^2. counts ignores it.
  NeuronStatistics(std::vector<double> down_energy, Detail detail,
                   const NeuronOptions& options = {});

  // Which rows of the coming pass count: counted[row] != 0. Without a call every row counts.
  void select_rows(std::vector<char> counted) { counted_ = std::move(counted); }
  // For dense and gated layers. Throws Error{shape_mismatch}.
  void observe(const FfnSample& sample, Workspace& workspace) override;
  // The chosen rows of a sample of one expert; tokens: which counted token each of them is. Within
  // an expert tokens come in ascending order. Throws Error{shape_mismatch}.
  void add(const FfnSample& sample, std::size_t expert, std::span<const std::size_t> rows,
           std::span<const std::uint64_t> tokens, Workspace& workspace);

  std::size_t d_ff() const { return d_ff_; }  // of one expert
  std::size_t neurons() const { return fires_.size(); }
  std::uint64_t tokens() const { return tokens_; }  // samples: counted tokens, or pairs
  std::uint64_t tokens_seen(std::size_t expert) const { return tokens_seen_[expert]; }
  std::uint64_t zeros() const { return zeros_; }
  bool is_gated() const { return is_gated_; }               // whether the samples held a gate
  std::uint64_t gate_zeros() const { return gate_zeros_; }  // of act(gate); 0 in a dense layer
  std::uint64_t small() const { return small_; }
  std::uint64_t below_share() const { return below_; }
  const std::vector<std::uint64_t>& fires() const { return fires_; }
  // Sum over tokens of the fewest neurons that hold 99 % of the energy, and how many tokens have
  // energy.
  std::uint64_t energy_neurons() const { return energy_neurons_; }
  std::uint64_t energy_tokens() const { return energy_tokens_; }
  const std::vector<double>& energy() const { return energy_; }   // per neuron, summed over samples
  const std::vector<float>& largest() const { return largest_; }  // per neuron, max |h|
  float max_abs() const;
  float median_abs() const;  // lower median, cut to the upper 16 bits of the float
  std::vector<NeuronSample> strongest(
      std::size_t neuron) const;  // by falling |h|, ties to the earlier

 private:
  // What one thread counts over its rows; whole numbers, so the order of adding cannot matter.
  struct alignas(64) RowSums {
    std::uint64_t zeros = 0, gate_zeros = 0, small = 0, below = 0;
    std::uint64_t energy_neurons = 0, energy_tokens = 0;
    std::vector<std::uint64_t> magnitudes;  // by the upper 16 bits of |h|, over all calls
    std::vector<double> energies;           // scratch of one row
    std::vector<float> ones, activated;     // the same
  };
  struct Rows {
    const FfnSample& sample;
    std::size_t expert;
    std::span<const std::size_t> rows;
    std::span<const std::uint64_t> tokens;
  };
  void observe_columns(const Rows& shown, std::size_t first, std::size_t last);
  void observe_row(const Rows& shown, std::size_t row, RowSums& sums) const;
  void prepare(RowSums& sums, bool gated) const;

  Detail detail_;
  bool is_gated_ = false;
  NeuronOptions options_;
  std::size_t d_ff_;
  std::vector<char> counted_;
  std::vector<std::size_t> rows_;       // counted rows of the piece at hand
  std::vector<std::uint64_t> row_ids_;  // and their tokens
  std::vector<RowSums> sums_;           // one per thread
  std::uint64_t tokens_ = 0, zeros_ = 0, gate_zeros_ = 0, small_ = 0, below_ = 0;
  std::uint64_t energy_neurons_ = 0, energy_tokens_ = 0;
  std::vector<std::uint64_t> tokens_seen_;  // [n_experts]
  std::vector<double> down_energy_, energy_;
  std::vector<std::uint64_t> fires_;
  std::vector<float> largest_;
  std::vector<NeuronSample> strongest_;  // [neurons, kStrongest], sorted
};

// ||down[:, i]||^2 per column i of down: [d_model, d_ff], in float64.
std::vector<double> column_energy(ConstMatrix down);
std::vector<double> column_energy(ConstBf16Matrix down);

}  // namespace fourfold
