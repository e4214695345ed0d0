// NeuronStatistics against direct definitions on small matrices, and end to end on a layer.
#include "layers/neuron_statistics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "fourfold/error.h"
#include "layers/ffn_sample.h"
#include "layers/layer_samples.h"

namespace fourfold {
namespace {

using Detail = NeuronStatistics::Detail;

// Shows rows of `hidden` (and the same as pre) in one piece.
NeuronStatistics seen(const std::vector<float>& hidden, const std::vector<double>& down_energy,
                      Detail detail = Detail::full) {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  NeuronStatistics statistics(down_energy, detail);
  const std::size_t d_ff = down_energy.size();
  const ConstMatrix rows(hidden.data(), hidden.size() / d_ff, d_ff);
  statistics.observe({rows, {}, rows, 0, {}, FfnSample::kNoExpert}, workspace);
  return statistics;
}

// Fewest neurons that reach 99 %: takes the largest one left, again and again.
std::size_t fewest_neurons(std::vector<double> energy) {
  double total = 0, reached = 0;
  for (const double e : energy) total += e;
  std::size_t count = 0;
  while (reached < 0.99 * total && count < energy.size()) {
    const auto largest = std::max_element(energy.begin(), energy.end());
    reached += *largest;
    *largest = -1;
    ++count;
  }
  return count;
}

TEST_CASE("zeros: plus and minus zero count, small values do not") {
  const NeuronStatistics one = seen({0, 1e-9F, -0.01F, 2}, {1, 1, 1, 1});
  CHECK(one.zeros() == 1);
  CHECK(one.tokens() == 1);
  const NeuronStatistics both = seen({0.0F, -0.0F, 1e-45F, -2}, {1, 1, 1, 1});
  CHECK(both.zeros() == 2);
}

TEST_CASE("three measures of sparsity on one vector: exact, small, and relative to the largest") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  NeuronOptions options;
  options.share_of_max = 0.01;
  NeuronStatistics statistics({1, 1, 1, 1}, Detail::full, options);
  const std::vector<float> hidden{0, 1e-9F, -0.01F, 2};
  const ConstMatrix row(hidden.data(), 1, 4);
  statistics.observe({row, {}, row, 0, {}, FfnSample::kNoExpert}, workspace);
  CHECK(statistics.zeros() == 1);        // 25 %
  CHECK(statistics.small() == 2);        // 50 % at |h| <= 1e-6
  CHECK(statistics.below_share() == 3);  // 75 % at a hundredth of the largest
}

TEST_CASE("a gated layer: zeros of act(gate) and of the product, each counted") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::vector<float> gate{1, -1, -0.0F, 2, 3, -2}, up{0, 5, 7, -3, 1, 0};
  const std::vector<float> product{0, -0.0F, 0, -6, 3, 0};  // relu(gate) * up
  NeuronOptions options;
  options.activation = Activation::relu;
  for (const Detail detail : {Detail::full, Detail::counts}) {
    NeuronStatistics statistics({1, 1, 1}, detail, options);
    const auto rows = [](const std::vector<float>& values) {
      return ConstMatrix(values.data(), 2, 3);
    };
    statistics.observe({rows(gate), rows(up), rows(product), 0, {}, FfnSample::kNoExpert},
                       workspace);
    CHECK(statistics.is_gated());
    CHECK(statistics.gate_zeros() == 3);
    CHECK(statistics.zeros() == 4);
    CHECK(statistics.fires() == std::vector<std::uint64_t>{2, 1, 0});  // by the gate
  }
  CHECK_FALSE(seen({1, 2}, {1, 1}).is_gated());
  CHECK(seen({0, 2}, {1, 1}).gate_zeros() == 0);
}

TEST_CASE("swiglu_oai: the zeros of its gate do not depend on up") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  NeuronOptions options;
  options.activation = Activation::swiglu_oai;
  NeuronStatistics statistics({1, 1, 1}, Detail::full, options);
  const std::vector<float> gate{0, 2, -1000}, up{5, -1, 3};  // (u + 1) g sigmoid(1.702 g)
  std::vector<float> hidden(3);
  gated_activate(options.activation, gate, up, hidden);
  const auto row = [](const std::vector<float>& values) {
    return ConstMatrix(values.data(), 1, 3);
  };
  statistics.observe({row(gate), row(up), row(hidden), 0, {}, FfnSample::kNoExpert}, workspace);
  CHECK(statistics.gate_zeros() == 2);  // the third one underflows
  CHECK(statistics.zeros() == 3);
}

