// fourfold._core: the C++ library for the Python files of the package, which are its only users.
#include <algorithm>
#include <vector>

#include "bindings.h"

namespace fourfold::python {
namespace {

using namespace nb::literals;

nb::dict info() {
  const auto state = shared_runtime();
  nb::dict result;
  result["version"] = FOURFOLD_VERSION;
  result["isa"] = state->runtime.isa();
  result["threads"] = state->runtime.threads();
  result["threads_reason"] = state->runtime.threads_reason();
  return result;
}

// Bits of a bfloat16 array of another package, which NumPy has no type for. Shares its memory.
nb::object bf16_bits(const nb::ndarray<nb::ro, nb::device::cpu>& array, const nb::object& owner) {
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    shape.push_back(array.shape(i));
    strides.push_back(array.stride(i));
  }
  const auto type = array.dtype();
  if (type.code != static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) || type.bits != 16)
    throw nb::type_error("not bfloat16");
  return nb::cast(nb::ndarray<nb::numpy, const std::uint16_t>(array.data(), array.ndim(),
                                                              shape.data(), owner, strides.data()));
}

void round_to_bf16_bits(const nb::ndarray<const float, nb::ndim<1>, nb::c_contig>& from,
                        const nb::ndarray<std::uint16_t, nb::ndim<1>, nb::c_contig>& to) {
  const std::size_t count = std::min(from.size(), to.size());
  for (std::size_t i = 0; i < count; ++i) to.data()[i] = to_bf16(from.data()[i]).bits;
}

}  // namespace
}  // namespace fourfold::python

NB_MODULE(_core, module) {
  using namespace fourfold::python;
  nb::set_leak_warnings(false);  // the package never prints, at exit neither
  bind_errors(module);
  bind_dense_and_gated(module);
  bind_functional(module);
  bind_moe(module);
  module.def("info", &info);
  module.def("set_num_threads", &set_num_threads, "count"_a);
  module.def("bf16_bits", &bf16_bits, "array"_a, "owner"_a);
  module.def("round_to_bf16", &round_to_bf16_bits, "values"_a, "bits"_a);
}
