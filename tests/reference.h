// The oracle of the computing tests: every operation as plain loops in float64, written from the
// formulas and sharing nothing with the library. Matrices are row-major without gaps.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "fourfold/activation.h"
#include "reference_activation.h"

namespace fourfold::reference {

using Values = std::vector<double>;

inline Values widened(std::span<const float> values) { return {values.begin(), values.end()}; }

// y: [m, n] = x w^T + bias; x: [m, k], w: [n, k], bias: [n] or empty.
inline Values linear(const Values& x, const Values& w, const Values& bias, std::size_t m,
                     std::size_t n, std::size_t k) {
  Values y(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = bias.empty() ? 0.0 : bias[j];
      for (std::size_t l = 0; l < k; ++l) sum += x[i * k + l] * w[j * k + l];
      y[i * n + j] = sum;
    }
  return y;
}

// [m, n] of sum |x||w| + |bias|: what the rounding errors of linear() scale with.
inline Values linear_magnitude(Values x, Values w, Values bias, std::size_t m, std::size_t n,
                               std::size_t k) {
  for (Values* values : {&x, &w, &bias})
    for (double& value : *values) value = std::fabs(value);
  return linear(x, w, bias, m, n, k);
}

// Rows of width d: (x - mean) / sqrt(var + eps) * gamma + beta; a row without spread becomes beta.
inline Values layer_norm(const Values& x, const Values& gamma, const Values& beta, double eps) {
  const std::size_t d = gamma.size();
  Values y(x.size());
  for (std::size_t first = 0; first < x.size(); first += d) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < d; ++i) mean += x[first + i] / static_cast<double>(d);
    for (std::size_t i = 0; i < d; ++i)
      variance += (x[first + i] - mean) * (x[first + i] - mean) / static_cast<double>(d);
    for (std::size_t i = 0; i < d; ++i) {
      const double centred = x[first + i] - mean;
      y[first + i] = beta[i];
      if (variance + eps > 0) y[first + i] += centred / std::sqrt(variance + eps) * gamma[i];
    }
  }
  return y;
}

inline Values softmax(Values row) {
  double top = -std::numeric_limits<double>::infinity(), total = 0;
  for (const double value : row) top = std::fmax(top, value);
  for (double& value : row) total += value = std::exp(value - top);
  for (double& value : row) value /= total;
  return row;
}

// q, k, v, y: [tokens, n_heads * head_dim]; every token sees every token.
inline Values attention(const Values& q, const Values& k, const Values& v, std::size_t tokens,
                        std::size_t n_heads, std::size_t head_dim) {
  const std::size_t width = n_heads * head_dim;
  Values y(tokens * width);
  for (std::size_t head = 0; head < n_heads; ++head)
    for (std::size_t i = 0; i < tokens; ++i) {
      Values scores(tokens);
      for (std::size_t j = 0; j < tokens; ++j) {
        for (std::size_t c = head * head_dim; c < (head + 1) * head_dim; ++c)
          scores[j] += q[i * width + c] * k[j * width + c];
        scores[j] /= std::sqrt(static_cast<double>(head_dim));
      }
      const Values weights = softmax(scores);
      for (std::size_t j = 0; j < tokens; ++j)
        for (std::size_t c = head * head_dim; c < (head + 1) * head_dim; ++c)
          y[i * width + c] += weights[j] * v[j * width + c];
    }
  return y;
}

// y: [tokens, d_model] = down(act(up(x) + up_bias)) + down_bias.
inline Values dense_ffn(const Values& x, const Values& up, const Values& up_bias,
                        const Values& down, const Values& down_bias, Activation kind,
                        std::size_t tokens, std::size_t d_model, std::size_t d_ff) {
  Values hidden = linear(x, up, up_bias, tokens, d_ff, d_model);
  for (double& value : hidden) value = activation(kind, value);
  return linear(hidden, down, down_bias, tokens, d_model, d_ff);
}

inline Values added(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// The largest |found - expected|; infinite when one of the values is NaN.
inline double largest_difference(std::span<const float> found, const Values& expected) {
  double largest = found.size() == expected.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < found.size() && i < expected.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(found[i]) - expected[i]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  }
  return largest;
}

}  // namespace fourfold::reference
