// Feed-forward layers of the transformer (Vaswani et al. 2017, arXiv 1706.03762, section 3.3), the
// same for every token.
// Dense: y = down(act(up(x) + up_bias)) + down_bias.
// Gated: y = down(act(gate(x) + gate_bias) * (up(x) + up_bias)) + down_bias (Shazeer 2020, arXiv
// 2002.05202).
// Moe: y = sum over the chosen experts e of weight_e * expert_e(x), plus a shared expert.
// Layers of bf16 weights round x, hidden values and gradients as docs/numerics.md says.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "fourfold/activation.h"
#include "fourfold/matrix.h"
#include "fourfold/router.h"
#include "fourfold/runtime.h"

namespace fourfold {

struct FfnCore;
struct MoeCore;

// Which panels a layer keeps: backward reads the transposed weights, which doubles the memory.
enum class Packing { forward_only, forward_and_backward };

struct DenseWeights {
  Weight up;                         // [d_ff, d_model]
  Weight down;                       // [d_model, d_ff]
  std::span<const float> up_bias;    // [d_ff], or empty: none
  std::span<const float> down_bias;  // [d_model], or empty: none
};

struct GatedWeights {
  Weight gate, up;                            // [d_ff, d_model]
  Weight down;                                // [d_model, d_ff]
  std::span<const float> gate_bias, up_bias;  // [d_ff], or empty: none
  std::span<const float> down_bias;           // [d_model], or empty: none
};

// Experts of one kind, activation and shape.
using ExpertWeights = std::variant<std::span<const DenseWeights>, std::span<const GatedWeights>>;

// An expert that every token visits; its result is added last.
struct SharedExpert {
  std::variant<DenseWeights, GatedWeights> weights;
  Activation activation = Activation::silu;
  // [d_model], or empty: none. Its result is multiplied by sigmoid(gate . x) (Qwen2-MoE).
  std::span<const float> gate;
};

struct MoeWeights {
  Weight router;                       // [n_experts, d_model], computed in float32
  std::span<const float> router_bias;  // [n_experts], or empty: part of the logits
  std::span<const float>
      selection_bias;  // [n_experts], or empty: moves the choice, not the weights
  ExpertWeights experts;
  std::optional<SharedExpert> shared;
};

// Rows that a forward pass leaves for backward. Grows to the largest pass, then is reused.
struct SavedMatrix {
  std::vector<float> values;
  std::size_t rows = 0, cols = 0;

  Matrix resize(std::size_t n_rows, std::size_t n_cols) {
    rows = n_rows;
    cols = n_cols;
    if (values.size() < rows * cols) values.resize(rows * cols);
    return {values.data(), rows, cols};
  }
  ConstMatrix view() const { return {values.data(), rows, cols}; }
};

struct DenseSaved {
  SavedMatrix pre;  // [tokens, d_ff]
};

struct GatedSaved {
  SavedMatrix gate, up;  // [tokens, d_ff], before activation and clamp
};

struct MoeSaved {
  RoutingResult routing;
  std::vector<std::uint32_t> pairs;    // kept (token * top_k + choice), sorted by expert
  std::vector<std::size_t> offsets;    // [n_experts + 1]: where an expert's pairs begin
  SavedMatrix gate, up;                // [pairs, d_ff]; gate is empty for dense experts
  SavedMatrix shared_gate, shared_up;  // [tokens, d_ff of the shared expert]
  std::vector<float> shared_logits;    // [tokens], before the sigmoid
};

// Gradients are added to what the caller's memory holds. An empty view: not wanted.
struct DenseGrads {
  Matrix up, down;
  std::span<float> up_bias, down_bias;
};

struct GatedGrads {
  Matrix gate, up, down;
  std::span<float> gate_bias, up_bias, down_bias;
};

struct MoeGrads {
  Matrix router;
  std::span<float> router_bias;
  // Of the kind of the experts; one each, or none.
  std::variant<std::vector<DenseGrads>, std::vector<GatedGrads>> experts;
  std::variant<DenseGrads, GatedGrads> shared;
  std::span<float> shared_gate;
  RouterLossScale losses;  // the router's own losses, whose gradients are added
};

// The inner vectors of some rows of a layer.
struct FfnSample {
  static constexpr std::size_t kNoExpert = SIZE_MAX, kSharedExpert = SIZE_MAX - 1;

