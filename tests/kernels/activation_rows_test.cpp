// Activation kernels over rows, forward, backward and gated: special values in every lane and in
// the tail, no step outside the row, results in place of arguments, one set of bits everywhere.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "activation_error.h"
#include "kernels/dispatch.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kGuard = -77.25F;
using Row = std::vector<float>;

std::vector<float> special_values() {
  std::vector<float> specials{std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 0.0F,
                              -0.0F};
  for (const float size :
       {1e38F, 7.5F, 10.5F, 11.0F, 13.24F, 40.0F, 1000.0F, 60000.0F, 1e-45F, 1e-38F})
    for (const float sign : {1.0F, -1.0F}) specials.push_back(sign * size);
  return specials;
}

// What all kernels of one activation make of a gate (or input), an up and the gradient of the
// result.
struct Results {
  Row y, dx, h, dgate, dup;
};
struct Inputs {
  explicit Inputs(std::size_t n, std::uint64_t seed = 7, float spread = 3.0F)
      : gate(real_values(n, seed, -spread, spread)),
        up(real_values(n, seed + 1, -2.5F, 2.0F)),
        dh(real_values(n, seed + 2, -0.9F, 0.8F)) {}

  Results results(const KernelTable& table, Activation kind) const {
    const ActivationKernels& act = table.activations;
    const auto index = static_cast<std::size_t>(kind);
    const std::size_t n = gate.size();
    Results r{Row(n), Row(n), Row(n), Row(n), Row(n)};
    act.forward[index](gate.data(), r.y.data(), n);
    act.backward[index](gate.data(), dh.data(), r.dx.data(), n);
    act.glu[index](gate.data(), up.data(), r.h.data(), n);
    act.glu_backward[index](gate.data(), up.data(), dh.data(), r.dgate.data(), r.dup.data(), n);
    return r;
  }

  Row gate, up, dh;
};

// Within the given bound, and 2^-22 of the value: 2 ULP of f(gate) and the rounding of products.
bool near(float found, double expected, double bound) {
  const double gap = distance(found, expected);
  if (!std::isfinite(static_cast<float>(expected))) return gap == 0;
  return gap <= bound + 0x1.8p-22 * std::fabs(expected) + 0x1p-145;
}

// Element i of all results against float64.
bool right_at(Activation kind, const Inputs& in, const Results& r, std::size_t i) {
  const bool clamped = kind == Activation::swiglu_oai;
  const double gate = in.gate[i], up = in.up[i], dh = in.dh[i];
  const double cut = std::isnan(up) ? up : std::fmax(-7, std::fmin(7, up));
  const double factor = clamped ? 1 + cut : up;
  const double f = reference::activation(kind, gate);
  const double slope = reference::activation_derivative(kind, gate);
  const double slope_bound = 4 * 0x1p-23 * std::fmax(1, std::fabs(slope));
  const auto bound = [](double error, double scale) {
    return std::isfinite(error * scale) ? error * std::fabs(scale) : 0;
  };
  double dup = dh * f;
  if (clamped && std::isnan(up)) dup = up;
  if (clamped && std::fabs(up) > 7) dup = 0;
  // In float32 as well: 1 + up is rounded.
  const double rounding = clamped ? bound(0x1p-23, f * 8) : 0;
  return near(r.y[i], f, 0) && near(r.dx[i], dh * slope, bound(slope_bound, dh)) &&
         near(r.h[i], f * factor, rounding) &&
         near(r.dgate[i], dh * factor * slope,
              bound(slope_bound, dh * factor) + bound(0x1p-20 * std::fabs(slope), dh)) &&
         near(r.dup[i], dup, 0);
}

bool same_at(const Results& a, const Results& b, std::size_t i) {
  return same_value(a.y[i], b.y[i]) && same_value(a.dx[i], b.dx[i]) && same_value(a.h[i], b.h[i]) &&
         same_value(a.dgate[i], b.dgate[i]) && same_value(a.dup[i], b.dup[i]);
}

TEST_CASE("special values come out right in every lane and in the tail, and disturb no other") {
  const std::vector<float> specials = special_values();
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    for (const Activation kind : kAllActivations) {
      CAPTURE(activation_name(kind));
      std::size_t wrong = 0, disturbed = 0;
      float at = 0;
      for (const std::size_t n : {1U, 7U, 17U, 31U}) {
        Inputs in(n);
        const Results calm = in.results(*find_kernels(name), kind);
        for (std::size_t lane = 0; lane < n; ++lane)
          for (Row* row : {&in.gate, &in.up, &in.dh})
            for (const float special : specials) {
              const float before = std::exchange((*row)[lane], special);
              const Results found = in.results(*find_kernels(name), kind);
              if (!right_at(kind, in, found, lane)) {
                ++wrong;
                at = special;
              }
              for (std::size_t i = 0; i < n; ++i)
                disturbed += i != lane && !same_at(found, calm, i);
              (*row)[lane] = before;
            }
      }
      CAPTURE(at);
      CHECK(wrong == 0);
      CHECK(disturbed == 0);
    }
  }
}

TEST_CASE("the gated form is the bits of the activation and one multiplication") {
  for (const Activation kind : kAllActivations) {
    CAPTURE(activation_name(kind));
    const Inputs in(1009, 11, 8.5F);
    const Results r = in.results(kernels(), kind);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < in.gate.size(); ++i) {
      const bool clamped = kind == Activation::swiglu_oai;
      wrong += !same_bits(r.h[i], r.y[i] * (clamped ? 1 + in.up[i] : in.up[i]));
      wrong += !same_bits(r.dup[i], in.dh[i] * r.y[i]);
      wrong += !right_at(kind, in, r, i);
    }
    CHECK(wrong == 0);
  }
}

