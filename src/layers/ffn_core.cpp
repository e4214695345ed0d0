#include "layers/ffn_core.h"

#include <algorithm>
#include <string>

#include "kernels/activation_kernels.h"
#include "layers/shape_check.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

void check_weight(const char* where, const char* name, const Weight& weight, std::size_t rows,
                  std::size_t cols, Dtype dtype) {
  std::visit([&](const auto& matrix) { check_shape(where, name, matrix, rows, cols); }, weight);
  FOURFOLD_CHECK(weight_dtype(weight) == dtype, shape_mismatch,
                 std::string("[") + where + "] " + name + " is " +
                     std::string(dtype_name(weight_dtype(weight))) + ", expected " +
                     std::string(dtype_name(dtype)) + " like up");
}

void check_bias(const char* where, const char* name, std::span<const float> bias,
                std::size_t size) {
  if (!bias.empty()) check_length(where, name, bias.size(), size);
}

void check_dimensions(const char* where, const Weight& up, Activation activation, bool gated) {
  const std::size_t d_ff = weight_rows(up), d_model = weight_cols(up);
  FOURFOLD_CHECK(d_ff > 0 && d_model > 0, invalid_argument,
                 std::string("[") + where + "] up is " + shape_text(d_ff, d_model) +
                     "; both dimensions must be at least 1");
  FOURFOLD_CHECK(static_cast<std::size_t>(activation) < kActivations, invalid_argument,
                 std::string("[") + where + "] there is no such activation");
  FOURFOLD_CHECK(gated || !is_gated_only(activation), unsupported,
                 std::string("[") + where + "] " + std::string(activation_name(activation)) +
                     " needs a gate: use it in a gated layer");
}

void check_dense(const char* where, const DenseWeights& weights, Activation activation) {
  check_dimensions(where, weights.up, activation, false);
  const std::size_t d_ff = weight_rows(weights.up), d_model = weight_cols(weights.up);
  const Dtype dtype = weight_dtype(weights.up);
  check_weight(where, "up", weights.up, d_ff, d_model, dtype);
  check_weight(where, "down", weights.down, d_model, d_ff, dtype);
  check_bias(where, "up_bias", weights.up_bias, d_ff);
  check_bias(where, "down_bias", weights.down_bias, d_model);
}

void check_gated(const char* where, const GatedWeights& weights, Activation activation) {
  check_dimensions(where, weights.up, activation, true);
  const std::size_t d_ff = weight_rows(weights.up), d_model = weight_cols(weights.up);
  const Dtype dtype = weight_dtype(weights.up);
  check_weight(where, "gate", weights.gate, d_ff, d_model, dtype);
  check_weight(where, "up", weights.up, d_ff, d_model, dtype);
  check_weight(where, "down", weights.down, d_model, d_ff, dtype);
  check_bias(where, "gate_bias", weights.gate_bias, d_ff);
  check_bias(where, "up_bias", weights.up_bias, d_ff);
  check_bias(where, "down_bias", weights.down_bias, d_model);
}

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

// New weights must have the old shapes; their type may be float32 for a bf16 layer.
void check_new(const char* where, const char* name, const Weight& weight,
               const PackedWeight& packed) {
  std::visit(
      [&](const auto& matrix) { check_shape(where, name, matrix, packed.out(), packed.in()); },
      weight);
  FOURFOLD_CHECK(
      weight_dtype(weight) == packed.dtype() || packed.dtype() == Dtype::bf16, shape_mismatch,
      std::string("[") + where + "] " + name + " is bf16, but the layer computes in f32");
}

void check_new_bias(const char* where, const char* name, std::span<const float> bias,
                    const std::vector<float>& old) {
  check_length(where, name, bias.size(), old.size());
}

}  // namespace

FfnCore::FfnCore(const DenseWeights& weights, Activation act, Packing packing, const char* where)
    : activation(act) {
  check_dense(where, weights, act);
  up = PackedWeight(weights.up);
  down = PackedWeight(weights.down);
  up_bias = copy_of(weights.up_bias);
  down_bias = copy_of(weights.down_bias);
  if (packing == Packing::forward_and_backward) pack_backward();
}

