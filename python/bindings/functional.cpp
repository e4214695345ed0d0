// Activations by name, on flat arrays of equal length.
#include <string>

#include "bindings.h"

namespace fourfold::python {
namespace {

using namespace nb::literals;

std::span<const float> flat(const InVector &array) { return {array.data(), array.shape(0)}; }
std::span<float> flat(const OutVector &array) { return {array.data(), array.shape(0)}; }

// The library's printed names, and whether each is for gated layers alone.
nb::list activations() {
  nb::list result;
  for (int i = 0;; ++i) {
    const auto activation = static_cast<Activation>(i);
    const std::string_view name = activation_name(activation);
    if (name == "unknown") return result;
    result.append(nb::make_tuple(name, is_gated_only(activation)));
  }
}

}  // namespace

void bind_functional(nb::module_ &module) {
  module.def("activations", &activations);
  module.def(
      "activate",
      [](const std::string &name, const InVector &x, const OutVector &y) {
        const ReleasedGil released;
        activate(parse_activation(name), flat(x), flat(y));
      },
      "name"_a, "x"_a, "y"_a);
  module.def(
      "activate_backward",
      [](const std::string &name, const InVector &x, const InVector &dy, const OutVector &dx) {
        const ReleasedGil released;
        activate_backward(parse_activation(name), flat(x), flat(dy), flat(dx));
      },
      "name"_a, "x"_a, "dy"_a, "dx"_a);
  module.def(
      "gated_activate",
      [](const std::string &name, const InVector &gate, const InVector &up, const OutVector &h) {
        const ReleasedGil released;
        gated_activate(parse_activation(name), flat(gate), flat(up), flat(h));
      },
      "name"_a, "gate"_a, "up"_a, "h"_a);
  module.def(
      "gated_activate_backward",
      [](const std::string &name, const InVector &gate, const InVector &up, const InVector &dh,
         const OutVector &dgate, const OutVector &dup) {
        const ReleasedGil released;
        gated_activate_backward(parse_activation(name), flat(gate), flat(up), flat(dh), flat(dgate),
                                flat(dup));
      },
      "name"_a, "gate"_a, "up"_a, "dh"_a, "dgate"_a, "dup"_a);
}

}  // namespace fourfold::python
