// The FFN is position-wise: the same function for each token, without any mixing between them.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "fourfold/ffn.h"
#include "layers/ffn_sample.h"
#include "layers/layer_samples.h"

namespace fourfold {
namespace {

std::span<const float> row_of(const std::vector<float>& values, std::size_t row,
                              std::size_t width) {
  return {values.data() + row * width, width};
}

TEST_CASE("a batch is the stack of its rows, bit for bit, for any threads and pieces") {
  const SampleFfn sample(71, 37, 149);
  const DenseFfn layer = sample.layer(Activation::gelu_erf);
  std::vector<float> first;
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    const std::vector<float> batch = sample.run(layer, workspace);
    if (first.empty()) first = batch;
    CHECK(same_bits(batch, first));
    std::vector<float> y(71 * 37);
    for (const std::size_t piece : {1U, 2U, 13U})
      for (std::size_t row = 0; row < 71; row += piece) {
        const std::size_t count = std::min<std::size_t>(piece, 71 - row);
        layer.forward(sample.x_view().rows_from(row, count), {y.data(), count, 37}, workspace);
        REQUIRE(same_bits({y.data(), count * 37}, {batch.data() + row * 37, count * 37}));
      }
  }
}

TEST_CASE("changing one row of x changes no bit of the other rows of y") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  SampleFfn sample(19, 5, 7);
  const DenseFfn layer = sample.layer(Activation::silu);
  const std::vector<float> before = sample.run(layer, workspace);
  for (std::size_t changed = 0; changed < 19; ++changed)
    for (std::size_t column = 0; column < 5; ++column) {
      float& element = sample.x[changed * 5 + column];
      const float old = element;
      element += 0.125F;
      const std::vector<float> after = sample.run(layer, workspace);
      element = old;
      for (std::size_t row = 0; row < 19; ++row)
        CHECK(same_bits(row_of(before, row, 5), row_of(after, row, 5)) == (row != changed));
    }
}

TEST_CASE("shuffled rows give shuffled results, bit for bit") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleFfn sample(67, 29, 53);
  const DenseFfn layer = sample.layer(Activation::gelu_tanh);
  const std::vector<float> straight = sample.run(layer, workspace);
  SampleFfn shuffled = sample;
  const auto place = [](std::size_t row) { return (row * 31 + 5) % 67; };
  for (std::size_t row = 0; row < 67; ++row)
    std::copy_n(sample.x.data() + row * 29, 29, shuffled.x.data() + place(row) * 29);
  const std::vector<float> y = shuffled.run(layer, workspace);
  for (std::size_t row = 0; row < 67; ++row)
    CHECK(same_bits(row_of(straight, row, 29), row_of(y, place(row), 29)));
}

// Runs check(layer, d_model) for a dense layer, a gated one and a mixture with a shared expert.
template <class Check>
void for_each_kind(std::size_t d_model, std::size_t d_ff, const Check& check) {
  const SampleFfn dense(1, d_model, d_ff);
  check("dense", dense.layer(Activation::gelu_erf));
  check("gated", GatedFfn(SampleExpert(d_model, d_ff, 401).gated(), Activation::silu));
  const MoeSample moe(d_model, d_ff, 11, 5);
  Routing routing;
  routing.top_k = 3;
  check("moe", moe.layer(Activation::silu, routing));
  routing.weight_input = true;
  routing.scoring = Scoring::sigmoid;
  check("moe, weights on the input", moe.layer(Activation::silu, routing));
}

