// What the binding files share: array types, views of them, and the parts of the module.
// The Python files of the package check types, shapes and contiguity before they call any of this.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <optional>
#include <span>
#include <utility>

#include "call_gate.h"
#include "fourfold/ffn.h"
#include "released_gil.h"
#include "shared_runtime.h"

namespace fourfold::python {

namespace nb = nanobind;

using InMatrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutMatrix = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using InVector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutVector = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using InStack = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using OutStack = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
// bfloat16 travels as its bits.
using InBits = nb::ndarray<const std::uint16_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutBits = nb::ndarray<std::uint16_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
// A weight: float32, or the bits of bfloat16.
using AnyWeight = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

inline ConstMatrix view(const InMatrix& array) {
  return {array.data(), array.shape(0), array.shape(1)};
}
inline Matrix view(const OutMatrix& array) {
  return {array.data(), array.shape(0), array.shape(1)};
}
inline std::span<const float> view(const std::optional<InVector>& array) {
  return array ? std::span(array->data(), array->shape(0)) : std::span<const float>();
}
inline std::span<float> view(const std::optional<OutVector>& array) {
  return array ? std::span(array->data(), array->shape(0)) : std::span<float>();
}
inline ConstBf16Matrix view(const InBits& array) {
  return {reinterpret_cast<const Bf16*>(array.data()), array.shape(0), array.shape(1)};
}
inline Bf16Matrix view(const OutBits& array) {
  return {reinterpret_cast<Bf16*>(array.data()), array.shape(0), array.shape(1)};
}

// The matrix `index` of a weight [.., rows, cols] whose leading dimension, if any, counts experts.
inline Weight weight_view(const AnyWeight& array, std::size_t index = 0) {
  const std::size_t rows = array.shape(array.ndim() - 2), cols = array.shape(array.ndim() - 1);
  const std::size_t first = index * rows * cols;
  if (array.dtype() == nb::dtype<float>())
    return ConstMatrix(static_cast<const float*>(array.data()) + first, rows, cols);
  return ConstBf16Matrix(static_cast<const Bf16*>(array.data()) + first, rows, cols);
}

// What messages call a layer.
template <class Ffn>
inline constexpr const char* kWhere = "dense_ffn";
template <>
inline constexpr const char* kWhere<GatedFfn> = "gated_ffn";
template <>
inline constexpr const char* kWhere<MoeFfn> = "moe_ffn";

// A layer and the calls that use it, which compute without the GIL.
template <class Ffn>
struct SharedLayer {
  Ffn ffn;
  CallGate gate;

  explicit SharedLayer(Ffn&& layer) : ffn(std::move(layer)) {}

  // call(workspace) beside other such calls.
  template <class Call>
  void compute(Call&& call) {
    run(call, CallGate::Use::call);
  }

  // call(workspace) while nobody else uses the layer.
  template <class Call>
  void change(Call&& call) {
    run(call, CallGate::Use::change);
  }

  // As change, for a call that writes every weight.
  template <class Call>
  void replace(Call&& call) {
    run(call, CallGate::Use::replace);
  }

  void pack_backward() {
    change([this](Workspace&) {
      if (!ffn.has_backward()) ffn.pack_backward();
    });
  }

 private:
  template <class Call>
  void run(Call& call, CallGate::Use use) {
    const Lease lease;
    CallGate::Pass pass(gate, use, kWhere<Ffn>);
    {
      const ReleasedGil released;
      call(lease.workspace());
    }
    pass.succeeded();
  }
};

using DenseLayer = SharedLayer<DenseFfn>;
using GatedLayer = SharedLayer<GatedFfn>;
using MoeLayer = SharedLayer<MoeFfn>;

// What every kind of layer has in common.
template <class Layer, class Saved>
void bind_calls(nb::class_<Layer>& layer) {
  using namespace nb::literals;
  layer
      .def(
          "forward",
          [](Layer& self, const InMatrix& x, const OutMatrix& y, Saved* save) {
            self.compute(
                [&](Workspace& workspace) { self.ffn.forward(view(x), view(y), workspace, save); });
          },
          "x"_a, "y"_a, "save"_a.none())
      .def(
          "forward_bf16",
          [](Layer& self, const InBits& x, const OutBits& y, Saved* save) {
            self.compute(
                [&](Workspace& workspace) { self.ffn.forward(view(x), view(y), workspace, save); });
          },
          "x"_a, "y"_a, "save"_a.none())
      .def("pack_backward", &Layer::pack_backward)
      .def(
          "set_skip_zeros",
          [](Layer& self, bool on) {
            self.change([&](Workspace&) { self.ffn.set_skip_zeros(on); });
          },
          "on"_a)
      .def_prop_ro("has_backward", [](const Layer& self) { return self.ffn.has_backward(); })
      .def_prop_ro("parameters", [](const Layer& self) { return self.ffn.parameters(); })
      .def_prop_ro("activation",
                   [](const Layer& self) { return activation_name(self.ffn.activation()); })
      .def_prop_ro("dtype", [](const Layer& self) {
        return self.ffn.dtype() == Dtype::f32 ? "float32" : "bfloat16";
      });
}

void bind_errors(nb::module_& module);
void bind_dense_and_gated(nb::module_& module);
void bind_functional(nb::module_& module);
void bind_moe(nb::module_& module);

}  // namespace fourfold::python
