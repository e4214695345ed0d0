// Repeatable numbers for tests, the same on every machine, and comparisons of floats by their bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "fourfold/matrix.h"

namespace fourfold {

// The standard fixes the output of this generator, unlike that of its distributions.
class SampleValues {
 public:
  explicit SampleValues(std::uint64_t seed) : source_(seed) {}

  std::uint64_t bits() { return source_(); }
  // A whole number from low to high, both included.
  int whole(int low, int high) {
    return low + static_cast<int>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  // A number in [low, high) with all its bits in use.
  float real(float low, float high) {
    const double unit = static_cast<double>(bits() >> 11) * 0x1p-53;
    return static_cast<float>(low + unit * (static_cast<double>(high) - low));
  }

 private:
  std::mt19937_64 source_;
};

inline std::vector<float> real_values(std::size_t count, std::uint64_t seed, float low = -1.3F,
                                      float high = 1.7F) {
  SampleValues source(seed);
  std::vector<float> values(count);
  for (float& value : values) value = source.real(low, high);
  return values;
}

inline std::vector<float> whole_values(std::size_t count, std::uint64_t seed, int low, int high) {
  SampleValues source(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(source.whole(low, high));
  return values;
}

inline bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// Same bits, or both NaN: the sign and payload of a NaN mean nothing.
inline bool same_value(float a, float b) {
  return same_bits(a, b) || (std::isnan(a) && std::isnan(b));
}

// |found - expected| in units of the float spacing at expected.
inline double ulp_error(float found, double expected) {
  const int exponent = std::max(std::ilogb(expected), -126);
  return std::fabs(static_cast<double>(found) - expected) / std::ldexp(1.0, exponent - 23);
}

}  // namespace fourfold
