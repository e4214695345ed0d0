// DenseFfn against float64: values, shapes, errors, observers, and the caller's own state.
#include <doctest/doctest.h>
#include <immintrin.h>
#include <sched.h>

#include <cfenv>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "error_check.h"
#include "fourfold/ffn.h"
#include "isa_check.h"
#include "layers/ffn_sample.h"
#include "ops/gemm.h"
#include "platform/stage_clock.h"

namespace fourfold {
namespace {

constexpr Activation kAll[] = {
    Activation::identity, Activation::relu,      Activation::relu2,      Activation::leaky_relu,
    Activation::relu6,    Activation::sigmoid,   Activation::tanh,       Activation::silu,
    Activation::gelu_erf, Activation::gelu_tanh, Activation::quick_gelu, Activation::mish,
};

// Keeps a copy of what it is shown.
class Recorder : public FfnObserver {
 public:
  void observe(const FfnSample& sample, Workspace&) override {
    const ConstMatrix pre = sample.pre, hidden = sample.hidden;
    const std::size_t first_row = sample.first_row;
    pieces.push_back(first_row);
    for (std::size_t row = 0; row < pre.rows; ++row) {
      pre_values.insert(pre_values.end(), pre.row(row).begin(), pre.row(row).end());
      hidden_values.insert(hidden_values.end(), hidden.row(row).begin(), hidden.row(row).end());
    }
  }
  std::vector<std::size_t> pieces;
  std::vector<float> pre_values, hidden_values;
};

// Runs action and checks that it fails with this code and names each part in its message.
TEST_CASE("the instruction set asked for is the one that runs") { check_isa_asked_for(); }

TEST_CASE("every activation, with and without bias, within the error bound of float64") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  for (const bool with_bias : {true, false})
    for (const SampleFfn& sample :
         {SampleFfn(3, 5, 7, with_bias), SampleFfn(37, 101, 211, with_bias)})
      for (const Activation kind : kAll) {
        CAPTURE(with_bias);
        CAPTURE(sample.d_ff);
        CAPTURE(activation_name(kind));
        const std::vector<float> y = sample.run(sample.layer(kind), workspace);
        CHECK(sample.error_share(y, kind) <= 1);
      }
}

TEST_CASE("one bias without the other") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  SampleFfn only_up(3, 5, 7), only_down(3, 5, 7);
  only_up.down_bias.clear();
  only_down.up_bias.clear();
  for (const SampleFfn& sample : {only_up, only_down}) {
    const std::vector<float> y = sample.run(sample.layer(Activation::silu), workspace);
    CHECK(sample.error_share(y, Activation::silu) <= 1);
  }
}

TEST_CASE("dimensions and parameter counts") {
  const DenseFfn small = SampleFfn(1, 5, 7).layer(Activation::relu);
  CHECK(small.d_model() == 5);
  CHECK(small.d_ff() == 7);
  CHECK(small.activation() == Activation::relu);
  CHECK(small.parameters() == 2 * 5 * 7 + 7 + 5);
  CHECK(small.packed_bytes() >= 2 * 5 * 7 * sizeof(float));
  CHECK(SampleFfn(1, 5, 7, false).layer(Activation::relu).parameters() == 2 * 5 * 7);
  CHECK(SampleFfn(1, 768, 3072).layer(Activation::gelu_erf).parameters() == 4'722'432);
}

TEST_CASE("with zero weights only the biases speak") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  SampleFfn sample(11, 5, 7);
  std::fill(sample.up.begin(), sample.up.end(), 0.0F);
  for (const Activation kind : kAll) {
    const std::vector<float> y = sample.run(sample.layer(kind), workspace);
    CHECK(sample.error_share(y, kind) <= 1);
    for (std::size_t row = 1; row < 11; ++row)
      CHECK(same_bits({y.data(), 5}, {y.data() + row * 5, 5}));
  }
  std::fill(sample.down.begin(), sample.down.end(), 0.0F);
  const std::vector<float> y = sample.run(sample.layer(Activation::gelu_erf), workspace);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == sample.down_bias[i % 5]);
}

