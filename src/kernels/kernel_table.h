// The contract of this floor: every micro-kernel of one instruction set, as plain functions.
// All take raw pointers, allocate nothing, and give each row the same bits wherever it stands.
#pragma once

#include "kernels/activation_kernels.h"
#include "kernels/attention_kernels.h"
#include "kernels/gemm_kernels.h"
#include "kernels/row_kernels.h"

namespace fourfold {

struct KernelTable {
  const char* name;
  GemmKernels gemm;
  ActivationKernels activations;
  RowKernels rows;
  AttentionKernels attention;
  AttentionBf16Kernels attention_bf16;
};

// What an instruction set with dot products of bf16 does better than the one it extends.
struct Bf16Products {
  GemmPanelBf16 panel;
  ListedPanelBf16 listed;
  FeatureProductBf16 features;
  PeakProbe peak_probe;
  AttentionBf16Kernels attention;
};

extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
extern const Bf16Products kAvx512Bf16Products;

}  // namespace fourfold
