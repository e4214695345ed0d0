// The examples of `trace`, with weights of their own.
#include <cmath>
#include <random>

#include "fourfold/tools.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"
#include "tools/trace_steps.h"

namespace fourfold {
namespace {

constexpr const char* kPlainNorm = "The norm has gamma 1, beta 0, eps 0.";

FfnShape dense_shape(std::uint64_t d_model, std::uint64_t d_ff) {
  FfnShape shape;
  shape.d_model = d_model;
  shape.d_ff = d_ff;
  shape.biases = {false, true, true};
  return shape;
}

}  // namespace

TraceReport trace_tiny_example(Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  // up: [8, 4], down: [4, 8], as torch.nn.Linear stores them: row i of up is what hidden unit i
  // looks for.
  const std::vector<float> up{0.5F,  0.2F,  -0.1F, 0.3F, -0.3F, 0.4F,  0.6F,  -0.2F,
                              0.1F,  -0.5F, 0.3F,  0.6F, 0.7F,  0.3F,  -0.2F, -0.4F,
                              -0.6F, 0.8F,  0.4F,  0.1F, 0.2F,  -0.7F, 0.5F,  -0.5F,
                              -0.4F, 0.6F,  -0.8F, 0.9F, 0.3F,  -0.1F, 0.7F,  0.4F};
  const std::vector<float> up_bias{0.1F, -0.2F, 0.3F, -0.4F, 0.5F, -0.6F, 0.7F, -0.8F};
  const std::vector<float> down{0.2F,  0.5F,  -0.3F, 0.9F,  -0.1F, 0.4F,  0.1F,  0.6F,
                                -0.4F, 0.3F,  0.8F,  -0.6F, 0.2F,  0.5F,  -0.2F, 0.7F,
                                0.6F,  -0.2F, 0.4F,  0.1F,  0.7F,  -0.9F, 0.3F,  -0.8F,
                                0.1F,  0.7F,  -0.5F, 0.2F,  0.3F,  0.6F,  0.4F,  -0.3F};
  const std::vector<float> down_bias{0.1F, 0.2F, -0.1F, -0.2F};
  const DenseWeights weights{ConstMatrix(up.data(), 8, 4), ConstMatrix(down.data(), 4, 8), up_bias,
                             down_bias};
  const LayerNorm norm(std::vector<float>(4, 1.0F), std::vector<float>(4, 0.0F), 0.0F);
  TraceReport trace = begin_trace("Tiny example: 4 -> 8 -> 4 with ReLU", dense_shape(4, 8),
                                  Activation::relu, {1, 0, -1, 2});
  trace.notes = {"The numbers fit on a page; docs/tiny_example.md says how they were chosen.",
                 kPlainNorm};
  const std::vector<float> y =
      trace_dense(DenseFfn(weights, Activation::relu), &weights, trace, workspace);
  trace_norm(norm, y, true, trace, workspace);
  return trace;
}

TraceReport trace_tiny_gated(Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  // gate, up: [4, 3], down: [3, 4]. Unit 3's gate is exactly 0: its large u changes nothing.
  const std::vector<float> gate{0.9F, 0.4F,  -0.3F, -0.5F, -0.6F, 0.2F,
                                0.2F, -0.1F, 0.0F,  0.4F,  0.1F,  -0.6F};
  const std::vector<float> up{0.5F, -0.2F, 0.3F,  0.7F,  0.1F, -0.4F,
                              0.1F, 0.8F,  -0.2F, -0.6F, 0.9F, 0.2F};
  const std::vector<float> down{0.6F, -0.3F, 0.8F, 0.2F, -0.4F, 0.5F,
                                0.1F, 0.7F,  0.1F, 0.9F, -0.6F, -0.5F};
  const GatedWeights weights{ConstMatrix(gate.data(), 4, 3),
                             ConstMatrix(up.data(), 4, 3),
                             ConstMatrix(down.data(), 3, 4),
                             {},
                             {},
                             {}};
  const LayerNorm norm(std::vector<float>(3, 1.0F), std::vector<float>(3, 0.0F), 0.0F);
  FfnShape shape;
  shape.kind = FfnKind::gated;
  shape.d_model = 3;
  shape.d_ff = 4;
  TraceReport trace = begin_trace("Tiny gated example: 3 -> 4 -> 3 with SiLU (SwiGLU), no biases",
                                  shape, Activation::silu, {1, 2, -1});
  trace.notes = {
      "The gate decides how much of each unit's u passes; docs/tiny_example.md has the "
      "weights.",
      kPlainNorm};
  const std::vector<float> y =
      trace_gated(GatedFfn(weights, Activation::silu), &weights, std::nullopt, trace, workspace);
  trace_norm(norm, y, true, trace, workspace);
  return trace;
}

TraceReport trace_bert_base(Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  constexpr std::size_t d = 768, f = 3072;
  std::mt19937 generator(768);
  const auto uniform = [&](std::size_t count, float width) {
    std::vector<float> values(count);
    for (float& value : values)
      value = (static_cast<float>(generator() >> 8) * (1.0F / 8388608.0F) - 1.0F) * width;
    return values;
  };
  // Uniform with BERT's standard deviation of 0.02, and x with 1.
  const float root3 = std::sqrt(3.0F);
  const auto up = uniform(f * d, 0.02F * root3), down = uniform(d * f, 0.02F * root3);
  const auto x = uniform(d, root3);
  const std::vector<float> up_bias(f), down_bias(d);
  const DenseFfn ffn(
      {ConstMatrix(up.data(), f, d), ConstMatrix(down.data(), d, f), up_bias, down_bias},
      Activation::gelu_erf);
  const LayerNorm norm(std::vector<float>(d, 1.0F), std::vector<float>(d, 0.0F), 1e-12F);
  TraceReport trace = begin_trace("BERT-base: 768 -> 3072 -> 768 with GELU, then LayerNorm(x + y)",
                                  dense_shape(d, f), Activation::gelu_erf, x);
  trace_norm(norm, trace_dense(ffn, nullptr, trace, workspace), false, trace, workspace);
  trace.notes = {
      "Sizes are BERT-base's; weights and x are seeded random numbers (sd 0.02 and 1), biases 0.",
      "The norm has gamma 1, beta 0, eps 1e-12."};
  return trace;
}

}  // namespace fourfold
