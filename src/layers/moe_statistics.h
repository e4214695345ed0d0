// What a mixture's router and neurons do on a text: load, entropy, and the neuron statistics of the
// experts and of the shared one, each apart. Which call a text is split into changes no number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fourfold/router.h"
#include "layers/neuron_statistics.h"

namespace fourfold {

class MoeStatistics : public FfnObserver {
 public:
  // options: n_experts and the experts' activation. down_energy: [n_experts * d_ff].
  MoeStatistics(std::vector<double> down_energy, NeuronStatistics::Detail detail,
                const NeuronOptions& options);
  // Call before the first pass of a layer that has a shared expert; without it, its samples are
  // left out. down_energy: [d_ff of the shared expert].
  void watch_shared(std::vector<double> down_energy, Activation activation);

  // Which tokens of the coming pass count: counted[token] != 0. Without a call every token counts.
  void select_rows(std::vector<char> counted) { selected_ = std::move(counted); }
  void observe_routing(const RoutingResult& routing, Workspace& workspace) override;
  // Throws Error{shape_mismatch}.
  void observe(const FfnSample& sample, Workspace& workspace) override;

  std::uint64_t tokens() const { return load_.tokens; }  // counted tokens
  const RouterLoad& load() const { return load_; }
  // Samples are pairs; those beyond an expert's capacity never reach it.
  const NeuronStatistics& experts() const { return experts_; }
  const std::optional<NeuronStatistics>& shared() const { return shared_; }

 private:
  NeuronStatistics experts_;
  NeuronStatistics::Detail detail_;
  NeuronOptions options_;
  std::optional<NeuronStatistics> shared_;
  RouterLoad load_;
  std::vector<char> selected_, counted_;  // counted_: of the pass at hand, [tokens]
  std::vector<std::uint64_t> token_ids_;  // [tokens], which counted token each one is
  std::vector<std::size_t> rows_;         // counted rows of the sample at hand
  std::vector<std::uint64_t> row_ids_;    // and their tokens
};

}  // namespace fourfold