TEST_CASE("every kind: a batch is the stack of its rows, for any threads, pieces and order") {
  const std::size_t d = 37, tokens = 61;
  const std::vector<float> x = real_values(tokens * d, 307);
  std::vector<float> shuffled(x.size());
  const auto place = [](std::size_t row) { return (row * 31 + 5) % 61; };
  for (std::size_t row = 0; row < tokens; ++row)
    std::copy_n(x.data() + row * d, d, shuffled.data() + place(row) * d);
  for_each_kind(d, 67, [&](const char* kind, const auto& layer) {
    CAPTURE(kind);
    std::vector<float> first;
    for (const unsigned threads : {1U, 2U, 7U}) {
      Runtime runtime({.count = threads});
      Workspace workspace(runtime);
      const std::vector<float> batch = run_layer(layer, x, workspace);
      if (first.empty()) first = batch;
      CHECK(same_bits(batch, first));
      for (const std::size_t piece : {1U, 13U})
        for (std::size_t row = 0; row < tokens; row += piece) {
          const std::size_t count = std::min<std::size_t>(piece, tokens - row);
          const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * d);
          const std::vector<float> part =
              run_layer(layer, {begin, begin + static_cast<std::ptrdiff_t>(count * d)}, workspace);
          REQUIRE(same_bits(part, {batch.data() + row * d, count * d}));
        }
      const std::vector<float> moved = run_layer(layer, shuffled, workspace);
      for (std::size_t row = 0; row < tokens; ++row)
        CHECK(same_bits(row_of(moved, place(row), d), row_of(batch, row, d)));
    }
  });
}

TEST_CASE("every kind: changing one token changes no bit of another") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::size_t d = 5, tokens = 17;
  std::vector<float> x = real_values(tokens * d, 311);
  for_each_kind(d, 7, [&](const char* kind, const auto& layer) {
    CAPTURE(kind);
    const std::vector<float> before = run_layer(layer, x, workspace);
    for (std::size_t element = 0; element < x.size(); ++element) {
      const float old = x[element];
      x[element] += 0.125F;
      const std::vector<float> after = run_layer(layer, x, workspace);
      x[element] = old;
      for (std::size_t row = 0; row < tokens; ++row)
        CHECK(same_bits(row_of(before, row, d), row_of(after, row, d)) == (row != element / d));
    }
  });
}

TEST_CASE("a capacity is the exception: tokens compete, and a row depends on those before it") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::size_t d = 5, tokens = 17;
  MoeSample moe(d, 7, 3);
  moe.router_bias = {1000, 0, 0};  // everybody's first choice
  Routing routing;
  routing.top_k = 1;
  routing.capacity_factor = 1;  // ceil(17 / 3) = 6 tokens
  const MoeFfn layer = moe.layer(Activation::silu, routing);
  const std::vector<float> x = real_values(tokens * d, 313);
  const std::vector<float> y = run_layer(layer, x, workspace);
  for (std::size_t row = 0; row < tokens; ++row) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * d);
    const std::vector<float> alone =
        run_layer(layer, {begin, begin + static_cast<std::ptrdiff_t>(d)}, workspace);
    CHECK(same_bits(alone, row_of(y, row, d)) == (row < 6));
  }
}

// signal: [channels, length], kernel: [out, channels, width]; the plain definition, without
// padding.
reference::Values convolution(const reference::Values& signal, const reference::Values& kernel,
                              const reference::Values& bias, std::size_t channels,
                              std::size_t length, std::size_t out, std::size_t width) {
  const std::size_t places = length - width + 1;
  reference::Values result(out * places);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t p = 0; p < places; ++p) {
      result[o * places + p] = bias[o];
      for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t t = 0; t < width; ++t)
          result[o * places + p] +=
              signal[c * length + p + t] * kernel[(o * channels + c) * width + t];
    }
  return result;
}

TEST_CASE("it equals two 1x1 convolutions over the sequence") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleFfn sample(23, 5, 7);
  const std::vector<float> y = sample.run(sample.layer(Activation::gelu_erf), workspace);
  reference::Values signal(5 * 23);  // channels first
  for (std::size_t token = 0; token < 23; ++token)
    for (std::size_t c = 0; c < 5; ++c) signal[c * 23 + token] = sample.x[token * 5 + c];
  using reference::widened;
  reference::Values hidden =
      convolution(signal, widened(sample.up), widened(sample.up_bias), 5, 23, 7, 1);
  for (double& value : hidden) value = reference::activation(Activation::gelu_erf, value);
  const reference::Values result =
      convolution(hidden, widened(sample.down), widened(sample.down_bias), 7, 23, 5, 1);
  reference::Values expected(23 * 5);
  for (std::size_t token = 0; token < 23; ++token)
    for (std::size_t c = 0; c < 5; ++c) expected[token * 5 + c] = result[c * 23 + token];
  CHECK(reference::largest_difference(y, expected) < 1e-5);
}

