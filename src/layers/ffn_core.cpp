#include "layers/ffn_core.h"

#include <algorithm>
#include <string>

#include "kernels/dispatch.h"
#include "layers/shape_check.h"
#include "ops/expand.h"
#include "ops/gemm.h"
#include "ops/gemm_grad.h"
#include "ops/round_rows.h"
#include "ops/token_rows.h"
#include "platform/stage_clock.h"
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

Matrix piece(Matrix whole, std::size_t first, std::size_t rows) {
  return whole.data == nullptr ? whole : whole.rows_from(first, rows);
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
  up.repack(weights.up, pool);
  down.repack(weights.down, pool);
  std::copy(weights.up_bias.begin(), weights.up_bias.end(), up_bias.begin());
  std::copy(weights.down_bias.begin(), weights.down_bias.end(), down_bias.begin());
  if (!has_backward()) return;
  up_back.repack_transposed(up, pool);
  down_back.repack_transposed(down, pool);
}

void FfnCore::set_weights(const GatedWeights& weights, ThreadPool& pool) {
  gate.repack(weights.gate, pool);
  std::copy(weights.gate_bias.begin(), weights.gate_bias.end(), gate_bias.begin());
  if (has_backward()) gate_back.repack_transposed(gate, pool);
  set_weights(DenseWeights{weights.up, weights.down, weights.up_bias, weights.down_bias}, pool);
}

void FfnCore::expand(ConstMatrix x, Matrix gate_pre, Matrix up_pre, Matrix hidden,
                     Workspace& workspace) const {
  if (gated())
    expand_gated(x, {gate, up, gate_bias, up_bias, activation}, gate_pre, up_pre, hidden,
                 workspace);
  else
    expand_dense(x, up, up_bias, activation, up_pre, hidden, workspace);
}

void FfnCore::contract(ConstMatrix hidden, std::span<const float> bias, Matrix y,
                       Workspace& workspace) const {
  if (skip_zeros && gives_exact_zeros(activation) && down.is_finite())
    gemm_skip_zeros(hidden, down, bias, y, workspace);
  else
    gemm(hidden, down, bias, Activation::identity, y, workspace);
}

ConstMatrix in_type_of(const FfnCore& core, ConstMatrix x, Workspace& workspace) {
  if (core.dtype() == Dtype::f32) return x;
  const Matrix rounded(workspace.take(x.rows * x.cols), x.rows, x.cols);
  round_rows_to_bf16(x, rounded, workspace);
  return rounded;
}

namespace {

void show(const Watcher& watcher, const FfnCore& core, Matrix gate, Matrix up, Matrix hidden,
          std::size_t first, Workspace& workspace) {
  FfnSample sample;
  sample.pre = core.gated() ? gate : up;
  if (core.gated()) sample.up = up;
  sample.hidden = hidden;
  sample.first_row = first;
  if (!watcher.token_rows.empty())
    sample.token_rows = watcher.token_rows.subspan(first, hidden.rows);
  sample.expert = watcher.expert;
  watcher.observer->observe(sample, workspace);
}

}  // namespace

void core_forward(const FfnCore& core, ConstMatrix x, Matrix y, Matrix gate, Matrix up,
                  std::span<const float> weights, Workspace& workspace, const Watcher& watcher) {
  for (std::size_t first = 0; first < x.rows; first += kTokensPerPiece) {
    const ScratchScope scratch(workspace);
    const std::size_t rows = std::min(kTokensPerPiece, x.rows - first), d_ff = core.d_ff();
    const auto part = weights.empty() ? weights : weights.subspan(first, rows);
    const Matrix out = y.rows_from(first, rows);
    const Matrix hidden(workspace.take(rows * d_ff), rows, d_ff);  // [tokens, d_ff]
    Matrix gate_pre = piece(gate, first, rows), up_pre = piece(up, first, rows);
    if (watcher.observer != nullptr && up_pre.data == nullptr) {
      up_pre = {workspace.take(rows * d_ff), rows, d_ff};
      if (core.gated()) gate_pre = {workspace.take(rows * d_ff), rows, d_ff};
    }
    {
      const StageScope stage(workspace, Stage::expand);
      core.expand(in_type_of(core, x.rows_from(first, rows), workspace), gate_pre, up_pre, hidden,
                  workspace);
      if (watcher.observer != nullptr)
        show(watcher, core, gate_pre, up_pre, hidden, first, workspace);
      if (!part.empty()) scale_rows(hidden, part, workspace);
      if (core.dtype() == Dtype::bf16) round_rows_to_bf16(hidden, hidden, workspace);
    }
    const StageScope stage(workspace, Stage::contract);
    core.contract(hidden,
                  part.empty() ? std::span<const float>(core.down_bias) : std::span<const float>(),
                  out, workspace);
    if (!part.empty() && !core.down_bias.empty()) add_scaled(core.down_bias, part, out, workspace);
  }
}

