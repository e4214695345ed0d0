// The oracle of attention: masks, shared key heads and rotary positions as plain float64 loops over
// one sequence.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>

#include "reference.h"

namespace fourfold::reference {

struct Heads {
  std::size_t heads, kv_heads, head_dim;
  bool causal;
  double scale;
};

// q, y: [tokens, heads * head_dim]; k, v: [tokens, kv_heads * head_dim].
inline Values attention(const Values& q, const Values& k, const Values& v, std::size_t tokens,
                        const Heads& shape) {
  const std::size_t dim = shape.head_dim, width = shape.heads * dim, narrow = shape.kv_heads * dim;
  Values y(tokens * width);
  for (std::size_t head = 0; head < shape.heads; ++head) {
    const std::size_t at = head * dim, kv_at = head * shape.kv_heads / shape.heads * dim;
    for (std::size_t i = 0; i < tokens; ++i) {
      Values scores(shape.causal ? i + 1 : tokens);
      for (std::size_t j = 0; j < scores.size(); ++j)
        for (std::size_t c = 0; c < dim; ++c)
          scores[j] += shape.scale * q[i * width + at + c] * k[j * narrow + kv_at + c];
      const Values weights = softmax(scores);
      for (std::size_t j = 0; j < weights.size(); ++j)
        for (std::size_t c = 0; c < dim; ++c)
          y[i * width + at + c] += weights[j] * v[j * narrow + kv_at + c];
    }
  }
  return y;
}

// Each pair of a head as a complex number, times e^(i angle). x: [tokens, heads * head_dim].
inline Values rotated(Values x, std::size_t heads, std::size_t head_dim, std::size_t turning,
                      double theta, bool interleaved) {
  const std::size_t tokens = x.size() / (heads * head_dim);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t i = 0; i < turning / 2; ++i) {
        double* values = x.data() + (t * heads + head) * head_dim;
        double& real = values[interleaved ? 2 * i : i];
        double& imaginary = values[interleaved ? 2 * i + 1 : i + turning / 2];
        const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(turning);
        const double angle = static_cast<double>(t) / std::pow(theta, exponent);
        const std::complex<double> turned =
            std::complex<double>(real, imaginary) * std::polar(1.0, angle);
        real = turned.real();
        imaginary = turned.imag();
      }
  return x;
}

}  // namespace fourfold::reference
