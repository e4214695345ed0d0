// One parallel region for all experts: gather the rows of each, barrier, first halves, barrier,
// second halves added to y. A thread keeps its columns of y through all experts.
#include "layers/moe_forward.h"

#include <algorithm>

#include "layers/ffn_pass.h"
#include "ops/expert_router.h"
#include "ops/product_tiles.h"
#include "ops/token_rows.h"
#include "platform/stage_clock.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

// (token, choice) pairs of one region: enough for full tiles, few enough for the scratch.
constexpr std::size_t kPairsPerPiece = 2 * kTokensPerPiece;

Matrix rows_of(Matrix matrix, std::size_t first, std::size_t rows) {
  return matrix.data == nullptr ? matrix : matrix.rows_from(first, rows);
}

template <class T>
std::span<T> part_of(std::span<T> all, std::size_t first, std::size_t count) {
  return all.empty() ? all : all.subspan(first, count);
}

// Rows of one FfnCore, and where its results go.
struct Rows {
  ExpandRows expand;
  ContractRows contract;

  Rows part(std::size_t first, std::size_t count) const {
    Rows result = *this;
    result.expand.x = expand.x.rows_from(first, count);
    result.expand.gate = rows_of(expand.gate, first, count);
    result.expand.up = rows_of(expand.up, first, count);
    result.expand.shown = rows_of(expand.shown, first, count);
    result.expand.weights = part_of(expand.weights, first, count);
    result.expand.hidden = expand.hidden.rows_from(first, count);
    result.expand.non_zero = expand.non_zero.rows_from(first, count);
    result.contract.hidden = result.expand.hidden.operand();
    result.contract.non_zero = result.expand.non_zero;
    result.contract.weights = result.expand.weights;
    result.contract.tokens = part_of(contract.tokens, first, count);
    return result;
  }
};

// The sorted pairs begin .. end of the plan; those of one expert lie together.
struct ExpertPairs {
  const MoeCore& core;
  const MoeSaved& plan;
  ConstMatrix x;
  std::size_t begin, end;
  std::span<std::uint32_t> tokens;
  std::span<float> weights;
  RowBuffer input;
  float* scaled;  // [threads, d_model]
  Rows rows;

  ExpertPairs(const MoeCore& of, const MoeSaved& from, ConstMatrix all, Matrix y, MoeSaved* save,
              std::size_t first, std::size_t last, Workspace& workspace)
      : core(of), plan(from), x(all), begin(first), end(last) {
    const FfnCore& expert = core.experts.front();
    const std::size_t n = end - begin;
    static_assert(sizeof(std::uint32_t) == sizeof(float));
    tokens = {reinterpret_cast<std::uint32_t*>(workspace.take(n)), n};
    weights = {workspace.take(n), n};
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t pair = plan.pairs[begin + i];
      tokens[i] = pair / static_cast<std::uint32_t>(core.top_k());
      weights[i] = plan.routing.weights[pair];
    }
    input = RowBuffer(n, x.cols, expert.dtype(), workspace);
    scaled = workspace.take(workspace.runtime().threads() * x.cols);
    rows.expand.x = input.operand();
    if (save != nullptr) {
      rows.expand.up =
          Matrix(save->up.values.data(), save->up.rows, save->up.cols).rows_from(begin, n);
      if (expert.gated())
        rows.expand.gate =
            Matrix(save->gate.values.data(), save->gate.rows, save->gate.cols).rows_from(begin, n);
    }
    if (!core.routing.weight_input) rows.expand.weights = weights;
    rows.expand.hidden = RowBuffer(n, expert.d_ff(), expert.dtype(), workspace);
    if (finds_zeros(expert) && n <= NonZeroBits::kMostInPass)
      rows.expand.non_zero = NonZeroBits(n, expert.d_ff(), workspace);
    rows.contract.tokens = tokens;
    rows.contract.add = true;
    rows.contract.y = y;
  }

  void gather(const Region& region) const {
    const Share share = region.share(end - begin);
    float* row = scaled + region.thread * x.cols;
    for (std::size_t i = share.first; i < share.last; ++i) {
      const auto from = x.row(tokens[i]);
      if (core.routing.weight_input)
        for (std::size_t c = 0; c < from.size(); ++c) row[c] = from[c] * weights[i];
      input.store(i, 0, {core.routing.weight_input ? row : from.data(), 1, x.cols});
    }
  }
  // Calls visit(expert, its rows) for each expert that has some, ascending.
  template <class Visit>
  void for_each_expert(Visit visit) const {
    for (std::size_t e = 0; e < core.n_experts(); ++e) {
      const std::size_t first = std::max(plan.offsets[e], begin);
      const std::size_t last = std::min(plan.offsets[e + 1], end);
      if (first < last) visit(e, rows.part(first - begin, last - first));
    }
  }
};

// Tokens first .. first + n for the shared expert.
struct SharedRows {
  const MoeCore& core;
  ConstMatrix x;
  InputRows input;
  std::span<float> weights, logits;  // empty without a gate; logits also when nobody keeps them
  Rows rows;

