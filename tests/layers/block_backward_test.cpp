// Gradients of TransformerBlock against central differences of the float64 block, in every order.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "differences.h"
#include "error_check.h"
#include "layers/block_reference.h"

namespace fourfold {
namespace {

using Lengths = std::vector<std::size_t>;
constexpr std::size_t kModel = 7, kFf = 11, kTokens = 9;
const Lengths kLengths{5, 1, 3};
const AttentionOptions kEncoder{3, 3, 3, false, std::nullopt, 0};
const AttentionOptions kDecoder{4, 2, 4, true, RotaryOptions{100, 2, RotaryStyle::interleaved}, 0};
const BlockKind kKinds[] = {{BlockOrder::post_norm},
                            {BlockOrder::pre_norm},
                            {BlockOrder::sandwich},
                            {BlockOrder::parallel},
                            {BlockOrder::parallel, false, false}};

struct Found {
  explicit Found(const BlockSample& sample) : grads(sample) {}
  BlockGradients grads;
  std::vector<float> dx = std::vector<float>(kTokens * kModel, -77.25F);
};

Found run(const BlockSample& sample, const std::vector<float>& start, const std::vector<float>& dy,
          unsigned threads = 2) {
  Runtime runtime({.count = threads});
  Workspace workspace(runtime);
  const TransformerBlock block = sample.block(Packing::forward_and_backward);
  std::vector<float> x = start;
  BlockSaved saved;
  block.forward({x.data(), kTokens, kModel}, kLengths, workspace, nullptr, &saved);
  Found found(sample);
  block.backward(kLengths, saved, {dy.data(), kTokens, kModel}, {found.dx.data(), kTokens, kModel},
                 found.grads.views(), workspace);
  return found;
}

TEST_CASE("every order: encoders with LayerNorm and GELU, decoders with RMSNorm and SwiGLU") {
  const std::vector<float> start = real_values(kTokens * kModel, 5),
                           slopes = real_values(kTokens * kModel, 6);
  for (BlockKind kind : kKinds)
    for (const bool decoder : {false, true}) {
      kind.gated = decoder;
      if (decoder) kind.activation = Activation::silu;
      CAPTURE(static_cast<int>(kind.order));
      CAPTURE(kind.second_norm);
      CAPTURE(decoder);
      const BlockSample sample(kind, decoder ? kDecoder : kEncoder, kModel, kFf);
      ExactBlock exact = sample.exact();
      reference::Values x = reference::widened(start);
      const reference::Values dy = reference::widened(slopes);
      const auto loss = [&] { return reference::dot(dy, exact(x, kLengths)); };
      Found found = run(sample, start, slopes);
      const auto check = [&](const char* name, const std::vector<float>& values,
                             reference::Values& moved) {
        CAPTURE(name);
        CHECK(reference::relative_difference(values, reference::differences(moved, loss)) < 2e-5);
      };
      BlockGradients& grads = found.grads;
      check("x", found.dx, x);
      check("query", grads.attention.query, exact.attention.query);
      check("key", grads.attention.key, exact.attention.key);
      check("value", grads.attention.value, exact.attention.value);
      check("output", grads.attention.output, exact.attention.output);
      check("value_bias", grads.attention.value_bias, exact.attention.value_bias);
      check("output_bias", grads.attention.output_bias, exact.attention.output_bias);
      check("gate", grads.gate, exact.gate);
      check("up", grads.up, exact.up);
      check("down", grads.down, exact.down);
      check("up_bias", grads.up_bias, exact.up_bias);
      check("down_bias", grads.down_bias, exact.down_bias);
      for (std::size_t i = 0; i < 4; ++i) {
        CAPTURE(i);
        check("gamma", grads.gammas[i], exact.norms[i].gamma);
        if (!decoder) check("beta", grads.betas[i], exact.norms[i].beta);
      }
    }
}

TEST_CASE("threads change no bit") {
  const std::vector<float> x = real_values(kTokens * kModel, 5),
                           dy = real_values(kTokens * kModel, 6);
  for (const BlockKind& kind : kKinds) {
    const BlockSample sample(kind, kDecoder, kModel, kFf);
    const Found one = run(sample, x, dy, 1);
    for (const unsigned threads : {2U, 7U}) {
      const Found found = run(sample, x, dy, threads);
      CHECK(same_bits(found.dx, one.dx));
      CHECK(same_bits(found.grads.up, one.grads.up));
      CHECK(same_bits(found.grads.attention.key, one.grads.attention.key));
      CHECK(same_bits(found.grads.gammas[0], one.grads.gammas[0]));
    }
  }
}

TEST_CASE("a mixture of experts in a block: the residual adds its gradient to the layer's") {
  const BlockSample sample({BlockOrder::pre_norm}, kDecoder, kModel, kFf);
  const std::vector<float> router = real_values(3 * kModel, 71);
  const DenseWeights expert{sample.view(sample.up, kFf), sample.view(sample.down, kModel), {}, {}};
  const std::vector<DenseWeights> experts(3, expert);
  MoeWeights weights;
  weights.router = ConstMatrix(router.data(), 3, kModel);
  weights.experts = std::span<const DenseWeights>(experts);
  Routing routing;
  routing.top_k = 2;
  const auto build = [&] {
    return MoeFfn(weights, Activation::gelu_erf, routing, Packing::forward_and_backward);
  };
  const TransformerBlock block(BlockOrder::pre_norm,
                               BlockParts{sample.attention.layer(Packing::forward_and_backward),
                                          sample.norm(0), build(), sample.norm(1)});
  // Equal experts whose weights add up to 1 are one dense layer.
  BlockSample dense = sample;
  dense.up_bias.clear();
  dense.down_bias.clear();
  const std::vector<float> start = real_values(kTokens * kModel, 5),
                           dy = real_values(kTokens * kModel, 6);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  std::vector<float> x = start, dx(start.size());
  BlockSaved saved;
  BlockGrads grads;
  grads.ffn = MoeGrads();
  block.forward({x.data(), kTokens, kModel}, kLengths, workspace, nullptr, &saved);
  block.backward(kLengths, saved, {dy.data(), kTokens, kModel}, {dx.data(), kTokens, kModel}, grads,
                 workspace);
  const Found expected = run(dense, start, dy);
  CHECK(reference::relative_difference(dx, reference::widened(expected.dx)) < 2e-5);
  // Equal experts leave the router without a gradient of the task; its own losses still have one.
  std::vector<float> router_grad(router.size());
  MoeGrads with_losses;
  with_losses.router = {router_grad.data(), 3, kModel};
  with_losses.losses = {0.0F, 1.0F, {}};
  grads.ffn = with_losses;
  block.backward(kLengths, saved, {dy.data(), kTokens, kModel}, {dx.data(), kTokens, kModel}, grads,
                 workspace);
  float largest = 0;
  for (const float value : router_grad) largest = std::max(largest, std::fabs(value));
  CHECK(largest > 0.1F);
}

TEST_CASE("a refused backward adds nothing to any gradient") {
  const BlockSample sample({BlockOrder::post_norm}, kDecoder, kModel, kFf);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const TransformerBlock block = sample.block(Packing::forward_and_backward);
  std::vector<float> x = real_values(kTokens * kModel, 5), dx(x.size());
  const std::vector<float> dy = real_values(x.size(), 6);
  BlockSaved saved;
  block.forward({x.data(), kTokens, kModel}, kLengths, workspace, nullptr, &saved);
  std::vector<float> up(kFf * kModel), gamma(kModel), narrow(kModel - 1);
  DenseGrads ffn;
  ffn.up = {up.data(), kFf, kModel};
  BlockGrads grads;
  grads.ffn = ffn;
  grads.ffn_norm.gamma = gamma;
  grads.attention_norm.gamma = narrow;  // too short, and the last part to be reached
  const auto refused = [&](const BlockSaved& kept, std::vector<std::size_t> lengths) {
    CHECK_THROWS_AS(block.backward(lengths, kept, {dy.data(), kTokens, kModel},
                                   {dx.data(), kTokens, kModel}, grads, workspace),
                    Error);
    for (const float value : up) CHECK(value == 0);
    for (const float value : gamma) CHECK(value == 0);
  };
  refused(saved, kLengths);
  grads.attention_norm.gamma = {};
  refused(saved, {kTokens + 1});
  BlockSaved torn = saved;
  torn.attention.mixed.rows -= 1;
  refused(torn, kLengths);
}

TEST_CASE("no tokens give no gradient; wrong calls are errors") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  std::vector<float> x = real_values(3 * kModel, 3), dx(3 * kModel);
  const Matrix rows(x.data(), 3, kModel), out(dx.data(), 3, kModel);
  for (const BlockKind& kind : kKinds) {
    const BlockSample sample(kind, kDecoder, kModel, kFf);
    TransformerBlock block = sample.block();
    BlockSaved saved;
    BlockGradients grads(sample);
    const Matrix none(nullptr, 0, kModel);
    block.forward(none, {}, workspace, nullptr, &saved);
    CHECK(code_of("pack_backward", [&] {
            block.backward({}, saved, none, none, grads.views(), workspace);
          }) == ErrorCode::invalid_argument);
    block.pack_backward();
    block.backward({}, saved, none, none, grads.views(), workspace);
    for (const float value : grads.up) CHECK(value == 0.0F);
    for (const float value : grads.gammas[0]) CHECK(value == 0.0F);
    CHECK(code_of("saved.input is [0, 7], expected [3, 7]", [&] {
            block.backward(Lengths{3}, saved, rows, out, grads.views(), workspace);
          }) == ErrorCode::shape_mismatch);
    block.forward(rows, Lengths{3}, workspace, nullptr, &saved);
    CHECK(
        code_of("dx is [2, 7], expected [3, 7]", [&] {
          block.backward(Lengths{3}, saved, rows, {dx.data(), 2, kModel}, grads.views(), workspace);
        }) == ErrorCode::shape_mismatch);
    BlockGrads other = grads.views();
    other.ffn = GatedGrads();
    CHECK(code_of("another kind of layer", [&] {
            block.backward(Lengths{3}, saved, rows, out, other, workspace);
          }) == ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace fourfold