// The row in the middle of guards.
struct Guarded {
  explicit Guarded(const Row& values) : all(values.size() + 32, kGuard) {
    std::copy(values.begin(), values.end(), all.begin() + 16);
  }
  float* data() { return all.data() + 16; }
  Row row() const { return {all.begin() + 16, all.end() - 16}; }
  bool intact() const {
    for (std::size_t i = 0; i < 16; ++i)
      if (all[i] != kGuard || all[all.size() - 1 - i] != kGuard) return false;
    return true;
  }

  Row all;
};

TEST_CASE("no length writes outside the row, and a result may replace any argument") {
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    for (const Activation kind : kAllActivations) {
      CAPTURE(activation_name(kind));
      const ActivationKernels& act = find_kernels(name)->activations;
      const auto index = static_cast<std::size_t>(kind);
      for (std::size_t n = 0; n <= 37; ++n) {
        const Inputs in(n, n + 1, 4.0F);
        const Results expected = in.results(*find_kernels(name), kind);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) wrong += !right_at(kind, in, expected, i);
        const auto check = [&](const Guarded& found, const Row& row) {
          wrong += !found.intact() || !same_bits(found.row(), row);
        };
        for (int slot = 0; slot < 3; ++slot) {
          Guarded gate(in.gate), up(in.up), dh(in.dh);
          Guarded* const place = std::array{&gate, &up, &dh}[static_cast<std::size_t>(slot)];
          Guarded* const next = std::array{&up, &dh, &gate}[static_cast<std::size_t>(slot)];
          act.glu_backward[index](gate.data(), up.data(), dh.data(), place->data(), next->data(),
                                  n);
          check(*place, expected.dgate);
          check(*next, expected.dup);
        }
        for (const bool over_gate : {true, false}) {
          Guarded gate(in.gate), up(in.up), dh(in.dh), alone(in.gate);
          Guarded &h = over_gate ? gate : up, &dx = over_gate ? alone : dh;
          act.glu[index](gate.data(), up.data(), h.data(), n);
          act.backward[index](alone.data(), dh.data(), dx.data(), n);
          check(h, expected.h);
          check(dx, expected.dx);
        }
        Guarded x(in.gate);
        act.forward[index](x.data(), x.data(), n);
        check(x, expected.y);
        REQUIRE(wrong == 0);
      }
    }
  }
}

TEST_CASE("every instruction set gives the same bits") {
  Inputs in(0);
  in.gate = real_values(50'021, 41, -12.0F, 12.0F);
  for (std::uint64_t bits = 0; bits < (1ULL << 32); bits += 42'953)
    in.gate.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (float v = -230.0F; v < 230.0F; v += 0.037F) in.gate.push_back(v);
  in.up = real_values(in.gate.size(), 43, -9.0F, 9.0F);
  in.dh = real_values(in.gate.size(), 47, -2.0F, 3.0F);
  for (const Activation kind : kAllActivations) {
    const Results expected = in.results(*find_kernels("scalar"), kind);
    for (const std::string& name : isa_report().detected) {
      const Results found = in.results(*find_kernels(name), kind);
      std::size_t different = 0, first = 0;
      for (std::size_t i = 0; i < in.gate.size(); ++i)
        if (!same_at(found, expected, i) && different++ == 0) first = i;
      CAPTURE(name);
      CAPTURE(activation_name(kind));
      CAPTURE(in.gate[first]);
      CHECK(different == 0);
    }
  }
}

TEST_CASE("a value's bits do not depend on its place in the row") {
  const Inputs in(67, 43, 9.0F);
  for (const Activation kind : kAllActivations) {
    CAPTURE(activation_name(kind));
    const Results together = in.results(kernels(), kind);
    for (std::size_t i = 0; i < in.gate.size(); ++i) {
      Inputs alone(0);
      alone.gate = {in.gate[i]};
      alone.up = {in.up[i]};
      alone.dh = {in.dh[i]};
      const Results one = alone.results(kernels(), kind);
      CHECK(same_at(Results{{together.y[i]},
                            {together.dx[i]},
                            {together.h[i]},
                            {together.dgate[i]},
                            {together.dup[i]}},
                    one, 0));
    }
  }
}

TEST_CASE("the fused epilogue gives the bits of sum, bias and activation") {
  constexpr std::size_t kRows = 5, kColumns = 53, kStride = 59;
  const Row c = real_values(kRows * 64, 51, -4.0F, 4.0F), bias = real_values(kColumns, 53);
  for (const bool with_bias : {true, false})
    for (const Activation kind : kAllActivations) {
      CAPTURE(activation_name(kind));
      Row y(kRows * kStride, kGuard), expected = y;
      for (std::size_t r = 0; r < kRows; ++r) {
        Row sums(c.begin() + static_cast<std::ptrdiff_t>(r * 64),
                 c.begin() + static_cast<std::ptrdiff_t>(r * 64 + kColumns));
        for (std::size_t i = 0; i < kColumns && with_bias; ++i) sums[i] += bias[i];
        kernels().activations.forward[static_cast<std::size_t>(kind)](
            sums.data(), expected.data() + r * kStride, kColumns);
      }
      kernels().activations.epilogue[static_cast<std::size_t>(kind)](
          c.data(), with_bias ? bias.data() : nullptr, y.data(), kStride, kRows, kColumns);
      CHECK(same_bits(y, expected));
    }
}

}  // namespace
}  // namespace fourfold
