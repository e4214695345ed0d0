// The copy of a weight by features: its words, products with listed features, and when sums are
// certain to stay finite.
#include "ops/feature_rows.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/dispatch.h"
#include "ops/product_tiles.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr std::size_t kIn = 83, kOut = 149;
constexpr float kHuge = 3e38F, kNaN = std::numeric_limits<float>::quiet_NaN(),
                kInfinity = std::numeric_limits<float>::infinity();

PackedWeight packed(const std::vector<float>& w, Dtype dtype, std::size_t out = kOut,
                    std::size_t in = kIn) {
  if (dtype == Dtype::f32) return PackedWeight(ConstMatrix(w.data(), out, in));
  std::vector<Bf16> narrow;
  for (const float value : w) narrow.push_back(to_bf16(value));
  return PackedWeight(ConstBf16Matrix(narrow.data(), out, in));
}

float value_at(const FeatureRows& rows, std::size_t n, std::size_t k, Dtype dtype) {
  if (dtype == Dtype::f32) return rows.row(n)[k];
  const auto word = std::bit_cast<std::uint32_t>(rows.row(n)[k / 2]);
  return std::bit_cast<float>(k % 2 == 0 ? word << 16 : word & 0xFFFF0000U);
}

TEST_CASE("a feature's words are its weights along k, then zeros; refill follows new weights") {
  Runtime runtime({.count = 3});
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    auto w = real_values(kOut * kIn, 47);
    PackedWeight weight = packed(w, dtype);
    FeatureRows rows(weight);
    const auto check = [&] {
      for (std::size_t n = 0; n < kOut; ++n) {
        for (std::size_t k = 0; k < kIn; ++k) {
          const float expected = w[n * kIn + k];
          CHECK(value_at(rows, n, k, dtype) ==
                (dtype == Dtype::f32 ? expected : round_to_bf16(expected)));
        }
        CHECK(value_at(rows, n, kIn, dtype) == 0);
      }
    };
    check();
    w = real_values(kOut * kIn, 53);
    weight.repack(ConstMatrix(w.data(), kOut, kIn), nullptr, runtime.pool());
    rows.refill(weight, runtime.pool());
    check();
  }
}

TEST_CASE("a product with 16 features has the bits of the panel product") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const GemmKernels& products = kernels().gemm;
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const std::size_t in : {1U, 2U, 7U, 15U, 16U, 17U, 31U, 33U, 83U, 211U}) {
      CAPTURE(in);
      const PackedWeight weight = packed(real_values(kOut * in, 59), dtype, kOut, in);
      const FeatureRows copy(weight);
      const auto x = real_values(9 * in, 61);
      for (const std::size_t rows : {1U, 2U, 3U, 4U, 5U, 8U, 9U}) {
        const RowBuffer buffer(rows, in, dtype, workspace);
        for (std::size_t r = 0; r < rows; ++r) buffer.store(r, 0, {&x[r * in], 1, in});
        const RowOperand operand = buffer.operand();
        const float* features[kFeatures];
        std::size_t ids[kFeatures];
        for (std::size_t f = 0; f < kFeatures; ++f) {
          ids[f] = (f * 37 + 5) % kOut;
          features[f] = copy.row(ids[f]);
        }
        std::vector<float> sums(rows * kFeatures), panel(rows * kPanel);
        if (dtype == Dtype::f32)
          products.features_f32(static_cast<const float*>(operand.data), operand.stride, features,
                                features, in, sums.data(), rows);
        else
          products.features_bf16(operand.data, operand.stride, features, features, in, sums.data(),
                                 rows);
        for (std::size_t f = 0; f < kFeatures; ++f) {
          panel_product(operand, weight.panel(ids[f] / kPanel), weight.panel(0), panel.data(),
                        false);
          for (std::size_t r = 0; r < rows; ++r)
            CHECK(same_bits(sums[r * kFeatures + f], panel[r * kPanel + ids[f] % kPanel]));
        }
      }
    }
}

TEST_CASE("sums stay finite unless the sizes of x, weights or bias allow more") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const auto stays = [&](float weight, float x, float bias) {
      std::vector<float> w(kOut * kIn, 0.5F), row(kIn, 1.0F), biases(kOut, 0.25F);
      w[kIn * 100 + 3] = weight;
      row[kIn - 1] = x;
      biases[7] = bias;
      const RowBuffer buffer(1, kIn, dtype, workspace);
      buffer.store(0, 0, {row.data(), 1, kIn});
      return FeatureRows(packed(w, dtype)).stays_finite(buffer.operand(), biases);
    };
    CHECK(stays(0.5F, 1.0F, 0.25F));
    CHECK(stays(1e30F, -1e6F, -1e30F));
    for (const float bad : {kHuge, -kHuge, kInfinity, -kInfinity, kNaN}) {
      CHECK_FALSE(stays(bad, 1.0F, 0.25F));
      CHECK_FALSE(stays(0.5F, bad, 0.25F));
      CHECK_FALSE(stays(0.5F, 1.0F, bad));
    }
    CHECK_FALSE(stays(1e20F, 1e20F, 0.25F));
  }
}

}  // namespace
}  // namespace fourfold
