// MoeFfn. Its many arrays come in one dict: router [n_experts, d_model], gate, up
// [n_experts, d_ff, d_model], down [n_experts, d_model, d_ff], gate_bias, up_bias [n_experts,
// d_ff], down_bias [n_experts, d_model], router_bias, selection_bias [n_experts]; those of the
// shared expert begin with "shared."; shared_gate [d_model]. Gradients have the same names.
#include <string>
#include <vector>

#include "bindings.h"
#include "fourfold/error.h"

namespace fourfold::python {
namespace {

using namespace nb::literals;
using Mask = std::optional<nb::ndarray<const char, nb::ndim<1>, nb::c_contig, nb::device::cpu>>;

// The array of that name, or none.
template <class Array>
std::optional<Array> find(const nb::dict& arrays, const std::string& name) {
  const nb::object key = nb::str(name.c_str());
  if (!arrays.contains(key)) return std::nullopt;
  return nb::cast<Array>(nb::object(arrays[key]));
}

template <class Array>
Array take(const nb::dict& arrays, const std::string& name) {
  std::optional<Array> found = find<Array>(arrays, name);
  if (!found) throw Error(ErrorCode::invalid_argument, "[moe_ffn] " + name + " is missing");
  return *found;
}

// Row `index` of an array [n_experts, length], or nothing.
template <class T, class Array>
std::span<T> row(const std::optional<Array>& array, std::size_t index) {
  if (!array) return {};
  return {array->data() + index * array->shape(1), array->shape(1)};
}

Matrix matrix(const OutStack& stack, std::size_t index) {
  const std::size_t rows = stack.shape(1), cols = stack.shape(2);
  return {stack.data() + index * rows * cols, rows, cols};
}

Scoring parse_scoring(const std::string& name) {
  if (name == "softmax") return Scoring::softmax;
  if (name == "sigmoid") return Scoring::sigmoid;
  if (name == "softmax_topk") return Scoring::softmax_topk;
  if (name == "sqrt_softplus") return Scoring::sqrt_softplus;
  throw Error(ErrorCode::unsupported, "[moe_ffn] unknown scoring \"" + name.substr(0, 64) +
                                          "\"; known: softmax, sigmoid, softmax_topk, "
                                          "sqrt_softplus");
}

// The views of MoeWeights and what they look at.
struct MoeArrays {
  InMatrix router;
  std::optional<InVector> router_bias, selection_bias, shared_gate;
  std::optional<AnyWeight> gate;
  AnyWeight up, down;
  std::optional<InMatrix> gate_bias, up_bias, down_bias;
  std::optional<AnyWeight> inner_gate, inner_up, inner_down;  // of the shared expert
  std::optional<InVector> inner_gate_bias, inner_up_bias, inner_down_bias;
  std::string shared_activation;
  std::vector<DenseWeights> dense;
  std::vector<GatedWeights> gated;

  MoeArrays(const nb::dict& arrays, std::string activation_of_shared)
      : router(take<InMatrix>(arrays, "router")),
        router_bias(find<InVector>(arrays, "router_bias")),
        selection_bias(find<InVector>(arrays, "selection_bias")),
        shared_gate(find<InVector>(arrays, "shared_gate")),
        gate(find<AnyWeight>(arrays, "gate")),
        up(take<AnyWeight>(arrays, "up")),
        down(take<AnyWeight>(arrays, "down")),
        gate_bias(find<InMatrix>(arrays, "gate_bias")),
        up_bias(find<InMatrix>(arrays, "up_bias")),
        down_bias(find<InMatrix>(arrays, "down_bias")),
        inner_gate(find<AnyWeight>(arrays, "shared.gate")),
        inner_up(find<AnyWeight>(arrays, "shared.up")),
        inner_down(find<AnyWeight>(arrays, "shared.down")),
        inner_gate_bias(find<InVector>(arrays, "shared.gate_bias")),
        inner_up_bias(find<InVector>(arrays, "shared.up_bias")),
        inner_down_bias(find<InVector>(arrays, "shared.down_bias")),
        shared_activation(std::move(activation_of_shared)) {}

