// The steps of a trace: dense and gated layers and the norm behind them, with every multiplication
// written out when the weights are given.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fourfold/ffn.h"
#include "fourfold/ffn_counts.h"
#include "fourfold/norm.h"
#include "fourfold/trace.h"

namespace fourfold {

// Title, kind, sizes and counts.
TraceReport begin_trace(std::string title, const FfnShape& shape, Activation activation,
                        std::vector<float> x);

// Run x: [d_model] through the layer, add the steps and return y: [d_model]. weights: only for
// small layers, else null. A gated layer may be an expert of a mixture.
std::vector<float> trace_dense(const DenseFfn& ffn, const DenseWeights* weights, TraceReport& trace,
                               Workspace& workspace);
std::vector<float> trace_gated(const GatedFfn& ffn, const GatedWeights* weights,
                               std::optional<std::uint64_t> expert, TraceReport& trace,
                               Workspace& workspace);
// Adds x + y and its norm.
void trace_norm(const LayerNorm& norm, std::span<const float> y, bool small, TraceReport& trace,
                Workspace& workspace);

// "y1 = 1 * 0.5 + 0 * 0.2 + ... + 0.1 = 1.3" for each row of weight: [out, in]; rows count from
// first. bias: [out] or empty.
std::vector<std::string> product_workings(const char* name, std::size_t first, ConstMatrix weight,
                                          std::span<const float> x, std::span<const float> bias,
                                          std::span<const float> result);
std::string trace_number(float value);  // negative ones in brackets

}  // namespace fourfold
