// The public calls over the kernels: alone, backward, with a gate, and gated backward.
#include "fourfold/activation.h"

#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>
#include <string>
#include <vector>

#include "fourfold/error.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr Activation kPlain[] = {
    Activation::identity, Activation::relu,      Activation::relu2,      Activation::leaky_relu,
    Activation::relu6,    Activation::sigmoid,   Activation::tanh,       Activation::silu,
    Activation::gelu_erf, Activation::gelu_tanh, Activation::quick_gelu, Activation::mish,
};
constexpr Activation kGated[] = {
    Activation::identity,   Activation::relu,      Activation::relu2,      Activation::leaky_relu,
    Activation::relu6,      Activation::sigmoid,   Activation::tanh,       Activation::silu,
    Activation::gelu_erf,   Activation::gelu_tanh, Activation::quick_gelu, Activation::mish,
    Activation::swiglu_oai,
};
constexpr std::size_t kCount = 1009;

// What enters the product for `up`, and the slope of that.
double factor(Activation kind, double up) {
  return kind == Activation::swiglu_oai ? 1 + std::fmax(-7, std::fmin(7, up)) : up;
}
double factor_slope(Activation kind, double up) {
  return kind == Activation::swiglu_oai && std::fabs(up) > 7 ? 0 : 1;
}

TEST_CASE("each activation and its gradient are the functions of its name") {
  const std::vector<float> x = real_values(kCount, 3, -7.0F, 6.5F);
  const std::vector<float> dy = real_values(kCount, 5);
  for (const Activation kind : kPlain) {
    CAPTURE(activation_name(kind));
    std::vector<float> y(kCount), dx(kCount);
    activate(kind, x, y);
    activate_backward(kind, x, dy, dx);
    reference::Values value, gradient;
    for (std::size_t i = 0; i < kCount; ++i) {
      value.push_back(reference::activation(kind, x[i]));
      gradient.push_back(dy[i] * reference::activation_derivative(kind, x[i]));
    }
    CHECK(reference::largest_difference(y, value) < 2e-7 * 43);  // 2 ULP of at most 6.5^2
    CHECK(reference::largest_difference(dx, gradient) < 5 * 1.2e-7 * 1.7 * 13);
  }
}

TEST_CASE("each gated form and its gradients are those of its formula") {
  const std::vector<float> gate = real_values(kCount, 7, -7.0F, 8.0F);
  const std::vector<float> up = real_values(kCount, 11, -9.0F, 8.0F);
  const std::vector<float> dh = real_values(kCount, 13);
  for (const Activation kind : kGated) {
    CAPTURE(activation_name(kind));
    std::vector<float> h(kCount), dgate(kCount), dup(kCount);
    gated_activate(kind, gate, up, h);
    gated_activate_backward(kind, gate, up, dh, dgate, dup);
    double worst = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double f = reference::activation(kind, gate[i]), u = factor(kind, up[i]);
      const double slope = reference::activation_derivative(kind, gate[i]);
      const double error[] = {
          std::fabs(h[i] - f * u) / (1 + std::fabs(f * u)),
          std::fabs(dgate[i] - dh[i] * u * slope) / (1 + std::fabs(u * slope)),
          std::fabs(dup[i] - dh[i] * f * factor_slope(kind, up[i])) / (1 + std::fabs(f))};
      for (const double e : error) worst = std::isnan(e) ? e : std::fmax(worst, e);
    }
    CHECK(worst < 5e-6);  // (4 + 2) eps times |u| <= 9
  }
}

