// One product gives queries, keys and values: their weights are packed one below the other,
// [(n_heads + 2 n_kv_heads) * head_dim, d_model].
#include "fourfold/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "layers/rotary_cache.h"
#include "layers/sequence_check.h"
#include "layers/shape_check.h"
#include "ops/attention_grad.h"
#include "ops/gemm.h"
#include "ops/gemm_grad.h"
#include "ops/rotary.h"
#include "ops/round_rows.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"

namespace fourfold {

// The packed weights of one attention layer, and the sizes that follow from its options.
struct AttentionCore {
  PackedWeight query_key_value, output;
  PackedWeight query_key_value_back, output_back;  // transposed, for backward; empty without
  std::vector<float> query_key_value_bias;         // empty when none of the three is there
  std::vector<float> output_bias;                  // empty: none
  std::size_t query_biases = 0, key_biases = 0, value_biases = 0;  // values given
  AttentionOptions options;                                        // with every 0 filled in
  HeadShape shape{};
  RotaryCache rotary;

  std::size_t d_model() const { return output.out(); }
  std::size_t query_width() const { return options.n_heads * options.head_dim; }
  std::size_t key_width() const { return options.n_kv_heads * options.head_dim; }
  std::size_t projected_width() const { return query_width() + 2 * key_width(); }
  bool bf16() const { return output.dtype() == Dtype::bf16; }
  bool has_backward() const { return !output_back.empty(); }

  // Columns of [tokens, queries | keys | values].
  template <class M>
  M queries(M projected) const {
    return projected.cols_from(0, query_width());
  }
  template <class M>
  M keys(M projected) const {
    return projected.cols_from(query_width(), key_width());
  }
  template <class M>
  M values(M projected) const {
    return projected.cols_from(query_width() + key_width(), key_width());
  }
};

namespace {

constexpr const char* kWhere = "attention";

AttentionOptions filled_in(AttentionOptions options, std::size_t d_model) {
  const std::string heads = std::to_string(options.n_heads);
  FOURFOLD_CHECK(options.n_heads > 0 && d_model > 0 &&
                     (options.head_dim > 0 || d_model % options.n_heads == 0),
                 invalid_argument,
                 "[attention] n_heads is " + heads + ", expected a divisor of d_model " +
                     std::to_string(d_model) + " when head_dim is not given");
  if (options.head_dim == 0) options.head_dim = d_model / options.n_heads;
  if (options.n_kv_heads == 0) options.n_kv_heads = options.n_heads;
  FOURFOLD_CHECK(options.n_heads <= SIZE_MAX / 3 / options.head_dim, invalid_argument,
                 "[attention] " + heads + " heads of " + std::to_string(options.head_dim) +
                     " values are more than memory can hold");
  FOURFOLD_CHECK(options.n_heads % options.n_kv_heads == 0, invalid_argument,
                 "[attention] n_kv_heads is " + std::to_string(options.n_kv_heads) +
                     ", expected a divisor of n_heads " + heads);
  FOURFOLD_CHECK(std::isfinite(options.scale) && options.scale >= 0, invalid_argument,
                 "[attention] scale is " + std::to_string(options.scale) +
                     ", expected a finite number, 0 or more");
  if (options.scale == 0)
    options.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(options.head_dim)));
  if (options.rotary) check_rotary(*options.rotary, options.head_dim);
  return options;
}

// A bias of size values, or none.
void check_bias(const std::string& name, std::span<const float> bias, std::size_t size) {
  if (!bias.empty()) check_length(kWhere, name.c_str(), bias.size(), size);
}

void check_weights(const AttentionWeights& weights, const AttentionOptions& options,
                   std::size_t d_model, Dtype dtype) {
  const std::size_t queries = options.n_heads * options.head_dim,
                    keys = options.n_kv_heads * options.head_dim;
  const auto check = [&](const char* name, const Weight& weight, std::size_t rows,
                         std::size_t cols) {
    std::visit([&](const auto& matrix) { check_shape(kWhere, name, matrix, rows, cols); }, weight);
    FOURFOLD_CHECK(weight_dtype(weight) == dtype, shape_mismatch,
                   std::string("[attention] ") + name + " is " +
                       std::string(dtype_name(weight_dtype(weight))) + ", expected " +
                       std::string(dtype_name(dtype)) + " like query");
  };
  check("query", weights.query, queries, d_model);
  check("key", weights.key, keys, d_model);
  check("value", weights.value, keys, d_model);
  check("output", weights.output, d_model, queries);
  check_bias("query_bias", weights.query_bias, queries);
  check_bias("key_bias", weights.key_bias, keys);
  check_bias("value_bias", weights.value_bias, keys);
  check_bias("output_bias", weights.output_bias, d_model);
}

