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

using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;

// The array of a DLPack capsule as a NumPy one that shares its memory, and whether it holds
// bfloat16, for which NumPy has no type: those come as bits.
nb::tuple array_of(const nb::capsule& capsule) {
  AnyArray array;
  if (!nb::try_cast(capsule, array))
    throw nb::buffer_error("it is not a DLPack array in the CPU's memory");
  const nb::dlpack::dtype type = array.dtype();
  if (type.code != static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) || type.bits != 16)
    return nb::make_tuple(nb::cast(nb::ndarray<nb::numpy, nb::ro>(array)), false);
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    shape.push_back(array.shape(i));
    strides.push_back(array.stride(i));
  }
  const nb::capsule owner(new AnyArray(array),
                          [](void* kept) noexcept { delete static_cast<AnyArray*>(kept); });
  const nb::ndarray<nb::numpy, const std::uint16_t> bits(array.data(), array.ndim(), shape.data(),
                                                         owner, strides.data());
  return nb::make_tuple(nb::cast(bits), true);
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
  module.def("array_of", &array_of, "capsule"_a);
  module.def("round_to_bf16", &round_to_bf16_bits, "values"_a, "bits"_a);
}
