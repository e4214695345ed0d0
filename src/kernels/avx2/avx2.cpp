// All kernels for AVX2 and FMA: the generic sources with this vector type, and one table, the only
// symbol of the object.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/kernel_table.h"

namespace fourfold {
namespace {

#include "kernels/avx2/vec.h"
//
#include "kernels/generic/unroll.inl.h"
//
#include "kernels/generic/gemm_panel.inl.h"
//
#include "kernels/generic/activation.inl.h"
//
#include "kernels/generic/rows.inl.h"
//
#include "kernels/generic/probes.inl.h"

}  // namespace

// 6 rows x 16 columns: 12 accumulators, 2 weights and 1 broadcast fill 15 of the 16 registers.
const KernelTable kAvx2Kernels{
    "avx2",
    gemm_panel<VecF32, 6, 2>,
    {gemm_epilogue<VecF32, Identity>, gemm_epilogue<VecF32, Relu>, gemm_epilogue<VecF32, GeluErf>,
     gemm_epilogue<VecF32, GeluTanh>, gemm_epilogue<VecF32, Silu>},
    {apply_elementwise<VecF32, Identity>, apply_elementwise<VecF32, Relu>,
     apply_elementwise<VecF32, GeluErf>, apply_elementwise<VecF32, GeluTanh>,
     apply_elementwise<VecF32, Silu>},
    layer_norm<VecF32>,
    softmax<VecF32>,
    add_row<VecF32>,
    peak_probe<VecF32>,
    read_probe<VecF32>,
};

}  // namespace fourfold