TEST_CASE("a gated layer's fused pass shows what separate steps give, and y keeps its bits") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleExpert sample(37, 71, 401);
  const std::vector<float> x = real_values(2113 * 37, 239);
  for (const Activation kind : {Activation::relu, Activation::silu, Activation::gelu_tanh}) {
    const GatedFfn layer(sample.gated(), kind);
    NeuronOptions options;
    options.activation = kind;
    const std::vector<double> energy = column_energy({sample.down.data(), 37, 71});
    NeuronStatistics fused(energy, Detail::full, options), apart(energy, Detail::full, options);
    CHECK(same_bits(run_layer(layer, x, workspace, &fused), run_layer(layer, x, workspace)));

    GatedSaved saved;
    std::vector<float> y(x.size());
    layer.forward({x.data(), 2113, 37}, {y.data(), 2113, 37}, workspace, &saved);
    const ConstMatrix gate = saved.gate.view(), up = saved.up.view();
    std::vector<float> hidden(2113 * 71);
    activate(kind, {gate.data, hidden.size()}, hidden);
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] *= up.data[i];
    apart.observe({gate, up, ConstMatrix(hidden.data(), 2113, 71), 0, {}, FfnSample::kNoExpert},
                  workspace);
    CHECK(fused.tokens() == 2113);
    CHECK(fused.fires() == apart.fires());
    CHECK(fused.zeros() == apart.zeros());
    CHECK(fused.gate_zeros() == apart.gate_zeros());
    CHECK(fused.below_share() == apart.below_share());
    CHECK(fused.energy() == apart.energy());
    CHECK(fused.energy_neurons() == apart.energy_neurons());
    CHECK(fused.largest() == apart.largest());
    CHECK(fused.median_abs() == apart.median_abs());
    if (kind == Activation::relu) CHECK(fused.gate_zeros() > 0);
  }
}

TEST_CASE("energies that no number of experts divides are refused") {
  NeuronOptions options;
  options.n_experts = 2;
  CHECK_THROWS_AS(NeuronStatistics({1, 2, 3}, Detail::full, options), Error);
  options.n_experts = 0;
  CHECK_THROWS_AS(NeuronStatistics({1, 2, 3}, Detail::full, options), Error);
}

TEST_CASE("below a thousandth of the token's own maximum, the limit included") {
  CHECK(seen({0, 1e-9F, -0.01F, 2}, {1, 1, 1, 1}).below_share() == 2);
  // 1000 and 1: exactly a thousandth; a hair above it does not count.
  CHECK(seen({-1000, 1, std::nextafter(1.0F, 2.0F), -1}, {1, 1, 1, 1}).below_share() == 2);
  // A token whose maximum is 0 counts wholly; each token has its own maximum.
  CHECK(seen({0, -0.0F, 0, 1000, 1, 7}, {1, 1, 1}).below_share() == 4);
}

TEST_CASE("firing is pre above zero, per neuron, whatever hidden is") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  NeuronStatistics statistics({1, 1, 1, 1, 1}, Detail::full);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> pre{1, -1, 0, -0.0F, 1e-45F, 2, nan, 0, 3, -5};
  const std::vector<float> hidden(10, 7.0F);
  statistics.observe({{pre.data(), 2, 5}, {}, {hidden.data(), 2, 5}, 0, {}, FfnSample::kNoExpert},
                     workspace);
  CHECK(statistics.fires() == std::vector<std::uint64_t>{2, 0, 0, 1, 1});
  CHECK(statistics.zeros() == 0);
}