// The rows of query, key and value, all of type T, one below the other.
template <class T>
std::vector<T> stacked(const AttentionWeights& weights) {
  std::vector<T> rows;
  for (const Weight* weight : {&weights.query, &weights.key, &weights.value}) {
    const auto& matrix = std::get<MatrixView<const T>>(*weight);
    for (std::size_t row = 0; row < matrix.rows; ++row)
      rows.insert(rows.end(), matrix.row(row).begin(), matrix.row(row).end());
  }
  return rows;
}

// Calls action with that matrix.
template <class Action>
void with_stacked(const AttentionWeights& weights, const Action& action) {
  const std::size_t d_model = weight_cols(weights.query);
  if (weight_dtype(weights.query) == Dtype::f32) {
    const auto rows = stacked<float>(weights);
    action(ConstMatrix(rows.data(), rows.size() / d_model, d_model));
  } else {
    const auto rows = stacked<Bf16>(weights);
    action(ConstBf16Matrix(rows.data(), rows.size() / d_model, d_model));
  }
}

std::vector<float> stacked_bias(const AttentionWeights& weights, const AttentionCore& core) {
  const std::size_t q = core.query_width(), k = core.key_width();
  if (weights.query_bias.empty() && weights.key_bias.empty() && weights.value_bias.empty())
    return {};
  std::vector<float> bias(q + 2 * k);
  std::copy(weights.query_bias.begin(), weights.query_bias.end(), bias.begin());
  std::copy(weights.key_bias.begin(), weights.key_bias.end(), bias.begin() + std::ptrdiff_t(q));
  std::copy(weights.value_bias.begin(), weights.value_bias.end(),
            bias.begin() + std::ptrdiff_t(q + k));
  return bias;
}

ConstMatrix in_type_of(const AttentionCore& core, ConstMatrix x, Workspace& workspace) {
  if (!core.bf16()) return x;
  const Matrix rounded(workspace.take(x.rows * x.cols), x.rows, x.cols);
  round_rows_to_bf16(x, rounded, workspace);
  return rounded;
}

void turn_queries_and_keys(const AttentionCore& core, Matrix projected,
                           std::span<const std::size_t> sequence_lengths, Turn turn,
                           Workspace& workspace) {
  if (!core.options.rotary) return;
  ThreadPool& pool = workspace.runtime().pool();
  const auto table = core.rotary.get(*core.options.rotary, core.options.head_dim,
                                     longest_sequence(sequence_lengths), pool);
  turn_heads(core.queries(projected), core.options.n_heads, sequence_lengths, table->view(),
             core.options.rotary->style, turn, pool);
  turn_heads(core.keys(projected), core.options.n_kv_heads, sequence_lengths, table->view(),
             core.options.rotary->style, turn, pool);
}

void check_grads(const AttentionCore& core, const AttentionGrads& grads) {
  const auto matrix = [&](const char* name, ConstMatrix grad, std::size_t rows, std::size_t cols) {
    if (grad.data != nullptr) check_shape(kWhere, name, grad, rows, cols);
  };
  const auto vector = [&](const char* name, std::span<float> grad, std::size_t size) {
    if (!grad.empty()) check_length(kWhere, name, grad.size(), size);
  };
  FOURFOLD_CHECK(core.has_backward(), invalid_argument,
                 "[attention] backward needs Packing::forward_and_backward, or pack_backward() "
                 "first");
  matrix("grads.query", grads.query, core.query_width(), core.d_model());
  matrix("grads.key", grads.key, core.key_width(), core.d_model());
  matrix("grads.value", grads.value, core.key_width(), core.d_model());
  matrix("grads.output", grads.output, core.d_model(), core.query_width());
  vector("grads.query_bias", grads.query_bias, core.query_biases);
  vector("grads.key_bias", grads.key_bias, core.key_biases);
  vector("grads.value_bias", grads.value_bias, core.value_biases);
  vector("grads.output_bias", grads.output_bias, core.output_bias.size());
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const AttentionWeights& weights,
                                       const AttentionOptions& options, Packing packing)
    : core_(std::make_unique<AttentionCore>()) {
  const std::size_t d_model = weight_cols(weights.query);
  const AttentionOptions all = filled_in(options, d_model);
  check_weights(weights, all, d_model, weight_dtype(weights.query));
  core_->options = all;
  core_->shape = {all.n_heads, all.n_kv_heads, all.scale, all.causal, weight_dtype(weights.query)};
  with_stacked(weights,
               [&](const auto& rows) { core_->query_key_value = PackedWeight(Weight(rows)); });
  core_->output = PackedWeight(weights.output);
  core_->query_key_value_bias = stacked_bias(weights, *core_);
  core_->output_bias.assign(weights.output_bias.begin(), weights.output_bias.end());
  core_->query_biases = weights.query_bias.size();
  core_->key_biases = weights.key_bias.size();
  core_->value_biases = weights.value_bias.size();
  if (packing == Packing::forward_and_backward) pack_backward();
}

