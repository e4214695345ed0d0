// y: [tokens, d_model] = act(x up^T + up_bias) down^T + down_bias. Two passes over the weights:
// expand (with bias and activation fused), contract.
#include <algorithm>

#include "fourfold/ffn.h"
#include "kernels/dispatch.h"
#include "layers/shape_check.h"
#include "ops/gemm.h"
#include "platform/caller_scope.h"
#include "platform/stage_clock.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

// More tokens are done in pieces, so the hidden matrix stays small. Rows are independent: no bit
// changes.
constexpr std::size_t kTokensPerPiece = 2048;

void observe(FfnObserver& observer, Activation activation, ConstMatrix x, const PackedWeight& up,
             std::span<const float> bias, Matrix hidden, std::size_t first_row,
             Workspace& workspace) {
  const ScratchScope scratch(workspace);
  const Matrix pre(workspace.take(x.rows * up.out()), x.rows, up.out());  // [tokens, d_ff]
  gemm(x, up, bias, Activation::identity, pre, workspace);
  const auto activate_row = kernels().activations.forward[static_cast<std::size_t>(activation)];
  workspace.runtime().pool().for_each(x.rows, [&](std::size_t row, unsigned) {
    activate_row(pre.row(row).data(), hidden.row(row).data(), up.out());
  });
  observer.observe(pre, hidden, first_row, workspace);
}

}  // namespace

DenseFfn::DenseFfn(const DenseWeights& weights, Activation activation)
    : up_bias_(weights.up_bias.begin(), weights.up_bias.end()),
      down_bias_(weights.down_bias.begin(), weights.down_bias.end()),
      activation_(activation) {
  const std::size_t d_ff = weights.up.rows, d_model = weights.up.cols;
  FOURFOLD_CHECK(
      d_ff > 0 && d_model > 0, invalid_argument,
      "[dense_ffn] up is " + shape_text(d_ff, d_model) + "; both dimensions must be at least 1");
  check_shape("dense_ffn", "up", weights.up, d_ff, d_model);
  check_shape("dense_ffn", "down", weights.down, d_model, d_ff);
  if (!up_bias_.empty()) check_length("dense_ffn", "up_bias", up_bias_.size(), d_ff);
  if (!down_bias_.empty()) check_length("dense_ffn", "down_bias", down_bias_.size(), d_model);
  up_ = std::make_unique<PackedWeight>(weights.up);
  down_ = std::make_unique<PackedWeight>(weights.down);
}

DenseFfn::~DenseFfn() = default;
DenseFfn::DenseFfn(DenseFfn&&) noexcept = default;
DenseFfn& DenseFfn::operator=(DenseFfn&&) noexcept = default;

std::size_t DenseFfn::d_model() const { return up_->in(); }
std::size_t DenseFfn::d_ff() const { return up_->out(); }
std::uint64_t DenseFfn::parameters() const {
  return 2ULL * d_model() * d_ff() + up_bias_.size() + down_bias_.size();
}
std::uint64_t DenseFfn::packed_bytes() const { return up_->bytes() + down_->bytes(); }

void DenseFfn::forward(ConstMatrix x, Matrix y, Workspace& workspace, FfnObserver* observer) const {
  check_shape("dense_ffn", "x", x, x.rows, d_model());
  check_shape("dense_ffn", "y", y, x.rows, d_model());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const ScratchScope scratch(workspace);
  const std::size_t most = std::min(x.rows, kTokensPerPiece);
  float* hidden_data = workspace.take(most * d_ff());
  for (std::size_t first = 0; first < x.rows; first += kTokensPerPiece) {
    const ConstMatrix part = x.rows_from(first, std::min(kTokensPerPiece, x.rows - first));
    const Matrix hidden(hidden_data, part.rows, d_ff());  // [tokens, d_ff]
    {
      const StageScope stage(workspace, Stage::expand);
      if (observer != nullptr)
        observe(*observer, activation_, part, *up_, up_bias_, hidden, first, workspace);
      else
        gemm(part, *up_, up_bias_, activation_, hidden, workspace);
    }
    const StageScope stage(workspace, Stage::contract);
    gemm(hidden, *down_, down_bias_, Activation::identity, y.rows_from(first, part.rows),
         workspace);
  }
}

}  // namespace fourfold
