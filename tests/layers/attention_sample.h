// Multi-head attention with made-up weights, and its float64 result.
#pragma once

#include <vector>

#include "fourfold/attention.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {

struct AttentionSample {
  AttentionSample(std::size_t n_heads, std::size_t model)
      : heads(n_heads),
        d_model(model),
        query(real_values(d_model * d_model, 301, -0.7F, 0.5F)),
        key(real_values(d_model * d_model, 302, -0.4F, 0.6F)),
        value(real_values(d_model * d_model, 303, -0.5F, 0.8F)),
        output(real_values(d_model * d_model, 304, -0.6F, 0.4F)),
        query_bias(real_values(d_model, 305)),
        key_bias(real_values(d_model, 306)),
        value_bias(real_values(d_model, 307)),
        output_bias(real_values(d_model, 308)) {}

  AttentionWeights weights() const {
    const auto square = [&](const std::vector<float>& w) {
      return ConstMatrix(w.data(), d_model, d_model);
    };
    return {square(query), square(key), square(value), square(output),
            query_bias,    key_bias,    value_bias,    output_bias};
  }

  // x: whole sequences below each other.
  reference::Values expected(const reference::Values& x,
                             const std::vector<std::size_t>& lengths) const {
    const auto project = [&](const reference::Values& rows, const std::vector<float>& w,
                             const std::vector<float>& bias) {
      return reference::linear(rows, reference::widened(w), reference::widened(bias),
                               rows.size() / d_model, d_model, d_model);
    };
    reference::Values y;
    std::size_t first = 0;
    for (const std::size_t tokens : lengths) {
      const reference::Values rows(
          x.begin() + static_cast<std::ptrdiff_t>(first * d_model),
          x.begin() + static_cast<std::ptrdiff_t>((first + tokens) * d_model));
      const auto mixed =
          reference::attention(project(rows, query, query_bias), project(rows, key, key_bias),
                               project(rows, value, value_bias), tokens, heads, d_model / heads);
      const auto part = project(mixed, output, output_bias);
      y.insert(y.end(), part.begin(), part.end());
      first += tokens;
    }
    return y;
  }

  std::size_t heads, d_model;
  std::vector<float> query, key, value, output, query_bias, key_bias, value_bias, output_bias;
};

}  // namespace fourfold
