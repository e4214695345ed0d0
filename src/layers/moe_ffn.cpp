// y: [tokens, d_model] = sum over the chosen experts e of weight_e * expert_e(x) + shared(x). Pairs
// (token, choice) are sorted by expert; each expert runs on the rows that chose it.
#include <algorithm>
#include <cmath>

#include "fourfold/ffn.h"
#include "kernels/dispatch.h"
#include "layers/moe_core.h"
#include "layers/shape_check.h"
#include "ops/expert_router.h"
#include "ops/gemm.h"
#include "ops/gemm_grad.h"
#include "ops/round_rows.h"
#include "platform/caller_scope.h"
#include "platform/stage_clock.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr const char* kWhere = "moe_ffn";
constexpr std::size_t kRowsPerPiece = 2048;

float dot(std::span<const float> a, std::span<const float> b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Logits, choice, weights, capacity.
void route(const MoeCore& core, ConstMatrix x, RoutingResult& result, Workspace& workspace) {
  const StageScope stage(workspace, Stage::router);
  result.tokens = x.rows;
  result.n_experts = core.n_experts();
  result.top_k = core.top_k();
  result.logits.resize(x.rows * core.n_experts());
  result.experts.resize(x.rows * core.top_k());
  result.weights.resize(x.rows * core.top_k());
  result.dropped.resize(x.rows * core.top_k());
  gemm(x, core.router, core.router_bias, Activation::identity,
       {result.logits.data(), x.rows, core.n_experts()}, workspace);
  choose_experts(core.routing, core.selection_bias, result, workspace);
  drop_beyond_capacity(core.routing, result);
}

// Counting sort: pairs that are kept, by expert, tokens ascending.
void sort_pairs(MoeSaved& plan) {
  const RoutingResult& routing = plan.routing;
  plan.offsets.assign(routing.n_experts + 1, 0);
  for (std::size_t pair = 0; pair < routing.experts.size(); ++pair)
    if (routing.dropped[pair] == 0) ++plan.offsets[routing.experts[pair] + 1];
  for (std::size_t e = 0; e < routing.n_experts; ++e) plan.offsets[e + 1] += plan.offsets[e];
  plan.pairs.resize(plan.offsets.back());
  std::vector<std::size_t> next(plan.offsets.begin(), plan.offsets.end() - 1);
  for (std::size_t pair = 0; pair < routing.experts.size(); ++pair)
    if (routing.dropped[pair] == 0)
      plan.pairs[next[routing.experts[pair]]++] = static_cast<std::uint32_t>(pair);
}

// Some rows of one expert: their tokens, weights, and inputs brought together.
struct ExpertRows {
  std::size_t expert, first, rows;  // first: among the sorted pairs
  std::span<const std::uint32_t> pairs;
  std::span<std::uint32_t> tokens;
  std::span<float> weights;
  Matrix x;  // [rows, d_model]

  ExpertRows(const MoeCore& core, const MoeSaved& plan, std::size_t e, std::size_t begin,
             Workspace& workspace)
      : expert(e), first(begin), rows(std::min(kRowsPerPiece, plan.offsets[e + 1] - begin)) {
    static_assert(sizeof(std::uint32_t) == sizeof(float));
    pairs = std::span(plan.pairs).subspan(first, rows);
    tokens = {reinterpret_cast<std::uint32_t*>(workspace.take(rows)), rows};
    weights = {workspace.take(rows), rows};
    x = {workspace.take(rows * core.d_model()), rows, core.d_model()};
    for (std::size_t r = 0; r < rows; ++r) {
      tokens[r] = pairs[r] / static_cast<std::uint32_t>(core.top_k());
      weights[r] = plan.routing.weights[pairs[r]];
    }
  }
};

// to[r, :] = from[tokens[r], :].
void gather(ConstMatrix from, std::span<const std::uint32_t> tokens, Matrix to, ThreadPool& pool) {
  pool.for_each(to.rows, [&](std::size_t r, unsigned) {
    const auto row = from.row(tokens[r]);
    std::copy(row.begin(), row.end(), to.row(r).begin());
  });
}

// to[tokens[r], :] += from[r, :]; the tokens of one expert's rows are distinct.
void scatter_add(ConstMatrix from, std::span<const std::uint32_t> tokens, Matrix to,
                 ThreadPool& pool) {
  const auto add = kernels().rows.add;
  pool.for_each(from.rows, [&](std::size_t r, unsigned) {
    add(from.row(r).data(), to.row(tokens[r]).data(), from.cols);
  });
}

void scale_rows(Matrix rows, std::span<const float> weights, ThreadPool& pool) {
  pool.for_each(rows.rows, [&](std::size_t r, unsigned) {
    for (float& value : rows.row(r)) value *= weights[r];
  });
}

void fill_zero(Matrix matrix) {
  for (std::size_t r = 0; r < matrix.rows; ++r)
    std::fill_n(matrix.row(r).begin(), matrix.cols, 0.0F);
}

float sigmoid(float x) {
  const double value = x;
  return static_cast<float>(value >= 0 ? 1 / (1 + std::exp(-value))
                                       : std::exp(value) / (1 + std::exp(value)));
}

Matrix rows_of(Matrix matrix, std::size_t first, std::size_t rows) {
  return matrix.data == nullptr ? matrix : matrix.rows_from(first, rows);
}

// One piece of one expert, from the gathered rows to y.
void run_expert(const MoeCore& core, ExpertRows& piece, ConstMatrix x, Matrix y, Matrix gate,
                Matrix up, Workspace& workspace, FfnObserver* observer) {
  ThreadPool& pool = workspace.runtime().pool();
  {
    const StageScope stage(workspace, Stage::gather);
    gather(x, piece.tokens, piece.x, pool);
    if (core.routing.weight_input) scale_rows(piece.x, piece.weights, pool);
  }
  const Matrix out(workspace.take(piece.rows * core.d_model()), piece.rows, core.d_model());
  const std::span<const float> weights =
      core.routing.weight_input ? std::span<const float>() : std::span<const float>(piece.weights);
  core_forward(core.experts[piece.expert], piece.x, out, rows_of(gate, piece.first, piece.rows),
               rows_of(up, piece.first, piece.rows), weights, workspace,
               {observer, piece.expert, piece.tokens});
  const StageScope stage(workspace, Stage::combine);
  scatter_add(out, piece.tokens, y, pool);
}

// weights: [tokens] = sigmoid(x . gate), logits: [tokens] or empty.
void shared_weights(const MoeCore& core, ConstMatrix x, std::span<float> weights,
                    std::span<float> logits, ThreadPool& pool) {
  pool.for_each(x.rows, [&](std::size_t t, unsigned) {
    const float logit = dot(x.row(t), core.shared_gate);
    weights[t] = sigmoid(logit);
    if (!logits.empty()) logits[t] = logit;
  });
}

void run_shared(const MoeCore& core, ConstMatrix x, Matrix y, MoeSaved* save, Workspace& workspace,
                FfnObserver* observer) {
  const ScratchScope scratch(workspace);
  ThreadPool& pool = workspace.runtime().pool();
  const FfnCore& shared = *core.shared;
  Matrix gate, up;
  if (save != nullptr) {
    if (shared.gated()) gate = save->shared_gate.resize(x.rows, shared.d_ff());
    up = save->shared_up.resize(x.rows, shared.d_ff());
    save->shared_logits.resize(core.shared_gate.empty() ? 0 : x.rows);
  }
  std::span<float> weights;
  if (!core.shared_gate.empty()) {
    weights = {workspace.take(x.rows), x.rows};
    shared_weights(core, x, weights,
                   save != nullptr ? std::span<float>(save->shared_logits) : std::span<float>(),
                   pool);
  }
  const Matrix out(workspace.take(x.rows * x.cols), x.rows, x.cols);
  core_forward(shared, x, out, gate, up, weights, workspace, {observer, FfnSample::kSharedExpert});
  const StageScope stage(workspace, Stage::combine);
  const auto add = kernels().rows.add;
  pool.for_each(x.rows,
                [&](std::size_t t, unsigned) { add(out.row(t).data(), y.row(t).data(), x.cols); });
}

}  // namespace

