// Multi-head attention with made-up weights, and its float64 result.
#pragma once

#include <vector>

#include "fourfold/attention.h"
#include "reference_attention.h"
#include "sample_values.h"

namespace fourfold {

// Weights of attention as float64 numbers, so that a test may move one of them.
struct ExactAttention {
  reference::Values query, key, value, output, query_bias, key_bias, value_bias, output_bias;
  AttentionOptions options;  // every size given
  std::size_t d_model;

  // x: whole sequences below each other.
  reference::Values operator()(const reference::Values& x,
                               const std::vector<std::size_t>& lengths) const {
    const std::size_t wide = options.n_heads * options.head_dim;
    const std::size_t narrow = options.n_kv_heads * options.head_dim;
    reference::Values y;
    std::size_t first = 0;
    for (const std::size_t tokens : lengths) {
      const reference::Values rows(
          x.begin() + static_cast<std::ptrdiff_t>(first * d_model),
          x.begin() + static_cast<std::ptrdiff_t>((first + tokens) * d_model));
      auto q = reference::linear(rows, query, query_bias, tokens, wide, d_model);
      auto k = reference::linear(rows, key, key_bias, tokens, narrow, d_model);
      const auto v = reference::linear(rows, value, value_bias, tokens, narrow, d_model);
      if (options.rotary) {
        const std::size_t turning =
            options.rotary->rotary_dim == 0 ? options.head_dim : options.rotary->rotary_dim;
        const bool interleaved = options.rotary->style == RotaryStyle::interleaved;
        const double theta = options.rotary->theta;
        q = reference::rotated(q, options.n_heads, options.head_dim, turning, theta, interleaved);
        k = reference::rotated(k, options.n_kv_heads, options.head_dim, turning, theta,
                               interleaved);
      }
      const double scale = options.scale == 0 ? 1 / std::sqrt(static_cast<double>(options.head_dim))
                                              : static_cast<double>(options.scale);
      const auto mixed = reference::attention(
          q, k, v, tokens,
          {options.n_heads, options.n_kv_heads, options.head_dim, options.causal, scale});
      const auto part = reference::linear(mixed, output, output_bias, tokens, d_model, wide);
      y.insert(y.end(), part.begin(), part.end());
      first += tokens;
    }
    return y;
  }
};

struct AttentionSample {
  // One key head per query head, no mask, all biases.
  AttentionSample(std::size_t n_heads, std::size_t model)
      : AttentionSample({n_heads, n_heads, model / n_heads}, model) {}

  // options with every size given.
  AttentionSample(const AttentionOptions& all, std::size_t model, bool with_biases = true)
      : options(all),
        d_model(model),
        wide(all.n_heads * all.head_dim),
        narrow(all.n_kv_heads * all.head_dim),
        query(real_values(wide * model, 301, -0.7F, 0.5F)),
        key(real_values(narrow * model, 302, -0.4F, 0.6F)),
        value(real_values(narrow * model, 303, -0.5F, 0.8F)),
        output(real_values(wide * model, 304, -0.6F, 0.4F)) {
    if (!with_biases) return;
    query_bias = real_values(wide, 305);
    key_bias = real_values(narrow, 306);
    value_bias = real_values(narrow, 307);
    output_bias = real_values(model, 308);
  }

  AttentionWeights weights() const {
    return {ConstMatrix(query.data(), wide, d_model),
            ConstMatrix(key.data(), narrow, d_model),
            ConstMatrix(value.data(), narrow, d_model),
            ConstMatrix(output.data(), d_model, wide),
            query_bias,
            key_bias,
            value_bias,
            output_bias};
  }
  MultiHeadAttention layer(Packing packing = Packing::forward_only) const {
    return MultiHeadAttention(weights(), options, packing);
  }

  ExactAttention exact() const {
    using reference::widened;
    return {widened(query),
            widened(key),
            widened(value),
            widened(output),
            widened(query_bias),
            widened(key_bias),
            widened(value_bias),
            widened(output_bias),
            options,
            d_model};
  }
  reference::Values expected(const reference::Values& x,
                             const std::vector<std::size_t>& lengths) const {
    return exact()(x, lengths);
  }

  AttentionOptions options;
  std::size_t d_model, wide, narrow;
  std::vector<float> query, key, value, output, query_bias, key_bias, value_bias, output_bias;
};

// Gradients of a sample's weights, at first 0.
struct AttentionGradients {
  explicit AttentionGradients(const AttentionSample& s)
      : sample(s),
        query(s.query.size()),
        key(s.key.size()),
        value(s.value.size()),
        output(s.output.size()),
        query_bias(s.query_bias.size()),
        key_bias(s.key_bias.size()),
        value_bias(s.value_bias.size()),
        output_bias(s.output_bias.size()) {}

  AttentionGrads views() {
    return {Matrix(query.data(), sample.wide, sample.d_model),
            Matrix(key.data(), sample.narrow, sample.d_model),
            Matrix(value.data(), sample.narrow, sample.d_model),
            Matrix(output.data(), sample.d_model, sample.wide),
            query_bias,
            key_bias,
            value_bias,
            output_bias};
  }

  const AttentionSample& sample;
  std::vector<float> query, key, value, output, query_bias, key_bias, value_bias, output_bias;
};

}  // namespace fourfold
