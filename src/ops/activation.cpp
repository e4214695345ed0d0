#include "fourfold/activation.h"

#include "base/check.h"
#include "kernels/dispatch.h"
#include "platform/caller_scope.h"

namespace fourfold {

void activate(Activation activation, std::span<const float> x, std::span<float> y) {
  FOURFOLD_CHECK(x.size() == y.size(), shape_mismatch,
                 "[activate] x has " + std::to_string(x.size()) + " values, y has " +
                     std::to_string(y.size()));
  const CallerScope scope(-1);
  kernels().activations.forward[static_cast<std::size_t>(activation)](x.data(), y.data(), x.size());
}

}  // namespace fourfold
