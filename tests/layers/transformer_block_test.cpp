// TransformerBlock, forward, against float64: every order of norms, encoders and decoders.
#include "fourfold/transformer_block.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "error_check.h"
#include "layers/block_reference.h"
#include "platform/stage_clock.h"

namespace fourfold {
namespace {

using Lengths = std::vector<std::size_t>;
constexpr std::size_t kModel = 21, kHeads = 3, kFf = 53;
const AttentionOptions kEncoder{kHeads, kHeads, 7, false, std::nullopt, 0};
const AttentionOptions kDecoder{4, 2, 6, true, RotaryOptions{1000, 4, RotaryStyle::half_split}, 0};
const BlockKind kKinds[] = {{BlockOrder::post_norm},
                            {BlockOrder::pre_norm},
                            {BlockOrder::sandwich},
                            {BlockOrder::parallel},
                            {BlockOrder::parallel, false, false}};

std::vector<float> run(const TransformerBlock& block, std::vector<float> x, const Lengths& lengths,
                       unsigned threads = 2, FfnObserver* observer = nullptr,
                       BlockSaved* save = nullptr) {
  Runtime runtime({.count = threads});
  Workspace workspace(runtime);
  block.forward({x.data(), x.size() / kModel, kModel}, lengths, workspace, observer, save);
  return x;
}

TEST_CASE("every order against float64: dense and gated, encoders and decoders") {
  for (BlockKind kind : kKinds)
    for (const bool gated : {false, true})
      for (const AttentionOptions& options : {kEncoder, kDecoder}) {
        kind.gated = gated;
        if (gated) kind.activation = Activation::silu;
        const BlockSample sample(kind, options, kModel, kFf);
        const TransformerBlock block = sample.block();
        CHECK(block.order() == kind.order);
        CHECK(block.d_model() == kModel);
        for (const Lengths& lengths : {Lengths{1}, Lengths{67}, Lengths{5, 17, 1}}) {
          std::size_t tokens = 0;
          for (const std::size_t length : lengths) tokens += length;
          CAPTURE(static_cast<int>(kind.order));
          CAPTURE(gated);
          CAPTURE(tokens);
          const std::vector<float> x = real_values(tokens * kModel, tokens);
          CHECK(reference::largest_difference(
                    run(block, x, lengths), sample.exact()(reference::widened(x), lengths)) < 6e-5);
        }
      }
}

TEST_CASE("a post-norm block is its parts in order, bit for bit") {
  const BlockSample sample({BlockOrder::post_norm}, kEncoder, kModel, kFf);
  const Lengths lengths{11, 6};
  std::vector<float> x = real_values(17 * kModel, 7), branch(x.size());
  const std::vector<float> found = run(sample.block(), x, lengths);
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const Matrix rows(x.data(), 17, kModel), side(branch.data(), 17, kModel);
  sample.attention.layer().forward(rows, lengths, side, workspace);
  forward_residual(sample.norm(0), rows, side, workspace);
  forward(sample.ffn(Packing::forward_only), rows, side, workspace);
  forward_residual(sample.norm(1), rows, side, workspace);
  CHECK(same_bits(found, x));
}

TEST_CASE("the two halves one after the other are the block, bit for bit; parallel has none") {
  const Lengths lengths{5, 8};
  for (const BlockKind& kind : kKinds) {
    const BlockSample sample(kind, kDecoder, kModel, kFf);
    const TransformerBlock block = sample.block();
    std::vector<float> x = real_values(13 * kModel, 7);
    const std::vector<float> found = run(block, x, lengths);
    Runtime runtime({.count = 2});
    Workspace workspace(runtime);
    const Matrix rows(x.data(), 13, kModel);
    if (kind.order == BlockOrder::parallel) {
      CHECK(code_of("no halves", [&] { block.forward_attention(rows, lengths, workspace); }) ==
            ErrorCode::unsupported);
      CHECK(code_of("no halves", [&] { block.forward_ffn(rows, workspace); }) ==
            ErrorCode::unsupported);
      continue;
    }
    block.forward_attention(rows, lengths, workspace);
    CHECK_FALSE(same_bits(found, x));
    block.forward_ffn(rows, workspace);
    CHECK(same_bits(found, x));
  }
}

TEST_CASE("threads, other sequences, an observer and saving change no bit") {
  class Counter : public FfnObserver {
   public:
    void observe(const FfnSample& sample, Workspace&) override { rows += sample.hidden.rows; }
    std::size_t rows = 0;
  };
  for (const BlockKind& kind : kKinds) {
    const BlockSample sample(kind, kDecoder, kModel, kFf);
    const TransformerBlock block = sample.block();
    CHECK(std::get<DenseFfn>(block.ffn()).d_ff() == kFf);
    CHECK(block.attention().n_heads() == 4);
    const std::vector<float> x = real_values(31 * kModel, 9);
    const std::vector<float> y = run(block, x, {19, 12}, 1);
    for (const unsigned threads : {2U, 7U}) CHECK(same_bits(run(block, x, {19, 12}, threads), y));
    Counter counter;
    BlockSaved saved;
    CHECK(same_bits(run(block, x, {19, 12}, 2, &counter, &saved), y));
    CHECK(counter.rows == 31);
    CHECK(same_bits(saved.input.values, x));
    const std::vector<float> second(x.begin() + 19 * kModel, x.end());
    CHECK(same_bits(run(block, second, {12}), {y.data() + 19 * kModel, 12 * kModel}));
  }
}

TEST_CASE("a decoder does not see what comes later, an encoder does") {
  for (const BlockKind& kind : kKinds) {
    std::vector<float> x = real_values(71 * kModel, 9);
    const TransformerBlock decoder = BlockSample(kind, kDecoder, kModel, kFf).block();
    const TransformerBlock encoder = BlockSample(kind, kEncoder, kModel, kFf).block();
    const std::vector<float> y = run(decoder, x, {71}), z = run(encoder, x, {71});
    const std::vector<float> start(x.begin(), x.begin() + 40 * kModel);
    CHECK(same_bits(run(decoder, start, {40}), {y.data(), 40 * kModel}));
    CHECK_FALSE(same_bits(run(encoder, start, {40}), {z.data(), 40 * kModel}));
    for (std::size_t i = 40 * kModel; i < x.size(); ++i) x[i] = NAN;
    CHECK(same_bits({run(decoder, x, {71}).data(), 40 * kModel}, {y.data(), 40 * kModel}));
  }
}

TEST_CASE("an encoder knows no position: shuffled tokens give shuffled results") {
  for (const BlockKind& kind : kKinds) {
    const TransformerBlock block = BlockSample(kind, kEncoder, kModel, kFf).block();
    const std::vector<float> x = real_values(13 * kModel, 5);
    std::vector<float> shuffled(x.size());
    for (std::size_t t = 0; t < 13; ++t)
      std::copy_n(x.data() + t * kModel, kModel, shuffled.data() + t * 5 % 13 * kModel);
    const std::vector<float> y = run(block, x, {13}), z = run(block, shuffled, {13});
    for (std::size_t t = 0; t < 13; ++t)
      for (std::size_t c = 0; c < kModel; ++c)
        CHECK(std::fabs(z[t * 5 % 13 * kModel + c] - y[t * kModel + c]) < 5e-5F);
  }
}

TEST_CASE("no tokens are fine") {
  for (const BlockKind& kind : kKinds) {
    const TransformerBlock block = BlockSample(kind, kDecoder, kModel, kFf).block();
    BlockSaved saved;
    CHECK(run(block, {}, {}, 2, nullptr, &saved).empty());
    CHECK(run(block, {}, {0, 0}).empty());
  }
}

TEST_CASE("each stage of the block is timed once, and together they fill the pass") {
  const TransformerBlock block =
      BlockSample({BlockOrder::post_norm}, kEncoder, kModel, kFf).block();
  // Without pinning: moving the caller to another CPU takes time that belongs to no stage.
  Runtime runtime({.count = 1, .pin = false});
  Workspace workspace(runtime);
  std::vector<float> x = real_values(509 * kModel, 9);
  double best_share = 0;  // of several passes: between two stages another process may get the CPU
  for (int pass = 0; pass < 9; ++pass) {
    StageClock clock(1);
    workspace.clock = &clock;
    const auto begin = StageClock::Clock::now();
    block.forward({x.data(), 509, kModel}, Lengths{509}, workspace);
    const std::chrono::duration<double> whole = StageClock::Clock::now() - begin;
    double sum = 0;
    for (const Stage stage : {Stage::expand, Stage::contract, Stage::attention, Stage::norm}) {
      const double part = clock.seconds()[0][static_cast<std::size_t>(stage)];
      CHECK(part > 0);
      sum += part;
    }
    CHECK(clock.seconds()[0][static_cast<std::size_t>(Stage::other)] == 0);
    CHECK(sum <= whole.count());
    best_share = std::max(best_share, sum / whole.count());
  }
  CHECK(best_share >= 0.5);
}

TEST_CASE("parts that do not fit each other or the order are errors") {
  const BlockSample sample({BlockOrder::sandwich}, kEncoder, kModel, kFf);
  const BlockSample wide({BlockOrder::sandwich}, {2, 2, 11, false, std::nullopt, 0}, 22, kFf);
  const auto shape = ErrorCode::shape_mismatch, bad = ErrorCode::invalid_argument;
  const auto build = [&](BlockOrder order, const BlockSample& first_norm, const BlockSample& ffn,
                         std::optional<AnyNorm> second, std::optional<AnyNorm> third,
                         std::optional<AnyNorm> fourth) {
    TransformerBlock(order, BlockParts{sample.attention.layer(), first_norm.norm(0),
                                       ffn.ffn(Packing::forward_only), std::move(second),
                                       std::move(third), std::move(fourth)});
  };
  using Order = BlockOrder;
  const auto none = std::optional<AnyNorm>();
  const auto norm = [&] { return std::optional<AnyNorm>(sample.norm(1)); };
  const auto other = [&] { return std::optional<AnyNorm>(wide.norm(1)); };
  const auto code = [&](const std::string& part, const std::function<void()>& action) {
    return code_of("[transformer_block] " + part, action);
  };
  CHECK(code("attention_norm has 22",
             [&] { build(Order::pre_norm, wide, sample, norm(), none, none); }) == shape);
  CHECK(code("ffn (d_model) has 22",
             [&] { build(Order::pre_norm, sample, wide, norm(), none, none); }) == shape);
  CHECK(code("ffn_norm has 22",
             [&] { build(Order::pre_norm, sample, sample, other(), none, none); }) == shape);
  CHECK(code("ffn_post_norm has 22",
             [&] { build(Order::sandwich, sample, sample, norm(), norm(), other()); }) == shape);
  for (const Order order : {Order::post_norm, Order::pre_norm, Order::sandwich})
    CHECK(code("ffn_norm is missing", [&] { build(order, sample, sample, none, none, none); }) ==
          bad);
  CHECK(code("attention_post_norm is missing",
             [&] { build(Order::sandwich, sample, sample, norm(), none, norm()); }) == bad);
  for (const Order order : {Order::post_norm, Order::pre_norm, Order::parallel})
    CHECK(code("ffn_post_norm is given",
               [&] { build(order, sample, sample, norm(), none, norm()); }) == bad);
}

TEST_CASE("an input of the wrong width is an error and stays as it was") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  for (const BlockKind& kind : kKinds) {
    const TransformerBlock block = BlockSample(kind, kEncoder, kModel, kFf).block();
    const std::vector<float> before = real_values(63, 3);
    std::vector<float> x = before;
    CHECK(code_of("[3, 20]", [&] {
            block.forward({x.data(), 3, 20}, Lengths{3}, workspace);
          }) == ErrorCode::shape_mismatch);
    CHECK(code_of("sequence_lengths", [&] {
            block.forward({x.data(), 3, 21}, Lengths{4}, workspace);
          }) == ErrorCode::shape_mismatch);
    CHECK(same_bits(x, before));
  }
}

}  // namespace
}  // namespace fourfold
