// Attention and FFN are the same kind of branch: a norm before or behind, an addition to the
// stream. run_branch and return_branch are its two directions.
#include "fourfold/transformer_block.h"

#include <algorithm>
#include <string>
#include <utility>

#include "layers/shape_check.h"
#include "ops/token_rows.h"
#include "platform/caller_scope.h"
#include "platform/stage_clock.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr const char* kWhere = "transformer_block";

Matrix take_rows(Workspace& workspace, ConstMatrix like) {
  return {workspace.take(like.rows * like.cols), like.rows, like.cols};
}

void copy_rows(ConstMatrix from, Matrix to) {
  for (std::size_t row = 0; row < from.rows; ++row)
    std::copy_n(from.row(row).data(), from.cols, to.row(row).data());
}

void keep(ConstMatrix rows, SavedMatrix& saved) {
  copy_rows(rows, saved.resize(rows.rows, rows.cols));
}

// The norms of one branch; behind is null but in a sandwich.
struct BranchNorms {
  BlockOrder order;
  const AnyNorm& norm;
  const AnyNorm* behind;
};

// Where a branch keeps what backward needs; null: not wanted.
struct BranchSave {
  SavedMatrix* input = nullptr;
  SavedMatrix* tail = nullptr;
};

// One branch of x: [tokens, d_model], in place. compute(in, out) is attention or the FFN.
template <class Compute>
void run_branch(const BranchNorms& norms, Matrix x, const BranchSave& save, Workspace& workspace,
                const Compute& compute) {
  const ScratchScope scratch(workspace);
  const Matrix branch = take_rows(workspace, x);
  if (norms.order == BlockOrder::post_norm) {
    compute(x, branch);
    const StageScope stage(workspace, Stage::norm);
    if (save.input == nullptr) {
      forward_residual(norms.norm, x, branch, workspace);
      return;
    }
    keep(x, *save.input);
    add_rows(branch, x, workspace);
    keep(x, *save.tail);
    forward(norms.norm, x, x, workspace);
    return;
  }
  const Matrix normed = take_rows(workspace, x);
  {
    const StageScope stage(workspace, Stage::norm);
    forward(norms.norm, x, normed, workspace);
  }
  compute(normed, branch);
  const StageScope stage(workspace, Stage::norm);
  if (save.input != nullptr) keep(x, *save.input);
  if (norms.behind != nullptr) {
    if (save.tail != nullptr) keep(branch, *save.tail);
    forward(*norms.behind, branch, branch, workspace);
  }
  add_rows(branch, x, workspace);
}

struct BranchGrads {
  const NormGrads& norm;
  const NormGrads& behind;
};

// dx of run_branch; dx must not overlap dy. compute(in, dbranch, din) is backward of attention or
// the FFN.
template <class Compute>
void return_branch(const BranchNorms& norms, const SavedMatrix& input, const SavedMatrix& tail,
                   ConstMatrix dy, Matrix dx, const BranchGrads& grads, Workspace& workspace,
                   const Compute& compute) {
  const ScratchScope scratch(workspace);
  const Matrix dbranch = take_rows(workspace, dy);
  if (norms.order == BlockOrder::post_norm) {
    backward(norms.norm, tail.view(), dy, dbranch, grads.norm, workspace);
    compute(input.view(), dbranch, dx);
    add_rows(dbranch, dx, workspace);
    return;
  }
  const Matrix normed = take_rows(workspace, dy), dnormed = take_rows(workspace, dy);
  forward(norms.norm, input.view(), normed, workspace);
  if (norms.behind != nullptr)
    backward(*norms.behind, tail.view(), dy, dbranch, grads.behind, workspace);
  compute(normed, norms.behind != nullptr ? ConstMatrix(dbranch) : dy, dnormed);
  backward(norms.norm, input.view(), dnormed, dx, grads.norm, workspace);
  add_rows(dy, dx, workspace);
}

const AnyNorm* pointer(const std::optional<AnyNorm>& norm) { return norm ? &*norm : nullptr; }

void check_norm(const char* name, const std::optional<AnyNorm>& norm, bool needed, bool allowed,
                std::size_t d_model) {
  FOURFOLD_CHECK(norm || !needed, invalid_argument,
                 std::string("[transformer_block] ") + name + " is missing; this order needs it");
  FOURFOLD_CHECK(!norm || allowed, invalid_argument,
                 std::string("[transformer_block] ") + name + " is given, but this order has none");
  if (norm) check_length(kWhere, name, fourfold::d_model(*norm), d_model);
}

}  // namespace

