// PackedWeight: where each element goes, zeros in the missing columns and the odd last k, the bytes
// it takes.
#include "ops/packed_weight.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "isa_check.h"
#include "sample_values.h"

namespace fourfold {
namespace {

TEST_CASE("the instruction set asked for is the one that runs") { check_isa_asked_for(); }

// Element (k, column) of a panel: one word per float, or per two bf16.
float panel_value(const PackedWeight& weight, std::size_t n, std::size_t k) {
  const void* panel = weight.panel(n / 64);
  const auto* words = static_cast<const std::uint32_t*>(panel) + n % 64;
  if (weight.dtype() == Dtype::f32) return std::bit_cast<float>(words[k * 64]);
  const std::uint32_t word = words[k / 2 * 64];
  return to_float({static_cast<std::uint16_t>(k % 2 == 0 ? word : word >> 16)});
}

std::vector<Bf16> narrowed(std::span<const float> values) {
  std::vector<Bf16> result;
  for (const float value : values) result.push_back(to_bf16(value));
  return result;
}

TEST_CASE("panels of unit rows: element (n, k) in word n % 64, bf16 in pairs, the rest is zero") {
  for (const std::size_t out : {1U, 3U, 63U, 64U, 65U, 131U})
    for (const std::size_t in : {1U, 2U, 7U, 63U, 64U, 129U}) {
      CAPTURE(out);
      CAPTURE(in);
      const std::size_t stride = in + 5;
      const std::vector<float> weight = real_values(out * stride, out * in);
      const std::vector<Bf16> narrow = narrowed(weight);
      for (const bool bf16 : {false, true}) {
        CAPTURE(bf16);
        const PackedWeight packed =
            bf16 ? PackedWeight(ConstBf16Matrix(narrow.data(), out, in, stride))
                 : PackedWeight(ConstMatrix(weight.data(), out, in, stride));
        CHECK(packed.out() == out);
        CHECK(packed.in() == in);
        CHECK((packed.dtype() == Dtype::bf16) == bf16);
        REQUIRE(packed.panels() == (out + 63) / 64);
        const std::size_t units = bf16 ? (in + 1) / 2 : in, depth = bf16 ? 2 * units : in;
        CHECK(packed.bytes() == packed.panels() * units * 256);
        std::size_t wrong = 0;
        for (std::size_t n = 0; n < packed.panels() * 64; ++n)
          for (std::size_t k = 0; k < depth; ++k) {
            float expected = n < out && k < in ? weight[n * stride + k] : 0.0F;
            if (bf16) expected = round_to_bf16(expected);
            wrong += !same_bits(panel_value(packed, n, k), expected);
          }
        CHECK(wrong == 0);
        for (std::size_t p = 0; p < packed.panels(); ++p)
          CHECK(reinterpret_cast<std::uintptr_t>(packed.panel(p)) % 64 == 0);
        const auto* first = static_cast<const char*>(packed.panel(0));
        CHECK(static_cast<const char*>(packed.panel(packed.panels())) - first ==
              static_cast<std::ptrdiff_t>(packed.bytes()));
      }
    }
}

// Every word of both, zeros of the edges included.
bool same_words(const PackedWeight& a, const PackedWeight& b) {
  return a.out() == b.out() && a.in() == b.in() && a.bytes() == b.bytes() &&
         std::memcmp(a.panel(0), b.panel(0), a.bytes()) == 0;
}

TEST_CASE("the transpose, a copy and a new packing hold the same values") {
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    const std::vector<float> weight = real_values(131 * 67, 5), other = real_values(131 * 67, 7);
    std::vector<float> turned(67 * 131), copy(131 * 67);
    for (std::size_t i = 0; i < other.size(); ++i) turned[i % 67 * 131 + i / 67] = other[i];
    const std::vector<Bf16> narrow = narrowed(weight), narrow_other = narrowed(other),
                            narrow_turned = narrowed(turned);
    for (const bool bf16 : {false, true}) {
      CAPTURE(bf16);
      const auto pack = [&](const std::vector<float>& wide, const std::vector<Bf16>& half,
                            std::size_t rows, std::size_t cols) {
        return bf16 ? PackedWeight(ConstBf16Matrix(half.data(), rows, cols))
                    : PackedWeight(ConstMatrix(wide.data(), rows, cols));
      };
      PackedWeight packed = pack(weight, narrow, 131, 67);
      PackedWeight back = packed.transposed();
      packed.copy_to({copy.data(), 131, 67});
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < copy.size(); ++i)
        wrong += copy[i] != (bf16 ? round_to_bf16(weight[i]) : weight[i]);
      CHECK(wrong == 0);
      // The new values, and their transpose from the same read.
      packed.repack(ConstMatrix(other.data(), 131, 67), &back, runtime.pool());
      CHECK(same_words(packed, pack(other, narrow_other, 131, 67)));
      CHECK(same_words(back, pack(turned, narrow_turned, 67, 131)));
      CHECK(same_words(packed.transposed(), back));
      packed.repack(ConstMatrix(weight.data(), 131, 67), nullptr, runtime.pool());
      CHECK(same_words(packed, pack(weight, narrow, 131, 67)));
      CHECK(same_words(back, pack(turned, narrow_turned, 67, 131)));  // nobody asked for it
      if (bf16) {
        packed.repack(ConstBf16Matrix(narrow_other.data(), 131, 67), &back, runtime.pool());
        CHECK(same_words(packed, pack(other, narrow_other, 131, 67)));
      }
    }
  }
}

