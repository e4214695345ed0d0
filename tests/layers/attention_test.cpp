// MultiHeadAttention with its projections against float64, forward; new weights, bf16, errors.
#include "fourfold/attention.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "error_check.h"
#include "layers/attention_sample.h"

namespace fourfold {
namespace {

using Lengths = std::vector<std::size_t>;

std::vector<float> run(const MultiHeadAttention& layer, const std::vector<float>& x,
                       const Lengths& lengths, unsigned threads = 2) {
  Runtime runtime({.count = threads});
  Workspace workspace(runtime);
  const std::size_t d = layer.d_model(), tokens = x.size() / d;
  std::vector<float> y(x.size(), -77.25F);
  layer.forward({x.data(), tokens, d}, lengths, {y.data(), tokens, d}, workspace);
  return y;
}

TEST_CASE("against float64, several sequences of several lengths") {
  for (const std::size_t d_model : {21U, 67U}) {
    const std::size_t heads = d_model == 21 ? 3 : 1;
    const AttentionSample sample(heads, d_model);
    const MultiHeadAttention layer(sample.weights(), heads);
    CHECK(layer.d_model() == d_model);
    CHECK(layer.n_heads() == heads);
    CHECK(layer.packed_bytes() >= 4 * d_model * d_model * sizeof(float));
    for (const Lengths& lengths : {Lengths{1}, Lengths{71}, Lengths{5, 1, 13}, Lengths{0, 3}}) {
      std::size_t tokens = 0;
      for (const std::size_t length : lengths) tokens += length;
      CAPTURE(d_model);
      CAPTURE(tokens);
      const std::vector<float> x = real_values(tokens * d_model, tokens, -0.9F, 1.1F);
      CHECK(reference::largest_difference(run(layer, x, lengths),
                                          sample.expected(reference::widened(x), lengths)) < 4e-5);
    }
  }
}

TEST_CASE("a sequence has the same bits alone and beside others, for any number of threads") {
  const AttentionSample sample(3, 33);
  const MultiHeadAttention layer(sample.weights(), 3);
  const std::vector<float> x = real_values(84 * 33, 5);
  const std::vector<float> both = run(layer, x, {67, 17}, 1);
  for (const unsigned threads : {2U, 7U}) CHECK(same_bits(run(layer, x, {67, 17}, threads), both));
  const std::vector<float> second(x.begin() + 67 * 33, x.end());
  CHECK(same_bits(run(layer, second, {17}), {both.data() + 67 * 33, 17 * 33}));
  // Seen as one sequence, the tokens do mix.
  CHECK_FALSE(same_bits(run(layer, x, {84}), both));
}

TEST_CASE("attention knows no position: shuffled tokens give shuffled results") {
  const AttentionSample sample(3, 21);
  const MultiHeadAttention layer(sample.weights(), 3);
  const std::vector<float> x = real_values(13 * 21, 5);
  std::vector<float> shuffled(x.size());
  for (std::size_t t = 0; t < 13; ++t)
    std::copy_n(x.data() + t * 21, 21, shuffled.data() + t * 5 % 13 * 21);
  const std::vector<float> y = run(layer, x, {13}), z = run(layer, shuffled, {13});
  for (std::size_t t = 0; t < 13; ++t)
    for (std::size_t c = 0; c < 21; ++c)
      CHECK(z[t * 5 % 13 * 21 + c] == doctest::Approx(y[t * 21 + c]).epsilon(1e-4));
}

TEST_CASE("no tokens give an empty result") {
  const MultiHeadAttention layer(AttentionSample(3, 21).weights(), 3);
  CHECK(run(layer, {}, {}).empty());
  CHECK(run(layer, {}, {0, 0}).empty());
}

TEST_CASE("wrong shapes and head counts are errors that say so") {
  const AttentionSample sample(3, 21);
  const auto bad = ErrorCode::invalid_argument, shape = ErrorCode::shape_mismatch;
  const auto build = [](const AttentionWeights& w, std::size_t n) { MultiHeadAttention(w, n); };
  check_error(bad, {"attention", "n_heads is 0"}, [&] { build(sample.weights(), 0); });
  check_error(bad, {"n_heads is 5", "21"}, [&] { build(sample.weights(), 5); });
  AttentionWeights weights = sample.weights();
  weights.key = ConstMatrix{sample.key.data(), 21, 20};
  check_error(shape, {"key is [21, 20]", "expected [21, 21]"}, [&] { build(weights, 3); });
  weights = sample.weights();
  weights.output = ConstMatrix{sample.output.data(), 20, 21};
  check_error(shape, {"output is [20, 21]", "expected [21, 21]"}, [&] { build(weights, 3); });
  weights = sample.weights();
  weights.value_bias = {sample.value_bias.data(), 20};
  check_error(shape, {"value_bias has 20", "expected 21"}, [&] { build(weights, 3); });
  weights = sample.weights();
  weights.output_bias = {sample.output_bias.data(), 20};
  check_error(shape, {"output_bias has 20", "expected 21"}, [&] { build(weights, 3); });
  std::vector<Bf16> narrow(21 * 21);
  weights = sample.weights();
  weights.value = ConstBf16Matrix(narrow.data(), 21, 21);
  check_error(shape, {"value is bf16", "expected f32"}, [&] { build(weights, 3); });

  const auto options = [&](const AttentionOptions& all) {
    MultiHeadAttention(sample.weights(), all);
  };
  check_error(bad, {"n_kv_heads is 2", "divisor of n_heads 3"}, [&] { options({3, 2}); });
  check_error(shape, {"key is [21, 21]", "expected [7, 21]"}, [&] { options({3, 1}); });
  check_error(shape, {"query is [21, 21]", "expected [24, 21]"}, [&] { options({3, 3, 8}); });
  check_error(bad, {"more than memory"}, [&] { options({SIZE_MAX / 2, 1, 8}); });
  check_error(bad, {"scale is -1"}, [&] { options({3, 3, 7, false, std::nullopt, -1}); });
  check_error(bad, {"scale is nan"}, [&] { options({3, 3, 7, false, std::nullopt, NAN}); });
  check_error(bad, {"rotary_dim is 7"}, [&] { options({3, 3, 7, false, RotaryOptions{}}); });

  const MultiHeadAttention layer(sample.weights(), 3);
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  std::vector<float> x(4 * 21), y(4 * 21);
  const Lengths four{4}, three{1, 2};
  check_error(shape, {"x is [4, 20]", "expected [4, 21]"}, [&] {
    layer.forward({x.data(), 4, 20}, four, {y.data(), 4, 21}, workspace);
  });
  check_error(shape, {"y is [3, 21]", "expected [4, 21]"}, [&] {
    layer.forward({x.data(), 4, 21}, four, {y.data(), 3, 21}, workspace);
  });
  check_error(shape, {"sequence_lengths", "has 4", "expected 3"}, [&] {
    layer.forward({x.data(), 4, 21}, three, {y.data(), 4, 21}, workspace);
  });
}

// The options of a decoder: 4 heads read 2 key heads, a mask, partial rotary positions.
AttentionOptions decoder_options(RotaryStyle style = RotaryStyle::half_split) {
  return {4, 2, 6, true, RotaryOptions{1000, 4, style}, 0};
}

TEST_CASE("a mask, shared key heads, rotary positions, an own scale, no biases") {
  const std::size_t d_model = 19;
  const Lengths lengths{67, 1, 13};
  const std::vector<float> x = real_values(81 * d_model, 5, -0.9F, 1.1F);
  for (const RotaryStyle style : {RotaryStyle::half_split, RotaryStyle::interleaved})
    for (const bool biases : {true, false})
      for (const float scale : {0.0F, 0.17F}) {
        AttentionOptions options = decoder_options(style);
        options.scale = scale;
        const AttentionSample sample(options, d_model, biases);
        const MultiHeadAttention layer = sample.layer();
        CHECK(layer.n_kv_heads() == 2);
        CHECK(layer.head_dim() == 6);
        CHECK(layer.causal());
        CHECK(layer.parameters() == (2 * 24 + 2 * 12) * 19 + (biases ? 24 + 12 + 12 + 19 : 0));
        CHECK(reference::largest_difference(
                  run(layer, x, lengths), sample.expected(reference::widened(x), lengths)) < 4e-5);
      }
}

TEST_CASE("some biases: the others are 0") {
  AttentionSample sample(decoder_options(), 19);
  sample.key_bias.clear();
  sample.output_bias.clear();
  const MultiHeadAttention layer = sample.layer();
  CHECK(layer.parameters() == (2 * 24 + 2 * 12) * 19 + 24 + 12);
  const std::vector<float> x = real_values(13 * 19, 5);
  CHECK(reference::largest_difference(run(layer, x, {13}),
                                      sample.expected(reference::widened(x), {13})) < 4e-5);
}

TEST_CASE("causal: a prefix has the same bits as the start of the whole, NaN behind it or not") {
  const AttentionSample sample(decoder_options(), 19);
  const MultiHeadAttention layer = sample.layer();
  std::vector<float> x = real_values(131 * 19, 7);
  const std::vector<float> y = run(layer, x, {131});
  for (const std::size_t count : {1U, 5U, 64U, 65U, 130U}) {
    const std::vector<float> start(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count * 19));
    CHECK(same_bits(run(layer, start, {count}), {y.data(), count * 19}));
  }
  x[70 * 19 + 3] = NAN;
  const std::vector<float> z = run(layer, x, {131});
  CHECK(same_bits({z.data(), 70 * 19}, {y.data(), 70 * 19}));
  for (std::size_t i = 70 * 19; i < z.size(); ++i) CHECK(std::isnan(z[i]));
}

TEST_CASE("what is saved changes no bit") {
  const AttentionSample sample(decoder_options(), 19);
  const MultiHeadAttention layer = sample.layer();
  const std::vector<float> x = real_values(13 * 19, 7);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  std::vector<float> y(x.size());
  AttentionSaved saved;
  const Lengths lengths{5, 8};
  layer.forward({x.data(), 13, 19}, lengths, {y.data(), 13, 19}, workspace, &saved);
  CHECK(same_bits(y, run(layer, x, lengths)));
  CHECK(saved.projected.cols == 24 + 12 + 12);
  CHECK(saved.mixed.rows == 13);
}

std::vector<Bf16> rounded(const std::vector<float>& values) {
  std::vector<Bf16> narrow;
  for (const float value : values) narrow.push_back(to_bf16(value));
  return narrow;
}

TEST_CASE("bf16 weights: x, the factors of attention and the mixed heads are rounded") {
  AttentionSample sample(decoder_options(), 19);
  for (auto* values : {&sample.query, &sample.key, &sample.value, &sample.output})
    for (float& value : *values) value = round_to_bf16(value);
  const auto query = rounded(sample.query), key = rounded(sample.key),
             value = rounded(sample.value), output = rounded(sample.output);
  AttentionWeights weights = sample.weights();
  weights.query = ConstBf16Matrix(query.data(), 24, 19);
  weights.key = ConstBf16Matrix(key.data(), 12, 19);
  weights.value = ConstBf16Matrix(value.data(), 12, 19);
  weights.output = ConstBf16Matrix(output.data(), 19, 24);
  const MultiHeadAttention layer(weights, sample.options);
  CHECK(layer.dtype() == Dtype::bf16);
  std::vector<float> x = real_values(13 * 19, 7);
  const std::vector<float> y = run(layer, x, {13});
  for (float& entry : x) entry = round_to_bf16(entry);
  CHECK(same_bits(run(layer, x, {13}), y));
  // A saved pass gives the same result and holds the rounded factors.
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  std::vector<float> y_saved(x.size());
  AttentionSaved saved;
  layer.forward({x.data(), 13, 19}, std::vector<std::size_t>{13}, {y_saved.data(), 13, 19},
                workspace, &saved);
  CHECK(same_bits(y_saved, y));
  for (const ConstMatrix factors : {saved.projected.view(), saved.mixed.view()})
    for (std::size_t row = 0; row < factors.rows; ++row)
      for (const float factor : factors.row(row)) REQUIRE(factor == round_to_bf16(factor));
  // Rounding the mixed heads, and what they are mixed from, costs up to 2^-9 of each of 24 products
  // of about 0.5.
  const auto exact = sample.expected(reference::widened(x), {13});
  CHECK(reference::largest_difference(y, exact) < 0.03);
  CHECK(reference::largest_difference(y, exact) > 1e-5);
}

TEST_CASE("bf16: a saved pass gives the same bits where values are tiny") {
  const std::vector<Bf16> one(1, to_bf16(1.0F));
  const ConstBf16Matrix weight(one.data(), 1, 1);
  AttentionWeights weights;
  weights.query = weights.key = weights.value = weights.output = weight;
  // Just below the smallest normal number, to which it would round.
  const std::vector<float> tiny(1, std::bit_cast<float>(0x007FFFFFU));
  weights.value_bias = tiny;
  const MultiHeadAttention layer(weights, 1);
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const float x = 0;
  float y = 1, y_saved = 2;
  AttentionSaved saved;
  const std::vector<std::size_t> lengths{1};
  layer.forward({&x, 1, 1}, lengths, {&y, 1, 1}, workspace);
  layer.forward({&x, 1, 1}, lengths, {&y_saved, 1, 1}, workspace, &saved);
  CHECK(same_bits(y, y_saved));
}

TEST_CASE("new weights are those of a new layer, bit for bit") {
  const AttentionSample old(decoder_options(), 19);
  AttentionSample sample = old;
  for (auto* values :
       {&sample.query, &sample.key, &sample.value, &sample.output, &sample.query_bias,
        &sample.key_bias, &sample.value_bias, &sample.output_bias})
    *values = real_values(values->size(), values->size(), -0.5F, 0.4F);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  MultiHeadAttention layer = old.layer(Packing::forward_and_backward);
  layer.set_weights(sample.weights(), workspace);
  const std::vector<float> x = real_values(13 * 19, 7);
  CHECK(same_bits(run(layer, x, {13}), run(sample.layer(), x, {13})));
  AttentionWeights weights = sample.weights();
  weights.key_bias = {};
  check_error(ErrorCode::shape_mismatch, {"key_bias has 0", "expected 12"},
              [&] { layer.set_weights(weights, workspace); });
  weights = sample.weights();
  weights.key = ConstMatrix{sample.key.data(), 12, 18};
  check_error(ErrorCode::shape_mismatch, {"key is [12, 18]"},
              [&] { layer.set_weights(weights, workspace); });
}

TEST_CASE("sequence lengths whose sum wraps around are an error") {
  const MultiHeadAttention layer(AttentionSample(3, 21).weights(), 3);
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  std::vector<float> x(4 * 21), y(4 * 21);
  const Lengths wrapping{SIZE_MAX, 5};
  check_error(ErrorCode::shape_mismatch, {"sequence_lengths"}, [&] {
    layer.forward({x.data(), 4, 21}, wrapping, {y.data(), 4, 21}, workspace);
  });
}

}  // namespace
}  // namespace fourfold
