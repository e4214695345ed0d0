// The three kinds of feed-forward layer behind one call.
#include "base/check.h"
#include "fourfold/ffn.h"

namespace fourfold {
namespace {

template <class Ffn>
struct Parts;
template <>
struct Parts<DenseFfn> {
  using Saved = DenseSaved;
  using Grads = DenseGrads;
};
template <>
struct Parts<GatedFfn> {
  using Saved = GatedSaved;
  using Grads = GatedGrads;
};
template <>
struct Parts<MoeFfn> {
  using Saved = MoeSaved;
  using Grads = MoeGrads;
};

}  // namespace

void forward(const AnyFfn& ffn, ConstMatrix x, Matrix y, Workspace& workspace, AnyFfnSaved* save,
             FfnObserver* observer) {
  std::visit(
      [&](const auto& layer) {
        using Saved = typename Parts<std::decay_t<decltype(layer)>>::Saved;
        Saved* own = nullptr;
        if (save != nullptr) {
          if (!std::holds_alternative<Saved>(*save)) save->template emplace<Saved>();
          own = &std::get<Saved>(*save);
        }
        layer.forward(x, y, workspace, own, observer);
      },
      ffn);
}

void backward(const AnyFfn& ffn, ConstMatrix x, const AnyFfnSaved& saved, ConstMatrix dy, Matrix dx,
              const AnyFfnGrads& grads, Workspace& workspace) {
  check_backward(ffn, x.rows, saved, grads);
  std::visit(
      [&](const auto& layer) {
        using Kind = Parts<std::decay_t<decltype(layer)>>;
        layer.backward(x, std::get<typename Kind::Saved>(saved), dy, dx,
                       std::get<typename Kind::Grads>(grads), workspace);
      },
      ffn);
}

void check_backward(const AnyFfn& ffn, std::size_t tokens, const AnyFfnSaved& saved,
                    const AnyFfnGrads& grads) {
  std::visit(
      [&](const auto& layer) {
        using Kind = Parts<std::decay_t<decltype(layer)>>;
        const auto* own = std::get_if<typename Kind::Saved>(&saved);
        const auto* own_grads = std::get_if<typename Kind::Grads>(&grads);
        FOURFOLD_CHECK(own != nullptr && own_grads != nullptr, invalid_argument,
                       "[any_ffn] saved or grads belong to another kind of layer");
        layer.check_backward(tokens, *own, *own_grads);
      },
      ffn);
}

std::size_t d_model(const AnyFfn& ffn) {
  return std::visit([](const auto& layer) { return layer.d_model(); }, ffn);
}

std::uint64_t packed_bytes(const AnyFfn& ffn) {
  return std::visit([](const auto& layer) { return layer.packed_bytes(); }, ffn);
}

}  // namespace fourfold
