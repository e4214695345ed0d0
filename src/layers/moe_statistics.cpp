#include "layers/moe_statistics.h"

#include <string>
#include <utility>

#include "base/check.h"

namespace fourfold {

MoeStatistics::MoeStatistics(std::vector<double> down_energy, NeuronStatistics::Detail detail,
                             const NeuronOptions& options)
    : experts_(std::move(down_energy), detail, options), detail_(detail), options_(options) {
  load_.load.resize(options.n_experts);
}

void MoeStatistics::watch_shared(std::vector<double> down_energy, Activation activation) {
  NeuronOptions options = options_;
  options.n_experts = 1;
  options.activation = activation;
  shared_.emplace(std::move(down_energy), detail_, options);
}

void MoeStatistics::observe_routing(const RoutingResult& routing, Workspace&) {
  counted_.assign(routing.tokens, char{1});
  token_ids_.resize(routing.tokens);
  std::uint64_t id = load_.tokens;
  for (std::size_t token = 0; token < routing.tokens; ++token) {
    if (!selected_.empty())
      counted_[token] = token < selected_.size() && selected_[token] != 0 ? 1 : 0;
    token_ids_[token] = id;
    id += counted_[token] != 0 ? 1 : 0;
  }
  load_.add(routing, counted_);
}

void MoeStatistics::observe(const FfnSample& sample, Workspace& workspace) {
  const bool shared = sample.expert == FfnSample::kSharedExpert;
  if (shared && !shared_) return;
  rows_.clear();
  row_ids_.clear();
  for (std::size_t row = 0; row < sample.hidden.rows; ++row) {
    const std::size_t token =
        sample.token_rows.empty() ? sample.first_row + row : sample.token_rows[row];
    FOURFOLD_CHECK(token < counted_.size(), shape_mismatch,
                   "[moe_statistics] a row of token " + std::to_string(token) +
                       ", but the routing before it had " + std::to_string(counted_.size()) +
                       " tokens");
    if (counted_[token] == 0) continue;
    rows_.push_back(row);
    row_ids_.push_back(token_ids_[token]);
  }
  if (shared)
    shared_->add(sample, 0, rows_, row_ids_, workspace);
  else
    experts_.add(sample, sample.expert, rows_, row_ids_, workspace);
}

}  // namespace fourfold
