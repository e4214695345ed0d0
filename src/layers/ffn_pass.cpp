#include "layers/ffn_pass.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "ops/gemm_grad.h"
#include "ops/product_tiles.h"
#include "ops/token_rows.h"
#include "platform/stage_clock.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr auto kIdentity = static_cast<std::size_t>(Activation::identity);

Matrix piece(Matrix whole, std::size_t first, std::size_t rows) {
  return whole.data == nullptr ? whole : whole.rows_from(first, rows);
}

// One finished tile of products with down, on its way to y.
void finish_tile(const FfnCore& core, const ContractRows& to, float* sums, std::size_t first,
                 std::size_t rows, std::size_t p) {
  const KernelTable& table = kernels();
  const std::size_t column = p * kPanel, columns = std::min(kPanel, to.y.cols - column);
  const float* bias = core.down_bias.empty() ? nullptr : core.down_bias.data() + column;
  const bool weighted = bias != nullptr && !to.weights.empty();
  const auto epilogue = table.activations.epilogue[kIdentity];
  if (!to.add && !weighted) {
    epilogue(sums, bias, to.y.row(first).data() + column, to.y.stride, rows, columns);
    return;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    float* row = sums + r * kPanel;
    epilogue(row, weighted ? nullptr : bias, row, kPanel, 1, columns);
    if (weighted)
      for (std::size_t i = 0; i < columns; ++i) row[i] += to.weights[first + r] * bias[i];
    const std::size_t token = to.tokens.empty() ? first + r : to.tokens[first + r];
    float* y = to.y.row(token).data() + column;
    if (to.add)
      table.rows.add(row, y, columns);
    else
      std::copy_n(row, columns, y);
  }
}

}  // namespace

bool finds_zeros(const FfnCore& core) {
  return core.skip_zeros && gives_exact_zeros(core.activation);
}

PassScratch::PassScratch(const FfnCore& core, const FfnCore* other, std::size_t rows,
                         Workspace& workspace)
    : tiles(rows, 2, workspace) {
  std::size_t listed = 0, by_feature = 0;
  for (const FfnCore* one : {&core, other}) {
    if (one == nullptr || !finds_zeros(*one)) continue;
    listed = std::max(listed, one->d_ff());
    if (!one->up_rows.empty()) by_feature = std::max(by_feature, one->d_ff());
  }
  if (listed > 0) lists = UnitLists(listed, workspace);
  if (by_feature > 0) active = ActiveScratch(by_feature, workspace);
}

void expand_rows(const Region& region, const FfnCore& core, const ExpandRows& rows,
                 const PassScratch& scratch) {
  const ExpandWeights weights{core.gate, core.up, core.gate_bias, core.up_bias, core.activation};
  if (!core.up_rows.empty() && finds_zeros(core) && can_expand_active(weights, core.up_rows, rows))
    expand_active(region, weights, core.up_rows, rows, scratch.tiles, scratch.active);
  else
    expand(region, weights, rows, scratch.tiles);
}

void contract_rows(const Region& region, const FfnCore& core, const ContractRows& rows,
                   const PassScratch& scratch) {
  const auto finish = [&](float* sums, std::size_t first, std::size_t count, std::size_t p) {
    finish_tile(core, rows, sums, first, count, p);
  };
  if (!rows.non_zero.empty() && core.down.is_finite()) {
    const UnitList list = scratch.lists.list(region, rows.non_zero, core.down);
    if (list.pays) {
      product_of_listed(region, rows.hidden, core.down, list.units, scratch.tiles, finish,
                        rows.shares);
      return;
    }
  }
  const ProductTerm term{rows.hidden, &core.down};
  const auto cut = rows.add ? TileTasks::Cut::panels_only : TileTasks::Cut::rows_too;
  product_tiles(region, {&term, 1}, scratch.tiles, cut, finish, rows.shares);
}