  SharedRows(const MoeCore& of, ConstMatrix all, Matrix y, MoeSaved* save, std::size_t first,
             std::size_t n, Workspace& workspace)
      : core(of), x(all.rows_from(first, n)), input(x, of.shared->dtype(), workspace) {
    const FfnCore& shared = *core.shared;
    rows.expand.x = input.operand();
    if (save != nullptr) {
      rows.expand.up =
          Matrix(save->shared_up.values.data(), all.rows, shared.d_ff()).rows_from(first, n);
      if (shared.gated())
        rows.expand.gate =
            Matrix(save->shared_gate.values.data(), all.rows, shared.d_ff()).rows_from(first, n);
    }
    if (!core.shared_gate.empty()) {
      weights = {workspace.take(n), n};
      if (save != nullptr) logits = std::span(save->shared_logits).subspan(first, n);
    }
    rows.expand.weights = weights;
    rows.expand.hidden = RowBuffer(n, shared.d_ff(), shared.dtype(), workspace);
    if (finds_zeros(shared) && n <= NonZeroBits::kMostRows)
      rows.expand.non_zero = NonZeroBits(n, shared.d_ff(), workspace);
    rows.contract.hidden = rows.expand.hidden.operand();
    rows.contract.non_zero = rows.expand.non_zero;
    rows.contract.weights = weights;
    rows.contract.add = true;
    rows.contract.y = y.rows_from(first, n);
  }
  void gather(const Region& region) const {
    input.stage(region);
    const Share share = region.share(weights.size());
    for (std::size_t t = share.first; t < share.last; ++t) {
      const float logit = dot(x.row(t), core.shared_gate);
      weights[t] = exact_sigmoid(logit);
      if (!logits.empty()) logits[t] = logit;
    }
  }
};

// What one region computes: some pairs of the experts, some tokens of the shared expert.
struct Piece {
  std::size_t begin, end;            // pairs
  std::size_t shared_first, shared;  // tokens
  bool clear;                        // y starts from 0
};

class PieceForward {
 public:
  PieceForward(const MoeCore& core, ConstMatrix x, const MoeSaved& plan, Matrix y, MoeSaved* save,
               const Piece& piece, Workspace& workspace)
      : core_(core),
        y_(y),
        piece_(piece),
        workspace_(workspace),
        pairs_(core, plan, x, y, save, piece.begin, piece.end, workspace),
        scratch_(core.experts.front(), core.shared ? &*core.shared : nullptr, TileTasks::kMostRows,
                 workspace) {
    if (piece.shared > 0)
      shared_.emplace(core, x, y, save, piece.shared_first, piece.shared, workspace);
  }

  void run(FfnObserver* observer) {
    ThreadPool& pool = workspace_.runtime().pool();
    if (observer != nullptr) {
      take_shown(core_.experts.front(), piece_.end - piece_.begin, pairs_.rows.expand, workspace_);
      if (shared_) take_shown(*core_.shared, piece_.shared, shared_->rows.expand, workspace_);
      pool.region([&](const Region& region) { first_half(region); });
      show(observer);
      pool.region([&](const Region& region) { second_half(region); });
      return;
    }
    pool.region([&](const Region& region) {
      first_half(region);
      region.barrier();
      second_half(region);
    });
  }

 private:
  void first_half(const Region& region) const {
    StageLaps laps(workspace_, region.thread);
    const Share share = region.share(piece_.clear ? y_.rows : 0);
    fill_zero(y_.rows_from(share.first, share.last - share.first));
    pairs_.gather(region);
    if (shared_) shared_->gather(region);
    region.barrier();
    laps.lap(Stage::gather);
    pairs_.for_each_expert([&](std::size_t e, const Rows& rows) {
      expand_rows(region, core_.experts[e], rows.expand, scratch_);
    });
    if (shared_) expand_rows(region, *core_.shared, shared_->rows.expand, scratch_);
    laps.lap(Stage::expand);
  }
  void second_half(const Region& region) const {
    StageLaps laps(workspace_, region.thread);
    pairs_.for_each_expert([&](std::size_t e, const Rows& rows) {
      contract_rows(region, core_.experts[e], rows.contract, scratch_);
    });
    if (shared_) contract_rows(region, *core_.shared, shared_->rows.contract, scratch_);
    laps.lap(Stage::contract);
  }
  void show(FfnObserver* observer) const {
    pairs_.for_each_expert([&](std::size_t e, const Rows& rows) {
      show_rows({observer, e, rows.contract.tokens}, core_.experts[e], rows.expand, 0, workspace_);
    });
    if (shared_)
      show_rows({observer, FfnSample::kSharedExpert}, *core_.shared, shared_->rows.expand,
                piece_.shared_first, workspace_);
  }

  const MoeCore& core_;
  Matrix y_;
  Piece piece_;
  Workspace& workspace_;
  ExpertPairs pairs_;
  std::optional<SharedRows> shared_;
  PassScratch scratch_;
};

}  // namespace

void experts_forward(const MoeCore& core, ConstMatrix x, const MoeSaved& plan, Matrix y,
                     MoeSaved* save, Workspace& workspace, FfnObserver* observer) {
  const auto run = [&](const Piece& piece) {
    const ScratchScope scope(workspace);
    PieceForward(core, x, plan, y, save, piece, workspace).run(observer);
  };
  const std::size_t pairs = plan.pairs.size();
  const std::size_t shared = core.shared ? x.rows : 0;
  const bool together = shared <= kTokensPerPiece;
  std::size_t begin = 0;
  do {
    const std::size_t end = std::min(pairs, begin + kPairsPerPiece);
    run({begin, end, 0, together && end == pairs ? shared : 0, begin == 0});
    begin = end;
  } while (begin < pairs);
  for (std::size_t first = 0; !together && first < shared; first += kTokensPerPiece)
    run({pairs, pairs, first, std::min(kTokensPerPiece, shared - first), false});
}

}  // namespace fourfold
