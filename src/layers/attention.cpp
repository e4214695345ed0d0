// One product gives queries, keys and values: their weights are packed one below the other, [3
// d_model, d_model].
#include "fourfold/attention.h"

#include <algorithm>
#include <cstdint>

#include "layers/shape_check.h"
#include "ops/attention_core.h"
#include "ops/gemm.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"

namespace fourfold {

MultiHeadAttention::MultiHeadAttention(const AttentionWeights& weights, std::size_t n_heads)
    : output_bias_(weights.output_bias.begin(), weights.output_bias.end()), n_heads_(n_heads) {
  const std::size_t d_model = weight_rows(weights.query);
  FOURFOLD_CHECK(n_heads > 0 && d_model > 0 && d_model % n_heads == 0, invalid_argument,
                 "[attention] n_heads is " + std::to_string(n_heads) +
                     ", expected a divisor of d_model " + std::to_string(d_model));
  const auto check = [&](const std::string& name, const Weight& weight,
                         std::span<const float> bias) {
    check_shape("attention", name.c_str(), std::get<ConstMatrix>(weight), d_model, d_model);
    check_length("attention", (name + "_bias").c_str(), bias.size(), d_model);
  };
  check("query", weights.query, weights.query_bias);
  check("key", weights.key, weights.key_bias);
  check("value", weights.value, weights.value_bias);
  check("output", weights.output, weights.output_bias);
  std::vector<float> stacked;
  const auto append = [&](const Weight& any, std::span<const float> bias) {
    const ConstMatrix& weight = std::get<ConstMatrix>(any);
    for (std::size_t row = 0; row < d_model; ++row) {
      const auto values = weight.row(row);
      stacked.insert(stacked.end(), values.begin(), values.end());
    }
    query_key_value_bias_.insert(query_key_value_bias_.end(), bias.begin(), bias.end());
  };
  append(weights.query, weights.query_bias);
  append(weights.key, weights.key_bias);
  append(weights.value, weights.value_bias);
  query_key_value_ =
      std::make_unique<PackedWeight>(ConstMatrix(stacked.data(), 3 * d_model, d_model));
  output_ = std::make_unique<PackedWeight>(weights.output);
}

MultiHeadAttention::~MultiHeadAttention() = default;
MultiHeadAttention::MultiHeadAttention(MultiHeadAttention&&) noexcept = default;
MultiHeadAttention& MultiHeadAttention::operator=(MultiHeadAttention&&) noexcept = default;

std::size_t MultiHeadAttention::d_model() const { return output_->in(); }
std::uint64_t MultiHeadAttention::packed_bytes() const {
  return query_key_value_->bytes() + output_->bytes();
}

void MultiHeadAttention::forward(ConstMatrix x, std::span<const std::size_t> sequence_lengths,
                                 Matrix y, Workspace& workspace) const {
  const std::size_t d = d_model(), tokens = x.rows;
  check_shape("attention", "x", x, tokens, d);
  check_shape("attention", "y", y, tokens, d);
  std::size_t covered = 0;  // stops at the largest number instead of wrapping around
  for (const std::size_t length : sequence_lengths) covered += std::min(length, SIZE_MAX - covered);
  check_length("attention", "x (rows against the sum of sequence_lengths)", tokens, covered);
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const ScratchScope scratch(workspace);
  const Matrix projected(workspace.take(tokens * 3 * d), tokens, 3 * d);  // [tokens, q | k | v]
  const Matrix mixed(workspace.take(tokens * d), tokens, d);  // [tokens, heads side by side]
  gemm(x, *query_key_value_, query_key_value_bias_, Activation::identity, projected, workspace);
  attention_forward(projected.cols_from(0, d), projected.cols_from(d, d),
                    projected.cols_from(2 * d, d), sequence_lengths, n_heads_, mixed, workspace);
  gemm(mixed, *output_, output_bias_, Activation::identity, y, workspace);
}

}  // namespace fourfold
