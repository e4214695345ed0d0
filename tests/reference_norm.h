// The oracle of norm gradients: LayerNorm and RMSNorm in float64, one row at a time.
#pragma once

#include <cmath>
#include <cstddef>

#include "reference.h"

namespace fourfold::reference {

// Rows of width d: x / sqrt(mean of x^2 + eps) * gamma; a row of zeros stays 0.
inline Values rms_norm(const Values& x, const Values& gamma, double eps) {
  const std::size_t d = gamma.size();
  Values y(x.size());
  for (std::size_t first = 0; first < x.size(); first += d) {
    double squares = 0;
    for (std::size_t i = 0; i < d; ++i)
      squares += x[first + i] * x[first + i] / static_cast<double>(d);
    for (std::size_t i = 0; i < d && squares + eps > 0; ++i)
      y[first + i] = x[first + i] / std::sqrt(squares + eps) * gamma[i];
  }
  return y;
}

struct NormGradients {
  Values dx, dgamma, dbeta;
  Values dx_terms;      // per element: the sizes of what dx is the sum of
  Values dgamma_terms;  // per element: sum of |dy| |normalised x|
};

// centred: LayerNorm, else RMSNorm. x, dy: [rows, d].
inline NormGradients norm_gradients(const Values& x, const Values& gamma, const Values& dy,
                                    double eps, bool centred) {
  const std::size_t d = gamma.size();
  const double count = static_cast<double>(d);
  NormGradients all{Values(x.size()), Values(d), Values(d), Values(x.size()), Values(d)};
  for (std::size_t first = 0; first < x.size(); first += d) {
    double mean = 0, squares = 0, g_mean = 0, along = 0, g_size = 0, along_size = 0;
    for (std::size_t i = 0; i < d && centred; ++i) mean += x[first + i] / count;
    for (std::size_t i = 0; i < d; ++i) squares += std::pow(x[first + i] - mean, 2) / count;
    const double scale = squares + eps > 0 ? 1 / std::sqrt(squares + eps) : 0;
    for (std::size_t i = 0; i < d; ++i) {
      const double g = dy[first + i] * gamma[i], h = (x[first + i] - mean) * scale;
      if (centred) g_mean += g / count;
      along += g * h / count;
      g_size += std::fabs(g) / count;
      along_size += std::fabs(g * h) / count;
      all.dgamma[i] += dy[first + i] * h;
      all.dgamma_terms[i] += std::fabs(dy[first + i] * h);
      all.dbeta[i] += dy[first + i];
    }
    for (std::size_t i = 0; i < d; ++i) {
      const double g = dy[first + i] * gamma[i], h = (x[first + i] - mean) * scale;
      all.dx[first + i] = scale * (g - g_mean - h * along);
      all.dx_terms[first + i] = scale * (std::fabs(g) + (1 + std::fabs(h)) * (g_size + along_size));
    }
  }
  return all;
}

}  // namespace fourfold::reference
