// DenseFfn and GatedFfn. Arrays: up, gate [d_ff, d_model], down [d_model, d_ff], x, y, dy, dx
// [tokens, d_model].
#include <algorithm>
#include <string>

#include "bindings.h"

namespace fourfold::python {
namespace {

using namespace nb::literals;
using Bias = std::optional<InVector>;
using BiasGrad = std::optional<OutVector>;

DenseWeights dense_weights(const AnyWeight& up, const AnyWeight& down, const Bias& up_bias,
                           const Bias& down_bias) {
  return {weight_view(up), weight_view(down), view(up_bias), view(down_bias)};
}

GatedWeights gated_weights(const AnyWeight& gate, const AnyWeight& up, const AnyWeight& down,
                           const Bias& gate_bias, const Bias& up_bias, const Bias& down_bias) {
  GatedWeights weights;
  weights.gate = weight_view(gate);
  weights.up = weight_view(up);
  weights.down = weight_view(down);
  weights.gate_bias = view(gate_bias);
  weights.up_bias = view(up_bias);
  weights.down_bias = view(down_bias);
  return weights;
}

void copy_values(std::span<const float> from, const BiasGrad& to) {
  if (to) std::copy_n(from.begin(), std::min(from.size(), to->size()), to->data());
}

void bind_dense(nb::module_& module) {
  nb::class_<DenseSaved>(module, "DenseSaved").def(nb::init<>());
  nb::class_<DenseLayer> layer(module, "DenseFfn");
  layer
      .def(
          "__init__",
          [](DenseLayer* self, const AnyWeight& up, const AnyWeight& down, const Bias& up_bias,
             const Bias& down_bias, const std::string& activation) {
            const ReleasedGil released;
            new (self) DenseLayer(DenseFfn(dense_weights(up, down, up_bias, down_bias),
                                           parse_activation(activation)));
          },
          "up"_a, "down"_a, "up_bias"_a.none(), "down_bias"_a.none(), "activation"_a)
      .def(
          "set_weights",
          [](DenseLayer& self, const AnyWeight& up, const AnyWeight& down, const Bias& up_bias,
             const Bias& down_bias) {
            self.replace([&](Workspace& workspace) {
              self.ffn.set_weights(dense_weights(up, down, up_bias, down_bias), workspace);
            });
          },
          "up"_a, "down"_a, "up_bias"_a.none(), "down_bias"_a.none())
      .def(
          "backward",
          [](DenseLayer& self, const InMatrix& x, const DenseSaved& saved, const InMatrix& dy,
             const OutMatrix& dx, const OutMatrix& up, const OutMatrix& down,
             const BiasGrad& up_bias, const BiasGrad& down_bias) {
            const DenseGrads grads{view(up), view(down), view(up_bias), view(down_bias)};
            self.compute([&](Workspace& workspace) {
              self.ffn.backward(view(x), saved, view(dy), view(dx), grads, workspace);
            });
          },
          "x"_a, "saved"_a, "dy"_a, "dx"_a, "up"_a, "down"_a, "up_bias"_a.none(),
          "down_bias"_a.none());
  layer.def(
      "copy_weights",
      [](DenseLayer& self, const OutMatrix& up, const OutMatrix& down) {
        self.compute([&](Workspace&) { self.ffn.copy_weights(view(up), view(down)); });
      },
      "up"_a, "down"_a);
  layer.def(
      "copy_biases",
      [](DenseLayer& self, const BiasGrad& up_bias, const BiasGrad& down_bias) {
        self.compute([&](Workspace&) {
          copy_values(self.ffn.up_bias(), up_bias);
          copy_values(self.ffn.down_bias(), down_bias);
        });
      },
      "up_bias"_a.none(), "down_bias"_a.none());
  bind_calls<DenseLayer, DenseSaved>(layer);
}

void bind_gated(nb::module_& module) {
  nb::class_<GatedSaved>(module, "GatedSaved").def(nb::init<>());
  nb::class_<GatedLayer> layer(module, "GatedFfn");
  layer
      .def(
          "__init__",
          [](GatedLayer* self, const AnyWeight& gate, const AnyWeight& up, const AnyWeight& down,
             const Bias& gate_bias, const Bias& up_bias, const Bias& down_bias,
             const std::string& activation) {
            const ReleasedGil released;
            new (self)
                GatedLayer(GatedFfn(gated_weights(gate, up, down, gate_bias, up_bias, down_bias),
                                    parse_activation(activation)));
          },
          "gate"_a, "up"_a, "down"_a, "gate_bias"_a.none(), "up_bias"_a.none(),
          "down_bias"_a.none(), "activation"_a)
      .def(
          "set_weights",
          [](GatedLayer& self, const AnyWeight& gate, const AnyWeight& up, const AnyWeight& down,
             const Bias& gate_bias, const Bias& up_bias, const Bias& down_bias) {
            self.replace([&](Workspace& workspace) {
              self.ffn.set_weights(gated_weights(gate, up, down, gate_bias, up_bias, down_bias),
                                   workspace);
            });
          },
          "gate"_a, "up"_a, "down"_a, "gate_bias"_a.none(), "up_bias"_a.none(),
          "down_bias"_a.none())
      .def(
          "backward",
          [](GatedLayer& self, const InMatrix& x, const GatedSaved& saved, const InMatrix& dy,
             const OutMatrix& dx, const OutMatrix& gate, const OutMatrix& up, const OutMatrix& down,
             const BiasGrad& gate_bias, const BiasGrad& up_bias, const BiasGrad& down_bias) {
            const GatedGrads grads{view(gate),      view(up),      view(down),
                                   view(gate_bias), view(up_bias), view(down_bias)};
            self.compute([&](Workspace& workspace) {
              self.ffn.backward(view(x), saved, view(dy), view(dx), grads, workspace);
            });
          },
          "x"_a, "saved"_a, "dy"_a, "dx"_a, "gate"_a, "up"_a, "down"_a, "gate_bias"_a.none(),
          "up_bias"_a.none(), "down_bias"_a.none());
  layer.def(
      "copy_weights",
      [](GatedLayer& self, const OutMatrix& gate, const OutMatrix& up, const OutMatrix& down) {
        self.compute([&](Workspace&) { self.ffn.copy_weights(view(gate), view(up), view(down)); });
      },
      "gate"_a, "up"_a, "down"_a);
  layer.def(
      "copy_biases",
      [](GatedLayer& self, const BiasGrad& gate_bias, const BiasGrad& up_bias,
         const BiasGrad& down_bias) {
        self.compute([&](Workspace&) {
          copy_values(self.ffn.gate_bias(), gate_bias);
          copy_values(self.ffn.up_bias(), up_bias);
          copy_values(self.ffn.down_bias(), down_bias);
        });
      },
      "gate_bias"_a.none(), "up_bias"_a.none(), "down_bias"_a.none());
  bind_calls<GatedLayer, GatedSaved>(layer);
}

}  // namespace

void bind_dense_and_gated(nb::module_& module) {
  bind_dense(module);
  bind_gated(module);
}

}  // namespace fourfold::python