  ConstMatrix pre;     // [rows, d_ff], input of the activation
  ConstMatrix up;      // [rows, d_ff], what a gated layer multiplies with; empty in a dense one
  ConstMatrix hidden;  // [rows, d_ff], before rounding and routing weight
  std::size_t first_row = 0;                  // token of the first row, when token_rows is empty
  std::span<const std::uint32_t> token_rows;  // token of each row
  std::size_t expert = kNoExpert;
};

// Sees the inner vectors of a layer while it runs. Dense and gated layers send their rows in order,
// in one or more pieces; a mixture sends its routing, then expert after expert, then the shared
// one. Views are valid during the call.
class FfnObserver {
 public:
  virtual ~FfnObserver() = default;
  virtual void observe(const FfnSample& sample, Workspace& workspace) = 0;
  virtual void observe_routing(const RoutingResult&, Workspace&) {}
};

// All three kinds: x, y, dy, dx are [tokens, d_model]; y must not overlap x, nor dx x or dy; zero
// tokens are fine. forward and backward may be called from several threads, each with its own
// workspace; set_weights and pack_backward only while no other call runs. Neither save nor observer
// changes a bit of y.
class DenseFfn {
 public:
  // Copies the weights into packed panels; the caller's arrays may go. Throws Error{shape_mismatch}
  // when shapes or types do not fit each other, Error{invalid_argument} for a dimension of 0,
  // Error{unsupported} for an activation that needs a gate.
  DenseFfn(const DenseWeights& weights, Activation activation,
           Packing packing = Packing::forward_only);
  ~DenseFfn();
  DenseFfn(DenseFfn&&) noexcept;
  DenseFfn& operator=(DenseFfn&&) noexcept;

  // Throws Error{shape_mismatch}.
  void forward(ConstMatrix x, Matrix y, Workspace& workspace, DenseSaved* save = nullptr,
               FfnObserver* observer = nullptr) const;
  // x is widened exactly, y rounded once; without an observer.
  void forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace,
               DenseSaved* save = nullptr) const;
  // x and saved are those of the forward pass. dx is overwritten, grads accumulate over tokens in
  // ascending order. Throws Error{shape_mismatch}, Error{invalid_argument} without backward panels.
  void backward(ConstMatrix x, const DenseSaved& saved, ConstMatrix dy, Matrix dx,
                const DenseGrads& grads, Workspace& workspace) const;

  // Throws what backward throws for a pass over so many tokens; changes nothing.
  void check_backward(std::size_t tokens, const DenseSaved& saved, const DenseGrads& grads) const;

  // New values of the same shapes; float32 values are rounded when the layer computes in bf16.
  void set_weights(const DenseWeights& weights, Workspace& workspace);
  void pack_backward();  // adds the backward panels when they are not there
  // Whether calls of few tokens leave out neurons whose hidden values are all 0 in the product with
  // down, where enough of them are: relu, relu2 and relu6 with finite weights, else it has no
  // effect. On at first. No bit changes.
  void set_skip_zeros(bool on);
  // Copies the values that the layer computes with; views have the shapes of the weights.
  void copy_weights(Matrix up, Matrix down) const;

  std::size_t d_model() const;
  std::size_t d_ff() const;
  Activation activation() const;
  Dtype dtype() const;
  bool has_backward() const;
  std::span<const float> up_bias() const;
  std::span<const float> down_bias() const;
  std::uint64_t parameters() const;    // weights and biases
  std::uint64_t packed_bytes() const;  // weights as the kernels read them in one forward pass

 private:
  std::unique_ptr<FfnCore> core_;
};

class GatedFfn {
 public:
  // As DenseFfn's; every activation is allowed.
  GatedFfn(const GatedWeights& weights, Activation activation,
           Packing packing = Packing::forward_only);
  ~GatedFfn();
  GatedFfn(GatedFfn&&) noexcept;
  GatedFfn& operator=(GatedFfn&&) noexcept;

