// Sums of several products inside one region: one accumulator per element over all terms, in the
// order of the terms.
#include "ops/product_tiles.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "dot_bf16.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr std::size_t kTokens = 67, kOut = 131, kFirst = 29, kSecond = 71;

std::vector<Bf16> narrowed(const std::vector<float>& values) {
  std::vector<Bf16> result;
  for (const float value : values) result.push_back(to_bf16(value));
  return result;
}

// Two pairs of operands: x: [tokens, k], w: [out, k].
struct Terms {
  Dtype dtype;
  std::vector<float> x[2] = {real_values(kTokens * kFirst, 3), real_values(kTokens* kSecond, 5)};
  std::vector<float> w[2] = {real_values(kOut * kFirst, 7), real_values(kOut* kSecond, 11)};

  static std::size_t depth(std::size_t term) { return term == 0 ? kFirst : kSecond; }
  PackedWeight packed(std::size_t term) const {
    if (dtype == Dtype::f32) return PackedWeight(ConstMatrix(w[term].data(), kOut, depth(term)));
    const std::vector<Bf16> narrow = narrowed(w[term]);
    return PackedWeight(ConstBf16Matrix(narrow.data(), kOut, depth(term)));
  }
  // The sum over the first `count` terms.
  float expected(std::string_view isa, std::size_t count, std::size_t row, std::size_t n) const {
    float sum = 0;
    for (std::size_t term = 0; term < count; ++term) {
      const std::size_t k = depth(term);
      const bool bf16 = dtype == Dtype::bf16;
      const auto value = [&](float v) { return bf16 ? round_to_bf16(v) : v; };
      const Bf16Steps steps = bf16              ? bf16_steps(isa)
                              : isa == "scalar" ? Bf16Steps::rounded_products
                                                : Bf16Steps::fused;
      sum = bf16_sum(
          steps, sum, k, [&](std::size_t i) { return value(x[term][row * k + i]); },
          [&](std::size_t i) { return value(w[term][n * k + i]); });
    }
    return sum;
  }
};

TEST_CASE("two terms are one sum, for any number of threads and both cuts") {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const unsigned threads : {1U, 2U, 7U})
      for (const std::size_t count : {1U, 2U})
        for (const auto cut : {TileTasks::Cut::rows_too, TileTasks::Cut::panels_only}) {
          CAPTURE(std::string(dtype_name(dtype)));
          CAPTURE(threads);
          CAPTURE(count);
          Runtime runtime({.count = threads});
          Workspace workspace(runtime);
          const Terms terms{dtype};
          const PackedWeight weights[2] = {terms.packed(0), terms.packed(1)};
          const InputRows inputs[2] = {
              {ConstMatrix(terms.x[0].data(), kTokens, kFirst), dtype, workspace},
              {ConstMatrix(terms.x[1].data(), kTokens, kSecond), dtype, workspace}};
          const TileScratch scratch(kTokens, 1, workspace);
          std::vector<float> y(kTokens * kOut, -77.25F);
          runtime.pool().region([&](const Region& region) {
            for (const InputRows& input : inputs) input.stage(region);
            region.barrier();
            const ProductTerm list[2] = {{inputs[0].operand(), &weights[0]},
                                         {inputs[1].operand(), &weights[1]}};
            product_tiles(
                region, {list, count}, scratch, cut,
                [&](const float* sums, std::size_t first, std::size_t rows, std::size_t p) {
                  for (std::size_t r = 0; r < rows; ++r)
                    for (std::size_t n = p * 64; n < std::min(kOut, p * 64 + 64); ++n)
                      y[(first + r) * kOut + n] = sums[r * 64 + n % 64];
                });
          });
          std::size_t wrong = 0;
          for (std::size_t row = 0; row < kTokens; ++row)
            for (std::size_t n = 0; n < kOut; ++n)
              wrong += !same_bits(y[row * kOut + n], terms.expected(runtime.isa(), count, row, n));
          CHECK(wrong == 0);
        }
}

TEST_CASE("zero tokens: nothing is finished") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Terms terms{Dtype::f32};
  const PackedWeight weight = terms.packed(0);
  const TileScratch scratch(0, 1, workspace);
  std::atomic<int> calls{0};
  runtime.pool().region([&](const Region& region) {
    const ProductTerm term{RowOperand(ConstMatrix(nullptr, 0, kFirst)), &weight};
    product_tiles(region, {&term, 1}, scratch, TileTasks::Cut::rows_too,
                  [&](const float*, std::size_t, std::size_t, std::size_t) { calls.fetch_add(1); });
  });
  CHECK(calls.load() == 0);
}

TEST_CASE("x is read where it lies unless a copy is needed") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const std::vector<float> x = real_values(3 * 5, 13);
  const ConstMatrix view(x.data(), 3, 5);
  CHECK_FALSE(InputRows(view, Dtype::f32, workspace).is_copy());
  CHECK(InputRows(view, Dtype::f32, workspace).operand().data == x.data());
  CHECK(InputRows(view, Dtype::bf16, workspace).is_copy());
  CHECK(InputRows(view, Dtype::bf16, workspace).operand().data != x.data());
}

}  // namespace
}  // namespace fourfold
