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
#include "kernels/generic/bf16_rows.inl.h"
//
#include "kernels/generic/non_zero.inl.h"
//
#include "kernels/generic/transpose.inl.h"
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
#include "kernels/generic/unroll.inl.h"
//
#include "kernels/generic/sums.inl.h"
//
#include "kernels/scalar/transpose_plain.inl.h"
//
#include "kernels/generic/attention.inl.h"
//
#include "kernels/scalar/probes_plain.inl.h"

}  // namespace

// The plain loop is the reference: multiply, then add, in the order of k.
constinit const KernelTable kScalarKernels = {
    "scalar",
    {gemm_panel_plain, listed_panel_plain, features_f32_plain, gemm_panel_bf16_plain,
     listed_panel_bf16_plain, features_bf16_plain, false, peak_probe_plain, peak_probe_plain,
     read_probe_plain, transpose<VecF32>, round_rows, narrow_rows, pair_rows,
     non_zero_columns<VecF32>},
    make_activation_kernels<VecF32>(),
    make_row_kernels<VecF32>(),
    make_attention_kernels<VecF32, 1, 16>(),
    make_attention_bf16_kernels<VecF32, 1, 16>()};

}  // namespace fourfold