  void forward(ConstMatrix x, Matrix y, Workspace& workspace, GatedSaved* save = nullptr,
               FfnObserver* observer = nullptr) const;
  void forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace,
               GatedSaved* save = nullptr) const;
  void backward(ConstMatrix x, const GatedSaved& saved, ConstMatrix dy, Matrix dx,
                const GatedGrads& grads, Workspace& workspace) const;

  // Throws what backward throws for a pass over so many tokens; changes nothing.
  void check_backward(std::size_t tokens, const GatedSaved& saved, const GatedGrads& grads) const;

  void set_weights(const GatedWeights& weights, Workspace& workspace);
  void pack_backward();
  void set_skip_zeros(bool on);
  // Keeps a second copy of up, neuron by neuron (d_ff * d_model values), so that calls of up to 8
  // tokens compute up only where act(gate) is not 0, and set_weights keeps it up to date. Off at
  // first; works while zeros are skipped. No bit changes. Throws Error{unsupported} unless the
  // activation is relu, relu2 or relu6; std::bad_alloc.
  void keep_neuron_rows(bool on);
  void copy_weights(Matrix gate, Matrix up, Matrix down) const;

  std::size_t d_model() const;
  std::size_t d_ff() const;
  Activation activation() const;
  Dtype dtype() const;
  bool has_backward() const;
  std::span<const float> gate_bias() const;
  std::span<const float> up_bias() const;
  std::span<const float> down_bias() const;
  std::uint64_t parameters() const;
  std::uint64_t packed_bytes() const;

 private:
  std::unique_ptr<FfnCore> core_;
};

class MoeFfn {
 public:
  // Throws as DenseFfn does, and Error{invalid_argument} for a top_k outside 1..n_experts, groups
  // that do not divide the experts or leave fewer than top_k to choose from, a scaling or capacity
  // factor that is not a positive finite number.
  MoeFfn(const MoeWeights& weights, Activation activation, const Routing& routing,
         Packing packing = Packing::forward_only);
  ~MoeFfn();
  MoeFfn(MoeFfn&&) noexcept;
  MoeFfn& operator=(MoeFfn&&) noexcept;

  // Sums run over experts in ascending order, then the shared one.
  void forward(ConstMatrix x, Matrix y, Workspace& workspace, MoeSaved* save = nullptr,
               FfnObserver* observer = nullptr) const;
  void forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace,
               MoeSaved* save = nullptr) const;
  // selection_bias gets no gradient.
  void backward(ConstMatrix x, const MoeSaved& saved, ConstMatrix dy, Matrix dx,
                const MoeGrads& grads, Workspace& workspace) const;

  // Throws what backward throws for a pass over so many tokens; changes nothing.
  void check_backward(std::size_t tokens, const MoeSaved& saved, const MoeGrads& grads) const;

  void set_weights(const MoeWeights& weights, Workspace& workspace);
  void pack_backward();
  void set_skip_zeros(bool on);
  // As GatedFfn's, in all experts; in the shared one where its activation allows it. Throws
  // Error{unsupported} for dense experts, too.
  void keep_neuron_rows(bool on);

  std::size_t d_model() const;
  std::size_t d_ff() const;  // of one expert
  std::size_t n_experts() const;
  std::size_t shared_d_ff() const;  // 0: no shared expert
  bool gated() const;               // whether the experts are
  Activation activation() const;
  Dtype dtype() const;
  bool has_backward() const;
  const Routing& routing() const;
  // False when every weight is 1 whatever the logits (top_k 1, renormalised): then the task's loss
  // says nothing to the router.
  bool router_has_task_gradient() const;
  std::uint64_t parameters() const;
  std::uint64_t active_parameters() const;  // without the experts that one token does not use
  std::uint64_t packed_bytes() const;       // of all experts, used or not

 private:
  std::unique_ptr<MoeCore> core_;
};

using AnyFfn = std::variant<DenseFfn, GatedFfn, MoeFfn>;
using AnyFfnSaved = std::variant<DenseSaved, GatedSaved, MoeSaved>;
using AnyFfnGrads = std::variant<DenseGrads, GatedGrads, MoeGrads>;

// The kind at hand; saved and grads must hold the same alternative, a save is made to.
void forward(const AnyFfn& ffn, ConstMatrix x, Matrix y, Workspace& workspace,
             AnyFfnSaved* save = nullptr, FfnObserver* observer = nullptr);
void backward(const AnyFfn& ffn, ConstMatrix x, const AnyFfnSaved& saved, ConstMatrix dy, Matrix dx,
              const AnyFfnGrads& grads, Workspace& workspace);
void check_backward(const AnyFfn& ffn, std::size_t tokens, const AnyFfnSaved& saved,
                    const AnyFfnGrads& grads);
std::size_t d_model(const AnyFfn& ffn);
std::uint64_t packed_bytes(const AnyFfn& ffn);

}  // namespace fourfold
