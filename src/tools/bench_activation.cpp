#include "tools/bench_activation.h"

namespace fourfold {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// x s(k x)
ValueAndSlope swish(double x, double k) {
  const double s = logistic(k * x);
  return {x * s, s + k * x * s * (1 - s)};
}

ValueAndSlope gelu_erf64(double x) {
  const double below = 0.5 * std::erfc(-x / std::sqrt(2.0));
  return {x * below, below + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0))};
}

ValueAndSlope gelu_tanh64(double x) {
  const double scale = std::sqrt(2 / std::acos(-1.0));
  const double t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return {0.5 * x * (1 + t),
          0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x)};
}

ValueAndSlope mish64(double x) {
  const double t = std::tanh(std::log1p(std::exp(x)));
  return {x * t, t + x * (1 - t * t) * logistic(x)};
}

}  // namespace

ValueAndSlope activation64(Activation activation, double x) {
  const double positive = x > 0 ? x : 0;
  switch (activation) {
    case Activation::identity: return {x, 1};
    case Activation::relu: return {positive, x > 0 ? 1.0 : 0.0};
    case Activation::relu2: return {positive * positive, 2 * positive};
    case Activation::leaky_relu: return {x > 0 ? x : 0.01 * x, x > 0 ? 1 : 0.01};
    case Activation::relu6: return {std::min(positive, 6.0), x > 0 && x < 6 ? 1.0 : 0.0};
    case Activation::sigmoid: {
      const double s = logistic(x);
      return {s, s * (1 - s)};
    }
    case Activation::tanh: {
      const double t = std::tanh(x);
      return {t, 1 - t * t};
    }
    case Activation::silu: return swish(x, 1);
    case Activation::gelu_erf: return gelu_erf64(x);
    case Activation::gelu_tanh: return gelu_tanh64(x);
    case Activation::quick_gelu: return swish(x, 1.702);
    case Activation::mish: return mish64(x);
    case Activation::swiglu_oai: {
      const ValueAndSlope inner = swish(std::min(x, 7.0), 1.702);
      return {inner.value, x > 7 ? 0 : inner.slope};
    }
  }
  return {};
}

}  // namespace fourfold
