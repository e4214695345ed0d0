// MultiHeadAttention with its projections against float64, and its errors.
#include "fourfold/attention.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "fourfold/error.h"
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

void check_error(ErrorCode code, const std::vector<std::string>& parts,
                 const std::function<void()>& action) {
  try {
    action();
    FAIL_CHECK("accepted; expected an error with " << parts.front());
  } catch (const Error& error) {
    CHECK(error.code == code);
    const std::string text = error.what();
    CAPTURE(text);
    for (const std::string& part : parts) CHECK(text.find(part) != std::string::npos);
  }
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
  weights.output_bias = {};
  check_error(shape, {"output_bias has 0", "expected 21"}, [&] { build(weights, 3); });

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
