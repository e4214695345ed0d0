// PackedWeight: where each element goes, zeros in the missing columns, the bytes it takes.
#include "ops/packed_weight.h"

#include <doctest/doctest.h>

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

TEST_CASE("an empty weight has no panels") {
  const PackedWeight none(ConstMatrix(nullptr, 0, 7));
  CHECK(none.panels() == 0);
  CHECK(none.bytes() == 0);
  CHECK(PackedWeight().panels() == 0);
}

}  // namespace
}  // namespace fourfold