TEST_CASE("zero tokens give an empty result") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleFfn sample(0, 5, 7);
  Recorder recorder;
  CHECK(sample.run(sample.layer(Activation::relu), workspace, &recorder).empty());
  CHECK(recorder.hidden_values.empty());
}

TEST_CASE("the layer keeps its own copy of the weights, and can be moved") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  SampleFfn sample(3, 5, 7);
  DenseFfn layer = sample.layer(Activation::relu);
  const std::vector<float> before = sample.run(layer, workspace);
  for (std::vector<float>* values : {&sample.up, &sample.down, &sample.up_bias, &sample.down_bias})
    std::fill(values->begin(), values->end(), 1e30F);
  const DenseFfn moved = std::move(layer);
  CHECK(same_bits(sample.run(moved, workspace), before));
}

TEST_CASE("an observer changes no bit and sees what the unfused computation gives") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleFfn sample(37, 53, 131);
  std::vector<float> pre(37 * 131), hidden(37 * 131);
  gemm(sample.x_view(), PackedWeight(sample.weights().up), sample.up_bias, Activation::identity,
       {pre.data(), 37, 131}, workspace);
  for (const Activation kind : kAll) {
    CAPTURE(activation_name(kind));
    const DenseFfn layer = sample.layer(kind);
    Recorder recorder;
    const std::vector<float> plain = sample.run(layer, workspace);
    CHECK(same_bits(sample.run(layer, workspace, &recorder), plain));
    CHECK(recorder.pieces == std::vector<std::size_t>{0});
    activate(kind, pre, hidden);
    CHECK(same_bits(recorder.pre_values, pre));
    CHECK(same_bits(recorder.hidden_values, hidden));
  }
}

TEST_CASE("a sum that underflows to -0 has the same sign with zeros skipped") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const std::vector<float> up{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  std::vector<float> x{1e-30F, 0, 0, 1e-30F}, down(16), whole(4), skipped(4);
  const std::vector<float> row{-1e-30F, 1, -1, -1e-30F};
  for (std::size_t r = 0; r < 4; ++r) std::copy(row.begin(), row.end(), &down[r * 4]);
  for (const std::vector<float>& bias :
       {std::vector<float>(), std::vector<float>(4, 0.0F), std::vector<float>(4, -0.0F)}) {
    DenseFfn layer({ConstMatrix(up.data(), 4, 4), ConstMatrix(down.data(), 4, 4), {}, bias},
                   Activation::relu);
    layer.forward({x.data(), 1, 4}, {whole.data(), 1, 4}, workspace);
    layer.set_skip_zeros(true);
    layer.forward({x.data(), 1, 4}, {skipped.data(), 1, 4}, workspace);
    CHECK(same_bits(whole, skipped));
  }
}

TEST_CASE("wrong shapes are errors that name layer, matrix, found and expected") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const SampleFfn sample(3, 5, 7);
  const DenseFfn layer = sample.layer(Activation::relu);
  std::vector<float> y(100);
  const auto shape = ErrorCode::shape_mismatch;
  check_error(shape, {"dense_ffn", "x is [3, 4]", "expected [3, 5]"}, [&] {
    layer.forward({sample.x.data(), 3, 4}, {y.data(), 3, 5}, workspace);
  });
  check_error(shape, {"dense_ffn", "y is [2, 5]", "expected [3, 5]"}, [&] {
    layer.forward(sample.x_view(), {y.data(), 2, 5}, workspace);
  });
  check_error(shape, {"dense_ffn", "y is [3, 7]", "expected [3, 5]"}, [&] {
    layer.forward(sample.x_view(), {y.data(), 3, 7}, workspace);
  });
  check_error(shape, {"x has stride 4", "at least 5"}, [&] {
    layer.forward({sample.x.data(), 3, 5, 4}, {y.data(), 3, 5}, workspace);
  });
  const auto build = [](DenseWeights weights) { DenseFfn(weights, Activation::relu); };
  DenseWeights weights = sample.weights();
  weights.down = ConstMatrix{sample.down.data(), 7, 5};  // transposed
  check_error(shape, {"dense_ffn", "down is [7, 5]", "expected [5, 7]"}, [&] { build(weights); });
  weights = sample.weights();
  weights.up_bias = {sample.up_bias.data(), 6};
  check_error(shape, {"up_bias has 6", "expected 7"}, [&] { build(weights); });
  weights = sample.weights();
  weights.down_bias = {sample.up_bias.data(), 7};
  check_error(shape, {"down_bias has 7", "expected 5"}, [&] { build(weights); });
  weights = sample.weights();
  weights.up = ConstMatrix{sample.up.data(), 0, 5};
  check_error(ErrorCode::invalid_argument, {"[0, 5]", "at least 1"}, [&] { build(weights); });
  weights.up = ConstMatrix{sample.up.data(), 7, 0};
  check_error(ErrorCode::invalid_argument, {"[7, 0]", "at least 1"}, [&] { build(weights); });
}

