// Kernels over one row, of one instruction set: norms, softmax, addition.
#pragma once

#include <cstddef>

namespace fourfold {

// y = (x - mean) / sqrt(var + eps) * gamma + beta over n values; y may be x.
using LayerNormRow = void (*)(const float* x, const float* gamma, const float* beta, float* y,
                              std::size_t n, float eps);
// x[i] = exp(scale * x[i] - max) / sum over n values.
using SoftmaxRow = void (*)(float* x, std::size_t n, float scale);
// y += x over n values.
using AddRow = void (*)(const float* x, float* y, std::size_t n);

struct RowKernels {
  LayerNormRow layer_norm;
  SoftmaxRow softmax;
  AddRow add;
};

}  // namespace fourfold