  // Valid while this object lives.
  MoeWeights weights() {
    MoeWeights result;
    result.router = view(router);
    result.router_bias = view(router_bias);
    result.selection_bias = view(selection_bias);
    for (std::size_t e = 0; e < up.shape(0); ++e) {
      if (gate)
        gated.push_back({weight_view(*gate, e), weight_view(up, e), weight_view(down, e),
                         row<const float>(gate_bias, e), row<const float>(up_bias, e),
                         row<const float>(down_bias, e)});
      else
        dense.push_back({weight_view(up, e), weight_view(down, e), row<const float>(up_bias, e),
                         row<const float>(down_bias, e)});
    }
    if (gate)
      result.experts = std::span<const GatedWeights>(gated);
    else
      result.experts = std::span<const DenseWeights>(dense);
    if (inner_up && inner_down) result.shared = shared();
    return result;
  }

 private:
  SharedExpert shared() const {
    SharedExpert expert;
    expert.activation = parse_activation(shared_activation);
    expert.gate = view(shared_gate);
    if (inner_gate)
      expert.weights =
          GatedWeights{weight_view(*inner_gate), weight_view(*inner_up), weight_view(*inner_down),
                       view(inner_gate_bias),    view(inner_up_bias),    view(inner_down_bias)};
    else
      expert.weights = DenseWeights{weight_view(*inner_up), weight_view(*inner_down),
                                    view(inner_up_bias), view(inner_down_bias)};
    return expert;
  }
};

MoeGrads moe_grads(const nb::dict& arrays) {
  MoeGrads grads;
  grads.router = view(take<OutMatrix>(arrays, "router"));
  grads.router_bias = view(find<OutVector>(arrays, "router_bias"));
  grads.shared_gate = view(find<OutVector>(arrays, "shared_gate"));
  const auto gate = find<OutStack>(arrays, "gate");
  const auto up = take<OutStack>(arrays, "up"), down = take<OutStack>(arrays, "down");
  const auto gate_bias = find<OutMatrix>(arrays, "gate_bias");
  const auto up_bias = find<OutMatrix>(arrays, "up_bias");
  const auto down_bias = find<OutMatrix>(arrays, "down_bias");
  if (gate) grads.experts = std::vector<GatedGrads>();
  for (std::size_t e = 0; e < up.shape(0); ++e) {
    if (gate)
      std::get<std::vector<GatedGrads>>(grads.experts)
          .push_back({matrix(*gate, e), matrix(up, e), matrix(down, e), row<float>(gate_bias, e),
                      row<float>(up_bias, e), row<float>(down_bias, e)});
    else
      std::get<std::vector<DenseGrads>>(grads.experts)
          .push_back(
              {matrix(up, e), matrix(down, e), row<float>(up_bias, e), row<float>(down_bias, e)});
  }
  const auto inner_up = find<OutMatrix>(arrays, "shared.up");
  if (!inner_up) return grads;
  const Matrix inner_down = view(take<OutMatrix>(arrays, "shared.down"));
  const auto inner_up_bias = view(find<OutVector>(arrays, "shared.up_bias"));
  const auto inner_down_bias = view(find<OutVector>(arrays, "shared.down_bias"));
  if (const auto inner_gate = find<OutMatrix>(arrays, "shared.gate"))
    grads.shared = GatedGrads{view(*inner_gate), view(*inner_up),
                              inner_down,        view(find<OutVector>(arrays, "shared.gate_bias")),
                              inner_up_bias,     inner_down_bias};
  else
    grads.shared = DenseGrads{view(*inner_up), inner_down, inner_up_bias, inner_down_bias};
  return grads;
}

std::span<const char> view(const Mask& mask) {
  return mask ? std::span(mask->data(), mask->size()) : std::span<const char>();
}

// A read-only look at what `owner` keeps.
template <class T>
nb::object look(const std::vector<T>& values, std::size_t rows, std::size_t cols,
                const nb::object& owner) {
  return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<2>>(values.data(), {rows, cols}, owner));
}

void bind_saved(nb::module_& module) {
  nb::class_<MoeSaved>(module, "MoeSaved")
      .def(nb::init<>())
      .def("experts",
           [](const nb::object& self) {
             const RoutingResult& r = nb::cast<const MoeSaved&>(self).routing;
             return look(r.experts, r.tokens, r.top_k, self);
           })
      .def("weights",
           [](const nb::object& self) {
             const RoutingResult& r = nb::cast<const MoeSaved&>(self).routing;
             return look(r.weights, r.tokens, r.top_k, self);
           })
      .def("dropped",
           [](const nb::object& self) {
             const RoutingResult& r = nb::cast<const MoeSaved&>(self).routing;
             const auto* flags = reinterpret_cast<const std::uint8_t*>(r.dropped.data());
             return nb::cast(nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<2>>(
                 flags, {r.tokens, r.top_k}, self));
           })
      .def("logits",
           [](const nb::object& self) {
             const RoutingResult& r = nb::cast<const MoeSaved&>(self).routing;
             return look(r.logits, r.tokens, r.n_experts, self);
           })
      .def(
          "load",
          [](const MoeSaved& self, const Mask& counted) {
            RouterLoad load;
            load.add(self.routing, view(counted));
            nb::list result;
            for (const std::uint64_t pairs : load.load) result.append(pairs);
            return result;
          },
          "counted"_a.none())
      .def_prop_ro("dropped_pairs", [](const MoeSaved& self) { return self.routing.dropped_pairs; })
      .def_prop_ro("non_finite_tokens",
                   [](const MoeSaved& self) { return self.routing.non_finite_tokens; });
}

}  // namespace

