// Layers that skip exact zeros, with and without neuron rows: no bit differs from one that does
// not, whatever the weights and inputs hold.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "error_check.h"
#include "expert_sample.h"

namespace fourfold {
namespace {

constexpr std::size_t kModel = 71, kFf = 331;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(),
                kInfinity = std::numeric_limits<float>::infinity();

// Weights of a layer in both types, with a bias that moves so many of the activations below 0.
struct Sample : SampleExpert {
  explicit Sample(float shift, std::uint64_t seed = 601) : SampleExpert(kModel, kFf, seed) {
    for (std::vector<float>* bias : {&gate_bias, &up_bias})
      for (float& value : *bias) value += shift;
  }
  std::vector<Bf16> narrow(const std::vector<float>& values) const {
    std::vector<Bf16> result;
    for (const float value : values) result.push_back(to_bf16(value));
    return result;
  }
  DenseFfn dense_layer(Dtype dtype, Activation kind) const {
    if (dtype == Dtype::f32) return DenseFfn(dense(), kind);
    const auto u = narrow(up), d = narrow(down);
    return DenseFfn({ConstBf16Matrix(u.data(), d_ff, d_model),
                     ConstBf16Matrix(d.data(), d_model, d_ff), up_bias, down_bias},
                    kind);
  }
  GatedFfn gated_layer(Dtype dtype, Activation kind) const {
    if (dtype == Dtype::f32) return GatedFfn(gated(), kind);
    const auto g = narrow(gate), u = narrow(up), d = narrow(down);
    return GatedFfn(
        {ConstBf16Matrix(g.data(), d_ff, d_model), ConstBf16Matrix(u.data(), d_ff, d_model),
         ConstBf16Matrix(d.data(), d_model, d_ff), gate_bias, up_bias, down_bias},
        kind);
  }
};

// Activations have a spread of about 7: from no zero at all to nothing else.
constexpr float kShifts[] = {1000, 9, 0, -9, -16, -1000};

template <class Layer>
std::vector<float> run(const Layer& layer, std::span<const float> x, Workspace& workspace) {
  const std::size_t tokens = x.size() / kModel;
  std::vector<float> y(x.size(), -77.25F);
  layer.forward({x.data(), tokens, kModel}, {y.data(), tokens, kModel}, workspace);
  return y;
}

void check_same(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    different += same_value(found[i], expected[i]) ? 0U : 1U;
  CHECK(different == 0);
}

// The layer with every setting against itself without skipping.
template <class Layer>
void check_settings(Layer& layer, std::span<const float> x) {
  std::vector<float> expected;
  for (const unsigned threads : {1U, 2U, 5U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    layer.set_skip_zeros(false);
    const auto dense = run(layer, x, workspace);
    if (expected.empty()) expected = dense;
    check_same(dense, expected);
    layer.set_skip_zeros(true);
    check_same(run(layer, x, workspace), expected);
    if constexpr (!std::is_same_v<Layer, DenseFfn>) {
      layer.keep_neuron_rows(true);
      check_same(run(layer, x, workspace), expected);
      layer.set_skip_zeros(false);
      check_same(run(layer, x, workspace), expected);
      layer.keep_neuron_rows(false);
    }
  }
}

TEST_CASE("any share of zeros, few rows, both types: the same bits") {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const Activation kind : {Activation::relu, Activation::relu2, Activation::relu6})
      for (const float shift : kShifts) {
        const Sample sample(shift);
        DenseFfn dense = sample.dense_layer(dtype, kind);
        GatedFfn gated = sample.gated_layer(dtype, kind);
        for (const std::size_t rows : {0U, 1U, 2U, 3U, 4U, 5U, 7U, 8U, 9U, 16U, 17U}) {
          if (kind != Activation::relu && rows > 2) continue;
          CAPTURE(shift);
          CAPTURE(rows);
          const auto x = real_values(rows * kModel, 607);
          check_settings(dense, x);
          check_settings(gated, x);
        }
      }
}

TEST_CASE("skipping is on at first and agrees with float64") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Sample sample(-9);
  GatedFfn layer = sample.gated_layer(Dtype::f32, Activation::relu);
  layer.keep_neuron_rows(true);
  const auto x = real_values(3 * kModel, 613);
  const auto y = run(layer, x, workspace);
  for (std::size_t t = 0; t < 3; ++t) {
    const reference::Values row(x.begin() + static_cast<long>(t * kModel),
                                x.begin() + static_cast<long>((t + 1) * kModel));
    const auto expected = sample.gated_row(row, Activation::relu);
    for (std::size_t i = 0; i < kModel; ++i)
      CHECK(y[t * kModel + i] == doctest::Approx(expected[i]).epsilon(1e-4));
  }
}

TEST_CASE("NaN, infinity and overflow reach y as without skipping") {
  const auto x = real_values(2 * kModel, 617);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const float bad : {kNaN, kInfinity, -kInfinity, 3e38F, -3e38F}) {
      CAPTURE(bad);
      const auto check = [&](auto change) {
        Sample sample(-9);
        std::vector<float> rows = x;
        change(sample, rows);
        DenseFfn dense = sample.dense_layer(dtype, Activation::relu);
        GatedFfn gated = sample.gated_layer(dtype, Activation::relu);
        check_settings(dense, rows);
        check_settings(gated, rows);
      };
      check([&](Sample& sample, auto&) { sample.up[kModel * 5 + 2] = bad; });
      check([&](Sample& sample, auto&) { sample.gate[kModel * 300 + 70] = bad; });
      check([&](Sample& sample, auto&) { sample.down[kFf * 3 + 330] = bad; });
      check([&](Sample& sample, auto&) { sample.up_bias[64] = bad; });
      check([&](Sample& sample, auto&) { sample.gate_bias[330] = bad; });
      check([&](Sample&, auto& rows) { rows[kModel + 70] = bad; });
      // Every gate is off, but 0 * up is NaN where up leaves the finite numbers.
      check([&](Sample& sample, auto& rows) {
        std::fill(sample.gate.begin(), sample.gate.end(), 0.0F);
        std::fill(sample.gate_bias.begin(), sample.gate_bias.end(), -1.0F);
        rows[0] = bad;
      });
    }
}

