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
#include "kernels/generic/rows.inl.h"
//
#include "kernels/scalar/probes_plain.inl.h"

}  // namespace

// The plain loop is the reference: multiply, then add, in the order of k.
const KernelTable kScalarKernels{
    "scalar",
    gemm_panel_plain,
    {gemm_epilogue<VecF32, Identity>, gemm_epilogue<VecF32, Relu>, gemm_epilogue<VecF32, GeluErf>,
     gemm_epilogue<VecF32, GeluTanh>, gemm_epilogue<VecF32, Silu>},
    {apply_elementwise<VecF32, Identity>, apply_elementwise<VecF32, Relu>,
     apply_elementwise<VecF32, GeluErf>, apply_elementwise<VecF32, GeluTanh>,
     apply_elementwise<VecF32, Silu>},
    layer_norm<VecF32>,
    softmax<VecF32>,
    add_row<VecF32>,
    peak_probe_plain,
    read_probe_plain,
};

}  // namespace fourfold