TEST_CASE("energy: the squares with the norm of the down column, and the fewest that hold 99 %") {
  const std::size_t rows = 41, d_ff = 67;
  std::vector<float> hidden = real_values(rows * d_ff, 3, -1.0F, 1.0F);
  for (float& h : hidden) h = h * h * h * h * h;  // few large ones
  std::vector<double> down_energy(d_ff);
  for (std::size_t n = 0; n < d_ff; ++n) down_energy[n] = 0.1 + 0.37 * static_cast<double>(n % 7);
  std::fill_n(hidden.begin() + 5 * d_ff, d_ff, 0.0F);  // a token without energy
  const NeuronStatistics statistics = seen(hidden, down_energy);
  std::uint64_t neurons = 0;
  std::vector<double> per_neuron(d_ff);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<double> energy(d_ff);
    for (std::size_t n = 0; n < d_ff; ++n) {
      energy[n] = std::pow(static_cast<double>(hidden[row * d_ff + n]), 2) * down_energy[n];
      per_neuron[n] += energy[n];
    }
    if (row != 5) neurons += fewest_neurons(energy);
  }
  CHECK(statistics.energy_tokens() == rows - 1);
  CHECK(statistics.energy_neurons() == neurons);
  REQUIRE(statistics.energy().size() == d_ff);
  for (std::size_t n = 0; n < d_ff; ++n)
    CHECK(statistics.energy()[n] == doctest::Approx(per_neuron[n]).epsilon(1e-12));
}

TEST_CASE("energy by hand: 0.99 is reached exactly at the boundary") {
  // Energies 99 and 1: the first alone is 99 % of 100.
  CHECK(seen({1, 1}, {99, 1}).energy_neurons() == 1);
  CHECK(seen({1, 1}, {98, 2}).energy_neurons() == 2);
  CHECK(seen({3, 0, 0, 0}, {1, 1, 1, 1}).energy_neurons() == 1);
  CHECK(seen({1, 1, 1, 1}, {1, 1, 1, 1}).energy_neurons() == 4);
  // A neuron without a way out has no energy.
  CHECK(seen({5, 1}, {0, 1}).energy_neurons() == 1);
}

TEST_CASE("the largest and the lower median of the absolute values") {
  const std::size_t rows = 29, d_ff = 31;
  const std::vector<float> hidden = real_values(rows * d_ff, 17, -3.0F, 2.0F);
  std::vector<double> down_energy(d_ff, 1);
  const NeuronStatistics statistics = seen(hidden, down_energy);
  std::vector<float> sizes;
  for (const float h : hidden) sizes.push_back(std::fabs(h));
  std::sort(sizes.begin(), sizes.end());
  CHECK(statistics.max_abs() == sizes.back());
  const auto bits = std::bit_cast<std::uint32_t>(sizes[(sizes.size() - 1) / 2]) & 0xFFFF0000U;
  CHECK(statistics.median_abs() == std::bit_cast<float>(bits));
  for (std::size_t n = 0; n < d_ff; ++n) {
    float largest = 0;
    for (std::size_t row = 0; row < rows; ++row)
      largest = std::max(largest, std::fabs(hidden[row * d_ff + n]));
    CHECK(statistics.largest()[n] == largest);
  }
  // Of an even count the lower of the two in the middle.
  CHECK(seen({-4, 1, 2, 8}, {1, 1, 1, 1}).median_abs() == 2);
  CHECK(seen({-4, 8}, {1, 1}).median_abs() == 4);
  CHECK(seen({0, 0, 0, 1}, {1, 1, 1, 1}).median_abs() == 0);
}

TEST_CASE("the five strongest tokens of a neuron, ties to the earlier") {
  const std::vector<float> values{3, -7, 1, 7, -3, 0.5F, 3, 7, -1};
  const NeuronStatistics statistics = seen(values, {1});
  const std::vector<NeuronSample> strongest = statistics.strongest(0);
  REQUIRE(strongest.size() == 5);
  const std::uint64_t rows[] = {1, 3, 7, 0, 4};
  const float expected[] = {-7, 7, 7, 3, -3};
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(strongest[i].row == rows[i]);
    CHECK(strongest[i].value == expected[i]);
  }
}

