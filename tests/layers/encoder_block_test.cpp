// LayerNorm and EncoderBlock against float64: x' = LN(x + MHA(x)), x'' = LN(x' + FFN(x')).
#include "fourfold/encoder_block.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "fourfold/error.h"
#include "layers/attention_sample.h"
#include "layers/ffn_sample.h"
#include "platform/stage_clock.h"

namespace fourfold {
namespace {

using Lengths = std::vector<std::size_t>;
constexpr std::size_t kModel = 21, kHeads = 3, kFf = 53;
constexpr float kEps = 1e-12F;

struct NormSample {
  explicit NormSample(std::size_t seed, std::size_t d = kModel)
      : gamma(real_values(d, seed, 0.3F, 1.9F)), beta(real_values(d, seed + 1)) {}
  LayerNorm layer() const { return LayerNorm(gamma, beta, kEps); }
  reference::Values expected(const reference::Values& x) const {
    return reference::layer_norm(x, reference::widened(gamma), reference::widened(beta),
                                 static_cast<double>(kEps));
  }
  std::vector<float> gamma, beta;
};

struct BlockSample {
  EncoderBlock block(Activation kind) const {
    return EncoderBlock(MultiHeadAttention(attention.weights(), kHeads), attention_norm.layer(),
                        ffn.layer(kind), ffn_norm.layer());
  }
  reference::Values expected(const std::vector<float>& start, const Lengths& lengths,
                             Activation kind) const {
    using reference::widened;
    reference::Values x = widened(start);
    x = attention_norm.expected(reference::added(x, attention.expected(x, lengths)));
    const auto y =
        reference::dense_ffn(x, widened(ffn.up), widened(ffn.up_bias), widened(ffn.down),
                             widened(ffn.down_bias), kind, x.size() / kModel, kModel, kFf);
    return ffn_norm.expected(reference::added(x, y));
  }
  AttentionSample attention{kHeads, kModel};
  NormSample attention_norm{401}, ffn_norm{403};
  SampleFfn ffn{1, kModel, kFf};
};

std::vector<float> run(const EncoderBlock& block, std::vector<float> x, const Lengths& lengths,
                       unsigned threads = 2, FfnObserver* observer = nullptr) {
  Runtime runtime({.count = threads});
  Workspace workspace(runtime);
  block.forward({x.data(), x.size() / kModel, kModel}, lengths, workspace, observer);
  return x;
}

ErrorCode code_of(const std::string& part, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    CAPTURE(error.what());
    CHECK(std::string(error.what()).find(part) != std::string::npos);
    return error.code;
  }
  FAIL("accepted; expected an error with " << part);
  return ErrorCode::io;
}

TEST_CASE("LayerNorm: forward and forward_residual against float64") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::size_t rows = 13, d = 67;
  const NormSample sample(11, d);
  const LayerNorm norm = sample.layer();
  CHECK(norm.size() == d);
  std::vector<float> x = real_values(rows * d, 3), y(rows * d);
  const std::vector<float> branch = real_values(rows * d, 4, -2.0F, 5.0F);
  norm.forward({x.data(), rows, d}, {y.data(), rows, d}, workspace);
  CHECK(reference::largest_difference(y, sample.expected(reference::widened(x))) < 5e-6);
  const auto expected =
      sample.expected(reference::added(reference::widened(x), reference::widened(branch)));
  norm.forward_residual({x.data(), rows, d}, {branch.data(), rows, d}, workspace);
  CHECK(reference::largest_difference(x, expected) < 5e-6);
}

