#include "layers/moe_core.h"

#include <cmath>
#include <string>

#include "layers/shape_check.h"

namespace fourfold {
namespace {

constexpr const char *kWhere = "moe_ffn", *kShared = "moe_ffn, shared expert";

void check_number(const char* name, long value, long lowest, long highest, const std::string& why) {
  FOURFOLD_CHECK(value >= lowest && value <= highest, invalid_argument,
                 std::string("[") + kWhere + "] " + name + " is " + std::to_string(value) +
                     ", expected " + std::to_string(lowest) + " to " + std::to_string(highest) +
                     why);
}

void check_factor(const char* name, float value) {
  FOURFOLD_CHECK(std::isfinite(value) && value > 0, invalid_argument,
                 std::string("[") + kWhere + "] " + name + " is " + std::to_string(value) +
                     ", expected a finite number above 0");
}

void check_routing(const Routing& routing, std::size_t n_experts) {
  const auto n = static_cast<long>(n_experts);
  check_number("top_k", routing.top_k, 1, n, ", the number of experts");
  check_number("n_groups", routing.n_groups, 1, n, ", the number of experts");
  FOURFOLD_CHECK(n % routing.n_groups == 0, invalid_argument,
                 std::string("[") + kWhere + "] n_groups is " + std::to_string(routing.n_groups) +
                     ", expected a divisor of " + std::to_string(n) + " experts");
  check_number("top_groups", routing.top_groups, 1, routing.n_groups, ", the number of groups");
  const long open = n / routing.n_groups * routing.top_groups;
  FOURFOLD_CHECK(routing.top_k <= open, invalid_argument,
                 std::string("[") + kWhere + "] top_k is " + std::to_string(routing.top_k) +
                     ", but top_groups leaves only " + std::to_string(open) +
                     " experts to choose from");
  FOURFOLD_CHECK(routing.scoring >= Scoring::softmax && routing.scoring <= Scoring::sqrt_softplus,
                 invalid_argument, std::string("[") + kWhere + "] there is no such scoring");
  check_factor("scaling", routing.scaling);
  if (routing.capacity_factor) check_factor("capacity_factor", *routing.capacity_factor);
}

// The router computes in float32 whatever its weight is stored in.
PackedWeight pack_router(const Weight& router, std::vector<float>& scratch) {
  if (const auto* f32 = std::get_if<ConstMatrix>(&router)) return PackedWeight(*f32);
  const auto& bf16 = std::get<ConstBf16Matrix>(router);
  scratch.clear();
  for (std::size_t r = 0; r < bf16.rows; ++r)
    for (const Bf16 value : bf16.row(r)) scratch.push_back(to_float(value));
  return PackedWeight(ConstMatrix(scratch.data(), bf16.rows, bf16.cols));
}

std::string expert_name(std::size_t index) { return "moe_ffn, expert " + std::to_string(index); }

std::size_t count_of(const ExpertWeights& experts) {
  return std::visit([](const auto& list) { return list.size(); }, experts);
}

void copy_into(std::vector<float>& to, std::span<const float> from) {
  std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

MoeCore::MoeCore(const MoeWeights& weights, Activation activation, const Routing& given_routing,
                 Packing packing)
    : router_bias(weights.router_bias.begin(), weights.router_bias.end()),
      selection_bias(weights.selection_bias.begin(), weights.selection_bias.end()),
      routing(given_routing) {
  const std::size_t n = count_of(weights.experts), d = weight_cols(weights.router);
  FOURFOLD_CHECK(n > 0, invalid_argument,
                 std::string("[") + kWhere + "] there are no experts; expected at least one");
  std::visit([&](const auto& matrix) { check_shape(kWhere, "router", matrix, n, d); },
             weights.router);
  if (!router_bias.empty()) check_length(kWhere, "router_bias", router_bias.size(), n);
  if (!selection_bias.empty()) check_length(kWhere, "selection_bias", selection_bias.size(), n);
  check_routing(routing, n);
  experts.reserve(n);
  std::visit(
      [&](const auto& list) {
        for (const auto& expert : list) {
          experts.emplace_back(expert, activation, packing, expert_name(experts.size()).c_str());
          const FfnCore &first = experts.front(), &added = experts.back();
          const std::string name = expert_name(experts.size() - 1);
          check_length(name.c_str(), "up (d_model)", added.d_model(), d);
          check_length(name.c_str(), "up (d_ff)", added.d_ff(), first.d_ff());
          FOURFOLD_CHECK(
              added.dtype() == first.dtype() && added.gate_bias.size() == first.gate_bias.size() &&
                  added.up_bias.size() == first.up_bias.size() &&
                  added.down_bias.size() == first.down_bias.size(),
              shape_mismatch, "[" + name + "] its type or biases differ from those of expert 0");
        }
      },
      weights.experts);
  if (weights.shared) {
    const SharedExpert& given = *weights.shared;
    std::visit([&](const auto& one) { shared.emplace(one, given.activation, packing, kShared); },
               given.weights);
    check_length(kShared, "up (d_model)", shared->d_model(), d);
    shared_gate.assign(given.gate.begin(), given.gate.end());
    if (!shared_gate.empty()) check_length(kShared, "gate", shared_gate.size(), d);
  }
  std::vector<float> scratch;
  router = pack_router(weights.router, scratch);
  if (packing == Packing::forward_and_backward) router_back = router.transposed();
}

void MoeCore::pack_backward() {
  for (FfnCore& expert : experts) expert.pack_backward();
  if (shared) shared->pack_backward();
  if (router_back.empty()) router_back = router.transposed();
}

// Everything is checked before anything changes.
void MoeCore::check_weights(const MoeWeights& weights) const {
  check_length(kWhere, "experts", count_of(weights.experts), n_experts());
  std::visit(
      [&](const auto& matrix) { check_shape(kWhere, "router", matrix, n_experts(), d_model()); },
      weights.router);
  check_length(kWhere, "router_bias", weights.router_bias.size(), router_bias.size());
  check_length(kWhere, "selection_bias", weights.selection_bias.size(), selection_bias.size());
  FOURFOLD_CHECK(
      weights.experts.index() == (experts.front().gated() ? 1U : 0U), shape_mismatch,
      std::string("[") + kWhere + "] the experts are of the other kind (dense or gated)");
  std::visit(
      [&](const auto& list) {
        for (std::size_t e = 0; e < list.size(); ++e)
          experts[e].check_weights(list[e], expert_name(e).c_str());
      },
      weights.experts);
  FOURFOLD_CHECK(weights.shared.has_value() == shared.has_value(), shape_mismatch,
                 std::string("[") + kWhere + "] the shared expert is " +
                     (shared ? "missing" : "new; the layer has none"));
  if (!shared) return;
  FOURFOLD_CHECK(weights.shared->weights.index() == (shared->gated() ? 1U : 0U), shape_mismatch,
                 std::string("[") + kShared + "] it is of the other kind (dense or gated)");
  check_length(kShared, "gate", weights.shared->gate.size(), shared_gate.size());
  std::visit([&](const auto& one) { shared->check_weights(one, kShared); },
             weights.shared->weights);
}

void MoeCore::set_weights(const MoeWeights& weights, ThreadPool& pool) {
  check_weights(weights);
  std::visit(
      [&](const auto& list) {
        for (std::size_t e = 0; e < list.size(); ++e) experts[e].set_weights(list[e], pool);
      },
      weights.experts);
  if (shared) {
    std::visit([&](const auto& one) { shared->set_weights(one, pool); }, weights.shared->weights);
    copy_into(shared_gate, weights.shared->gate);
  }
  copy_into(router_bias, weights.router_bias);
  copy_into(selection_bias, weights.selection_bias);
  router.repack(weights.router, router_back.empty() ? nullptr : &router_back, pool);
}

}  // namespace fourfold
