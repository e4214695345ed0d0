// How far an instruction set's activations and derivatives are from float64, over many inputs.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "fourfold/activation.h"
#include "kernels/kernel_table.h"
#include "reference_activation.h"

namespace fourfold {

inline constexpr Activation kAllActivations[] = {
    Activation::identity,   Activation::relu,      Activation::relu2,      Activation::leaky_relu,
    Activation::relu6,      Activation::sigmoid,   Activation::tanh,       Activation::silu,
    Activation::gelu_erf,   Activation::gelu_tanh, Activation::quick_gelu, Activation::mish,
    Activation::swiglu_oai,
};
static_assert(std::size(kAllActivations) == kActivations);

// The largest error so far, and where. An error that is not a number counts as infinite.
struct WorstError {
  double size = 0;
  float at = 0;

  void add(double error, float x) {
    if (error <= size) return;
    size = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    at = x;
  }
  void add(const WorstError& other) { add(other.size, other.at); }
};

struct ActivationError {
  WorstError ulp;        // forward, where the real value is a normal float, in its spacing
  WorstError subnormal;  // forward, where it is smaller, in steps of 2^-149
  WorstError slope;      // derivative, in 2^-23 max(1, |f'|)

  bool passes() const { return ulp.size <= 2 && subnormal.size <= 2 && slope.size <= 4; }
  void add(const ActivationError& other) {
    ulp.add(other.ulp);
    subnormal.add(other.subnormal);
    slope.add(other.slope);
  }
};

// |found - expected|; where expected is NaN or rounds to an infinite float, found must be the same.
inline double distance(float found, double expected) {
  const double gap = std::fabs(static_cast<double>(found) - expected);
  if (std::fabs(expected) < 0x1.ffffffp127)  // rounds to a finite float
    return std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap;
  const bool same =
      std::isnan(expected) ? std::isnan(found) : found == static_cast<float>(expected);
  return same ? 0 : std::numeric_limits<double>::infinity();
}

// 1 / the spacing of floats at a value of normal size: a power of two, so multiplying is exact.
inline double steps_per_unit(double value) {
  constexpr std::uint64_t kExponent = 0x7FFULL << 52, kBias = 2046 + 23;
  return std::bit_cast<double>((kBias << 52) - (std::bit_cast<std::uint64_t>(value) & kExponent));
}

// y: forward(x) and d: backward(x, 1), computed by the caller.
inline ActivationError activation_error(Activation kind, std::span<const float> x,
                                        std::span<const float> y, std::span<const float> d) {
  ActivationError error;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = reference::activation(kind, x[i]), size = std::fabs(value);
    const double gap = distance(y[i], value);
    if (size < 0x1p-126)
      error.subnormal.add(gap * 0x1p149, x[i]);
    else if (size < 0x1p128)
      error.ulp.add(gap * steps_per_unit(value), x[i]);
    else
      error.ulp.add(gap, x[i]);
    const double slope = reference::activation_derivative(kind, x[i]), steep = std::fabs(slope);
    const double slope_gap = distance(d[i], slope) * 0x1p23;
    error.slope.add(steep > 1 && slope_gap > 0 ? slope_gap / steep : slope_gap, x[i]);
  }
  return error;
}

inline ActivationError activation_error(const KernelTable& table, Activation kind,
                                        std::span<const float> x) {
  const auto index = static_cast<std::size_t>(kind);
  std::vector<float> y(x.size()), d(x.size(), 1.0F);
  table.activations.forward[index](x.data(), y.data(), x.size());
  table.activations.backward[index](x.data(), d.data(), d.data(), x.size());
  return activation_error(kind, x, y, d);
}

}  // namespace fourfold