MultiHeadAttention::MultiHeadAttention(const AttentionWeights& weights, std::size_t n_heads)
    : MultiHeadAttention(weights, AttentionOptions{.n_heads = n_heads}) {}

MultiHeadAttention::~MultiHeadAttention() = default;
MultiHeadAttention::MultiHeadAttention(MultiHeadAttention&&) noexcept = default;
MultiHeadAttention& MultiHeadAttention::operator=(MultiHeadAttention&&) noexcept = default;

void MultiHeadAttention::forward(ConstMatrix x, std::span<const std::size_t> sequence_lengths,
                                 Matrix y, Workspace& workspace, AttentionSaved* save) const {
  const AttentionCore& core = *core_;
  const std::size_t tokens = x.rows, width = core.projected_width(), heads = core.query_width();
  check_shape(kWhere, "x", x, tokens, d_model());
  check_shape(kWhere, "y", y, tokens, d_model());
  check_sequences(kWhere, tokens, sequence_lengths);
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const ScratchScope scratch(workspace);
  const Matrix projected = save != nullptr ? save->projected.resize(tokens, width)
                                           : Matrix(workspace.take(tokens * width), tokens, width);
  const Matrix mixed = save != nullptr ? save->mixed.resize(tokens, heads)
                                       : Matrix(workspace.take(tokens * heads), tokens, heads);
  if (tokens == 0) return;
  gemm(x, core.query_key_value, core.query_key_value_bias, Activation::identity, projected,
       workspace);
  turn_queries_and_keys(core, projected, sequence_lengths, Turn::forward, workspace);
  attention_forward(core.queries(projected), core.keys(projected), core.values(projected),
                    sequence_lengths, core.shape, mixed, workspace);
  gemm(mixed, core.output, core.output_bias, Activation::identity, y, workspace);
  if (!core.bf16() || save == nullptr) return;
  // What is read above is rounded on the way; backward wants the rounded values.
  round_rows_to_bf16(projected, projected, workspace);
  round_rows_to_bf16(mixed, mixed, workspace);
}

