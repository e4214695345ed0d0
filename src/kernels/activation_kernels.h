// Activation kernels of one instruction set, in the order of enum Activation.
#pragma once

#include <cstddef>

namespace fourfold {

constexpr std::size_t kActivations = 13;

// y[i] = act(x[i]); y may be x. swiglu_oai: its gate alone, which no public call reaches.
using Elementwise = void (*)(const float* x, float* y, std::size_t n);
// y[r, 0..cols) = act(c[r, 0..cols) + bias[0..cols)); c: [rows, 64], bias may be null, cols <= 64.
using GemmEpilogue = void (*)(const float* c, const float* bias, float* y, std::size_t ldy,
                              std::size_t rows, std::size_t cols);
// dx[i] = dy[i] * act'(x[i]); dx may be x or dy.
using ActivationBackward = void (*)(const float* x, const float* dy, float* dx, std::size_t n);
// h[i] = act(gate[i]) * up[i], the bits of Elementwise and a multiplication; h may be gate or up.
// swiglu_oai: (1 + up) in place of up, after the clamps.
using Glu = void (*)(const float* gate, const float* up, float* h, std::size_t n);
// dgate[i] = (dh[i] * up[i]) * act'(gate[i]), dup[i] = dh[i] * act(gate[i]); each may be one of the
// three arguments. swiglu_oai: 0 through gate above 7, and through up outside [-7, 7].
using GluBackward = void (*)(const float* gate, const float* up, const float* dh, float* dgate,
                             float* dup, std::size_t n);

// One finished tile of a gated expansion, all in one pass: gate and up: [rows, 64] sums; the inputs
// of activation and product (with their biases, which may be null) go to gate_pre and up_pre where
// those are not null, h = act(gate) * up. cols <= 64; h may be gate.
struct GluTile {
  const float *gate, *up, *gate_bias, *up_bias;
  float *gate_pre, *up_pre;
  std::size_t gate_stride, up_stride;
  float* h;
  std::size_t h_stride, rows, cols;
};
using GluEpilogue = void (*)(const GluTile& tile);
// GluBackward and Glu of the same values: h[i] = act(gate[i]) * up[i].
using GluBackwardAgain = void (*)(const float* gate, const float* up, const float* dh, float* dgate,
                                  float* dup, float* h, std::size_t n);

struct ActivationKernels {
  Elementwise forward[kActivations];
  GemmEpilogue epilogue[kActivations];
  ActivationBackward backward[kActivations];
  Glu glu[kActivations];
  GluBackward glu_backward[kActivations];
  GluEpilogue glu_epilogue[kActivations];
  GluBackwardAgain glu_backward_again[kActivations];
};

}  // namespace fourfold
