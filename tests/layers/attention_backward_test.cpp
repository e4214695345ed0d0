// Gradients of MultiHeadAttention against central differences of the float64 layer.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "differences.h"
#include "error_check.h"
#include "layers/attention_sample.h"

namespace fourfold {
namespace {

using Lengths = std::vector<std::size_t>;
constexpr std::size_t kModel = 11;
const Lengths kLengths{5, 1, 7};
constexpr std::size_t kTokens = 13;

struct Found {
  explicit Found(const AttentionSample& sample) : grads(sample) {}
  AttentionGradients grads;
  std::vector<float> dx = std::vector<float>(kTokens * kModel, -77.25F);
};

Found run(const AttentionSample& sample, const MultiHeadAttention& layer,
          const std::vector<float>& x, const std::vector<float>& dy, unsigned threads = 2) {
  Runtime runtime({.count = threads});
  Workspace workspace(runtime);
  std::vector<float> y(x.size());
  const ConstMatrix rows(x.data(), kTokens, kModel);
  AttentionSaved saved;
  layer.forward(rows, kLengths, {y.data(), kTokens, kModel}, workspace, &saved);
  Found found(sample);
  layer.backward(rows, kLengths, saved, {dy.data(), kTokens, kModel},
                 {found.dx.data(), kTokens, kModel}, found.grads.views(), workspace);
  return found;
}

TEST_CASE("encoders and decoders, all gradients") {
  const std::vector<float> x_values = real_values(kTokens * kModel, 5, -0.9F, 1.1F),
                           dy_values = real_values(kTokens * kModel, 6);
  const AttentionOptions encoder{3, 3, 4, false, std::nullopt, 0};
  const AttentionOptions decoder{4,   2, 6, true, RotaryOptions{1000, 4, RotaryStyle::half_split},
                                 0.4F};
  const AttentionOptions single{4, 1, 2, true, RotaryOptions{100, 0, RotaryStyle::interleaved}, 0};
  for (const AttentionOptions& options : {encoder, decoder, single}) {
    const AttentionSample sample(options, kModel);
    ExactAttention exact = sample.exact();
    reference::Values x = reference::widened(x_values);
    const reference::Values dy = reference::widened(dy_values);
    const auto loss = [&] { return reference::dot(dy, exact(x, kLengths)); };
    const Found found =
        run(sample, sample.layer(Packing::forward_and_backward), x_values, dy_values);
    const auto check = [&](const std::vector<float>& values, reference::Values& moved) {
      CHECK(reference::relative_difference(values, reference::differences(moved, loss)) < 1e-5);
    };
    check(found.dx, x);
    check(found.grads.query, exact.query);
    check(found.grads.key, exact.key);
    check(found.grads.value, exact.value);
    check(found.grads.output, exact.output);
    check(found.grads.query_bias, exact.query_bias);
    check(found.grads.key_bias, exact.key_bias);
    check(found.grads.value_bias, exact.value_bias);
    check(found.grads.output_bias, exact.output_bias);
  }
}

TEST_CASE("threads change no bit; a second pass adds; panels packed later are the same") {
  const AttentionSample sample({4, 2, 6, true, RotaryOptions{}, 0}, kModel);
  const std::vector<float> x = real_values(kTokens * kModel, 5),
                           dy = real_values(kTokens * kModel, 6);
  const Found one = run(sample, sample.layer(Packing::forward_and_backward), x, dy, 1);
  for (const unsigned threads : {2U, 7U}) {
    const Found found = run(sample, sample.layer(Packing::forward_and_backward), x, dy, threads);
    CHECK(same_bits(found.dx, one.dx));
    CHECK(same_bits(found.grads.query, one.grads.query));
    CHECK(same_bits(found.grads.key_bias, one.grads.key_bias));
    CHECK(same_bits(found.grads.output, one.grads.output));
  }
  MultiHeadAttention later = sample.layer();
  CHECK_FALSE(later.has_backward());
  later.pack_backward();
  CHECK(later.has_backward());
  CHECK(same_bits(run(sample, later, x, dy).dx, one.dx));

  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  // Only two gradients wanted, on top of what is there.
  std::vector<float> y(x.size()), dx(x.size()), value(sample.value.size(), 0.5F),
      bias(sample.value_bias.size(), 0.25F);
  const ConstMatrix rows(x.data(), kTokens, kModel);
  AttentionSaved saved;
  later.forward(rows, kLengths, {y.data(), kTokens, kModel}, workspace, &saved);
  AttentionGrads grads;
  grads.value = Matrix(value.data(), sample.narrow, kModel);
  grads.value_bias = bias;
  later.backward(rows, kLengths, saved, {dy.data(), kTokens, kModel}, {dx.data(), kTokens, kModel},
                 grads, workspace);
  CHECK(same_bits(dx, one.dx));
  for (std::size_t i = 0; i < value.size(); ++i) CHECK(value[i] == 0.5F + one.grads.value[i]);
  for (std::size_t i = 0; i < bias.size(); ++i) CHECK(bias[i] == 0.25F + one.grads.value_bias[i]);
}

TEST_CASE("new weights reach the backward panels") {
  const AttentionSample old({4, 2, 6, true, std::nullopt, 0}, kModel);
  AttentionSample sample = old;
  for (auto* values : {&sample.query, &sample.key, &sample.value, &sample.output})
    *values = real_values(values->size(), values->size(), -0.5F, 0.4F);
  const std::vector<float> x = real_values(kTokens * kModel, 5),
                           dy = real_values(kTokens * kModel, 6);
  MultiHeadAttention layer = old.layer(Packing::forward_and_backward);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  layer.set_weights(sample.weights(), workspace);
  const Found expected = run(sample, sample.layer(Packing::forward_and_backward), x, dy);
  CHECK(same_bits(run(sample, layer, x, dy).dx, expected.dx));
}

TEST_CASE("bf16 weights: gradients near those of the float32 layer with the same values") {
  AttentionSample sample({4, 2, 6, true, RotaryOptions{}, 0}, kModel);
  std::vector<std::vector<Bf16>> narrow;
  for (auto* values : {&sample.query, &sample.key, &sample.value, &sample.output}) {
    narrow.emplace_back();
    for (float& value : *values) {
      narrow.back().push_back(to_bf16(value));
      value = round_to_bf16(value);
    }
  }
  AttentionWeights weights = sample.weights();
  weights.query = ConstBf16Matrix(narrow[0].data(), sample.wide, kModel);
  weights.key = ConstBf16Matrix(narrow[1].data(), sample.narrow, kModel);
  weights.value = ConstBf16Matrix(narrow[2].data(), sample.narrow, kModel);
  weights.output = ConstBf16Matrix(narrow[3].data(), kModel, sample.wide);
  const MultiHeadAttention layer(weights, sample.options, Packing::forward_and_backward);
  const std::vector<float> x = real_values(kTokens * kModel, 5),
                           dy = real_values(kTokens * kModel, 6);
  const Found found = run(sample, layer, x, dy);
  const Found plain = run(sample, sample.layer(Packing::forward_and_backward), x, dy);
  const auto near = [](const std::vector<float>& a, const std::vector<float>& b) {
    return reference::relative_difference(a, reference::widened(b)) < 0.02;
  };
  CHECK(near(found.dx, plain.dx));
  CHECK(near(found.grads.query, plain.grads.query));
  CHECK(near(found.grads.key, plain.grads.key));
  CHECK(near(found.grads.value, plain.grads.value));
  CHECK(near(found.grads.output, plain.grads.output));
  CHECK(near(found.grads.value_bias, plain.grads.value_bias));
}

TEST_CASE("no tokens give no gradient; wrong calls are errors") {
  const AttentionSample sample({4, 2, 6, true, RotaryOptions{}, 0}, kModel);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const MultiHeadAttention layer = sample.layer(Packing::forward_and_backward);
  AttentionSaved saved;
  AttentionGradients grads(sample);
  const Matrix none(nullptr, 0, kModel);
  layer.forward(none, {}, none, workspace, &saved);
  layer.backward(none, {}, saved, none, none, grads.views(), workspace);
  for (const float value : grads.query) CHECK(value == 0.0F);

  std::vector<float> x(3 * kModel), dx(3 * kModel);
  const Matrix rows(x.data(), 3, kModel), out(dx.data(), 3, kModel);
  const Lengths three{3};
  CHECK(code_of("saved.projected is [0, 48], expected [3, 48]", [&] {
          layer.backward(rows, three, saved, rows, out, {}, workspace);
        }) == ErrorCode::shape_mismatch);
  layer.forward(rows, three, out, workspace, &saved);
  CHECK(code_of("dy is [2, 11]", [&] {
          layer.backward(rows, three, saved, {x.data(), 2, kModel}, out, {}, workspace);
        }) == ErrorCode::shape_mismatch);
  AttentionGrads wrong;
  wrong.key = Matrix(grads.query.data(), sample.wide, kModel);
  CHECK(code_of("grads.key is [24, 11], expected [12, 11]", [&] {
          layer.backward(rows, three, saved, rows, out, wrong, workspace);
        }) == ErrorCode::shape_mismatch);
  CHECK(code_of("pack_backward", [&] {
          sample.layer().backward(rows, three, saved, rows, out, {}, workspace);
        }) == ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace fourfold