TEST_CASE("the two stages of a layer are timed when a clock is set") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  StageClock clock(3);
  workspace.clock = &clock;
  clock.enter_layer(1);
  const SampleFfn sample(67, 101, 211);
  sample.run(sample.layer(Activation::gelu_erf), workspace);
  const auto at = [](Stage stage) { return static_cast<std::size_t>(stage); };
  CHECK(clock.seconds()[1][at(Stage::expand)] > 0);
  CHECK(clock.seconds()[1][at(Stage::contract)] > 0);
  CHECK(clock.seconds()[1][at(Stage::attention)] == 0);
  CHECK(clock.seconds()[0][at(Stage::expand)] == 0);
  CHECK(clock.seconds()[2][at(Stage::expand)] == 0);
}

TEST_CASE("the caller's rounding, flush-to-zero and affinity neither matter nor change") {
  // All CPUs this process may have, whatever mask an earlier case left behind.
  cpu_set_t before, after;
  std::memset(&before, 0xFF, sizeof(before));
  REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
  CPU_ZERO(&before);
  CPU_ZERO(&after);
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  SampleFfn sample(67, 29, 131);
  // The first rows are so small that their results are subnormal.
  for (std::size_t i = 0; i < 10 * 29; ++i) sample.x[i] *= 1e-39F;
  sample.up_bias.clear();
  sample.down_bias.clear();
  const DenseFfn layer = sample.layer(Activation::gelu_erf);
  const std::vector<float> expected = sample.run(layer, workspace);
  CHECK(expected[3] != 0);
  CHECK(std::fabs(expected[3]) < 1e-37F);

  std::fenv_t state;
  std::fegetenv(&state);
  std::fesetround(FE_UPWARD);
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
  const unsigned control = _mm_getcsr();
  const std::vector<float> found = sample.run(layer, workspace);
  const unsigned control_after = _mm_getcsr();
  const int rounding_after = std::fegetround();
  std::fesetenv(&state);
  REQUIRE(sched_getaffinity(0, sizeof(after), &after) == 0);
  CHECK(same_bits(found, expected));
  CHECK(control_after == control);
  CHECK(rounding_after == FE_UPWARD);
  CHECK(CPU_EQUAL(&before, &after) != 0);
}

TEST_CASE("two callers at once, each with its workspace, get the bits of one alone") {
  Runtime runtime({.count = 2});
  const SampleFfn a(31, 29, 67), b(17, 29, 67);
  const DenseFfn layer = a.layer(Activation::gelu_erf);
  Workspace workspace(runtime), other_workspace(runtime);
  const std::vector<float> expected_a = a.run(layer, workspace);
  const std::vector<float> expected_b = b.run(layer, workspace);
  int wrong_a = 0, wrong_b = 0;
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) wrong_b += !same_bits(b.run(layer, other_workspace), expected_b);
  });
  for (int i = 0; i < 50; ++i) wrong_a += !same_bits(a.run(layer, workspace), expected_a);
  other.join();
  CHECK(wrong_a == 0);
  CHECK(wrong_b == 0);
}

}  // namespace
}  // namespace fourfold
