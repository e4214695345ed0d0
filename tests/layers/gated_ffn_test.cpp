// GatedFfn: values, bits, saving, skipping zeros, bf16, new weights.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cmath>
#include <vector>

#include "expert_sample.h"
#include "fourfold/error.h"

namespace fourfold {
namespace {

constexpr std::size_t kModel = 29, kFf = 131, kTokens = 17;

std::vector<float> run(const GatedFfn& layer, std::span<const float> x, Workspace& workspace,
                       GatedSaved* save = nullptr, FfnObserver* observer = nullptr) {
  const std::size_t tokens = x.size() / kModel;
  std::vector<float> y(x.size(), -77.25F);
  layer.forward({x.data(), tokens, kModel}, {y.data(), tokens, kModel}, workspace, save, observer);
  return y;
}

TEST_CASE("values agree with float64") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleExpert sample(kModel, kFf, 71);
  const auto x = real_values(kTokens * kModel, 73);
  for (const Activation kind : {Activation::silu, Activation::gelu_erf, Activation::identity}) {
    const std::vector<float> y = run(GatedFfn(sample.gated(), kind), x, workspace);
    for (std::size_t t = 0; t < kTokens; ++t) {
      const reference::Values row(x.begin() + static_cast<long>(t * kModel),
                                  x.begin() + static_cast<long>((t + 1) * kModel));
      const auto expected = sample.gated_row(row, kind);
      for (std::size_t i = 0; i < kModel; ++i)
        CHECK(y[t * kModel + i] == doctest::Approx(expected[i]).epsilon(3e-5));
    }
  }
}

TEST_CASE("gate and up are not the same thing") {
  const std::vector<float> gate{2, 0}, up{1, 3}, down{1, 0, 0, 1};  // d_model 1 padded to 2 rows
  const std::vector<float> wide_gate{2, 0, 0, 0}, wide_up{1, 0, 3, 0}, x{1, 0};
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const auto hidden = [&](const std::vector<float>& g, const std::vector<float>& u) {
    const GatedFfn layer({ConstMatrix(g.data(), 2, 2),
                          ConstMatrix(u.data(), 2, 2),
                          ConstMatrix(down.data(), 2, 2),
                          {},
                          {},
                          {}},
                         Activation::silu);
    std::vector<float> y(2);
    layer.forward({x.data(), 1, 2}, {y.data(), 1, 2}, workspace);
    return y;
  };
  const auto right = hidden(wide_gate, wide_up), swapped = hidden(wide_up, wide_gate);
  CHECK(right[0] == doctest::Approx(1.761594));
  CHECK(right[1] == 0);
  CHECK(swapped[0] == doctest::Approx(1.462117));
  CHECK(swapped[1] == 0);
}

TEST_CASE("a row alone, in a batch, for any number of threads, saved or watched: the same bits") {
  struct Ignore : FfnObserver {
    void observe(const FfnSample&, Workspace&) override {}
  } ignore;
  const SampleExpert sample(kModel, kFf, 71);
  const auto x = real_values(64 * kModel, 79);
  std::vector<float> first;
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    const GatedFfn layer(sample.gated(), Activation::silu, Packing::forward_and_backward);
    GatedSaved saved;
    const auto y = run(layer, x, workspace);
    if (first.empty()) first = y;
    CHECK(same_bits(y, first));
    CHECK(same_bits(run(layer, x, workspace, &saved), first));
    CHECK(same_bits(run(layer, x, workspace, nullptr, &ignore), first));
    for (const std::size_t tokens : {1U, 2U, 3U, 17U})
      CHECK(same_bits(run(layer, std::span(x).first(tokens * kModel), workspace),
                      std::span(first).first(tokens * kModel)));
    CHECK(
        same_bits(run(layer, std::span(x).last(kModel), workspace), std::span(first).last(kModel)));
  }
}

