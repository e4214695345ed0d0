// Matrix product kernels of one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fourfold {

// Packed weights are panels of 64 output columns: element (n, k) of panel n / 64 lies at k * 64 + n
// % 64.
constexpr std::size_t kPanel = 64;
// Depth of one pass over a panel: 128 rows of 64 floats are 32 KiB, read again for each block of
// rows.
constexpr std::size_t kDepthBlock = 128;

// c: [rows, 64] = a: [rows, k] * b: [k, 64]; one accumulator per element, k ascending from 0.
using GemmPanel = void (*)(const float* a, std::size_t lda, const float* b, float* c,
                           std::size_t rows, std::size_t k);
// The same with weights in bf16, given as their bits; sums are float32.
using GemmPanelBf16 = void (*)(const float* a, std::size_t lda, const std::uint16_t* b, float* c,
                               std::size_t rows, std::size_t k);
// c: [64] = the sum of a[i] * b[i, 0..64) over the i of index[0..count), in that order.
using ListedRow = void (*)(const float* a, const std::uint32_t* index, std::size_t count,
                           const float* b, float* c);
using ListedRowBf16 = void (*)(const float* a, const std::uint32_t* index, std::size_t count,
                               const std::uint16_t* b, float* c);
// Independent multiply-adds in registers; returns how many floating-point operations were done.
using PeakProbe = double (*)(std::size_t rounds, float* sink);
// Reads n floats (a multiple of 256) and returns something that depends on all of them.
using ReadProbe = float (*)(const float* x, std::size_t n);

struct GemmKernels {
  GemmPanel panel_f32;
  GemmPanelBf16 panel_bf16;
  ListedRow listed_f32;
  ListedRowBf16 listed_bf16;
  PeakProbe peak_probe_f32;
  ReadProbe read_probe;
};

}  // namespace fourfold
