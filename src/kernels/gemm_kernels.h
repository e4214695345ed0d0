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
// Independent multiply-adds in registers; returns how many floating-point operations were done.
using PeakProbe = double (*)(std::size_t rounds, float* sink);
// Reads n floats (a multiple of 256) and returns something that depends on all of them.
using ReadProbe = float (*)(const float* x, std::size_t n);

struct GemmKernels {
  GemmPanel panel_f32;
  PeakProbe peak_probe_f32;
  ReadProbe read_probe;
};

}  // namespace fourfold