MoeFfn::MoeFfn(const MoeWeights& weights, Activation activation, const Routing& routing,
               Packing packing)
    : core_(std::make_unique<MoeCore>(weights, activation, routing, packing)) {}

MoeFfn::~MoeFfn() = default;
MoeFfn::MoeFfn(MoeFfn&&) noexcept = default;
MoeFfn& MoeFfn::operator=(MoeFfn&&) noexcept = default;

void MoeFfn::forward(ConstMatrix x, Matrix y, Workspace& workspace, MoeSaved* save,
                     FfnObserver* observer) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "y", y, x.rows, d_model());
  FOURFOLD_CHECK(x.rows <= UINT32_MAX / core_->top_k(), invalid_argument,
                 "[moe_ffn] x has " + std::to_string(x.rows) + " tokens; at most " +
                     std::to_string(UINT32_MAX / core_->top_k()) + " fit one call");
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  MoeSaved unsaved;
  MoeSaved& plan = save != nullptr ? *save : unsaved;
  route(*core_, x, plan.routing, workspace);
  sort_pairs(plan);
  if (observer != nullptr) observer->observe_routing(plan.routing, workspace);
  Matrix gate, up;
  if (save != nullptr) {
    if (gated()) gate = save->gate.resize(plan.pairs.size(), d_ff());
    up = save->up.resize(plan.pairs.size(), d_ff());
  }
  fill_zero(y);
  for (std::size_t e = 0; e < n_experts(); ++e)
    for (std::size_t first = plan.offsets[e]; first < plan.offsets[e + 1]; first += kRowsPerPiece) {
      const ScratchScope scratch(workspace);
      ExpertRows piece(*core_, plan, e, first, workspace);
      run_expert(*core_, piece, x, y, gate, up, workspace, observer);
    }
  if (core_->shared) run_shared(*core_, x, y, save, workspace, observer);
}

