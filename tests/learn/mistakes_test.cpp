// The two mistakes fail when they are run, and the right way does not.
#include "learn/mistakes.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace fourfold;

namespace {

struct Bench {
  Runtime runtime{{.count = 2}};
  Workspace workspace{runtime};
};

}  // namespace

TEST_CASE("the flattened network changes with the order, leaks, and takes one length") {
  Bench bench;
  const FlattenedRun run = run_flattened_mistake(bench.workspace);
  CHECK(std::memcmp(&run.alone, &run.alone_shuffled, sizeof(run.alone)) == 0);
  CHECK(run.alone_shuffle_change == 0);
  CHECK(run.alone_leak == 0);
  CHECK(run.flat_shuffle_change > 0.1F);
  CHECK(run.flat_leak > 0.1F);
  CHECK(run.alone_parameters == 2 * 4 * 16 + 16 + 4);
  CHECK(run.flat_parameters == 2 * 12 * 48 + 48 + 12);
  CHECK(run.one_token_more.find("[1, 16], expected [1, 12]") != std::string::npos);
}

TEST_CASE("width below d_model loses dimensions, more width fits more with falling returns") {
  Bench bench;
  const RatioRun run = run_ratio_mistake(bench.workspace);
  REQUIRE(run.rows.size() == 6);
  CHECK(run.rows[0].output_dimensions == 4);
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    const RatioRow& row = run.rows[i];
    CHECK(row.parameters == 2 * 8 * row.d_ff + row.d_ff + 8);
    CHECK(row.macs == 16 * row.d_ff);
    CHECK(row.layer_factor == doctest::Approx((4 + 2 * row.ratio) / 12));
    CHECK(row.least_error <= row.error);
    CHECK(row.error <= row.most_error);
    if (i > 0) CHECK(row.output_dimensions == 8);
    if (i > 0) CHECK(row.error < run.rows[i - 1].error);
  }
  const auto gain = [&](std::size_t i) { return run.rows[i - 1].error - run.rows[i].error; };
  for (std::size_t i = 4; i < run.rows.size(); ++i) CHECK(gain(i) < gain(i - 1));  // from 2x on
  const std::string text = mistakes_text(run_flattened_mistake(bench.workspace), run);
  CHECK(text.find("Mistake 1") != std::string::npos);
  CHECK(text.find("Mistake 2") != std::string::npos);
}
