// How a product with a packed weight is cut into tasks: (row chunk, panel) pairs, each computed
// whole by one thread.
#pragma once

#include <algorithm>
#include <cstddef>

#include "fourfold/matrix.h"
#include "kernels/dispatch.h"
#include "ops/packed_weight.h"

namespace fourfold {

struct TileTasks {
  // Rows of one task: its sums (512 x 64 floats) and a depth block of x stay in the L2 cache.
  static constexpr std::size_t kMostRows = 512, kFewestRows = 32;

  std::size_t rows, chunks, panels;

  // With few panels the rows are cut smaller, so that every thread has work.
  TileTasks(std::size_t tokens, std::size_t n_panels, std::size_t threads) : panels(n_panels) {
    const std::size_t wanted = (4 * threads + panels - 1) / panels;
    const std::size_t even = (tokens + wanted - 1) / wanted;
    const std::size_t most = std::clamp(even, kFewestRows, kMostRows);
    // Chunks of nearly equal height: a short last one would waste the tile.
    chunks = std::max<std::size_t>(1, (tokens + most - 1) / most);
    rows = (tokens + chunks - 1) / chunks;
    chunks = rows == 0 ? 0 : (tokens + rows - 1) / rows;
  }
  std::size_t count() const { return chunks * panels; }
};

// sums: [x.rows, 64] = x times panel p of the weight; x: [rows, in].
inline void panel_product(ConstMatrix x, const PackedWeight& weight, std::size_t p, float* sums) {
  const GemmKernels& gemm = kernels().gemm;
  if (weight.dtype() == Dtype::f32)
    gemm.panel_f32(x.data, x.stride, weight.panel(p), sums, x.rows, x.cols);
  else
    gemm.panel_bf16(x.data, x.stride, &weight.panel_bf16(p)->bits, sums, x.rows, x.cols);
}

}  // namespace fourfold