void MoeFfn::forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace, MoeSaved* save) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "y", y, x.rows, d_model());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const ScratchScope scratch(workspace);
  const Matrix wide(workspace.take(x.rows * x.cols), x.rows, x.cols);
  const Matrix result(workspace.take(x.rows * x.cols), x.rows, x.cols);
  widen_rows(x, wide, workspace);
  forward(wide, result, workspace, save);
  narrow_rows(result, y, workspace);
}

namespace {

CoreGrads grads_of_expert(const MoeGrads& grads, std::size_t expert) {
  return std::visit(
      [&](const auto& list) { return list.empty() ? CoreGrads() : core_grads(list[expert]); },
      grads.experts);
}

CoreGrads grads_of_shared(const MoeGrads& grads) {
  return std::visit([](const auto& one) { return core_grads(one); }, grads.shared);
}

void check_saved(const MoeCore& core, ConstMatrix x, const MoeSaved& saved) {
  const std::size_t pairs = saved.pairs.size(), d_ff = core.experts.front().d_ff();
  const RoutingResult& routing = saved.routing;
  FOURFOLD_CHECK(routing.tokens == x.rows && routing.n_experts == core.n_experts() &&
                     routing.top_k == core.top_k() && saved.offsets.size() == core.n_experts() + 1,
                 shape_mismatch,
                 "[moe_ffn] saved belongs to a forward pass of another layer or of " +
                     std::to_string(routing.tokens) + " tokens; x has " + std::to_string(x.rows));
  check_shape(kWhere, "saved.up", saved.up.view(), pairs, d_ff);
  if (core.experts.front().gated())
    check_shape(kWhere, "saved.gate", saved.gate.view(), pairs, d_ff);
  if (core.shared)
    check_shape(kWhere, "saved.shared_up", saved.shared_up.view(), x.rows, core.shared->d_ff());
}

void check_moe_grads(const MoeCore& core, const MoeGrads& grads) {
  FOURFOLD_CHECK(!core.router_back.empty(), invalid_argument,
                 "[moe_ffn] backward needs Packing::forward_and_backward, or pack_backward() "
                 "first");
  if (grads.router.data != nullptr)
    check_shape(kWhere, "grads.router", grads.router, core.n_experts(), core.d_model());
  if (!grads.router_bias.empty())
    check_length(kWhere, "grads.router_bias", grads.router_bias.size(), core.router_bias.size());
  if (!grads.shared_gate.empty())
    check_length(kWhere, "grads.shared_gate", grads.shared_gate.size(), core.shared_gate.size());
  const std::size_t listed =
      std::visit([](const auto& list) { return list.size(); }, grads.experts);
  if (listed != 0) check_length(kWhere, "grads.experts", listed, core.n_experts());
  for (std::size_t e = 0; e < core.n_experts(); ++e)
    check_grads(core.experts[e], grads_of_expert(grads, e), kWhere);
  if (core.shared) check_grads(*core.shared, grads_of_shared(grads), "moe_ffn, shared expert");
}

// One piece of one expert: dx of its tokens grows, dweights of its pairs are written.
void run_expert_backward(const MoeCore& core, ExpertRows& piece, ConstMatrix x,
                         const MoeSaved& saved, ConstMatrix dy, Matrix dx, const CoreGrads& grads,
                         std::span<float> dweights, Workspace& workspace) {
  ThreadPool& pool = workspace.runtime().pool();
  const std::size_t rows = piece.rows, d = core.d_model();
  const bool weight_input = core.routing.weight_input;
  const Matrix dy_rows(workspace.take(rows * d), rows, d);
  const Matrix dx_rows(workspace.take(rows * d), rows, d);
  const std::span<float> weight_grads(workspace.take(rows), rows);
  gather(x, piece.tokens, piece.x, pool);
  if (weight_input) scale_rows(piece.x, piece.weights, pool);
  gather(dy, piece.tokens, dy_rows, pool);
  const auto part = [&](const SavedMatrix& whole) {
    return whole.rows == 0 ? ConstMatrix() : whole.view().rows_from(piece.first, rows);
  };
  core_backward(core.experts[piece.expert], piece.x, {part(saved.gate), part(saved.up)}, dy_rows,
                dx_rows, grads,
                weight_input ? std::span<const float>() : std::span<const float>(piece.weights),
                weight_input ? std::span<float>() : weight_grads, workspace);
  if (weight_input) {
    pool.for_each(rows, [&](std::size_t r, unsigned) {
      weight_grads[r] = dot(dx_rows.row(r), x.row(piece.tokens[r]));
    });
    scale_rows(dx_rows, piece.weights, pool);
  }
  scatter_add(dx_rows, piece.tokens, dx, pool);
  for (std::size_t r = 0; r < rows; ++r) dweights[piece.pairs[r]] = weight_grads[r];
}

void run_shared_backward(const MoeCore& core, ConstMatrix x, const MoeSaved& saved, ConstMatrix dy,
                         Matrix dx, const MoeGrads& grads, Workspace& workspace) {
  const ScratchScope scratch(workspace);
  ThreadPool& pool = workspace.runtime().pool();
  const bool gated = !core.shared_gate.empty();
  const Matrix own(workspace.take(x.rows * x.cols), x.rows, x.cols);
  std::span<float> weights, weight_grads;
  if (gated) {
    weights = {workspace.take(x.rows), x.rows};
    weight_grads = {workspace.take(x.rows), x.rows};
    for (std::size_t t = 0; t < x.rows; ++t) weights[t] = sigmoid(saved.shared_logits[t]);
  }
  core_backward(*core.shared, x, {saved.shared_gate.view(), saved.shared_up.view()}, dy, own,
                grads_of_shared(grads), weights, weight_grads, workspace);
  if (gated) {
    pool.for_each(x.rows, [&](std::size_t t, unsigned) {
      const float slope = weight_grads[t] * weights[t] * sigmoid(-saved.shared_logits[t]);
      weight_grads[t] = slope;  // of the logit now
      const auto row = own.row(t);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] += slope * core.shared_gate[i];
    });
    if (!grads.shared_gate.empty()) bias_gradient(x, weight_grads, grads.shared_gate, workspace);
  }
  const auto add = kernels().rows.add;
  pool.for_each(x.rows,
                [&](std::size_t t, unsigned) { add(own.row(t).data(), dx.row(t).data(), x.cols); });
}

}  // namespace