TransformerBlock::TransformerBlock(BlockOrder order, BlockParts parts)
    : order_(order), parts_(std::move(parts)) {
  FOURFOLD_CHECK(order >= BlockOrder::post_norm && order <= BlockOrder::parallel, invalid_argument,
                 "[transformer_block] there is no such order");
  const bool sandwich = order == BlockOrder::sandwich;
  check_length(kWhere, "attention_norm", fourfold::d_model(parts_.attention_norm), d_model());
  check_length(kWhere, "ffn (d_model)", fourfold::d_model(parts_.ffn), d_model());
  check_norm("ffn_norm", parts_.ffn_norm, order != BlockOrder::parallel, true, d_model());
  check_norm("attention_post_norm", parts_.attention_post_norm, sandwich, sandwich, d_model());
  check_norm("ffn_post_norm", parts_.ffn_post_norm, sandwich, sandwich, d_model());
}

void TransformerBlock::forward(Matrix x, std::span<const std::size_t> sequence_lengths,
                               Workspace& workspace, FfnObserver* observer,
                               BlockSaved* save) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  if (order_ == BlockOrder::parallel) {
    run_parallel(x, sequence_lengths, workspace, observer, save);
    return;
  }
  run_attention(x, sequence_lengths, workspace, save);
  run_ffn(x, workspace, observer, save);
}

void TransformerBlock::forward_attention(Matrix x, std::span<const std::size_t> sequence_lengths,
                                         Workspace& workspace) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  FOURFOLD_CHECK(order_ != BlockOrder::parallel, unsupported,
                 "[transformer_block] a parallel block has no halves");
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  run_attention(x, sequence_lengths, workspace, nullptr);
}

void TransformerBlock::forward_ffn(Matrix x, Workspace& workspace, FfnObserver* observer) const {
  check_shape(kWhere, "x", x, x.rows, d_model());
  FOURFOLD_CHECK(order_ != BlockOrder::parallel, unsupported,
                 "[transformer_block] a parallel block has no halves");
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  run_ffn(x, workspace, observer, nullptr);
}

void TransformerBlock::run_attention(Matrix x, std::span<const std::size_t> sequence_lengths,
                                     Workspace& workspace, BlockSaved* save) const {
  BranchSave kept;
  if (save != nullptr) kept = {&save->input, &save->attention_tail};
  run_branch({order_, parts_.attention_norm, pointer(parts_.attention_post_norm)}, x, kept,
             workspace, [&](ConstMatrix in, Matrix out) {
               const StageScope stage(workspace, Stage::attention);
               parts_.attention.forward(in, sequence_lengths, out, workspace,
                                        save != nullptr ? &save->attention : nullptr);
             });
}

void TransformerBlock::run_ffn(Matrix x, Workspace& workspace, FfnObserver* observer,
                               BlockSaved* save) const {
  BranchSave kept;
  if (save != nullptr) kept = {&save->middle, &save->ffn_tail};
  run_branch({order_, *parts_.ffn_norm, pointer(parts_.ffn_post_norm)}, x, kept, workspace,
             [&](ConstMatrix in, Matrix out) {  // counts its own stages
               fourfold::forward(parts_.ffn, in, out, workspace,
                                 save != nullptr ? &save->ffn : nullptr, observer);
             });
}

void TransformerBlock::run_parallel(Matrix x, std::span<const std::size_t> sequence_lengths,
                                    Workspace& workspace, FfnObserver* observer,
                                    BlockSaved* save) const {
  const ScratchScope scratch(workspace);
  const Matrix normed = take_rows(workspace, x), attention_branch = take_rows(workspace, x),
               ffn_branch = take_rows(workspace, x);
  {
    const StageScope stage(workspace, Stage::norm);
    fourfold::forward(parts_.attention_norm, x, normed, workspace);
  }
  {
    const StageScope stage(workspace, Stage::attention);
    parts_.attention.forward(normed, sequence_lengths, attention_branch, workspace,
                             save != nullptr ? &save->attention : nullptr);
  }
  if (parts_.ffn_norm) {
    const StageScope stage(workspace, Stage::norm);
    fourfold::forward(*parts_.ffn_norm, x, normed, workspace);
  }
  fourfold::forward(parts_.ffn, normed, ffn_branch, workspace,
                    save != nullptr ? &save->ffn : nullptr, observer);
  const StageScope stage(workspace, Stage::norm);
  if (save != nullptr) keep(x, save->input);
  add_rows(attention_branch, x, workspace);
  add_rows(ffn_branch, x, workspace);
}