void take_shown(const FfnCore& core, std::size_t n, ExpandRows& rows, Workspace& workspace) {
  const std::size_t d_ff = core.d_ff();
  rows.shown = {workspace.take(n * d_ff), n, d_ff};
  if (rows.up.data != nullptr) return;
  rows.up = {workspace.take(n * d_ff), n, d_ff};
  if (core.gated()) rows.gate = {workspace.take(n * d_ff), n, d_ff};
}

void show_rows(const Watcher& watcher, const FfnCore& core, const ExpandRows& rows,
               std::size_t first, Workspace& workspace) {
  FfnSample sample;
  sample.pre = core.gated() ? rows.gate : rows.up;
  if (core.gated()) sample.up = rows.up;
  sample.hidden = rows.shown;
  sample.first_row = first;
  sample.token_rows = watcher.token_rows;
  sample.expert = watcher.expert;
  watcher.observer->observe(sample, workspace);
}

void core_forward(const FfnCore& core, ConstMatrix x, Matrix y, Matrix gate, Matrix up,
                  Workspace& workspace, FfnObserver* observer) {
  ThreadPool& pool = workspace.runtime().pool();
  for (std::size_t first = 0; first < x.rows; first += kTokensPerPiece) {
    const ScratchScope scope(workspace);
    const std::size_t n = std::min(kTokensPerPiece, x.rows - first);
    const InputRows input(x.rows_from(first, n), core.dtype(), workspace);
    const PassScratch scratch(core, nullptr, n, workspace);
    ExpandRows rows;
    rows.x = input.operand();
    rows.gate = piece(gate, first, n);
    rows.up = piece(up, first, n);
    rows.hidden = RowBuffer(n, core.d_ff(), core.dtype(), workspace);
    if (finds_zeros(core) && n <= NonZeroBits::kMostRows)
      rows.non_zero = NonZeroBits(n, core.d_ff(), workspace);
    if (observer != nullptr) take_shown(core, n, rows, workspace);
    ContractRows contracted;
    contracted.hidden = rows.hidden.operand();
    contracted.non_zero = rows.non_zero;
    contracted.y = y.rows_from(first, n);
    rows.shares = TaskShares(core.up.panels(), workspace);
    contracted.shares = TaskShares(core.down.panels(), workspace);
    const auto first_half = [&](const Region& region) {
      input.stage(region);
      if (input.is_copy()) region.barrier();
      expand_rows(region, core, rows, scratch);
    };
    const auto second_half = [&](const Region& region, StageLaps& laps) {
      contract_rows(region, core, contracted, scratch);
      laps.lap(Stage::contract);
    };
    if (observer == nullptr) {
      pool.region([&](const Region& region) {
        StageLaps laps(workspace, region.thread);
        first_half(region);
        region.barrier();
        laps.lap(Stage::expand);
        second_half(region, laps);
      });
      continue;
    }
    {
      const StageScope stage(workspace, Stage::expand);
      pool.region(first_half);
      show_rows({observer}, core, rows, first, workspace);
    }
    pool.region([&](const Region& region) {
      StageLaps laps(workspace, region.thread);
      second_half(region, laps);
    });
  }
}

namespace {

// What backward through one piece of tokens needs; operands that no gradient asks for stay empty.
struct BackwardPiece {
  const FfnCore& core;
  const CoreSaved& saved;
  std::span<const float> weights;
  std::size_t tokens, d_model = core.d_model(), d_ff = core.d_ff();

  RowBuffer dup, dgate;                           // [tokens, d_ff]
  RowBuffer dup_turned, dgate_turned, dy_turned;  // [d_ff or d_model, tokens]
  TokenPanels x_panels, hidden_panels;            // [tokens, d_model or d_ff]
  std::span<float> up_bias, gate_bias;            // [d_ff], sums over the piece
  Matrix dots;                                    // [tokens, panels], parts of dh . hidden