TEST_CASE("skipping the zeros of relu changes no bit; a NaN weight still counts") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  SampleExpert sample(kModel, kFf, 83);
  const auto x = real_values(kTokens * kModel, 89);
  for (const bool bad : {false, true}) {
    if (bad) sample.down[7] = NAN;
    GatedFfn layer(sample.gated(), Activation::relu);
    const auto dense = run(layer, x, workspace);
    layer.set_skip_zeros(true);
    const auto skipped = run(layer, x, workspace);
    for (std::size_t i = 0; i < dense.size(); ++i) CHECK(same_value(dense[i], skipped[i]));
    CHECK(std::isnan(skipped[0]) == bad);
  }
}

TEST_CASE("bf16: x and hidden are rounded, sums are float32; fused is unfused") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleExpert sample(kModel, kFf, 97);
  const auto narrow = [](const std::vector<float>& values) {
    std::vector<Bf16> result;
    for (const float value : values) result.push_back(to_bf16(value));
    return result;
  };
  const auto gate = narrow(sample.gate), up = narrow(sample.up), down = narrow(sample.down);
  const GatedFfn layer(
      {ConstBf16Matrix(gate.data(), kFf, kModel), ConstBf16Matrix(up.data(), kFf, kModel),
       ConstBf16Matrix(down.data(), kModel, kFf), sample.gate_bias, sample.up_bias,
       sample.down_bias},
      Activation::silu);
  CHECK(layer.dtype() == Dtype::bf16);
  const auto x = real_values(kTokens * kModel, 101);
  const auto y = run(layer, x, workspace);
  // Step by step: what the first half shows, rounded, through a second layer alone. Up = the unit
  // matrix and identity make that a plain product with down. Where bf16 is widened, float32 layers
  // do the same.
  SampleExpert wide = sample;
  for (std::vector<float>* values : {&wide.gate, &wide.up, &wide.down})
    for (float& value : *values) value = round_to_bf16(value);
  auto x_rounded = x;
  for (float& value : x_rounded) value = round_to_bf16(value);
  std::vector<float> unit(kFf * kFf), square(kFf * kFf), padded_bias(kFf);
  for (std::size_t i = 0; i < kFf; ++i) unit[i * kFf + i] = 1;
  std::copy(wide.down.begin(), wide.down.end(), square.begin());
  std::copy(sample.down_bias.begin(), sample.down_bias.end(), padded_bias.begin());
  const auto narrow_unit = narrow(unit), narrow_square = narrow(square);
  struct Keep : FfnObserver {
    void observe(const FfnSample& sample, Workspace&) override {
      for (std::size_t r = 0; r < sample.hidden.rows; ++r)
        hidden.insert(hidden.end(), sample.hidden.row(r).begin(), sample.hidden.row(r).end());
    }
    std::vector<float> hidden;
  };
  const auto stepwise = [&](const GatedFfn& first, const DenseFfn& second) {
    Keep keep;
    run(first, x_rounded, workspace, nullptr, &keep);
    for (float& value : keep.hidden) value = round_to_bf16(value);
    std::vector<float> result(kTokens * kFf);
    second.forward({keep.hidden.data(), kTokens, kFf}, {result.data(), kTokens, kFf}, workspace);
    for (std::size_t t = 0; t < kTokens; ++t)
      CHECK(same_bits(std::span(y).subspan(t * kModel, kModel),
                      std::span(result).subspan(t * kFf, kModel)));
  };
  stepwise(layer, DenseFfn({ConstBf16Matrix(narrow_unit.data(), kFf, kFf),
                            ConstBf16Matrix(narrow_square.data(), kFf, kFf),
                            {},
                            padded_bias},
                           Activation::identity));
  if (runtime.isa() != "avx512_bf16")
    stepwise(GatedFfn(wide.gated(), Activation::silu),
             DenseFfn({ConstMatrix(unit.data(), kFf, kFf),
                       ConstMatrix(square.data(), kFf, kFf),
                       {},
                       padded_bias},
                      Activation::identity));
  // bf16 activations: widened on the way in, rounded once on the way out.
  std::vector<Bf16> x_bf16 = narrow(x), y_bf16(kTokens * kModel);
  layer.forward(ConstBf16Matrix(x_bf16.data(), kTokens, kModel),
                Bf16Matrix(y_bf16.data(), kTokens, kModel), workspace);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y_bf16[i].bits == to_bf16(y[i]).bits);
}

