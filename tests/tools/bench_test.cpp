// The numbers that `bench` gives to all implementations, its float64 answers, and whole runs of
// tiny layers; times are only asked to be positive.
#include "fourfold/bench.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "error_check.h"
#include "fourfold/ffn.h"
#include "reference_activation.h"
#include "sample_values.h"
#include "tools/bench_activation.h"
#include "tools/bench_case.h"
#include "tools/bench_work.h"

namespace fourfold {
namespace {

BenchOptions tiny(FfnKind kind) {
  BenchOptions options;
  options.kind = kind;
  options.d_model = 23;
  options.d_ff = 37;
  options.n_experts = 5;
  options.top_k = 2;
  options.tokens = {19};
  options.repeat = 1;
  if (kind == FfnKind::dense) options.activation = Activation::gelu_erf;
  return options;
}

constexpr std::array kKinds{FfnKind::dense, FfnKind::gated, FfnKind::moe};

}  // namespace

TEST_CASE("uniform and zipf routing choose different experts for each token") {
  for (const BenchRouting routing : {BenchRouting::uniform, BenchRouting::zipf}) {
    BenchOptions options = tiny(FfnKind::moe);
    options.routing = routing;
    const BenchCase shape = make_case(options, 997);
    const BenchInputs inputs = make_inputs(shape, options);
    std::vector<int> load(options.n_experts);
    for (std::size_t token = 0; token < 997; ++token) {
      const std::uint32_t first = inputs.experts[2 * token], second = inputs.experts[2 * token + 1];
      REQUIRE(first < options.n_experts);
      REQUIRE(second < options.n_experts);
      CHECK(first != second);
      ++load[first];
      ++load[second];
    }
    // Uniform: 399 pairs each, with a standard deviation below 20. Zipf: falling by far more.
    if (routing == BenchRouting::uniform)
      for (const int pairs : load) CHECK(std::abs(pairs - 399) < 100);
    else
      CHECK(load[0] > 2 * load[4]);
  }
}

TEST_CASE("single routing sends all tokens to the first experts, a list where it says") {
  BenchOptions options = tiny(FfnKind::moe);
  options.routing = BenchRouting::single;
  for (const std::uint32_t expert : make_inputs(make_case(options, 7), options).experts)
    CHECK(expert < 2);
  options.routing = BenchRouting::listed;
  options.experts = {3, 1, 4, 0, 2, 3};
  const std::vector<std::uint32_t> expected{3, 1, 4, 0, 2, 3, 3, 1};
  CHECK(make_inputs(make_case(options, 4), options).experts == expected);
}

TEST_CASE("the router of a mixture chooses the experts that were drawn") {
  struct Watch : FfnObserver {
    std::vector<std::uint32_t> experts;
    void observe(const FfnSample&, Workspace&) override {}
    void observe_routing(const RoutingResult& routing, Workspace&) override {
      experts = routing.experts;
    }
  };
  Runtime runtime({.count = 1, .pin = false});
  Workspace workspace(runtime);
  const BenchOptions options = tiny(FfnKind::moe);
  const BenchCase shape = make_case(options, 53);
  const BenchWeights weights = make_weights(shape, options);
  const BenchInputs inputs = make_inputs(shape, options);
  const std::size_t d = shape.d_model, f = shape.d_ff;
  std::vector<GatedWeights> experts;
  for (std::size_t e = 0; e < shape.n_experts; ++e)
    experts.push_back({ConstMatrix(weights.gate.data() + e * d * f, f, d),
                       ConstMatrix(weights.up.data() + e * d * f, f, d),
                       ConstMatrix(weights.down.data() + e * d * f, d, f),
                       {},
                       {},
                       {}});
  MoeWeights moe;
  moe.router = ConstMatrix(weights.router.data(), shape.n_experts, d);
  moe.experts = std::span<const GatedWeights>(experts);
  const MoeFfn layer(moe, Activation::silu, Routing());
  std::vector<float> y(inputs.x.size());
  Watch watch;
  layer.forward({inputs.x.data(), 53, d}, {y.data(), 53, d}, workspace, nullptr, &watch);
  CHECK(watch.experts == inputs.experts);
}

TEST_CASE("bf16 cases hold only numbers that bf16 holds") {
  for (const FfnKind kind : kKinds) {
    BenchOptions options = tiny(kind);
    options.dtype = Dtype::bf16;
    options.backward = true;
    const BenchCase shape = make_case(options, 11);
    const BenchWeights weights = make_weights(shape, options);
    const BenchInputs inputs = make_inputs(shape, options);
    for (const auto* values : {&weights.gate, &weights.up, &weights.down, &inputs.x, &inputs.dy})
      for (const float value : *values) REQUIRE(same_bits(value, round_to_bf16(value)));
  }
}

TEST_CASE("float64 activations have the reference's values and their own slopes") {
  for (const Activation activation :
       {Activation::identity, Activation::relu, Activation::relu2, Activation::leaky_relu,
        Activation::relu6, Activation::sigmoid, Activation::tanh, Activation::silu,
        Activation::gelu_erf, Activation::gelu_tanh, Activation::quick_gelu, Activation::mish,
        Activation::swiglu_oai})
    for (const double x : {-9.7, -2.3, -0.6, 0.013, 0.7, 2.9, 5.3, 7.9}) {
      CAPTURE(activation_name(activation));
      CAPTURE(x);
      const ValueAndSlope found = activation64(activation, x);
      CHECK(found.value == doctest::Approx(reference::activation(activation, x)).epsilon(1e-12));
      const double h = 1e-5;
      const double slope =
          (activation64(activation, x + h).value - activation64(activation, x - h).value) / (2 * h);
      CHECK(std::fabs(found.slope - slope) < 1e-8 * std::max(1.0, std::fabs(slope)));
    }
}

TEST_CASE("errors are relative to the root mean square, and NaN is infinite") {
  const std::vector<double> expected{3, -4, 0, 5};
  std::vector<float> found{3, -4, 0.5F, 5};
  const auto at = [&](std::size_t i) { return found[i]; };
  BenchError error;
  add_relative_error(expected, at, error);
  CHECK(error.max_relative == doctest::Approx(0.5 / std::sqrt(50.0 / 4)).epsilon(1e-12));
  found[1] = std::numeric_limits<float>::quiet_NaN();
  add_relative_error(expected, at, error);
  CHECK(std::isinf(error.max_relative));
}

TEST_CASE("a run compares every output with float64: right results are near, wrong ones far") {
  Runtime runtime({.count = 2, .pin = false});
  Workspace workspace(runtime);
  for (const FfnKind kind : kKinds)
    for (const bool backward : {false, true}) {
      CAPTURE(ffn_kind_name(kind));
      CAPTURE(backward);
      BenchOptions options = tiny(kind);
      options.backward = backward;
      const auto work = make_ffn_work(options, 19, workspace, nullptr);
      const BenchOutputs ours = work->our_outputs();
      // Sums of at most 37 terms, a few of them in a row: 1e-5 leaves room for their rounding.
      CHECK(work->error(ours).max_relative < 1e-5);
      std::vector<const char*> names{"y"};
      if (backward) names.insert(names.end(), {"dx", "dup", "ddown"});
      if (backward && kind != FfnKind::dense) names.push_back("dgate");
      for (const char* spoiled : names) {
        CAPTURE(spoiled);
        std::vector<float> changed(ours(spoiled).begin(), ours(spoiled).end());
        for (float& value : changed) value *= 1.25F;
        const BenchError error = work->error([&](std::string_view name) {
          return name == spoiled ? std::span<const float>(changed) : ours(name);
        });
        CHECK(error.max_relative > 0.2);
        CHECK(error.samples > 0);
      }
    }
}

TEST_CASE("few tokens rotate over 300 MB of weights, many use one copy") {
  Runtime runtime({.count = 1, .pin = false});
  Workspace workspace(runtime);
  BenchOptions options = tiny(FfnKind::gated);
  options.d_model = 1999;
  options.d_ff = 2003;
  CHECK(make_ffn_work(options, 1, workspace, nullptr)->copies() == 7);  // 48 MB each
  CHECK(make_ffn_work(options, 17, workspace, nullptr)->copies() == 1);
}

TEST_CASE("rows of a run without peers") {
  Runtime runtime({.count = 1, .pin = false});
  Workspace workspace(runtime);
  for (const FfnKind kind : kKinds) {
    BenchOptions options = tiny(kind);
    options.tokens = {17, 41};
    options.repeat = 3;
    options.version = "1.2.3";
    const BenchReport report = run_bench(options, workspace);
    REQUIRE(report.rows.size() == 2);
    CHECK(report.rows[1].tokens == 41);
    for (const BenchRow& row : report.rows) {
      CHECK(row.implementation == "fourfold");
      CHECK(row.version == "1.2.3");
      CHECK(row.rounds == 3);
      CHECK(row.ms.min > 0);
      CHECK(row.ms.min <= row.ms.median);
      CHECK(row.ms.median <= row.ms.max);
      CHECK(row.share_of_limit > 0);
      CHECK_FALSE(row.ratio_to_best_peer.has_value());
      CHECK(row.max_relative_error.value() < 1e-5);
    }
    // FLOPs per millisecond, whatever the time was.
    const double per_token = kind == FfnKind::dense   ? 4.0 * 23 * 37
                             : kind == FfnKind::gated ? 6.0 * 23 * 37
                                                      : 2 * 6.0 * 23 * 37 + 2.0 * 23 * 5;
    const BenchRow& row = report.rows[0];
    CHECK(row.gflops * row.ms.median * 1e6 == doctest::Approx(17 * per_token).epsilon(1e-9));
  }
}

TEST_CASE("sparsity is what was asked for, and the result does not depend on skipping") {
  Runtime runtime({.count = 1, .pin = false});
  Workspace workspace(runtime);
  for (const FfnKind kind : {FfnKind::dense, FfnKind::gated}) {
    BenchOptions options = tiny(kind);
    options.activation = Activation::relu;
    options.sparsity = 0.9;
    options.d_model = 101;
    options.d_ff = 4099;
    options.tokens = {17};
    const BenchReport report = run_bench(options, workspace);
    REQUIRE(report.rows.size() == 2);
    CHECK(report.rows[1].implementation == "fourfold, every neuron");
    CHECK(std::fabs(report.rows[0].exact_zero.value() - 0.9) < 0.03);
    CHECK(report.rows[0].max_relative_error == report.rows[1].max_relative_error);
    CHECK(report.rows[1].ratio_to_fourfold.has_value());
  }
}

TEST_CASE("options that make no sense are refused") {
  Runtime runtime({.count = 1, .pin = false});
  Workspace workspace(runtime);
  const auto refused = [&](FfnKind kind, auto change, ErrorCode code, const char* part) {
    BenchOptions options = tiny(kind);
    change(options);
    check_error(code, {"[bench]", part}, [&] { run_bench(options, workspace); });
  };
  const auto bad = ErrorCode::invalid_argument;
  refused(
      FfnKind::gated, [](BenchOptions& o) { o.tokens = {}; }, bad, "token counts");
  refused(
      FfnKind::gated, [](BenchOptions& o) { o.tokens = {0}; }, bad, "tokens is 0");
  refused(
      FfnKind::gated, [](BenchOptions& o) { o.d_ff = 0; }, bad, "d_ff is 0");
  refused(
      FfnKind::gated, [](BenchOptions& o) { o.repeat = 0; }, bad, "repeat is 0");
  refused(
      FfnKind::gated, [](BenchOptions& o) { o.d_model = o.d_ff = 1U << 20; }, bad, "do not fit");
  refused(
      FfnKind::moe, [](BenchOptions& o) { o.top_k = 6; }, bad, "top_k is 6");
  refused(
      FfnKind::moe, [](BenchOptions& o) { o.n_experts = 24; }, bad, "experts is 24");
  refused(
      FfnKind::dense, [](BenchOptions& o) { o.activation = Activation::swiglu_oai; },
      ErrorCode::unsupported, "needs a gate");
  refused(
      FfnKind::gated, [](BenchOptions& o) { o.sparsity = 0.5; }, ErrorCode::unsupported,
      "exact zeros");
  refused(
      FfnKind::gated,
      [](BenchOptions& o) {
        o.activation = Activation::relu;
        o.sparsity = 1;
      },
      bad, "below 1");
  const auto listed = [](std::vector<std::uint32_t> experts) {
    return [experts](BenchOptions& o) {
      o.routing = BenchRouting::listed;
      o.experts = experts;
    };
  };
  refused(FfnKind::moe, listed({0, 1, 2}), bad, "3 entries");
  refused(FfnKind::moe, listed({0, 5}), bad, "expert 5");
  refused(FfnKind::moe, listed({0, 1, 4, 4}), bad, "token 1 lists expert 4 twice");
}

}  // namespace fourfold