  BackwardPiece(const FfnCore& of, const CoreSaved& values, const CoreGrads& grads,
                std::span<const float> row_weights, std::size_t n, Workspace& workspace)
      : core(of), saved(values), weights(row_weights), tokens(n) {
    const Dtype dtype = core.dtype();
    const bool gated = core.gated();
    dup = RowBuffer(n, d_ff, dtype, workspace);
    if (gated) dgate = RowBuffer(n, d_ff, dtype, workspace);
    const bool wants_gate = gated && grads.gate.data != nullptr;
    if (grads.up.data != nullptr) dup_turned = RowBuffer(d_ff, n, dtype, workspace);
    if (wants_gate) dgate_turned = RowBuffer(d_ff, n, dtype, workspace);
    if (grads.up.data != nullptr || wants_gate)
      x_panels = TokenPanels(n, d_model, dtype, workspace);
    if (grads.down.data != nullptr) {
      dy_turned = RowBuffer(d_model, n, dtype, workspace);
      hidden_panels = TokenPanels(n, d_ff, dtype, workspace);
    }
    const auto zeros = [&](bool wanted) {
      std::span<float> sums;
      if (wanted) sums = {workspace.take(d_ff), d_ff};
      std::fill(sums.begin(), sums.end(), 0.0F);
      return sums;
    };
    up_bias = zeros(!grads.up_bias.empty());
    gate_bias = zeros(!grads.gate_bias.empty());
    const std::size_t panels = core.up.panels();
    if (!weights.empty()) dots = {workspace.take(n * panels), n, panels};
  }

  // dh: [rows, 64], the gradient of hidden; becomes that of up (dense: pre). hidden is computed
  // again. tiles: three more of the size of dh.
  void finish(float* dh, std::size_t first, std::size_t rows, std::size_t p, float* hidden,
              float* dgate_tile, float* turned) const {
    const ActivationKernels& act = kernels().activations;
    const auto kind = static_cast<std::size_t>(core.activation);
    const std::size_t column = p * kPanel, n = std::min(kPanel, d_ff - column);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t at = r * kPanel;
      const float* up = saved.up.row(first + r).data() + column;
      const float* gate = core.gated() ? saved.gate.row(first + r).data() + column : nullptr;
      if (core.gated() && weights.empty()) {
        act.glu_backward_again[kind](gate, up, dh + at, dgate_tile + at, dh + at, hidden + at, n);
        continue;
      }
      if (core.gated())
        act.glu[kind](gate, up, hidden + at, n);
      else
        act.forward[kind](up, hidden + at, n);
      if (!weights.empty()) {
        dots.row(first + r)[p] = dot({dh + at, n}, {hidden + at, n});
        const float weight = weights[first + r];
        for (std::size_t i = 0; i < n; ++i) hidden[at + i] *= weight;
        for (std::size_t i = 0; i < n; ++i) dh[at + i] *= weight;
      }
      if (core.gated())
        act.glu_backward[kind](gate, up, dh + at, dgate_tile + at, dh + at, n);
      else
        act.backward[kind](up, dh + at, dh + at, n);
    }
    const auto tile = [&](const float* values) { return ConstMatrix(values, rows, n, kPanel); };
    if (!hidden_panels.empty()) hidden_panels.store(p, first, tile(hidden));
    keep(tile(dh), p, first, dup, dup_turned, up_bias, turned);
    if (core.gated()) keep(tile(dgate_tile), p, first, dgate, dgate_turned, gate_bias, turned);
  }

 private:
  static void keep(ConstMatrix tile, std::size_t p, std::size_t first, const RowBuffer& rows,
                   const RowBuffer& columns, std::span<float> bias, float* turned) {
    const std::size_t column = p * kPanel;
    rows.store(first, column, tile);
    for (std::size_t r = 0; !bias.empty() && r < tile.rows; ++r)
      kernels().rows.add(tile.row(r).data(), bias.data() + column, tile.cols);
    if (!columns.empty()) turn_tile(tile, p, first, columns, turned);
  }
};

