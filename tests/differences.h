// Derivatives of float64 functions by central differences, and the comparison of float32 gradients
// with them.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "reference.h"

namespace fourfold::reference {

// d loss() / d values[i] for each i; loss reads values. The step is relative; errors are about 1e-9
// of the loss's own size.
template <class Loss>
Values differences(Values& values, const Loss& loss) {
  Values slopes(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double before = values[i], step = 1e-5 * std::fmax(1.0, std::fabs(before));
    values[i] = before + step;
    const double above = loss();
    values[i] = before - step;
    const double below = loss();
    values[i] = before;
    slopes[i] = (above - below) / (2 * step);
  }
  return slopes;
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The largest difference in units of the largest expected value, or of 1 when all are smaller.
inline double relative_difference(std::span<const float> found, const Values& expected) {
  double scale = 1;
  for (const double value : expected) scale = std::fmax(scale, std::fabs(value));
  return largest_difference(found, expected) / scale;
}

}  // namespace fourfold::reference
