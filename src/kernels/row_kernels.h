// Kernels over one row, of one instruction set: norms and sums, forward and backward, and the
// gradient of softmax.
#pragma once

#include <cstddef>

namespace fourfold {

// What a norm takes from a row: the normalised value is ((x - shift) - rest) * scale. shift and
// rest are the mean in two parts, both 0 in an RMSNorm.
struct NormStatistics {
  float shift, rest, scale;
};

// y = (x - mean) / sqrt(var + eps) * gamma + beta over n values; y may be x.
using LayerNormRow = void (*)(const float* x, const float* gamma, const float* beta, float* y,
                              std::size_t n, float eps);
// y = x / sqrt(mean of x^2 + eps) * gamma over n values; y may be x.
using RmsNormRow = void (*)(const float* x, const float* gamma, float* y, std::size_t n, float eps);
using NormStatisticsRow = NormStatistics (*)(const float* x, std::size_t n, float eps);
// dx of a norm from the row's statistics; dx may be dy.
using NormBackwardRow = void (*)(const float* x, NormStatistics statistics, const float* gamma,
                                 const float* dy, float* dx, std::size_t n);
// dgamma += dy * normalised x over n values.
using NormGammaRow = void (*)(const float* x, NormStatistics statistics, const float* dy,
                              float* dgamma, std::size_t n);
// dp[i] = scale * p[i] * (dp[i] - sum of p * dp): from the gradient of p = softmax(scale * x) to
// that of x.
using SoftmaxBackwardRow = void (*)(const float* p, float* dp, std::size_t n, float scale);
// y += x over n values.
using AddRow = void (*)(const float* x, float* y, std::size_t n);

constexpr std::size_t kNormRoundings = 3;

struct RowKernels {
  LayerNormRow layer_norm;
  NormStatisticsRow layer_norm_statistics;
  NormBackwardRow layer_norm_backward;
  RmsNormRow rms_norm[kNormRoundings];  // in the order of enum NormRounding
  NormStatisticsRow rms_norm_statistics;
  NormBackwardRow rms_norm_backward;
  NormGammaRow norm_gamma;
  SoftmaxBackwardRow softmax_backward;
  AddRow add;
};

}  // namespace fourfold
