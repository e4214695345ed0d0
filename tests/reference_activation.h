// The oracle of activations: each function and its derivative in float64 from its formula, in a
// form that keeps its digits far below 0, with the limits at the infinities. NaN gives NaN.
#pragma once

#include <cmath>
#include <limits>

#include "fourfold/activation.h"

namespace fourfold::reference {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kPi = 3.14159265358979323846;

inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// The argument of the logistic function in gelu_tanh, and its derivative:
// (1 + tanh u) / 2 = 1 / (1 + exp(-2u)).
inline double tanh_argument(double x) {
  return 2 * std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x);
}
inline double tanh_argument_slope(double x) {
  return 2 * std::sqrt(2 / kPi) * (1 + 3 * 0.044715 * x * x);
}

// swiglu_oai: the function of its gate alone.
inline double activation(Activation kind, double x) {
  if (std::isnan(x)) return x;
  const bool far_below = x == -std::numeric_limits<double>::infinity();
  switch (kind) {
    case Activation::identity: return x;
    case Activation::relu: return std::fmax(x, 0.0);
    case Activation::relu2: return std::fmax(x, 0.0) * std::fmax(x, 0.0);
    case Activation::leaky_relu: return x < 0 ? 0.01 * x : x;
    case Activation::relu6: return std::fmin(std::fmax(x, 0.0), 6.0);
    case Activation::sigmoid: return logistic(x);
    case Activation::tanh: return std::tanh(x);
    case Activation::silu: return far_below ? 0 : x * logistic(x);
    case Activation::gelu_erf: return far_below ? 0 : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh: return far_below ? 0 : x * logistic(tanh_argument(x));
    case Activation::quick_gelu: return far_below ? 0 : x * logistic(1.702 * x);
    case Activation::mish:
      return far_below ? 0 : x > 40 ? x : x * std::tanh(std::log1p(std::exp(x)));
    case Activation::swiglu_oai: return activation(Activation::quick_gelu, std::fmin(x, 7.0));
  }
  return kNan;
}

// d/dx; at a corner the value that the library documents.
inline double activation_derivative(Activation kind, double x) {
  if (std::isnan(x)) return x;
  // d/dx x s(v) = s(v) + x v' s(v) s(-v); s(v) s(-v) is exactly 0 far from 0.
  const auto gated = [x](double v, double slope) {
    const double bend = logistic(v) * logistic(-v);
    return logistic(v) + (bend == 0 ? 0 : x * slope * bend);
  };
  switch (kind) {
    case Activation::identity: return 1;
    case Activation::relu: return x > 0 ? 1 : 0;
    case Activation::relu2: return 2 * std::fmax(x, 0.0);
    case Activation::leaky_relu: return x > 0 ? 1 : 0.01;
    case Activation::relu6: return x > 0 && x < 6 ? 1 : 0;
    case Activation::sigmoid: return logistic(x) * logistic(-x);
    case Activation::tanh: return 1 / (std::cosh(x) * std::cosh(x));
    case Activation::silu: return gated(x, 1);
    case Activation::gelu_erf: {
      const double bell = std::exp(-x * x / 2) / std::sqrt(2 * kPi);
      return 0.5 * std::erfc(-x / std::sqrt(2.0)) + (bell == 0 ? 0 : x * bell);
    }
    case Activation::gelu_tanh: return gated(tanh_argument(x), tanh_argument_slope(x));
    case Activation::quick_gelu: return gated(1.702 * x, 1.702);
    case Activation::mish: {
      // tanh(p) + x s(x) / cosh^2(p), p = ln(1 + e^x)
      const double p = x > 40 ? x : std::log1p(std::exp(x)), flat = 1 / std::cosh(p);
      const double bend = logistic(x) * flat * flat;
      return std::tanh(p) + (bend == 0 ? 0 : x * bend);
    }
    case Activation::swiglu_oai:
      return x > 7 ? 0 : activation_derivative(Activation::quick_gelu, x);
  }
  return kNan;
}

}  // namespace fourfold::reference
