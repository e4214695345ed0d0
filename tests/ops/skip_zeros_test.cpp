// Products that read only what is not 0: the lists, and the bits of the whole product.
#include "ops/skip_zeros.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/product_tiles.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr std::size_t kTokens = 13, kOut = 131, kIn = 307;
constexpr Dtype kTypes[] = {Dtype::f32, Dtype::bf16};

PackedWeight packed(const std::vector<float>& w, std::size_t out, std::size_t in, Dtype dtype) {
  if (dtype == Dtype::f32) return PackedWeight(ConstMatrix(w.data(), out, in));
  std::vector<Bf16> narrow;
  for (const float value : w) narrow.push_back(to_bf16(value));
  return PackedWeight(ConstBf16Matrix(narrow.data(), out, in));
}

RowOperand stored(const std::vector<float>& x, std::size_t rows, Dtype weight,
                  Workspace& workspace) {
  const std::size_t k = x.size() / rows;
  const RowBuffer buffer(rows, k, weight, workspace);
  for (std::size_t row = 0; row < rows; ++row) buffer.store(row, 0, &x[row * k], k);
  return buffer.operand();
}

TEST_CASE("a list holds the unit rows with a value other than 0: one of float32, two of bf16") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const float nan = std::nanf("");
  // The last value is lost when it is rounded to bf16.
  const std::vector<float> x{0, -0.0F, 3, 0, -0.0F, nan, 0, 0, -2, 1e-30F, 0, 0, 1e-45F};
  const NonZeroLists lists(x.size(), workspace);
  const auto list = [&](Dtype weight) {
    std::vector<std::uint32_t> found;
    const RowOperand operand = stored(x, 1, weight, workspace);
    runtime.pool().region([&](const Region& region) {
      const auto units = lists.list(region, operand, 0);
      found.assign(units.begin(), units.end());
    });
    return found;
  };
  CHECK(list(Dtype::f32) == std::vector<std::uint32_t>{2, 5, 8, 9, 12});
  CHECK(list(Dtype::bf16) == std::vector<std::uint32_t>{1, 2, 4});
}

TEST_CASE("skipping zeros changes no bit, whatever share of them there is") {
  const std::vector<float> values = real_values(kTokens * kIn, 11), w = real_values(kOut * kIn, 13);
  for (const unsigned threads : {1U, 2U, 7U})
    for (const int zeros_of_ten : {0, 5, 9, 10})
      for (const Dtype dtype : kTypes) {
        CAPTURE(threads);
        CAPTURE(zeros_of_ten);
        CAPTURE(std::string(dtype_name(dtype)));
        Runtime runtime({.count = threads});
        Workspace workspace(runtime);
        std::vector<float> x = values;
        SampleValues source(23);
        for (float& value : x)
          if (source.whole(0, 9) < zeros_of_ten) value = source.whole(0, 1) == 0 ? 0.0F : -0.0F;
        const PackedWeight weight = packed(w, kOut, kIn, dtype);
        const RowOperand operand = stored(x, kTokens, dtype, workspace);
        const NonZeroLists lists(kIn, workspace);
        const TileScratch scratch(kTokens, 1, workspace);
        std::vector<float> whole(kTokens * kOut, 1), skipped(kTokens * kOut, 2);
        const auto into = [](std::vector<float>& y) {
          return [&](const float* sums, std::size_t first, std::size_t rows, std::size_t p) {
            for (std::size_t r = 0; r < rows; ++r)
              for (std::size_t n = p * 64; n < std::min(kOut, p * 64 + 64); ++n)
                y[(first + r) * kOut + n] = sums[r * 64 + n % 64];
          };
        };
        runtime.pool().region([&](const Region& region) {
          const ProductTerm term{operand, &weight};
          product_tiles(region, {&term, 1}, scratch, TileTasks::Cut::rows_too, into(whole));
          product_skipping_zeros(region, operand, weight, lists, scratch, into(skipped));
        });
        CHECK(same_bits(whole, skipped));
      }
}

TEST_CASE("a NaN in a row is not a zero; a listed unit counts, others do not") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  for (const Dtype dtype : kTypes) {
    std::vector<float> w = real_values(3 * 5, 29), x(5), sums(64);
    const NonZeroLists lists(5, workspace);
    const auto run = [&] {
      const PackedWeight weight = packed(w, 3, 5, dtype);
      const RowOperand operand = stored(x, 1, dtype, workspace);
      runtime.pool().region([&](const Region& region) {
        listed_product(operand, 0, lists.list(region, operand, 0), weight.panel(0), sums.data());
      });
    };
    x[2] = std::nanf("");
    run();
    for (std::size_t n = 0; n < 3; ++n) CHECK(std::isnan(sums[n]));
    x[2] = 2;
    w[4] = INFINITY;  // beside a 0, in a unit row of its own
    run();
    CHECK(sums[0] == 2 * (dtype == Dtype::bf16 ? round_to_bf16(w[2]) : w[2]));
  }
}

}  // namespace
}  // namespace fourfold