void add_sums(std::span<const float> sums, std::span<float> grads, const Region& region) {
  const Share share = region.share(grads.size());
  for (std::size_t i = share.first; i < share.last; ++i) grads[i] += sums[i];
}

void backward_piece(const FfnCore& core, ConstMatrix x, const CoreSaved& saved, ConstMatrix dy,
                    Matrix dx, const CoreGrads& grads, std::span<const float> weights,
                    std::span<float> weight_grads, Workspace& workspace) {
  const ScratchScope scope(workspace);
  const BackwardPiece piece(core, saved, grads, weights, x.rows, workspace);
  const InputRows dy_rows(dy, core.dtype(), workspace);
  const TileScratch tiles(TileTasks::kMostRows, 4, workspace);
  const auto epilogue = kernels().activations.epilogue[kIdentity];
  workspace.runtime().pool().region([&](const Region& region) {
    dy_rows.stage(region);
    turn_columns(region, dy, piece.dy_turned, {}, tiles);
    turn_columns(region, x, {}, piece.x_panels, tiles);
    region.barrier();
    const ProductTerm hidden_term{dy_rows.operand(), &core.down_back};
    product_tiles(region, {&hidden_term, 1}, tiles, TileTasks::Cut::panels_only,
                  [&](float* dh, std::size_t first, std::size_t rows, std::size_t p) {
                    piece.finish(dh, first, rows, p, tiles.tile(region, 1), tiles.tile(region, 2),
                                 tiles.tile(region, 3));
                  });
    region.barrier();
    const ProductTerm terms[2] = {{piece.dup.operand(), &core.up_back},
                                  {piece.dgate.operand(), &core.gate_back}};
    product_tiles(region, {terms, core.gated() ? 2U : 1U}, tiles, TileTasks::Cut::rows_too,
                  [&](const float* sums, std::size_t first, std::size_t rows, std::size_t p) {
                    epilogue(sums, nullptr, dx.row(first).data() + p * kPanel, dx.stride, rows,
                             std::min(kPanel, dx.cols - p * kPanel));
                  });
    if (!piece.dup_turned.empty())
      add_weight_gradient(region, piece.dup_turned.operand(), piece.x_panels, tiles, grads.up);
    if (!piece.dgate_turned.empty())
      add_weight_gradient(region, piece.dgate_turned.operand(), piece.x_panels, tiles, grads.gate);
    if (!piece.dy_turned.empty())
      add_weight_gradient(region, piece.dy_turned.operand(), piece.hidden_panels, tiles,
                          grads.down);
    add_sums(piece.up_bias, grads.up_bias, region);
    add_sums(piece.gate_bias, grads.gate_bias, region);
    if (!grads.down_bias.empty()) add_bias_gradient(region, dy, weights, grads.down_bias);
    const Share rows = region.share(weight_grads.size());
    for (std::size_t r = rows.first; r < rows.last; ++r) {
      weight_grads[r] = 0;
      for (const float part : piece.dots.row(r)) weight_grads[r] += part;
      if (!core.down_bias.empty()) weight_grads[r] += dot(dy.row(r), core.down_bias);
    }
  });
}

}  // namespace

void core_backward(const FfnCore& core, ConstMatrix x, const CoreSaved& saved, ConstMatrix dy,
                   Matrix dx, const CoreGrads& grads, std::span<const float> weights,
                   std::span<float> weight_grads, Workspace& workspace) {
  for (std::size_t first = 0; first < x.rows; first += kTokensPerPiece) {
    const std::size_t rows = std::min(kTokensPerPiece, x.rows - first);
    const auto part = [&](ConstMatrix whole) {
      return whole.data == nullptr ? whole : whole.rows_from(first, rows);
    };
    backward_piece(
        core, part(x), {part(saved.gate), part(saved.up)}, part(dy), dx.rows_from(first, rows),
        grads, weights.empty() ? weights : weights.subspan(first, rows),
        weight_grads.empty() ? weight_grads : weight_grads.subspan(first, rows), workspace);
  }
}

}  // namespace fourfold