TEST_CASE("one MLP over the flattened sequence is something else: it mixes the tokens") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::size_t tokens = 3, d_model = 5, d_ff = 7;
  const SampleFfn sample(tokens, d_model, d_ff);
  const std::vector<float> y = sample.run(sample.layer(Activation::gelu_erf), workspace);
  const auto flattened = [&](const SampleFfn& flat) {
    return flat.run(flat.layer(Activation::gelu_erf), workspace);
  };

  SampleFfn dense(1, tokens * d_model, tokens * d_ff);
  dense.x = sample.x;
  const std::vector<float> mixed = flattened(dense);
  CHECK(reference::largest_difference(mixed, reference::widened(y)) > 0.1);
  dense.x[0] += 0.5F;  // first token
  const std::vector<float> moved = flattened(dense);
  for (std::size_t i = 0; i < tokens * d_model; ++i) CHECK(moved[i] != mixed[i]);

  // Only with all weights between tokens at zero, and the rest repeated, is it the same function.
  SampleFfn blocks = dense;
  blocks.x = sample.x;
  for (std::vector<float>* weights : {&blocks.up, &blocks.down})
    std::fill(weights->begin(), weights->end(), 0.0F);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t f = 0; f < d_ff; ++f) {
      blocks.up_bias[t * d_ff + f] = sample.up_bias[f];
      for (std::size_t c = 0; c < d_model; ++c) {
        blocks.up[(t * d_ff + f) * tokens * d_model + t * d_model + c] = sample.up[f * d_model + c];
        blocks.down[(t * d_model + c) * tokens * d_ff + t * d_ff + f] = sample.down[c * d_ff + f];
      }
    }
    std::copy_n(sample.down_bias.data(), d_model, blocks.down_bias.data() + t * d_model);
  }
  CHECK(reference::largest_difference(flattened(blocks), reference::widened(y)) < 1e-6);
}

TEST_CASE("more tokens than one piece holds: rows alone give the same bits") {
  class Pieces : public FfnObserver {
   public:
    void observe(const FfnSample& sample, Workspace&) override {
      const ConstMatrix pre = sample.pre, hidden = sample.hidden;
      const std::size_t first_row = sample.first_row;
      CHECK(pre.rows == hidden.rows);
      CHECK(first_row == rows);
      rows += pre.rows;
      ++count;
    }
    std::size_t rows = 0, count = 0;
  };
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  for (const std::size_t tokens : {2047U, 2048U, 2049U, 4099U}) {
    CAPTURE(tokens);
    const SampleFfn sample(tokens, 5, 7);
    const DenseFfn layer = sample.layer(Activation::gelu_erf);
    const std::vector<float> y = sample.run(layer, workspace);
    std::vector<float> alone(5);
    std::size_t different = 0;
    for (std::size_t row = 0; row < tokens; ++row) {
      layer.forward(sample.x_view().rows_from(row, 1), {alone.data(), 1, 5}, workspace);
      different += !same_bits(alone, row_of(y, row, 5));
    }
    CHECK(different == 0);
    Pieces pieces;
    CHECK(same_bits(sample.run(layer, workspace, &pieces), y));
    CHECK(pieces.rows == tokens);
    CHECK(pieces.count == (tokens + 2047) / 2048);
  }
}

TEST_CASE("strided x and y: the same bits, and nothing between the rows is touched") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleFfn sample(13, 37, 71);
  const DenseFfn layer = sample.layer(Activation::relu);
  const std::vector<float> expected = sample.run(layer, workspace);
  std::vector<float> x(13 * 41, 1e30F), y(13 * 43, -77.25F);
  for (std::size_t row = 0; row < 13; ++row)
    std::copy_n(sample.x.data() + row * 37, 37, x.data() + row * 41);
  layer.forward({x.data(), 13, 37, 41}, {y.data(), 13, 37, 43}, workspace);
  for (std::size_t row = 0; row < 13; ++row) {
    CHECK(same_bits({y.data() + row * 43, 37}, row_of(expected, row, 37)));
    for (std::size_t i = 37; i < 43; ++i) CHECK(y[row * 43 + i] == -77.25F);
  }
}

}  // namespace
}  // namespace fourfold