void TransformerBlock::check_backward(std::size_t tokens,
                                      std::span<const std::size_t> sequence_lengths,
                                      const BlockSaved& saved, const BlockGrads& grads) const {
  const auto check = [&](const char* name, const SavedMatrix& rows, bool wanted) {
    if (wanted) check_shape(kWhere, name, rows.view(), tokens, d_model());
  };
  const bool halves = order_ != BlockOrder::parallel;
  const bool tails = order_ == BlockOrder::post_norm || order_ == BlockOrder::sandwich;
  check("saved.input", saved.input, true);
  check("saved.middle", saved.middle, halves);
  check("saved.attention_tail", saved.attention_tail, tails);
  check("saved.ffn_tail", saved.ffn_tail, tails);
  parts_.attention.check_backward(tokens, sequence_lengths, saved.attention, grads.attention);
  fourfold::check_backward(parts_.ffn, tokens, saved.ffn, grads.ffn);
  check_grads(parts_.attention_norm, grads.attention_norm);
  if (parts_.ffn_norm) check_grads(*parts_.ffn_norm, grads.ffn_norm);
  if (parts_.attention_post_norm)
    check_grads(*parts_.attention_post_norm, grads.attention_post_norm);
  if (parts_.ffn_post_norm) check_grads(*parts_.ffn_post_norm, grads.ffn_post_norm);
}

void TransformerBlock::backward(std::span<const std::size_t> sequence_lengths,
                                const BlockSaved& saved, ConstMatrix dy, Matrix dx,
                                const BlockGrads& grads, Workspace& workspace) const {
  check_shape(kWhere, "dy", dy, dy.rows, d_model());
  check_shape(kWhere, "dx", dx, dy.rows, d_model());
  check_backward(dy.rows, sequence_lengths, saved, grads);
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const ScratchScope scratch(workspace);
  const auto return_attention = [&](ConstMatrix in, ConstMatrix dout, Matrix din) {
    parts_.attention.backward(in, sequence_lengths, saved.attention, dout, din, grads.attention,
                              workspace);
  };
  const auto return_ffn = [&](ConstMatrix in, ConstMatrix dout, Matrix din) {
    fourfold::backward(parts_.ffn, in, saved.ffn, dout, din, grads.ffn, workspace);
  };
  if (order_ == BlockOrder::parallel) {
    const Matrix normed = take_rows(workspace, dy), dattention = take_rows(workspace, dy),
                 dffn = take_rows(workspace, dy);
    const ConstMatrix input = saved.input.view();
    fourfold::forward(parts_.attention_norm, input, normed, workspace);
    return_attention(normed, dy, dattention);
    if (parts_.ffn_norm) fourfold::forward(*parts_.ffn_norm, input, normed, workspace);
    return_ffn(normed, dy, dffn);
    if (parts_.ffn_norm)
      fourfold::backward(*parts_.ffn_norm, input, dffn, dffn, grads.ffn_norm, workspace);
    else
      add_rows(dffn, dattention, workspace);
    fourfold::backward(parts_.attention_norm, input, dattention, dx, grads.attention_norm,
                       workspace);
    if (parts_.ffn_norm) add_rows(dffn, dx, workspace);
    add_rows(dy, dx, workspace);
    return;
  }
  const Matrix dmiddle = take_rows(workspace, dy);
  return_branch({order_, *parts_.ffn_norm, pointer(parts_.ffn_post_norm)}, saved.middle,
                saved.ffn_tail, dy, dmiddle, {grads.ffn_norm, grads.ffn_post_norm}, workspace,
                return_ffn);
  return_branch({order_, parts_.attention_norm, pointer(parts_.attention_post_norm)}, saved.input,
                saved.attention_tail, dmiddle, dx,
                {grads.attention_norm, grads.attention_post_norm}, workspace, return_attention);
}

void TransformerBlock::pack_backward() {
  parts_.attention.pack_backward();
  std::visit([](auto& ffn) { ffn.pack_backward(); }, parts_.ffn);
}

}  // namespace fourfold