void MoeFfn::backward(ConstMatrix x, const MoeSaved& saved, ConstMatrix dy, Matrix dx,
                      const MoeGrads& grads, Workspace& workspace,
                      const RouterLossScale& losses) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "dy", dy, x.rows, d_model());
  check_shape(kWhere, "dx", dx, x.rows, d_model());
  check_saved(*core_, x, saved);
  check_moe_grads(*core_, grads);
  if (!losses.counted.empty())
    check_length(kWhere, "losses.counted", losses.counted.size(), x.rows);
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  fill_zero(dx);
  if (x.rows == 0) return;
  const ScratchScope scratch(workspace);
  const std::span<float> dweights(workspace.take(x.rows * core_->top_k()), x.rows * core_->top_k());
  std::fill(dweights.begin(), dweights.end(), 0.0F);  // dropped pairs have no gradient
  for (std::size_t e = 0; e < n_experts(); ++e)
    for (std::size_t first = saved.offsets[e]; first < saved.offsets[e + 1];
         first += kRowsPerPiece) {
      const ScratchScope one(workspace);
      ExpertRows piece(*core_, saved, e, first, workspace);
      run_expert_backward(*core_, piece, x, saved, dy, dx, grads_of_expert(grads, e), dweights,
                          workspace);
    }
  const Matrix dlogits(workspace.take(x.rows * n_experts()), x.rows, n_experts());
  choose_experts_backward(core_->routing, saved.routing, dweights, dlogits, workspace);
  router_losses_backward(saved.routing, core_->routing.scoring, losses, dlogits);
  if (grads.router.data != nullptr) weight_gradient(dlogits, x, grads.router, workspace);
  if (!grads.router_bias.empty()) bias_gradient(dlogits, {}, grads.router_bias, workspace);
  gemm_add(dlogits, core_->router_back, dx, workspace);
  if (core_->shared) run_shared_backward(*core_, x, saved, dy, dx, grads, workspace);
}

