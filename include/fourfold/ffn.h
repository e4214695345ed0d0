// Feed-forward layers of the transformer (Vaswani et al. 2017, arXiv 1706.03762, section 3.3).
// Dense: y = down(act(up(x) + up_bias)) + down_bias, the same for every token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fourfold/activation.h"
#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

class PackedWeight;

struct DenseWeights {
  Weight up;                         // [d_ff, d_model]
  Weight down;                       // [d_model, d_ff]
  std::span<const float> up_bias;    // [d_ff], or empty: none
  std::span<const float> down_bias;  // [d_model], or empty: none
};

// Sees the inner vectors of a layer while it runs. Rows arrive in order, in one or more pieces.
class FfnObserver {
 public:
  virtual ~FfnObserver() = default;
  // pre, hidden: [rows, d_ff], valid during the call; first_row: index of their first row among the
  // tokens of x.
  virtual void observe(ConstMatrix pre, ConstMatrix hidden, std::size_t first_row,
                       Workspace& workspace) = 0;
};

class DenseFfn {
 public:
  // Copies the weights into packed panels; the caller's arrays may go. Throws Error{shape_mismatch}
  // when the shapes do not fit each other, Error{invalid_argument} for a dimension of 0.
  DenseFfn(const DenseWeights& weights, Activation activation);
  ~DenseFfn();
  DenseFfn(DenseFfn&&) noexcept;
  DenseFfn& operator=(DenseFfn&&) noexcept;

  // x, y: [tokens, d_model]; y must not overlap x; zero tokens are fine. May be called from several
  // threads, each with its own workspace. An observer changes no bit of y. Throws
  // Error{shape_mismatch}.
  void forward(ConstMatrix x, Matrix y, Workspace& workspace,
               FfnObserver* observer = nullptr) const;

  std::size_t d_model() const;
  std::size_t d_ff() const;
  Activation activation() const { return activation_; }
  std::uint64_t parameters() const;    // weights and biases
  std::uint64_t packed_bytes() const;  // weights as the kernels read them

 private:
  std::unique_ptr<PackedWeight> up_, down_;
  std::vector<float> up_bias_, down_bias_;
  Activation activation_;
};

}  // namespace fourfold
