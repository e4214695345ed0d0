// What an instruction set adds in a product with bf16 weights, one pair of values at a time, as
// plain float32 operations; docs/numerics.md says it in words.
#pragma once

#include <cmath>
#include <cstddef>
#include <string_view>

namespace fourfold {

enum class Bf16Steps { rounded_products, fused, pairs };

inline Bf16Steps bf16_steps(std::string_view isa) {
  if (isa == "avx512_bf16") return Bf16Steps::pairs;
  return isa == "scalar" ? Bf16Steps::rounded_products : Bf16Steps::fused;
}

// Values too small for a normal number count as 0.
inline float flushed(float value) {
  return std::fabs(value) < 0x1p-126F ? std::copysign(0.0F, value) : value;
}

// vdpbf16ps: the second of the pair is added first.
inline float add_pair(float sum, float x0, float w0, float x1, float w1) {
  sum = flushed(std::fma(flushed(x1), flushed(w1), flushed(sum)));
  return flushed(std::fma(flushed(x0), flushed(w0), sum));
}

// sum + x(0) w(0) + .. + x(count - 1) w(count - 1); values are those of bf16. An odd last one has 0
// beside it.
template <class X, class W>
float bf16_sum(Bf16Steps steps, float sum, std::size_t count, const X& x, const W& w) {
  if (steps == Bf16Steps::pairs) {
    for (std::size_t i = 0; i < count; i += 2) {
      const bool two = i + 1 < count;
      sum = add_pair(sum, x(i), w(i), two ? x(i + 1) : 0.0F, two ? w(i + 1) : 0.0F);
    }
    return sum;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const float product = x(i) * w(i);
    sum = steps == Bf16Steps::fused ? std::fma(x(i), w(i), sum) : sum + product;
  }
  return sum;
}

}  // namespace fourfold
