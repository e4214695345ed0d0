// NeuronStatistics: the same numbers for any number of threads and pieces, and rows left out.
#include <doctest/doctest.h>

#include <vector>

#include "layers/ffn_sample.h"
#include "layers/neuron_statistics.h"

namespace fourfold {
namespace {

using Detail = NeuronStatistics::Detail;
constexpr std::size_t kRows = 71, kFf = 53;

struct Hidden {
  std::vector<float> pre = real_values(kRows * kFf, 3, -2.0F, 1.0F);
  std::vector<float> hidden = relu(pre);
  std::vector<double> down_energy = reference::widened(real_values(kFf, 5, 0.1F, 2.0F));

  static std::vector<float> relu(std::vector<float> values) {
    for (float& value : values) value = value > 0 ? value : 0.0F;
    return values;
  }
  // Shows rows [first, first + count) as the pass's rows from `as` on.
  void show(NeuronStatistics& statistics, std::size_t first, std::size_t count, std::size_t as,
            Workspace& workspace) const {
    const auto part = [&](const std::vector<float>& values) {
      return ConstMatrix(values.data() + first * kFf, count, kFf);
    };
    statistics.observe({part(pre), {}, part(hidden), as, {}, FfnSample::kNoExpert}, workspace);
  }
};

void check_equal(const NeuronStatistics& a, const NeuronStatistics& b) {
  CHECK(a.tokens() == b.tokens());
  CHECK(a.zeros() == b.zeros());
  CHECK(a.below_share() == b.below_share());
  CHECK(a.fires() == b.fires());
  CHECK(a.energy_neurons() == b.energy_neurons());
  CHECK(a.energy_tokens() == b.energy_tokens());
  CHECK(a.energy() == b.energy());  // every bit of the sums
  CHECK(a.largest() == b.largest());
  CHECK(a.max_abs() == b.max_abs());
  CHECK(a.median_abs() == b.median_abs());
  for (std::size_t n = 0; n < a.d_ff(); ++n) {
    const auto first = a.strongest(n), second = b.strongest(n);
    REQUIRE(first.size() == second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      CHECK(first[i].row == second[i].row);
      CHECK(same_bits(first[i].value, second[i].value));
    }
  }
}

TEST_CASE("the same numbers for 1, 2 and 7 threads, in one piece or several") {
  const Hidden data;
  NeuronStatistics expected(data.down_energy, Detail::full);
  Runtime one({.count = 1});
  Workspace alone(one);
  data.show(expected, 0, kRows, 0, alone);
  REQUIRE(expected.tokens() == kRows);
  REQUIRE(expected.zeros() > 100);
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    for (const std::size_t piece : {71U, 29U, 7U, 1U}) {
      CAPTURE(threads);
      CAPTURE(piece);
      NeuronStatistics statistics(data.down_energy, Detail::full);
      for (std::size_t first = 0; first < kRows; first += piece)
        data.show(statistics, first, std::min<std::size_t>(piece, kRows - first), first, workspace);
      check_equal(statistics, expected);
    }
  }
}

TEST_CASE("rows that do not count leave no trace, in whatever piece they come") {
  const Hidden data;
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  std::vector<char> counted(kRows);
  NeuronStatistics expected(data.down_energy, Detail::full);
  for (std::size_t row = 0; row < kRows; ++row) {
    counted[row] = row % 3 != 1 && row != 70;
    if (counted[row] != 0) data.show(expected, row, 1, row, workspace);
  }
  for (const std::size_t piece : {71U, 29U, 1U}) {
    CAPTURE(piece);
    NeuronStatistics statistics(data.down_energy, Detail::full);
    statistics.select_rows(counted);
    for (std::size_t first = 0; first < kRows; first += piece)
      data.show(statistics, first, std::min<std::size_t>(piece, kRows - first), first, workspace);
    // strongest() counts the counted tokens only, as expected's do.
    check_equal(statistics, expected);
  }
}

TEST_CASE("a new selection holds for the next pass; rows beyond it do not count") {
  const Hidden data;
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  NeuronStatistics statistics(data.down_energy, Detail::full),
      expected(data.down_energy, Detail::full);
  statistics.select_rows({1, 0, 1});
  data.show(statistics, 0, 5, 0, workspace);
  statistics.select_rows({0, 1});
  data.show(statistics, 5, 2, 0, workspace);
  for (const std::size_t row : {0U, 2U, 6U}) data.show(expected, row, 1, 0, workspace);
  check_equal(statistics, expected);
  statistics.select_rows({0, 0, 0});
  data.show(statistics, 7, 3, 0, workspace);
  check_equal(statistics, expected);
}

TEST_CASE("beside a layer with several pieces: the numbers of one token at a time") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const SampleFfn sample(2113, 5, 7);
  const DenseFfn layer = sample.layer(Activation::gelu_erf);
  const std::vector<double> down_energy =
      column_energy(std::get<ConstMatrix>(sample.weights().down));
  NeuronStatistics together(down_energy, Detail::full), single(down_energy, Detail::full);
  std::vector<char> counted(2113);
  for (std::size_t row = 0; row < counted.size(); ++row) counted[row] = row % 7 != 2;
  together.select_rows(counted);
  sample.run(layer, workspace, &together);
  std::vector<float> y(5);
  for (std::size_t row = 0; row < counted.size(); ++row) {
    if (counted[row] == 0) continue;
    layer.forward(sample.x_view().rows_from(row, 1), {y.data(), 1, 5}, workspace, nullptr, &single);
  }
  check_equal(together, single);
}

TEST_CASE("counting alone gives the same firings and zeros for any threads and pieces") {
  const Hidden data;
  NeuronStatistics full(data.down_energy, Detail::full);
  Runtime one({.count = 1});
  Workspace alone(one);
  data.show(full, 0, kRows, 0, alone);
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    NeuronStatistics counts(std::vector<double>(kFf), Detail::counts);
    data.show(counts, 0, 30, 0, workspace);
    data.show(counts, 30, 41, 30, workspace);
    CHECK(counts.fires() == full.fires());
    CHECK(counts.zeros() == full.zeros());
    CHECK(counts.tokens() == full.tokens());
  }
}

}  // namespace
}  // namespace fourfold
