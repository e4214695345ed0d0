// y: [tokens, d_model] = (act(x gate^T + gate_bias) * (x up^T + up_bias)) down^T +
// down_bias. Two passes over the weights: expand (gate, up and their product fused), contract.
#include "fourfold/ffn.h"
#include "layers/bf16_call.h"
#include "layers/ffn_core.h"
#include "layers/ffn_pass.h"
#include "layers/shape_check.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr const char* kWhere = "gated_ffn";

}  // namespace

GatedFfn::GatedFfn(const GatedWeights& weights, Activation activation, Packing packing)
    : core_(std::make_unique<FfnCore>(weights, activation, packing, kWhere)) {}

GatedFfn::~GatedFfn() = default;
GatedFfn::GatedFfn(GatedFfn&&) noexcept = default;
GatedFfn& GatedFfn::operator=(GatedFfn&&) noexcept = default;

void GatedFfn::forward(ConstMatrix x, Matrix y, Workspace& workspace, GatedSaved* save,
                       FfnObserver* observer) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "y", y, x.rows, d_model());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const Matrix gate = save != nullptr ? save->gate.resize(x.rows, d_ff()) : Matrix();
  const Matrix up = save != nullptr ? save->up.resize(x.rows, d_ff()) : Matrix();
  core_forward(*core_, x, y, gate, up, workspace, observer);
}

void GatedFfn::forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace,
                       GatedSaved* save) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "y", y, x.rows, d_model());
  run_in_float32(x, y, workspace, InPlace::no,
                 [&](ConstMatrix wide, Matrix result) { forward(wide, result, workspace, save); });
}

void GatedFfn::backward(ConstMatrix x, const GatedSaved& saved, ConstMatrix dy, Matrix dx,
                        const GatedGrads& grads, Workspace& workspace) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "dy", dy, x.rows, d_model());
  check_shape(kWhere, "dx", dx, x.rows, d_model());
  check_backward(x.rows, saved, grads);
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  core_backward(*core_, x, {saved.gate.view(), saved.up.view()}, dy, dx, core_grads(grads), {}, {},
                workspace);
}

void GatedFfn::check_backward(std::size_t tokens, const GatedSaved& saved,
                              const GatedGrads& grads) const {
  check_shape(kWhere, "saved.gate", saved.gate.view(), tokens, d_ff());
  check_shape(kWhere, "saved.up", saved.up.view(), tokens, d_ff());
  check_grads(*core_, core_grads(grads), kWhere);
}

void GatedFfn::set_weights(const GatedWeights& weights, Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  core_->check_weights(weights, kWhere);
  core_->set_weights(weights, workspace.runtime().pool());
}

void GatedFfn::copy_weights(Matrix gate, Matrix up, Matrix down) const {
  check_shape(kWhere, "gate", gate, d_ff(), d_model());
  check_shape(kWhere, "up", up, d_ff(), d_model());
  check_shape(kWhere, "down", down, d_model(), d_ff());
  core_->gate.copy_to(gate);
  core_->up.copy_to(up);
  core_->down.copy_to(down);
}

void GatedFfn::pack_backward() { core_->pack_backward(); }
void GatedFfn::set_skip_zeros(bool on) { core_->skip_zeros = on; }
void GatedFfn::keep_neuron_rows(bool on) { core_->keep_up_rows(on, kWhere); }
std::size_t GatedFfn::d_model() const { return core_->d_model(); }
std::size_t GatedFfn::d_ff() const { return core_->d_ff(); }
Activation GatedFfn::activation() const { return core_->activation; }
Dtype GatedFfn::dtype() const { return core_->dtype(); }
bool GatedFfn::has_backward() const { return core_->has_backward(); }
std::span<const float> GatedFfn::gate_bias() const { return core_->gate_bias; }
std::span<const float> GatedFfn::up_bias() const { return core_->up_bias; }
std::span<const float> GatedFfn::down_bias() const { return core_->down_bias; }
std::uint64_t GatedFfn::parameters() const { return core_->parameters(); }
std::uint64_t GatedFfn::packed_bytes() const { return core_->packed_bytes(); }

}  // namespace fourfold
