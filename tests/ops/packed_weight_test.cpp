// PackedWeight: where each element goes, zeros in the missing columns, the bytes it takes.
#include "ops/packed_weight.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "isa_check.h"
#include "sample_values.h"

namespace fourfold {
namespace {

TEST_CASE("the instruction set asked for is the one that runs") { check_isa_asked_for(); }

TEST_CASE("element (n, k) lies in panel n / 64 at k * 64 + n % 64, the rest is zero") {
  for (const std::size_t out : {1U, 3U, 63U, 64U, 65U, 131U})
    for (const std::size_t in : {1U, 2U, 7U, 129U}) {
      CAPTURE(out);
      CAPTURE(in);
      const std::size_t stride = in + 5;
      const std::vector<float> weight = real_values(out * stride, out * in);
      const PackedWeight packed(ConstMatrix(weight.data(), out, in, stride));
      CHECK(packed.out() == out);
      CHECK(packed.in() == in);
      REQUIRE(packed.panels() == (out + 63) / 64);
      CHECK(packed.bytes() == packed.panels() * 64 * in * sizeof(float));
      std::size_t wrong = 0;
      for (std::size_t n = 0; n < packed.panels() * 64; ++n)
        for (std::size_t k = 0; k < in; ++k) {
          const float expected = n < out ? weight[n * stride + k] : 0.0F;
          wrong += !same_bits(packed.panel(n / 64)[k * 64 + n % 64], expected);
        }
      CHECK(wrong == 0);
      CHECK(reinterpret_cast<std::uintptr_t>(packed.panel(0)) % 64 == 0);
    }
}

TEST_CASE("the transpose, a copy and a new packing hold the same values") {
  Runtime runtime({.count = 2});
  const std::vector<float> weight = real_values(131 * 67, 5), other = real_values(131 * 67, 7);
  std::vector<Bf16> narrow;
  for (const float value : weight) narrow.push_back(to_bf16(value));
  std::vector<float> copy(131 * 67), back(67 * 131);
  for (const bool bf16 : {false, true}) {
    CAPTURE(bf16);
    const auto value = [&](float exact) { return bf16 ? round_to_bf16(exact) : exact; };
    PackedWeight packed = bf16 ? PackedWeight(ConstBf16Matrix(narrow.data(), 131, 67))
                               : PackedWeight(ConstMatrix(weight.data(), 131, 67));
    PackedWeight transposed = packed.transposed();
    CHECK(transposed.out() == 67);
    CHECK(transposed.in() == 131);
    const auto check = [&](const std::vector<float>& expected) {
      packed.copy_to({copy.data(), 131, 67});
      transposed.copy_to({back.data(), 67, 131});
      std::size_t wrong = 0;
      for (std::size_t n = 0; n < 131; ++n)
        for (std::size_t k = 0; k < 67; ++k) {
          wrong += copy[n * 67 + k] != value(expected[n * 67 + k]);
          wrong += back[k * 131 + n] != value(expected[n * 67 + k]);
        }
      CHECK(wrong == 0);
    };
    check(weight);
    packed.repack(ConstMatrix(other.data(), 131, 67), runtime.pool());
    transposed.repack_transposed(packed, runtime.pool());
    check(other);
  }
}

TEST_CASE("a weight knows whether all its values are finite") {
  std::vector<float> weight = real_values(67 * 5, 11);
  CHECK(PackedWeight(ConstMatrix(weight.data(), 67, 5)).is_finite());
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    weight[66 * 5 + 4] = bad;
    CHECK_FALSE(PackedWeight(ConstMatrix(weight.data(), 67, 5)).is_finite());
    const Bf16 narrow = to_bf16(bad);
    CHECK_FALSE(PackedWeight(ConstBf16Matrix(&narrow, 1, 1)).is_finite());
    CHECK_FALSE(PackedWeight(ConstMatrix(weight.data(), 67, 5)).transposed().is_finite());
  }
}

TEST_CASE("an empty weight has no panels") {
  const PackedWeight none(ConstMatrix(nullptr, 0, 7));
  CHECK(none.panels() == 0);
  CHECK(none.bytes() == 0);
  CHECK(PackedWeight().panels() == 0);
}

}  // namespace
}  // namespace fourfold