namespace {

// One row of backward through the activation. dh holds the gradient of hidden and becomes that of
// the pre-activation it belongs to (dense: pre, gated: up); hidden is computed again.
struct ActivationRow {
  const FfnCore& core;
  const ActivationKernels& act = kernels().activations;
  std::size_t kind = static_cast<std::size_t>(core.activation);

  void forward(const float* gate, const float* up, float* hidden) const {
    if (core.gated())
      act.glu[kind](gate, up, hidden, core.d_ff());
    else
      act.forward[kind](up, hidden, core.d_ff());
  }
  void backward(const float* gate, const float* up, float* dh, float* dgate) const {
    if (core.gated())
      act.glu_backward[kind](gate, up, dh, dgate, dh, core.d_ff());
    else
      act.backward[kind](up, dh, dh, core.d_ff());
  }
};

void backward_piece(const FfnCore& core, ConstMatrix x, const CoreSaved& saved, ConstMatrix dy,
                    Matrix dx, const CoreGrads& grads, std::span<const float> weights,
                    std::span<float> weight_grads, Workspace& workspace) {
  const ScratchScope scratch(workspace);
  ThreadPool& pool = workspace.runtime().pool();
  const std::size_t rows = x.rows, d_ff = core.d_ff();
  const bool bf16 = core.dtype() == Dtype::bf16;
  const auto take = [&] { return Matrix(workspace.take(rows * d_ff), rows, d_ff); };
  const Matrix hidden = take(), dup = take(), dgate = core.gated() ? take() : Matrix();
  const ConstMatrix x_in = in_type_of(core, x, workspace), dy_in = in_type_of(core, dy, workspace);
  gemm(dy_in, core.down_back, {}, Activation::identity, dup, workspace);  // gradient of hidden
  const ActivationRow row_of{core};
  pool.for_each(rows, [&](std::size_t r, unsigned) {
    const float* gate = core.gated() ? saved.gate.row(r).data() : nullptr;
    const float* up = saved.up.row(r).data();
    float* dgate_row = core.gated() ? dgate.row(r).data() : nullptr;
    row_of.forward(gate, up, hidden.row(r).data());
    if (!weights.empty()) {
      weight_grads[r] = dot(dup.row(r), hidden.row(r));
      if (!core.down_bias.empty()) weight_grads[r] += dot(dy.row(r), core.down_bias);
      for (float& value : hidden.row(r)) value *= weights[r];
      for (float& value : dup.row(r)) value *= weights[r];
    }
    row_of.backward(gate, up, dup.row(r).data(), dgate_row);
  });
  if (bf16) round_rows_to_bf16(hidden, hidden, workspace);
  if (grads.down.data != nullptr) weight_gradient(dy_in, hidden, grads.down, workspace);
  if (!grads.down_bias.empty()) bias_gradient(dy, weights, grads.down_bias, workspace);
  if (!grads.up_bias.empty()) bias_gradient(dup, {}, grads.up_bias, workspace);
  if (!grads.gate_bias.empty()) bias_gradient(dgate, {}, grads.gate_bias, workspace);
  if (bf16) round_rows_to_bf16(dup, dup, workspace);
  if (bf16 && core.gated()) round_rows_to_bf16(dgate, dgate, workspace);
  if (grads.up.data != nullptr) weight_gradient(dup, x_in, grads.up, workspace);
  if (core.gated() && grads.gate.data != nullptr)
    weight_gradient(dgate, x_in, grads.gate, workspace);
  gemm(dup, core.up_back, {}, Activation::identity, dx, workspace);
  if (core.gated()) gemm_add(dgate, core.gate_back, dx, workspace);
}

}  // namespace

void core_backward(const FfnCore& core, ConstMatrix x, const CoreSaved& saved, ConstMatrix dy,
                   Matrix dx, const CoreGrads& grads, std::span<const float> weights,
                   std::span<float> weight_grads, Workspace& workspace) {
  for (std::size_t first = 0; first < x.rows; first += kTokensPerPiece) {
    const std::size_t rows = std::min(kTokensPerPiece, x.rows - first);
    const auto part = [&](ConstMatrix whole) {
      return whole.data == nullptr ? whole : whole.rows_from(first, rows);
    };
    backward_piece(
        core, part(x), {part(saved.gate), part(saved.up)}, part(dy), dx.rows_from(first, rows),
        grads, weights.empty() ? weights : weights.subspan(first, rows),
        weight_grads.empty() ? weight_grads : weight_grads.subspan(first, rows), workspace);
  }
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
