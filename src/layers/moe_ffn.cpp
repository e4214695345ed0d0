// y: [tokens, d_model] = sum over the chosen experts e of weight_e * expert_e(x) + shared(x). Pairs
// (token, choice) are sorted by expert; each expert runs on the rows that chose it.
#include <algorithm>
#include <optional>

#include "fourfold/ffn.h"
#include "layers/bf16_call.h"
#include "layers/ffn_pass.h"
#include "layers/moe_core.h"
#include "layers/moe_forward.h"
#include "layers/moe_plan.h"
#include "layers/router_losses.h"
#include "layers/shape_check.h"
#include "ops/expert_router.h"
#include "ops/gemm.h"
#include "ops/gemm_grad.h"
#include "ops/token_rows.h"
#include "platform/caller_scope.h"
#include "platform/stage_clock.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr const char* kWhere = "moe_ffn";

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
  std::optional<UnsavedPlan> unsaved;
  if (save == nullptr) unsaved.emplace(workspace);
  MoeSaved& plan = save != nullptr ? *save : unsaved->plan();
  plan_experts(*core_, x, plan, workspace);
  if (observer != nullptr) observer->observe_routing(plan.routing, workspace);
  if (save != nullptr) {
    if (gated()) save->gate.resize(plan.pairs.size(), d_ff());
    save->up.resize(plan.pairs.size(), d_ff());
    if (core_->shared) {
      if (core_->shared->gated()) save->shared_gate.resize(x.rows, shared_d_ff());
      save->shared_up.resize(x.rows, shared_d_ff());
      save->shared_logits.resize(core_->shared_gate.empty() ? 0 : x.rows);
    }
  }
  experts_forward(*core_, x, plan, y, save, workspace, observer);
}

void MoeFfn::forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace, MoeSaved* save) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "y", y, x.rows, d_model());
  run_in_float32(x, y, workspace, InPlace::no,
                 [&](ConstMatrix wide, Matrix result) { forward(wide, result, workspace, save); });
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

// Gradients of the other kind would be written to nowhere.
void check_kinds(const MoeCore& core, const MoeGrads& grads) {
  const std::size_t listed =
      std::visit([](const auto& list) { return list.size(); }, grads.experts);
  if (listed != 0) check_length(kWhere, "grads.experts", listed, core.n_experts());
  FOURFOLD_CHECK(listed == 0 || grads.experts.index() == (core.experts.front().gated() ? 1U : 0U),
                 shape_mismatch,
                 "[moe_ffn] grads.experts is of the other kind (dense or gated) than the experts");
  const bool shared_wanted = std::visit(
      [](const auto& one) {
        const CoreGrads all = core_grads(one);
        return all.up.data != nullptr || all.gate.data != nullptr || all.down.data != nullptr ||
               !all.up_bias.empty() || !all.gate_bias.empty() || !all.down_bias.empty();
      },
      grads.shared);
  FOURFOLD_CHECK(
      !shared_wanted || (core.shared && grads.shared.index() == (core.shared->gated() ? 1U : 0U)),
      shape_mismatch,
      "[moe_ffn] grads.shared is of another kind than the layer's shared expert, or the "
      "layer has none");
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
  check_kinds(core, grads);
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
  gather_rows(x, piece.tokens, piece.x, workspace);
  if (weight_input) scale_rows(piece.x, piece.weights, workspace);
  gather_rows(dy, piece.tokens, dy_rows, workspace);
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
    scale_rows(dx_rows, piece.weights, workspace);
  }
  scatter_add_rows(dx_rows, piece.tokens, dx, workspace);
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
    for (std::size_t t = 0; t < x.rows; ++t) weights[t] = exact_sigmoid(saved.shared_logits[t]);
  }
  core_backward(*core.shared, x, {saved.shared_gate.view(), saved.shared_up.view()}, dy, own,
                grads_of_shared(grads), weights, weight_grads, workspace);
  if (gated) {
    pool.for_each(x.rows, [&](std::size_t t, unsigned) {
      const float slope = weight_grads[t] * weights[t] * exact_sigmoid(-saved.shared_logits[t]);
      weight_grads[t] = slope;  // of the logit now
      const auto row = own.row(t);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] += slope * core.shared_gate[i];
    });
    if (!grads.shared_gate.empty()) bias_gradient(x, weight_grads, grads.shared_gate, workspace);
  }
  add_rows(own, dx, workspace);
}

}  // namespace

void MoeFfn::backward(ConstMatrix x, const MoeSaved& saved, ConstMatrix dy, Matrix dx,
                      const MoeGrads& grads, Workspace& workspace) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "dy", dy, x.rows, d_model());
  check_shape(kWhere, "dx", dx, x.rows, d_model());
  check_backward(x.rows, saved, grads);
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  fill_zero(dx);
  if (x.rows == 0) return;
  const ScratchScope scratch(workspace);
  const std::span<float> dweights(workspace.take(x.rows * core_->top_k()), x.rows * core_->top_k());
  std::fill(dweights.begin(), dweights.end(), 0.0F);  // dropped pairs have no gradient
  for (std::size_t e = 0; e < n_experts(); ++e)
    for (std::size_t first = saved.offsets[e]; first < saved.offsets[e + 1];
         first += kTokensPerPiece) {
      const ScratchScope one(workspace);
      ExpertRows piece(*core_, saved, e, first, workspace);
      run_expert_backward(*core_, piece, x, saved, dy, dx, grads_of_expert(grads, e), dweights,
                          workspace);
    }
  const Matrix dlogits(workspace.take(x.rows * n_experts()), x.rows, n_experts());
  choose_experts_backward(core_->routing, saved.routing, dweights, dlogits, workspace);
  router_losses_backward(saved.routing, core_->routing.scoring, grads.losses, dlogits);
  if (grads.router.data != nullptr) weight_gradient(dlogits, x, grads.router, workspace);
  if (!grads.router_bias.empty()) bias_gradient(dlogits, {}, grads.router_bias, workspace);
  gemm_add(dlogits, core_->router_back, dx, workspace);
  if (core_->shared) run_shared_backward(*core_, x, saved, dy, dx, grads, workspace);
}

void MoeFfn::check_backward(std::size_t tokens, const MoeSaved& saved,
                            const MoeGrads& grads) const {
  check_saved(*core_, tokens, saved);
  check_moe_grads(*core_, grads);
  if (!grads.losses.counted.empty())
    check_length(kWhere, "grads.losses.counted", grads.losses.counted.size(), tokens);
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

void MoeFfn::keep_neuron_rows(bool on) {
  for (FfnCore& expert : core_->experts) expert.keep_up_rows(on, kWhere);
  if (core_->shared && core_->shared->gated() && gives_exact_zeros(core_->shared->activation))
    core_->shared->keep_up_rows(on, kWhere);
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