FfnCore::FfnCore(const GatedWeights& weights, Activation act, Packing packing, const char* where)
    : activation(act) {
  check_gated(where, weights, act);
  gate = PackedWeight(weights.gate);
  up = PackedWeight(weights.up);
  down = PackedWeight(weights.down);
  gate_bias = copy_of(weights.gate_bias);
  up_bias = copy_of(weights.up_bias);
  down_bias = copy_of(weights.down_bias);
  if (packing == Packing::forward_and_backward) pack_backward();
}

std::uint64_t FfnCore::parameters() const {
  return (gated() ? 3ULL : 2ULL) * d_model() * d_ff() + gate_bias.size() + up_bias.size() +
         down_bias.size();
}

void FfnCore::pack_backward() {
  if (has_backward()) return;
  PackedWeight new_down = down.transposed();
  if (gated()) gate_back = gate.transposed();
  up_back = up.transposed();
  down_back = std::move(new_down);  // last: has_backward asks for it
}

void FfnCore::keep_up_rows(bool on, const char* where) {
  FOURFOLD_CHECK(!on || (gated() && gives_exact_zeros(activation)), unsupported,
                 std::string("[") + where + "] a copy of up by neurons is for gated layers with " +
                     "relu, relu2 or relu6; this one has " + (gated() ? "" : "no gate and ") +
                     std::string(activation_name(activation)));
  if (on == !up_rows.empty()) return;
  up_rows = on ? FeatureRows(up) : FeatureRows();
}

void FfnCore::check_weights(const DenseWeights& weights, const char* where) const {
  check_new(where, "up", weights.up, up);
  check_new(where, "down", weights.down, down);
  check_new_bias(where, "up_bias", weights.up_bias, up_bias);
  check_new_bias(where, "down_bias", weights.down_bias, down_bias);
}

void FfnCore::check_weights(const GatedWeights& weights, const char* where) const {
  check_new(where, "gate", weights.gate, gate);
  check_new_bias(where, "gate_bias", weights.gate_bias, gate_bias);
  check_weights(DenseWeights{weights.up, weights.down, weights.up_bias, weights.down_bias}, where);
}

void FfnCore::set_weights(const DenseWeights& weights, ThreadPool& pool) {
  up.repack(weights.up, has_backward() ? &up_back : nullptr, pool);
  if (!up_rows.empty()) up_rows.refill(up, pool);
  down.repack(weights.down, has_backward() ? &down_back : nullptr, pool);
  std::copy(weights.up_bias.begin(), weights.up_bias.end(), up_bias.begin());
  std::copy(weights.down_bias.begin(), weights.down_bias.end(), down_bias.begin());
}

void FfnCore::set_weights(const GatedWeights& weights, ThreadPool& pool) {
  gate.repack(weights.gate, has_backward() ? &gate_back : nullptr, pool);
  std::copy(weights.gate_bias.begin(), weights.gate_bias.end(), gate_bias.begin());
  set_weights(DenseWeights{weights.up, weights.down, weights.up_bias, weights.down_bias}, pool);
}

void check_grads(const FfnCore& core, const CoreGrads& grads, const char* where) {
  const auto matrix = [&](const char* name, ConstMatrix grad, std::size_t rows, std::size_t cols) {
    if (grad.data != nullptr) check_shape(where, name, grad, rows, cols);
  };
  const auto vector = [&](const char* name, std::span<float> grad, const std::vector<float>& bias) {
    if (!grad.empty()) check_length(where, name, grad.size(), bias.size());
  };
  FOURFOLD_CHECK(core.has_backward(), invalid_argument,
                 std::string("[") + where +
                     "] backward needs Packing::forward_and_backward, or pack_backward() first");
  matrix("grads.gate", grads.gate, core.d_ff(), core.d_model());
  matrix("grads.up", grads.up, core.d_ff(), core.d_model());
  matrix("grads.down", grads.down, core.d_model(), core.d_ff());
  vector("grads.gate_bias", grads.gate_bias, core.gate_bias);
  vector("grads.up_bias", grads.up_bias, core.up_bias);
  vector("grads.down_bias", grads.down_bias, core.down_bias);
}

CoreGrads core_grads(const DenseGrads& grads) {
  return {{}, grads.up, grads.down, {}, grads.up_bias, grads.down_bias};
}

CoreGrads core_grads(const GatedGrads& grads) {
  return {grads.gate, grads.up, grads.down, grads.gate_bias, grads.up_bias, grads.down_bias};
}

}  // namespace fourfold
