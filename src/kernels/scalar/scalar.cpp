// All kernels for any x86-64, and the reference for the others: the generic sources with a vector
// of one float, and one table, the only symbol of the object.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/kernel_table.h"

namespace fourfold {
namespace {

#include "kernels/scalar/vec.h"
//
#include "kernels/scalar/gemm_panel_plain.inl.h"
//
#include "kernels/generic/activation.inl.h"
//
#include "kernels/generic/activation_piecewise.inl.h"
//
#include "kernels/generic/activation_sigmoid.inl.h"
//
#include "kernels/generic/activation_gelu.inl.h"
//
#include "kernels/generic/activation_loops.inl.h"
//
#include "kernels/generic/activation_table.inl.h"
//
#include "kernels/generic/rows.inl.h"
//
#include "kernels/scalar/probes_plain.inl.h"

}  // namespace

// The plain loop is the reference: multiply, then add, in the order of k.
constinit const KernelTable kScalarKernels = {
    "scalar",
    {gemm_panel_plain<float>, gemm_panel_plain<std::uint16_t>, listed_row_plain<float>,
     listed_row_plain<std::uint16_t>, peak_probe_plain, read_probe_plain},
    make_activation_kernels<VecF32>(),
    make_row_kernels<VecF32>()};

}  // namespace fourfold
