// Number types of weights and activations. Sums are always float32.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace fourfold {

enum class Dtype { f32, bf16 };

// The printed name: f32, bf16.
constexpr std::string_view dtype_name(Dtype dtype) { return dtype == Dtype::f32 ? "f32" : "bf16"; }

// bfloat16: the upper half of a float32.
struct Bf16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// Round to nearest, ties to even; values beyond the largest become infinity; a NaN stays one.
constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

constexpr float round_to_bf16(float value) { return to_float(to_bf16(value)); }

}  // namespace fourfold
