// Bits of non-zero columns, lists of unit rows, and products over them: the same bits as the full
// product and the values of float64.
#include "ops/skip_zeros.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/product_tiles.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr std::size_t kIn = 331, kOut = 149;  // 6 and 3 words of columns, neither full

std::vector<Bf16> narrowed(const std::vector<float>& values) {
  std::vector<Bf16> result;
  for (const float value : values) result.push_back(to_bf16(value));
  return result;
}

PackedWeight packed(const std::vector<float>& w, Dtype dtype) {
  if (dtype == Dtype::f32) return PackedWeight(ConstMatrix(w.data(), kOut, kIn));
  const auto narrow = narrowed(w);
  return PackedWeight(ConstBf16Matrix(narrow.data(), kOut, kIn));
}

// Rows in which about so many of ten values are 0 or -0; the rows agree in all of them or in none.
std::vector<float> sparse_rows(std::size_t rows, int zeros_of_ten, bool together) {
  std::vector<float> x = real_values(rows * kIn, 31);
  SampleValues source(37);
  for (std::size_t k = 0; k < kIn; ++k) {
    const bool all = source.whole(0, 9) < zeros_of_ten;
    for (std::size_t r = 0; r < rows; ++r)
      if (together ? all : source.whole(0, 9) < zeros_of_ten)
        x[r * kIn + k] = source.whole(0, 1) == 0 ? 0.0F : -0.0F;
  }
  return x;
}

struct Product {
  std::vector<float> y;
  bool listed = false;
};

// y: [rows, out] by the whole weight, or by the list of what the rows need.
Product product(const std::vector<float>& x, const PackedWeight& weight, bool may_list,
                unsigned threads) {
  Runtime runtime({.count = threads});
  Workspace workspace(runtime);
  const std::size_t rows = x.size() / kIn;
  Product result;
  result.y.assign(rows * kOut, -77.25F);
  const RowBuffer buffer(rows, kIn, weight.dtype(), workspace);
  const NonZeroBits bits(rows, kIn, workspace);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t k = 0; k < kIn; k += kPanel)
      buffer.store(r, k, {&x[r * kIn + k], 1, std::min(kPanel, kIn - k)});
  for (std::size_t k = 0; k < kIn; k += kPanel)
    if (!bits.empty()) bits.set(k / kPanel, &x[k], kIn, std::min(kPanel, kIn - k));
  const UnitLists lists(kIn, workspace);
  const TileScratch scratch(rows, 1, workspace);
  const auto finish = [&](const float* sums, std::size_t first, std::size_t count, std::size_t p) {
    for (std::size_t r = 0; r < count; ++r)
      for (std::size_t i = 0; i < std::min(kPanel, kOut - p * kPanel); ++i)
        result.y[(first + r) * kOut + p * kPanel + i] = sums[r * kPanel + i] + 0.0F;
  };
  runtime.pool().region([&](const Region& region) {
    const UnitList list = may_list ? lists.list(region, bits, weight) : UnitList();
    if (region.thread == 0) result.listed = list.pays;
    const ProductTerm term{buffer.operand(), &weight};
    if (list.pays)
      product_of_listed(region, buffer.operand(), weight, list.units, scratch, finish);
    else
      product_tiles(region, {&term, 1}, scratch, TileTasks::Cut::rows_too, finish);
  });
  return result;
}

TEST_CASE("a column's bit says whether one of the rows holds something else than 0") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  std::vector<float> values(3 * 64, 0.0F);
  values[5] = -0.0F;
  values[64 + 9] = std::numeric_limits<float>::denorm_min();
  values[128 + 62] = std::numeric_limits<float>::quiet_NaN();
  values[63] = -std::numeric_limits<float>::infinity();
  const NonZeroBits bits(3, 128, workspace);
  bits.set(1, values.data(), 64, 64);
  CHECK(bits.word(1) == ((std::uint64_t{1} << 9) | (std::uint64_t{3} << 62)));
  bits.set(0, values.data(), 64, 10);  // what lies behind the last column does not count
  CHECK(bits.word(0) == (std::uint64_t{1} << 9));
  CHECK(NonZeroBits(17, 64, workspace).empty());
  CHECK(NonZeroBits(0, 64, workspace).empty());
}

TEST_CASE("groups of rows have bits of their own") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const NonZeroBits all(100, 70, workspace);
  CHECK(all.empty());
  const float one[] = {0, 1, 0}, other[] = {1, 0, 1};
  all.rows_from(3, 1).set(1, one, 3, 3);
  all.rows_from(4, 1).set(1, other, 3, 3);
  CHECK(all.rows_from(3, 1).word(1) == 2);
  CHECK(all.rows_from(4, 1).word(1) == 5);
  CHECK(all.rows_from(4, 17).empty());
}

TEST_CASE("listed products have the bits of full ones and the values of float64") {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    auto w = real_values(kOut * kIn, 41, -0.9F, 1.1F);
    if (dtype == Dtype::bf16)
      for (float& value : w) value = round_to_bf16(value);
    const PackedWeight weight = packed(w, dtype);
    for (const int zeros : {0, 1, 5, 9, 10})
      for (const bool together : {true, false})
        for (const std::size_t rows : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 16U, 17U}) {
          CAPTURE(zeros);
          CAPTURE(together);
          CAPTURE(rows);
          auto x = sparse_rows(rows, zeros, together);
          if (dtype == Dtype::bf16)
            for (float& value : x) value = round_to_bf16(value);
          const Product full = product(x, weight, false, 1);
          for (const unsigned threads : {1U, 2U, 5U}) {
            const Product listed = product(x, weight, true, threads);
            CHECK(same_bits(listed.y, full.y));
            if (rows <= 16 && zeros >= 9 && together) CHECK(listed.listed);
            if (zeros <= 1 || rows > 16) CHECK_FALSE(listed.listed);
          }
          using reference::widened;
          const auto expected = reference::linear(widened(x), widened(w), {}, rows, kOut, kIn);
          const auto magnitude =
              reference::linear_magnitude(widened(x), widened(w), {}, rows, kOut, kIn);
          for (std::size_t i = 0; i < expected.size(); ++i)
            CHECK(std::fabs(static_cast<double>(full.y[i]) - expected[i]) <=
                  static_cast<double>(kIn) * 0x1p-23 * magnitude[i]);
        }
  }
}

TEST_CASE("NaN and infinity in a row are listed, and nothing is read where all rows are 0") {
  auto w = real_values(kOut * kIn, 43);
  std::vector<float> x(2 * kIn, 0.0F);
  x[7] = std::numeric_limits<float>::infinity();
  x[kIn + 200] = std::numeric_limits<float>::quiet_NaN();
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const PackedWeight weight = packed(w, dtype);
    const Product full = product(x, weight, false, 2), listed = product(x, weight, true, 2);
    CHECK(listed.listed);
    for (std::size_t i = 0; i < full.y.size(); ++i) CHECK(same_value(full.y[i], listed.y[i]));
    CHECK(std::isinf(listed.y[0]));
    CHECK(std::isnan(listed.y[kOut]));
  }
}

TEST_CASE("a sum that underflows to -0 becomes 0 either way") {
  std::vector<float> w(kOut * kIn, -1e-30F), x(kIn, 0.0F);
  x[0] = x[kIn - 1] = 1e-30F;
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const Product full = product(x, packed(w, dtype), false, 1);
    const Product listed = product(x, packed(w, dtype), true, 1);
    CHECK(listed.listed);
    CHECK(same_bits(full.y, listed.y));
    CHECK(same_bits(listed.y[0], 0.0F));
  }
}

}  // namespace
}  // namespace fourfold
