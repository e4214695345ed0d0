// y: [tokens, d_model] = act(x up^T + up_bias) down^T + down_bias. Two passes over the weights:
// expand (with bias and activation fused), contract.
#include "fourfold/ffn.h"
#include "layers/bf16_call.h"
#include "layers/ffn_core.h"
#include "layers/ffn_pass.h"
#include "layers/shape_check.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr const char* kWhere = "dense_ffn";

}  // namespace

DenseFfn::DenseFfn(const DenseWeights& weights, Activation activation, Packing packing)
    : core_(std::make_unique<FfnCore>(weights, activation, packing, kWhere)) {}

DenseFfn::~DenseFfn() = default;
DenseFfn::DenseFfn(DenseFfn&&) noexcept = default;
DenseFfn& DenseFfn::operator=(DenseFfn&&) noexcept = default;

void DenseFfn::forward(ConstMatrix x, Matrix y, Workspace& workspace, DenseSaved* save,
                       FfnObserver* observer) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "y", y, x.rows, d_model());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const Matrix pre = save != nullptr ? save->pre.resize(x.rows, d_ff()) : Matrix();
  core_forward(*core_, x, y, {}, pre, workspace, observer);
}

void DenseFfn::forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace,
                       DenseSaved* save) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "y", y, x.rows, d_model());
  run_in_float32(x, y, workspace, InPlace::no,
                 [&](ConstMatrix wide, Matrix result) { forward(wide, result, workspace, save); });
}

void DenseFfn::backward(ConstMatrix x, const DenseSaved& saved, ConstMatrix dy, Matrix dx,
                        const DenseGrads& grads, Workspace& workspace) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  check_shape(kWhere, "dy", dy, x.rows, d_model());
  check_shape(kWhere, "dx", dx, x.rows, d_model());
  check_backward(x.rows, saved, grads);
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  core_backward(*core_, x, {{}, saved.pre.view()}, dy, dx, core_grads(grads), {}, {}, workspace);
}

void DenseFfn::check_backward(std::size_t tokens, const DenseSaved& saved,
                              const DenseGrads& grads) const {
  check_shape(kWhere, "saved.pre", saved.pre.view(), tokens, d_ff());
  check_grads(*core_, core_grads(grads), kWhere);
}

void DenseFfn::set_weights(const DenseWeights& weights, Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  core_->check_weights(weights, kWhere);
  core_->set_weights(weights, workspace.runtime().pool());
}

void DenseFfn::copy_weights(Matrix up, Matrix down) const {
  check_shape(kWhere, "up", up, d_ff(), d_model());
  check_shape(kWhere, "down", down, d_model(), d_ff());
  core_->up.copy_to(up);
  core_->down.copy_to(down);
}

void DenseFfn::pack_backward() { core_->pack_backward(); }
void DenseFfn::set_skip_zeros(bool on) { core_->skip_zeros = on; }
std::size_t DenseFfn::d_model() const { return core_->d_model(); }
std::size_t DenseFfn::d_ff() const { return core_->d_ff(); }
Activation DenseFfn::activation() const { return core_->activation; }
Dtype DenseFfn::dtype() const { return core_->dtype(); }
bool DenseFfn::has_backward() const { return core_->has_backward(); }
std::span<const float> DenseFfn::up_bias() const { return core_->up_bias; }
std::span<const float> DenseFfn::down_bias() const { return core_->down_bias; }
std::uint64_t DenseFfn::parameters() const { return core_->parameters(); }
std::uint64_t DenseFfn::packed_bytes() const { return core_->packed_bytes(); }

}  // namespace fourfold
