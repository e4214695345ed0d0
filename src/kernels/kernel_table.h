// The contract of this floor: every micro-kernel of one instruction set, as plain functions.
// All take raw pointers, allocate nothing, and give each row the same bits wherever it stands.
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
constexpr std::size_t kActivations = 5;  // in the order of enum Activation

// c: [rows, 64] = a: [rows, k] * b: [k, 64]; one accumulator per element, k ascending from 0.
using GemmPanel = void (*)(const float* a, std::size_t lda, const float* b, float* c,
                           std::size_t rows, std::size_t k);
// y[r, 0..cols) = act(c[r, 0..cols) + bias[0..cols)); bias may be null; cols <= 64.
using GemmEpilogue = void (*)(const float* c, const float* bias, float* y, std::size_t ldy,
                              std::size_t rows, std::size_t cols);
using Elementwise = void (*)(const float* x, float* y, std::size_t n);
// y = (x - mean) / sqrt(var + eps) * gamma + beta over n values; y may be x.
using LayerNormRow = void (*)(const float* x, const float* gamma, const float* beta, float* y,
                              std::size_t n, float eps);
// x[i] = exp(scale * x[i] - max) / sum over n values.
using SoftmaxRow = void (*)(float* x, std::size_t n, float scale);
// y += x over n values.
using AddRow = void (*)(const float* x, float* y, std::size_t n);
// Independent multiply-adds in registers; returns how many floating-point operations were done.
using PeakProbe = double (*)(std::size_t rounds, float* sink);
// Reads n floats (a multiple of 256) and returns something that depends on all of them.
using ReadProbe = float (*)(const float* x, std::size_t n);

struct KernelTable {
  const char* name;
  GemmPanel gemm_panel_f32;
  GemmEpilogue gemm_epilogue_f32[kActivations];
  Elementwise activation_f32[kActivations];
  LayerNormRow layer_norm_f32;
  SoftmaxRow softmax_f32;
  AddRow add_f32;
  PeakProbe peak_probe_f32;
  ReadProbe read_probe;
};

extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

}  // namespace fourfold
