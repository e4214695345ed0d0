#include "layers/moe_plan.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "layers/shape_check.h"
#include "ops/expert_router.h"
#include "ops/gemm.h"
#include "ops/token_rows.h"
#include "platform/stage_clock.h"

namespace fourfold {
namespace {

constexpr const char* kWhere = "moe_ffn";
constexpr char kPlanKey = 0;  // its address names the plan among what a workspace keeps

std::span<std::uint32_t> take_ids(std::size_t count, Workspace& workspace) {
  static_assert(sizeof(std::uint32_t) == sizeof(float));
  return {reinterpret_cast<std::uint32_t*>(workspace.take(count)), count};
}

void sort_pairs(MoeSaved& plan) {
  const RoutingResult& routing = plan.routing;
  plan.offsets.assign(routing.n_experts + 1, 0);
  for (std::size_t pair = 0; pair < routing.experts.size(); ++pair)
    if (routing.dropped[pair] == 0) ++plan.offsets[routing.experts[pair] + 1];
  for (std::size_t e = 0; e < routing.n_experts; ++e) plan.offsets[e + 1] += plan.offsets[e];
  plan.pairs.resize(plan.offsets.back());
  // Each begin moves to its end, where the next expert begins.
  for (std::size_t pair = 0; pair < routing.experts.size(); ++pair)
    if (routing.dropped[pair] == 0)
      plan.pairs[plan.offsets[routing.experts[pair]]++] = static_cast<std::uint32_t>(pair);
  std::copy_backward(plan.offsets.begin(), plan.offsets.end() - 1, plan.offsets.end());
  plan.offsets.front() = 0;
}

// The pairs must lead to rows of x: backward reads and writes by them.
bool pairs_are_sound(const MoeSaved& saved, std::size_t n_experts) {
  const RoutingResult& routing = saved.routing;
  const std::size_t all = routing.tokens * routing.top_k;
  if (saved.offsets.size() != n_experts + 1 || saved.offsets.front() != 0 ||
      saved.offsets.back() != saved.pairs.size() ||
      !std::is_sorted(saved.offsets.begin(), saved.offsets.end()))
    return false;
  return routing.logits.size() == routing.tokens * n_experts && routing.experts.size() == all &&
         routing.weights.size() == all &&
         std::all_of(saved.pairs.begin(), saved.pairs.end(),
                     [&](std::uint32_t pair) { return pair < all; }) &&
         std::all_of(routing.experts.begin(), routing.experts.end(),
                     [&](std::uint32_t expert) { return expert < n_experts; });
}

}  // namespace

UnsavedPlan::UnsavedPlan(Workspace& workspace)
    : workspace_(workspace),
      plan_(std::static_pointer_cast<MoeSaved>(std::exchange(workspace.kept(&kPlanKey), nullptr))) {
  if (plan_ == nullptr) plan_ = std::make_shared<MoeSaved>();
}

UnsavedPlan::~UnsavedPlan() { workspace_.kept(&kPlanKey) = std::move(plan_); }

void drop_beyond_capacity(const Routing& routing, RoutingResult& result, Workspace& workspace) {
  std::fill(result.dropped.begin(), result.dropped.end(), char{0});
  result.dropped_pairs = 0;
  if (!routing.capacity_factor) return;
  const double pairs = static_cast<double>(result.tokens) * static_cast<double>(result.top_k);
  const double room =
      static_cast<double>(*routing.capacity_factor) * pairs / static_cast<double>(result.n_experts);
  // 1.1 in float32 is a little more than 1.1: that must not make room for one more.
  const bool is_whole = std::fabs(room - std::round(room)) <= room * 0x1p-23;
  const double capacity = is_whole ? std::round(room) : std::ceil(room);
  const ScratchScope scratch(workspace);
  const auto taken = take_ids(result.n_experts, workspace);  // pairs, fewer than 2^32
  std::fill(taken.begin(), taken.end(), 0U);
  for (std::size_t choice = 0; choice < result.top_k; ++choice)
    for (std::size_t token = 0; token < result.tokens; ++token) {
      const std::size_t pair = token * result.top_k + choice;
      if (std::isnan(result.weights[pair])) continue;  // a dropped pair would hide its NaN
      std::uint32_t& count = taken[result.experts[pair]];
      if (static_cast<double>(count) < capacity) {
        ++count;
      } else {
        result.dropped[pair] = 1;
        ++result.dropped_pairs;
      }
    }
}

void plan_experts(const MoeCore& core, ConstMatrix x, MoeSaved& plan, Workspace& workspace) {
  const StageScope stage(workspace, Stage::router);
  RoutingResult& result = plan.routing;
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
  drop_beyond_capacity(core.routing, result, workspace);
  sort_pairs(plan);
}

void check_saved(const MoeCore& core, std::size_t tokens, const MoeSaved& saved) {
  const RoutingResult& routing = saved.routing;
  const FfnCore& expert = core.experts.front();
  FOURFOLD_CHECK(routing.tokens == tokens && routing.n_experts == core.n_experts() &&
                     routing.top_k == core.top_k() && pairs_are_sound(saved, core.n_experts()),
                 shape_mismatch,
                 "[moe_ffn] saved is not of a forward pass of this layer over " +
                     std::to_string(tokens) + " tokens");
  const auto check = [&](const char* name, const SavedMatrix& found, bool wanted, std::size_t rows,
                         std::size_t cols) {
    if (wanted) check_shape(kWhere, name, found.view(), rows, cols);
  };
  check("saved.up", saved.up, true, saved.pairs.size(), expert.d_ff());
  check("saved.gate", saved.gate, expert.gated(), saved.pairs.size(), expert.d_ff());
  if (!core.shared) return;
  check("saved.shared_up", saved.shared_up, true, tokens, core.shared->d_ff());
  check("saved.shared_gate", saved.shared_gate, core.shared->gated(), tokens, core.shared->d_ff());
  check_length(kWhere, "saved.shared_logits", saved.shared_logits.size(),
               core.shared_gate.empty() ? 0 : tokens);
}

ExpertRows::ExpertRows(const MoeCore& core, const MoeSaved& plan, std::size_t e, std::size_t begin,
                       Workspace& workspace)
    : expert(e),
      first(begin),
      rows(std::min(kTokensPerPiece, plan.offsets[e + 1] - begin)),
      pairs(std::span(plan.pairs).subspan(first, rows)) {
  tokens = take_ids(rows, workspace);
  weights = {workspace.take(rows), rows};
  x = {workspace.take(rows * core.d_model()), rows, core.d_model()};
  for (std::size_t r = 0; r < rows; ++r) {
    tokens[r] = pairs[r] / static_cast<std::uint32_t>(core.top_k());
    weights[r] = plan.routing.weights[pairs[r]];
  }
}

}  // namespace fourfold