void MultiHeadAttention::backward(ConstMatrix x, std::span<const std::size_t> sequence_lengths,
                                  const AttentionSaved& saved, ConstMatrix dy, Matrix dx,
                                  const AttentionGrads& grads, Workspace& workspace) const {
  const AttentionCore& core = *core_;
  const std::size_t tokens = x.rows, width = core.projected_width(), heads = core.query_width();
  check_shape(kWhere, "x", x, tokens, d_model());
  check_shape(kWhere, "dy", dy, tokens, d_model());
  check_shape(kWhere, "dx", dx, tokens, d_model());
  check_backward(tokens, sequence_lengths, saved, grads);
  if (tokens == 0) return;
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const ScratchScope scratch(workspace);
  const ConstMatrix x_in = in_type_of(core, x, workspace), dy_in = in_type_of(core, dy, workspace);
  const ConstMatrix projected = saved.projected.view();
  const Matrix dmixed(workspace.take(tokens * heads), tokens, heads);
  const Matrix dprojected(workspace.take(tokens * width), tokens, width);
  if (grads.output.data != nullptr)
    weight_gradient(dy_in, saved.mixed.view(), grads.output, workspace);
  if (!grads.output_bias.empty()) bias_gradient(dy, {}, grads.output_bias, workspace);
  gemm(dy_in, core.output_back, {}, Activation::identity, dmixed, workspace);
  attention_backward(core.queries(projected), core.keys(projected), core.values(projected),
                     sequence_lengths, core.shape, dmixed, core.queries(dprojected),
                     core.keys(dprojected), core.values(dprojected), workspace);
  turn_queries_and_keys(core, dprojected, sequence_lengths, Turn::back, workspace);
  const auto add_bias = [&](Matrix rows, std::span<float> bias) {
    if (!bias.empty()) bias_gradient(rows, {}, bias, workspace);
  };
  add_bias(core.queries(dprojected), grads.query_bias);
  add_bias(core.keys(dprojected), grads.key_bias);
  add_bias(core.values(dprojected), grads.value_bias);
  if (core.bf16()) round_rows_to_bf16(dprojected, dprojected, workspace);
  const auto add_weight = [&](Matrix rows, Matrix weight) {
    if (weight.data != nullptr) weight_gradient(rows, x_in, weight, workspace);
  };
  add_weight(core.queries(dprojected), grads.query);
  add_weight(core.keys(dprojected), grads.key);
  add_weight(core.values(dprojected), grads.value);
  gemm(dprojected, core.query_key_value_back, {}, Activation::identity, dx, workspace);
}

void MultiHeadAttention::check_backward(std::size_t tokens,
                                        std::span<const std::size_t> sequence_lengths,
                                        const AttentionSaved& saved,
                                        const AttentionGrads& grads) const {
  check_shape(kWhere, "saved.projected", saved.projected.view(), tokens, core_->projected_width());
  check_shape(kWhere, "saved.mixed", saved.mixed.view(), tokens, core_->query_width());
  check_sequences(kWhere, tokens, sequence_lengths);
  check_grads(*core_, grads);
}

void MultiHeadAttention::set_weights(const AttentionWeights& weights, Workspace& workspace) {
  AttentionCore& core = *core_;
  const Dtype given = weight_dtype(weights.query);
  check_weights(weights, core.options, d_model(), given);
  FOURFOLD_CHECK(given == Dtype::f32 || core.bf16(), shape_mismatch,
                 "[attention] query is bf16, but the layer computes in f32");
  check_length(kWhere, "query_bias", weights.query_bias.size(), core.query_biases);
  check_length(kWhere, "key_bias", weights.key_bias.size(), core.key_biases);
  check_length(kWhere, "value_bias", weights.value_bias.size(), core.value_biases);
  check_length(kWhere, "output_bias", weights.output_bias.size(), core.output_bias.size());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  ThreadPool& pool = workspace.runtime().pool();
  PackedWeight* back = has_backward() ? &core.query_key_value_back : nullptr;
  with_stacked(weights, [&](const auto& rows) { core.query_key_value.repack(rows, back, pool); });
  core.output.repack(weights.output, has_backward() ? &core.output_back : nullptr, pool);
  core.query_key_value_bias = stacked_bias(weights, core);
  std::copy(weights.output_bias.begin(), weights.output_bias.end(), core.output_bias.begin());
}

void MultiHeadAttention::pack_backward() {
  if (has_backward()) return;
  PackedWeight back = core_->query_key_value.transposed();
  core_->output_back = core_->output.transposed();
  core_->query_key_value_back = std::move(back);
}

std::size_t MultiHeadAttention::d_model() const { return core_->d_model(); }
std::size_t MultiHeadAttention::n_heads() const { return core_->options.n_heads; }
std::size_t MultiHeadAttention::n_kv_heads() const { return core_->options.n_kv_heads; }
std::size_t MultiHeadAttention::head_dim() const { return core_->options.head_dim; }
bool MultiHeadAttention::causal() const { return core_->options.causal; }
Dtype MultiHeadAttention::dtype() const { return core_->output.dtype(); }
bool MultiHeadAttention::has_backward() const { return core_->has_backward(); }

std::uint64_t MultiHeadAttention::parameters() const {
  return d_model() * (core_->projected_width() + core_->query_width()) + core_->query_biases +
         core_->key_biases + core_->value_biases + core_->output_bias.size();
}

std::uint64_t MultiHeadAttention::packed_bytes() const {
  return core_->query_key_value.bytes() + core_->output.bytes();
}

}  // namespace fourfold