TEST_CASE("rows beyond 2^32 bytes of a buffer are where they should be") {
  constexpr std::size_t rows = 61'700, stride = 34'816, bytes = rows * stride * sizeof(float);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const Matrix whole(static_cast<float*>(memory), rows, kModel, stride);
  const auto x = real_values(2 * kModel, 149);
  for (std::size_t r = 0; r < 2; ++r)
    std::copy_n(x.data() + r * kModel, kModel, whole.row(rows - 2 + r).data());
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const GatedFfn layer(SampleExpert(kModel, kFf, 151).gated(), Activation::silu);
  std::vector<float> y(2 * kModel);
  layer.forward(whole.rows_from(rows - 2, 2), {y.data(), 2, kModel}, workspace);
  CHECK(same_bits(y, run(layer, x, workspace)));
  munmap(memory, bytes);
}

TEST_CASE("new weights behave like a new layer; wrong ones leave an error") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleExpert old(kModel, kFf, 103), fresh(kModel, kFf, 107), other(kModel, kFf + 2, 109);
  const auto x = real_values(kTokens * kModel, 113), dy = real_values(kTokens * kModel, 127);
  GatedFfn layer(old.gated(), Activation::silu, Packing::forward_and_backward);
  const GatedFfn expected(fresh.gated(), Activation::silu, Packing::forward_and_backward);
  layer.set_weights(fresh.gated(), workspace);
  GatedSaved saved, expected_saved;
  CHECK(same_bits(run(layer, x, workspace, &saved), run(expected, x, workspace, &expected_saved)));
  std::vector<float> dx(x.size()), expected_dx(x.size());
  layer.backward({x.data(), kTokens, kModel}, saved, {dy.data(), kTokens, kModel},
                 {dx.data(), kTokens, kModel}, {}, workspace);
  expected.backward({x.data(), kTokens, kModel}, expected_saved, {dy.data(), kTokens, kModel},
                    {expected_dx.data(), kTokens, kModel}, {}, workspace);
  CHECK(same_bits(dx, expected_dx));
  CHECK_THROWS_WITH_AS(layer.set_weights(other.gated(), workspace), doctest::Contains("[133, 29]"),
                       Error);
  const GatedFfn no_backward(old.gated(), Activation::silu);
  CHECK_THROWS_WITH_AS(
      no_backward.backward({x.data(), kTokens, kModel}, saved, {dy.data(), kTokens, kModel},
                           {dx.data(), kTokens, kModel}, {}, workspace),
      doctest::Contains("pack_backward"), Error);
}

TEST_CASE("gradients add to what is there, and do not depend on threads") {
  const SampleExpert sample(kModel, kFf, 131);
  const auto x = real_values(kTokens * kModel, 137), dy = real_values(kTokens * kModel, 139);
  std::vector<float> first;
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    const GatedFfn layer(sample.gated(), Activation::gelu_tanh, Packing::forward_and_backward);
    GatedSaved saved;
    run(layer, x, workspace, &saved);
    std::vector<float> dx(x.size()), up(kFf * kModel), bias(kFf);
    GatedGrads grads;
    grads.up = {up.data(), kFf, kModel};
    grads.gate_bias = bias;
    const auto pass = [&] {
      layer.backward({x.data(), kTokens, kModel}, saved, {dy.data(), kTokens, kModel},
                     {dx.data(), kTokens, kModel}, grads, workspace);
    };
    pass();
    const auto once = up;
    if (first.empty()) first = once;
    CHECK(same_bits(once, first));
    const auto dx_once = dx;
    pass();
    CHECK(same_bits(dx, dx_once));  // overwritten
    for (std::size_t i = 0; i < up.size(); ++i) CHECK(up[i] == 2 * once[i]);
  }
}

}  // namespace
}  // namespace fourfold