TEST_CASE("LayerNorm: wrong shapes and values of eps are errors") {
  const std::vector<float> seven(7), eight(8);
  const auto bad = ErrorCode::invalid_argument, shape = ErrorCode::shape_mismatch;
  CHECK(code_of("beta has 8", [&] { LayerNorm(seven, eight, 1e-5F); }) == shape);
  CHECK(code_of("gamma", [&] { LayerNorm({}, {}, 1e-5F); }) == bad);
  for (const float eps :
       {-1e-5F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    CHECK(code_of("eps", [&] { LayerNorm(seven, seven, eps); }) == bad);
  CHECK_NOTHROW(LayerNorm(seven, seven, 0));
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  std::vector<float> x(100);
  const LayerNorm norm(seven, seven, 1e-5F);
  CHECK(code_of("x is [3, 8], expected [3, 7]", [&] {
          norm.forward({x.data(), 3, 8}, {x.data(), 3, 8}, workspace);
        }) == shape);
  CHECK(code_of("y is [2, 7], expected [3, 7]", [&] {
          norm.forward({x.data(), 3, 7}, {x.data(), 2, 7}, workspace);
        }) == shape);
  CHECK(code_of("branch is [4, 7], expected [3, 7]", [&] {
          norm.forward_residual({x.data(), 3, 7}, {x.data(), 4, 7}, workspace);
        }) == shape);
}

TEST_CASE("EncoderBlock against float64") {
  const BlockSample sample;
  for (const Activation kind : {Activation::relu, Activation::gelu_erf})
    for (const Lengths& lengths : {Lengths{1}, Lengths{67}, Lengths{5, 17, 1}}) {
      std::size_t tokens = 0;
      for (const std::size_t length : lengths) tokens += length;
      CAPTURE(tokens);
      const std::vector<float> x = real_values(tokens * kModel, tokens);
      CHECK(reference::largest_difference(run(sample.block(kind), x, lengths),
                                          sample.expected(x, lengths, kind)) < 5e-5);
    }
}

TEST_CASE("the block is its parts in order, bit for bit") {
  const BlockSample sample;
  const Lengths lengths{11, 6};
  std::vector<float> x = real_values(17 * kModel, 7), branch(x.size());
  const std::vector<float> found = run(sample.block(Activation::gelu_erf), x, lengths);
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const Matrix rows(x.data(), 17, kModel), side(branch.data(), 17, kModel);
  MultiHeadAttention(sample.attention.weights(), kHeads).forward(rows, lengths, side, workspace);
  sample.attention_norm.layer().forward_residual(rows, side, workspace);
  sample.ffn.layer(Activation::gelu_erf).forward(rows, side, workspace);
  sample.ffn_norm.layer().forward_residual(rows, side, workspace);
  CHECK(same_bits(found, x));
}

TEST_CASE("the two halves one after the other are the block, bit for bit") {
  const BlockSample sample;
  const EncoderBlock block = sample.block(Activation::silu);
  const Lengths lengths{5, 8};
  std::vector<float> x = real_values(13 * kModel, 7);
  const std::vector<float> found = run(block, x, lengths);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Matrix rows(x.data(), 13, kModel);
  block.forward_attention(rows, lengths, workspace);
  CHECK_FALSE(same_bits(found, x));
  block.forward_ffn(rows, workspace);
  CHECK(same_bits(found, x));
  CHECK(block.ffn_norm().size() == kModel);
}

TEST_CASE("threads, other sequences and an observer change no bit") {
  class Counter : public FfnObserver {
   public:
    void observe(const FfnSample& sample, Workspace&) override {
      const ConstMatrix hidden = sample.hidden;
      rows += hidden.rows;
    }
    std::size_t rows = 0;
  };
  const BlockSample sample;
  const EncoderBlock block = sample.block(Activation::gelu_erf);
  CHECK(block.ffn().d_ff() == kFf);
  CHECK(block.attention().n_heads() == kHeads);
  const std::vector<float> x = real_values(31 * kModel, 9);
  const std::vector<float> y = run(block, x, {19, 12}, 1);
  for (const unsigned threads : {2U, 7U}) CHECK(same_bits(run(block, x, {19, 12}, threads), y));
  Counter counter;
  CHECK(same_bits(run(block, x, {19, 12}, 2, &counter), y));
  CHECK(counter.rows == 31);
  const std::vector<float> second(x.begin() + 19 * kModel, x.end());
  CHECK(same_bits(run(block, second, {12}), {y.data() + 19 * kModel, 12 * kModel}));
}

TEST_CASE("each stage of the block is timed once, and together they fill the pass") {
  const BlockSample sample;
  const EncoderBlock block = sample.block(Activation::gelu_erf);
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

TEST_CASE("parts that do not fit each other are an error") {
  const BlockSample sample;
  const auto attention = [&] { return MultiHeadAttention(sample.attention.weights(), kHeads); };
  const NormSample wide(5, kModel + 1);
  const SampleFfn other(1, kModel + 2, kFf);
  const auto ffn = [&] { return sample.ffn.layer(Activation::relu); };
  const auto norm = [&] { return sample.ffn_norm.layer(); };
  const auto shape = ErrorCode::shape_mismatch;
  CHECK(code_of("attention_norm has 22",
                [&] { EncoderBlock(attention(), wide.layer(), ffn(), norm()); }) == shape);
  CHECK(code_of("ffn (d_model) has 23", [&] {
          EncoderBlock(attention(), norm(), other.layer(Activation::relu), norm());
        }) == shape);
  CHECK(code_of("ffn_norm has 22",
                [&] { EncoderBlock(attention(), norm(), ffn(), wide.layer()); }) == shape);
}

TEST_CASE("an input of the wrong width is an error and stays as it was") {
  const BlockSample sample;
  const EncoderBlock block = sample.block(Activation::relu);
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const std::vector<float> before = real_values(60, 3);
  std::vector<float> x = before;
  CHECK(code_of("[3, 20]", [&] {
          block.forward({x.data(), 3, 20}, Lengths{3}, workspace);
        }) == ErrorCode::shape_mismatch);
  CHECK(same_bits(x, before));
}

}  // namespace
}  // namespace fourfold