TEST_CASE("an up that overflows where the gate is 0 still makes the token NaN") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  Sample sample(-1000);
  for (std::size_t k = 0; k < kModel; ++k) sample.up[k] = 1e37F;
  GatedFfn layer = sample.gated_layer(Dtype::f32, Activation::relu);
  layer.keep_neuron_rows(true);
  const std::vector<float> x(kModel, 7.0F);
  CHECK(std::isnan(run(layer, x, workspace)[0]));
}

TEST_CASE("new weights: the neuron rows follow") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const auto x = real_values(2 * kModel, 619);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    GatedFfn layer = Sample(-9, 631).gated_layer(dtype, Activation::relu);
    layer.keep_neuron_rows(true);
    (void)run(layer, x, workspace);
    Sample other(-9, 641);
    layer.set_weights(other.gated(), workspace);
    check_same(run(layer, x, workspace),
               run(other.gated_layer(dtype, Activation::relu), x, workspace));
    other.up[3] = kInfinity;
    layer.set_weights(other.gated(), workspace);
    layer.set_skip_zeros(false);
    const auto expected = run(layer, x, workspace);
    layer.set_skip_zeros(true);
    check_same(run(layer, x, workspace), expected);
  }
}

TEST_CASE("saved and watched passes with neuron rows show every value") {
  struct Keep : FfnObserver {
    std::vector<float> up, hidden;
    void observe(const FfnSample& sample, Workspace&) override {
      for (std::size_t r = 0; r < sample.up.rows; ++r) {
        up.insert(up.end(), sample.up.row(r).begin(), sample.up.row(r).end());
        hidden.insert(hidden.end(), sample.hidden.row(r).begin(), sample.hidden.row(r).end());
      }
    }
  };
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const auto x = real_values(3 * kModel, 643);
  GatedFfn layer = Sample(-9).gated_layer(Dtype::f32, Activation::relu);
  const auto pass = [&](bool fast, GatedSaved& saved, Keep& keep) {
    layer.set_skip_zeros(fast);
    layer.keep_neuron_rows(fast);
    std::vector<float> y(x.size());
    layer.forward({x.data(), 3, kModel}, {y.data(), 3, kModel}, workspace, &saved, &keep);
    return y;
  };
  GatedSaved slow_saved, fast_saved;
  Keep slow, fast;
  const auto expected = pass(false, slow_saved, slow);
  CHECK(same_bits(pass(true, fast_saved, fast), expected));
  CHECK(same_bits(fast_saved.up.values, slow_saved.up.values));
  CHECK(same_bits(fast_saved.gate.values, slow_saved.gate.values));
  CHECK(same_bits(fast.up, slow.up));
  CHECK(same_bits(fast.hidden, slow.hidden));
}

TEST_CASE("experts skip, too, alone and beside others") {
  SampleMixture sample(5, kModel, kFf, 653);
  for (SampleExpert& expert : sample.experts)
    for (std::vector<float>* bias : {&expert.gate_bias, &expert.up_bias})
      for (float& value : *bias) value -= 9;
  const Sample shared(-9, 659);
  for (const int broken : {0, 1, 2}) {
    if (broken == 1) sample.experts[2].down[17] = kNaN;
    if (broken == 2) sample.experts[3].up[18] = kInfinity;
    for (const bool gated : {true, false}) {
      MoeWeights weights = sample.weights();
      if (!gated) weights.experts = std::span<const DenseWeights>(sample.dense);
      weights.shared = SharedExpert{shared.gated(), Activation::relu, {}};
      Routing routing;
      routing.top_k = 2;
      MoeFfn layer(weights, Activation::relu, routing);
      for (const std::size_t rows : {1U, 2U, 9U, 40U, 130U}) {
        CAPTURE(rows);
        const auto x = real_values(rows * kModel, 661);
        if (gated) {
          check_settings(layer, x);
          continue;
        }
        Runtime runtime({.count = 2});
        Workspace workspace(runtime);
        layer.set_skip_zeros(false);
        const auto expected = run(layer, x, workspace);
        layer.set_skip_zeros(true);
        check_same(run(layer, x, workspace), expected);
      }
    }
  }
}

TEST_CASE("neuron rows are refused where no gate gives zeros") {
  const Sample sample(0);
  GatedFfn smooth = sample.gated_layer(Dtype::f32, Activation::silu);
  CHECK_THROWS_AS(smooth.keep_neuron_rows(true), Error);
  smooth.keep_neuron_rows(false);
  SampleMixture mixture(3, kModel, kFf, 673);
  MoeWeights weights = mixture.weights();
  weights.experts = std::span<const DenseWeights>(mixture.dense);
  MoeFfn dense_experts(weights, Activation::relu, Routing());
  CHECK_THROWS_AS(dense_experts.keep_neuron_rows(true), Error);
}

}  // namespace
}  // namespace fourfold