TEST_CASE("results may replace arguments, and empty ones are fine") {
  const std::vector<float> gate = real_values(53, 17), up = real_values(53, 19, -8.0F, 8.0F);
  const std::vector<float> dh = real_values(53, 23);
  for (const Activation kind : kGated) {
    std::vector<float> a(53), b(53), over_gate = gate, over_up = up, over_dh = dh;
    gated_activate_backward(kind, gate, up, dh, a, b);
    gated_activate_backward(kind, over_gate, over_up, dh, over_gate, over_up);
    CHECK(same_bits(a, over_gate));
    CHECK(same_bits(b, over_up));
    gated_activate_backward(kind, gate, up, over_dh, over_dh, b);
    CHECK(same_bits(a, over_dh));
    gated_activate(kind, gate, up, a);
    over_gate = gate;
    gated_activate(kind, over_gate, up, over_gate);
    CHECK(same_bits(a, over_gate));
    CHECK_NOTHROW(gated_activate(kind, {}, {}, {}));
    CHECK_NOTHROW(gated_activate_backward(kind, {}, {}, {}, {}, {}));
  }
  for (const Activation kind : kPlain) {
    std::vector<float> apart(53), in_place = gate;
    activate(kind, gate, apart);
    activate(kind, in_place, in_place);
    CHECK(same_bits(apart, in_place));
    activate_backward(kind, gate, dh, apart);
    in_place = gate;
    activate_backward(kind, in_place, dh, in_place);
    CHECK(same_bits(apart, in_place));
    CHECK_NOTHROW(activate(kind, {}, {}));
    CHECK_NOTHROW(activate_backward(kind, {}, {}, {}));
  }
}

template <class Call>
void check_error(ErrorCode code, const std::vector<std::string>& parts, Call call) {
  try {
    call();
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code == code);
    const std::string text = error.what();
    CAPTURE(text);
    for (const std::string& part : parts) CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("different lengths are a shape error that names the argument and both lengths") {
  std::vector<float> a(7), b(7), c(7), d(7), e(7), longer(11);
  const auto check = [](const std::string& where, const std::string& name, auto call) {
    check_error(ErrorCode::shape_mismatch, {"[" + where + "] " + name + " has 11", "7"}, call);
  };
  constexpr Activation kind = Activation::silu;
  check("activate", "y", [&] { activate(kind, a, longer); });
  check("activate_backward", "dy", [&] { activate_backward(kind, a, longer, b); });
  check("activate_backward", "dx", [&] { activate_backward(kind, a, b, longer); });
  check("gated_activate", "up", [&] { gated_activate(kind, a, longer, b); });
  check("gated_activate", "h", [&] { gated_activate(kind, a, b, longer); });
  const std::string backward = "gated_activate_backward";
  check(backward, "up", [&] { gated_activate_backward(kind, a, longer, c, d, e); });
  check(backward, "dh", [&] { gated_activate_backward(kind, a, b, longer, d, e); });
  check(backward, "dgate", [&] { gated_activate_backward(kind, a, b, c, longer, e); });
  check(backward, "dup", [&] { gated_activate_backward(kind, a, b, c, d, longer); });
}

TEST_CASE("swiglu_oai alone is unsupported, and the message says what to call") {
  std::vector<float> x(5), y(5);
  check_error(ErrorCode::unsupported, {"[activate] swiglu_oai needs a gate", "gated_activate"},
              [&] { activate(Activation::swiglu_oai, x, y); });
  check_error(ErrorCode::unsupported,
              {"[activate_backward] swiglu_oai needs a gate", "gated_activate_backward"},
              [&] { activate_backward(Activation::swiglu_oai, x, x, y); });
}

TEST_CASE("the caller's rounding mode changes no bit and is kept") {
  const std::vector<float> gate = real_values(31, 29), up = real_values(31, 31);
  const std::vector<float> dh = real_values(31, 37);
  std::vector<float> h(31), dgate(31), dup(31), h2(31), dgate2(31), dup2(31);
  gated_activate(Activation::mish, gate, up, h);
  gated_activate_backward(Activation::mish, gate, up, dh, dgate, dup);
  std::fesetround(FE_UPWARD);
  gated_activate(Activation::mish, gate, up, h2);
  gated_activate_backward(Activation::mish, gate, up, dh, dgate2, dup2);
  const int kept = std::fegetround();
  std::fesetround(FE_TONEAREST);
  CHECK(kept == FE_UPWARD);
  CHECK(same_bits(h, h2));
  CHECK(same_bits(dgate, dgate2));
  CHECK(same_bits(dup, dup2));
}

}  // namespace
}  // namespace fourfold