void bind_moe(nb::module_& module) {
  bind_saved(module);
  nb::class_<MoeLayer> layer(module, "MoeFfn");
  layer
      .def(
          "__init__",
          [](MoeLayer* self, const nb::dict& arrays, const std::string& activation,
             const std::string& shared_activation, int top_k, const std::string& scoring,
             bool renormalize, float scaling, int n_groups, int top_groups, bool weight_input,
             std::optional<float> capacity_factor) {
            MoeArrays given(arrays, shared_activation);
            const Routing routing{
                top_k,      parse_scoring(scoring), renormalize,    scaling, n_groups,
                top_groups, weight_input,           capacity_factor};
            const ReleasedGil released;
            new (self) MoeLayer(MoeFfn(given.weights(), parse_activation(activation), routing));
          },
          "arrays"_a, "activation"_a, "shared_activation"_a, "top_k"_a, "scoring"_a,
          "renormalize"_a, "scaling"_a, "n_groups"_a, "top_groups"_a, "weight_input"_a,
          "capacity_factor"_a.none())
      .def(
          "set_weights",
          [](MoeLayer& self, const nb::dict& arrays, const std::string& shared_activation) {
            MoeArrays given(arrays, shared_activation);
            self.replace(
                [&](Workspace& workspace) { self.ffn.set_weights(given.weights(), workspace); });
          },
          "arrays"_a, "shared_activation"_a)
      .def(
          "backward",
          [](MoeLayer& self, const InMatrix& x, const MoeSaved& saved, const InMatrix& dy,
             const OutMatrix& dx, const nb::dict& arrays, float load_balance, float z_loss,
             const Mask& counted) {
            MoeGrads grads = moe_grads(arrays);
            grads.losses = {load_balance, z_loss, view(counted)};
            self.compute([&](Workspace& workspace) {
              self.ffn.backward(view(x), saved, view(dy), view(dx), grads, workspace);
            });
          },
          "x"_a, "saved"_a, "dy"_a, "dx"_a, "arrays"_a, "load_balance"_a, "z_loss"_a,
          "counted"_a.none())
      .def(
          "router_losses",
          [](const MoeLayer& self, const MoeSaved& saved, const Mask& counted) {
            const RouterLosses losses =
                router_losses(saved.routing, self.ffn.routing().scoring, view(counted));
            return nb::make_tuple(losses.load_balance, losses.z);
          },
          "saved"_a, "counted"_a.none())
      .def_prop_ro("active_parameters",
                   [](const MoeLayer& self) { return self.ffn.active_parameters(); })
      .def_prop_ro("router_has_task_gradient",
                   [](const MoeLayer& self) { return self.ffn.router_has_task_gradient(); });
  bind_calls<MoeLayer, MoeSaved>(layer);
}

}  // namespace fourfold::python