TEST_CASE("the strongest tokens against a stable sort, and fewer than five tokens") {
  const std::size_t rows = 61, d_ff = 7;
  const std::vector<float> hidden = whole_values(rows * d_ff, 23, -6, 9);  // many ties
  const NeuronStatistics statistics = seen(hidden, std::vector<double>(d_ff, 1));
  for (std::size_t n = 0; n < d_ff; ++n) {
    std::vector<std::uint64_t> order(rows);
    for (std::size_t row = 0; row < rows; ++row) order[row] = row;
    const auto size = [&](std::uint64_t row) { return std::fabs(hidden[row * d_ff + n]); };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint64_t a, std::uint64_t b) { return size(a) > size(b); });
    const auto strongest = statistics.strongest(n);
    REQUIRE(strongest.size() == 5);
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(strongest[i].row == order[i]);
      CHECK(strongest[i].value == hidden[order[i] * d_ff + n]);
    }
  }
  CHECK(seen({1, -2, 0}, {1}).strongest(0).size() == 3);
  CHECK(NeuronStatistics({1, 1}, Detail::full).strongest(1).empty());
}

TEST_CASE("counts alone: firings and zeros as in full, nothing else") {
  const std::vector<float> hidden{0, 1, -2, 0, 0, 3};
  const NeuronStatistics counts = seen(hidden, {1, 1}, Detail::counts);
  CHECK(counts.tokens() == 3);
  CHECK(counts.zeros() == 3);
  CHECK(counts.fires() == std::vector<std::uint64_t>{0, 2});
  CHECK(counts.energy_tokens() == 0);
  CHECK(counts.below_share() == 0);
  CHECK(counts.strongest(1).empty());
  CHECK(counts.max_abs() == 0);
  CHECK(counts.median_abs() == 0);
}

TEST_CASE("nothing seen yet: all numbers are zero") {
  const NeuronStatistics none({1, 2, 3}, Detail::full);
  CHECK(none.d_ff() == 3);
  CHECK(none.tokens() == 0);
  CHECK(none.max_abs() == 0);
  CHECK(none.median_abs() == 0);
  CHECK(none.fires() == std::vector<std::uint64_t>{0, 0, 0});
}

TEST_CASE("the wrong width is an error") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  NeuronStatistics statistics({1, 1, 1}, Detail::full);
  const std::vector<float> values(8);
  const ConstMatrix four(values.data(), 2, 4);
  try {
    statistics.observe({four, {}, four, 0, {}, FfnSample::kNoExpert}, workspace);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code == ErrorCode::shape_mismatch);
  }
}

TEST_CASE("column_energy is the squared norm of each column, in float64") {
  const std::vector<float> down{3, 1e-20F, 0, -4, 1e-20F, 0.5F};  // [2, 3]
  const std::vector<double> energy = column_energy({down.data(), 2, 3});
  REQUIRE(energy.size() == 3);
  CHECK(energy[0] == 25);
  CHECK(energy[1] == doctest::Approx(2e-40).epsilon(1e-6));
  CHECK(energy[2] == 0.25);
  const std::vector<float> wide{3, 9, -4, 9};
  CHECK(column_energy({wide.data(), 2, 1, 2}) == std::vector<double>{25});
}

TEST_CASE("a neuron that cannot fire is dead, one that fired once is not") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  SampleFfn sample(97, 5, 7);
  std::fill(sample.up_bias.begin(), sample.up_bias.end(), 0.0F);
  sample.up_bias[2] = -1e9F;
  // Neuron 4 looks at one feature that only token 31 has.
  std::fill_n(sample.up.begin() + 4 * 5, 5, 0.0F);
  sample.up[4 * 5 + 3] = 1;
  for (std::size_t row = 0; row < 97; ++row) sample.x[row * 5 + 3] = row == 31 ? 0.75F : -0.75F;
  NeuronStatistics statistics(column_energy(std::get<ConstMatrix>(sample.weights().down)),
                              Detail::full);
  sample.run(sample.layer(Activation::relu), workspace, &statistics);
  CHECK(statistics.tokens() == 97);
  CHECK(statistics.fires()[2] == 0);
  CHECK(statistics.largest()[2] == 0);
  CHECK(statistics.fires()[4] == 1);
  CHECK(statistics.strongest(4).front().row == 31);
  CHECK(statistics.strongest(4).front().value == 0.75F);
  std::uint64_t fired = 0;
  for (const std::uint64_t count : statistics.fires()) fired += count;
  CHECK(statistics.zeros() == 97 * 7 - fired);  // relu: what does not fire is zero
}

}  // namespace
}  // namespace fourfold
