// Float64 arithmetic that the answers of `bench` share: activations with their slopes, and the
// error of a result.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "fourfold/activation.h"
#include "tools/bench_work.h"

namespace fourfold {

struct ValueAndSlope {
  double value = 0, slope = 0;
};

// act(x) and act'(x); swiglu_oai: the factor of (up + 1), 0 slope above the clamp.
ValueAndSlope activation64(Activation activation, double x);

// Widens `error` by |found(i) - expected[i]| / rms(expected); a NaN where a number is expected
// counts as infinite. All-zero answers are compared absolutely.
template <class Found>
void add_relative_error(const std::vector<double>& expected, Found&& found, BenchError& error) {
  double squares = 0;
  for (const double value : expected) squares += value * value;
  const double rms =
      expected.empty() ? 0 : std::sqrt(squares / static_cast<double>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double away =
        std::fabs(static_cast<double>(found(i)) - expected[i]) / (rms > 0 ? rms : 1);
    error.max_relative = std::isnan(away) ? std::numeric_limits<double>::infinity()
                                          : std::max(error.max_relative, away);
  }
}

}  // namespace fourfold