TEST_CASE("weights larger than the cache hold their values, too, and so do their transposes") {
  constexpr std::size_t kOut = 2053, kIn = 2063;
  Runtime runtime({.count = 2});
  const std::vector<float> weight = real_values(kOut * kIn, 17), old(kOut * kIn, 1.0F);
  const std::vector<Bf16> narrow = narrowed(weight), narrow_old = narrowed(old);
  for (const bool bf16 : {false, true}) {
    CAPTURE(bf16);
    PackedWeight packed = bf16 ? PackedWeight(ConstBf16Matrix(narrow_old.data(), kOut, kIn))
                               : PackedWeight(ConstMatrix(old.data(), kOut, kIn));
    PackedWeight back = packed.transposed();
    packed.repack(ConstMatrix(weight.data(), kOut, kIn), &back, runtime.pool());
    REQUIRE(packed.bytes() > std::size_t{8} << 20);
    CHECK(same_words(packed, bf16 ? PackedWeight(ConstBf16Matrix(narrow.data(), kOut, kIn))
                                  : PackedWeight(ConstMatrix(weight.data(), kOut, kIn))));
    CHECK(same_words(back, packed.transposed()));
    std::size_t wrong = 0;
    for (std::size_t n = 0; n < kOut; ++n)
      for (std::size_t k = 0; k < kIn; ++k) {
        const float value = weight[n * kIn + k], expected = bf16 ? round_to_bf16(value) : value;
        wrong += panel_value(packed, n, k) != expected;
        wrong += panel_value(back, k, n) != expected;
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("one panel from some rows: what is missing becomes zero") {
  for (const std::size_t rows : {1U, 7U, 63U, 64U}) {
    CAPTURE(rows);
    const std::vector<float> weight = real_values(rows * 19, 31);
    std::vector<float> panel(17 * 64 + 64, -77.25F);
    pack_panel({weight.data(), rows, 17, 19}, panel.data());
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < 17; ++k)
      for (std::size_t n = 0; n < 64; ++n)
        wrong += !same_bits(panel[k * 64 + n], n < rows ? weight[n * 19 + k] : 0.0F);
    for (std::size_t i = std::size_t{17} * 64; i < panel.size(); ++i) wrong += panel[i] != -77.25F;
    CHECK(wrong == 0);
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
  Runtime runtime({.count = 2});
  const std::vector<float> good = real_values(67 * 5, 13);
  PackedWeight packed(ConstMatrix(weight.data(), 67, 5)), back = packed.transposed();
  packed.repack(ConstMatrix(good.data(), 67, 5), &back, runtime.pool());
  CHECK(packed.is_finite());
  CHECK(back.is_finite());
  packed.repack(ConstMatrix(weight.data(), 67, 5), &back, runtime.pool());
  CHECK_FALSE(packed.is_finite());
  CHECK_FALSE(back.is_finite());
}

TEST_CASE("an empty weight has no panels") {
  const PackedWeight none(ConstMatrix(nullptr, 0, 7));
  CHECK(none.panels() == 0);
  CHECK(none.bytes() == 0);
  CHECK(PackedWeight().panels() == 0);
}

}  // namespace
}  // namespace fourfold
