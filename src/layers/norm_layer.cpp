// LayerNorm and RmsNorm: weights and checks around the row operations.
#include <algorithm>
#include <cmath>
#include <string>

#include "fourfold/norm.h"
#include "layers/bf16_call.h"
#include "layers/shape_check.h"
#include "ops/layer_norm.h"
#include "ops/rms_norm.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

void check_new_norm(const char* where, std::span<const float> gamma, float eps) {
  FOURFOLD_CHECK(!gamma.empty(), invalid_argument,
                 std::string("[") + where + "] gamma has no values");
  FOURFOLD_CHECK(std::isfinite(eps) && eps >= 0, invalid_argument,
                 std::string("[") + where + "] eps is " + std::to_string(eps) +
                     ", expected a finite number, 0 or more");
}

std::vector<float> factor_of(std::span<const float> gamma, bool one_plus) {
  std::vector<float> factor(gamma.begin(), gamma.end());
  if (one_plus)
    for (float& value : factor) value += 1.0F;
  return factor;
}

template <class X, class Y>
void check_pair(const char* where, const char* x_name, MatrixView<X> x, const char* y_name,
                MatrixView<Y> y, std::size_t d) {
  check_shape(where, x_name, x, x.rows, d);
  check_shape(where, y_name, y, x.rows, d);
}

void check_norm_grads(const char* where, const NormGrads& grads, std::size_t d, bool has_beta) {
  if (!grads.gamma.empty()) check_length(where, "grads.gamma", grads.gamma.size(), d);
  if (!grads.beta.empty()) check_length(where, "grads.beta", grads.beta.size(), has_beta ? d : 0);
}

void check_backward(const char* where, ConstMatrix x, ConstMatrix dy, Matrix dx,
                    const NormGrads& grads, std::size_t d, bool has_beta) {
  check_pair(where, "x", x, "dy", dy, d);
  check_shape(where, "dx", dx, x.rows, d);
  check_norm_grads(where, grads, d, has_beta);
}

}  // namespace

LayerNorm::LayerNorm(std::span<const float> gamma, std::span<const float> beta, float eps,
                     bool one_plus_gamma)
    : factor_(factor_of(gamma, one_plus_gamma)),
      beta_(beta.begin(), beta.end()),
      eps_(eps),
      has_beta_(!beta.empty()),
      one_plus_gamma_(one_plus_gamma) {
  check_new_norm("layer_norm", gamma, eps);
  if (has_beta_) check_length("layer_norm", "beta", beta.size(), gamma.size());
  beta_.resize(size());
}

void LayerNorm::forward(ConstMatrix x, Matrix y, Workspace& workspace) const {
  check_pair("layer_norm", "x", x, "y", y, size());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  layer_norm_forward(x, factor_, beta_, eps_, y, workspace);
}

void LayerNorm::forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace) const {
  check_pair("layer_norm", "x", x, "y", y, size());
  run_in_float32(x, y, workspace, InPlace::yes,
                 [&](ConstMatrix wide, Matrix result) { forward(wide, result, workspace); });
}

void LayerNorm::forward_residual(Matrix x, ConstMatrix branch, Workspace& workspace) const {
  check_pair("layer_norm", "x", x, "branch", branch, size());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  add_layer_norm_forward(x, branch, factor_, beta_, eps_, workspace);
}

void LayerNorm::backward(ConstMatrix x, ConstMatrix dy, Matrix dx, const NormGrads& grads,
                         Workspace& workspace) const {
  check_backward("layer_norm", x, dy, dx, grads, size(), has_beta_);
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  layer_norm_backward(x, factor_, eps_, dy, dx, grads.gamma, grads.beta, workspace);
}

void LayerNorm::set_weights(std::span<const float> gamma, std::span<const float> beta) {
  check_length("layer_norm", "gamma", gamma.size(), size());
  check_length("layer_norm", "beta", beta.size(), has_beta_ ? size() : 0);
  factor_ = factor_of(gamma, one_plus_gamma_);
  std::copy(beta.begin(), beta.end(), beta_.begin());
}

RmsNorm::RmsNorm(std::span<const float> gamma, const RmsNormOptions& options)
    : factor_(factor_of(gamma, options.one_plus_gamma)), options_(options) {
  check_new_norm("rms_norm", gamma, options.eps);
}

void RmsNorm::forward(ConstMatrix x, Matrix y, Workspace& workspace) const {
  check_pair("rms_norm", "x", x, "y", y, size());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  rms_norm_forward(x, factor_, options_.eps, options_.rounding, y, workspace);
}

void RmsNorm::forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace) const {
  check_pair("rms_norm", "x", x, "y", y, size());
  run_in_float32(x, y, workspace, InPlace::yes,
                 [&](ConstMatrix wide, Matrix result) { forward(wide, result, workspace); });
}

void RmsNorm::forward_residual(Matrix x, ConstMatrix branch, Workspace& workspace) const {
  check_pair("rms_norm", "x", x, "branch", branch, size());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  add_rms_norm_forward(x, branch, factor_, options_.eps, options_.rounding, workspace);
}

void RmsNorm::backward(ConstMatrix x, ConstMatrix dy, Matrix dx, const NormGrads& grads,
                       Workspace& workspace) const {
  check_backward("rms_norm", x, dy, dx, grads, size(), false);
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  rms_norm_backward(x, factor_, options_.eps, dy, dx, grads.gamma, workspace);
}

void RmsNorm::set_weights(std::span<const float> gamma) {
  check_length("rms_norm", "gamma", gamma.size(), size());
  factor_ = factor_of(gamma, options_.one_plus_gamma);
}

void forward(const AnyNorm& norm, ConstMatrix x, Matrix y, Workspace& workspace) {
  std::visit([&](const auto& kind) { kind.forward(x, y, workspace); }, norm);
}

void forward_residual(const AnyNorm& norm, Matrix x, ConstMatrix branch, Workspace& workspace) {
  std::visit([&](const auto& kind) { kind.forward_residual(x, branch, workspace); }, norm);
}

void backward(const AnyNorm& norm, ConstMatrix x, ConstMatrix dy, Matrix dx, const NormGrads& grads,
              Workspace& workspace) {
  std::visit([&](const auto& kind) { kind.backward(x, dy, dx, grads, workspace); }, norm);
}

void check_grads(const AnyNorm& norm, const NormGrads& grads) {
  const std::size_t d = d_model(norm);
  const auto* layer = std::get_if<LayerNorm>(&norm);
  const bool has_beta = layer != nullptr && layer->has_beta();
  check_norm_grads(layer != nullptr ? "layer_norm" : "rms_norm", grads, d, has_beta);
}

std::size_t d_model(const AnyNorm& norm) {
  return std::visit([](const auto& kind) { return kind.size(); }, norm);
}

std::uint64_t parameters(const AnyNorm& norm) {
  return std::visit([](const auto& kind) { return kind.parameters(); }, norm);
}

}  // namespace fourfold