void MoeFfn::set_weights(const MoeWeights& weights, Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  core_->set_weights(weights, workspace.runtime().pool());
}

void MoeFfn::pack_backward() { core_->pack_backward(); }

void MoeFfn::set_skip_zeros(bool on) {
  for (FfnCore& expert : core_->experts) expert.skip_zeros = on;
  if (core_->shared) core_->shared->skip_zeros = on;
}

std::size_t MoeFfn::d_model() const { return core_->d_model(); }
std::size_t MoeFfn::d_ff() const { return core_->experts.front().d_ff(); }
std::size_t MoeFfn::n_experts() const { return core_->n_experts(); }
std::size_t MoeFfn::shared_d_ff() const { return core_->shared ? core_->shared->d_ff() : 0; }
bool MoeFfn::gated() const { return core_->experts.front().gated(); }
Activation MoeFfn::activation() const { return core_->experts.front().activation; }
Dtype MoeFfn::dtype() const { return core_->experts.front().dtype(); }
bool MoeFfn::has_backward() const { return !core_->router_back.empty(); }
const Routing& MoeFfn::routing() const { return core_->routing; }

bool MoeFfn::router_has_task_gradient() const {
  const Routing& rule = core_->routing;
  return rule.top_k > 1 || (!rule.renormalize && rule.scoring != Scoring::softmax_topk);
}

std::uint64_t MoeFfn::parameters() const {
  std::uint64_t total = n_experts() * d_model() + core_->router_bias.size() +
                        core_->selection_bias.size() + core_->shared_gate.size();
  for (const FfnCore& expert : core_->experts) total += expert.parameters();
  return total + (core_->shared ? core_->shared->parameters() : 0);
}

std::uint64_t MoeFfn::active_parameters() const {
  const std::uint64_t unused = n_experts() - core_->top_k();
  return parameters() - unused * core_->experts.front().parameters();
}

std::uint64_t MoeFfn::packed_bytes() const {
  std::uint64_t bytes = core_->router.bytes();
  for (const FfnCore& expert : core_->experts) bytes += expert.packed_bytes();
  return bytes + (core_->shared ? core_->shared->packed_bytes() : 0);
}

}  // namespace fourfold
