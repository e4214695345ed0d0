// All kernels for AVX2 and FMA: the generic sources with this vector type, and one table, the only
// symbol of the object.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/kernel_table.h"

namespace fourfold {
namespace {

#include "kernels/generic/transpose_square.inl.h"
//
#include "kernels/avx2/vec.h"
//
#include "kernels/generic/unroll.inl.h"
//
#include "kernels/generic/sums.inl.h"
//
#include "kernels/generic/probes.inl.h"
//
#include "kernels/generic/bf16_rows.inl.h"
//
#include "kernels/generic/non_zero.inl.h"
//
#include "kernels/generic/transpose.inl.h"
//
#include "kernels/generic/gemm_terms.inl.h"
//
#include "kernels/generic/gemm_panel.inl.h"
//
#include "kernels/generic/listed.inl.h"
//
#include "kernels/generic/gemm_table.inl.h"
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
#include "kernels/generic/attention.inl.h"

// 6 rows x 16 columns: 12 accumulators, 2 weights and 1 broadcast fill 15 of the 16 registers. One
// row and two take more columns, so that 8 accumulators hide the latency.
struct Tile {
  static constexpr std::size_t kRows = 6;
  static constexpr std::size_t vecs(std::size_t rows) { return rows == 1 ? 8 : rows == 2 ? 4 : 2; }
};

}  // namespace

constinit const KernelTable kAvx2Kernels = {"avx2",
                                            make_gemm_kernels<VecF32, Tile>(),
                                            make_activation_kernels<VecF32>(),
                                            make_row_kernels<VecF32>(),
                                            make_attention_kernels<VecF32, 6, 2>(),
                                            make_attention_bf16_kernels<VecF32, 6, 2>()};

}  // namespace fourfold
