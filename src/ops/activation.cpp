#include "fourfold/activation.h"

#include "base/check.h"
#include "kernels/dispatch.h"
#include "platform/caller_scope.h"

namespace fourfold {
namespace {

std::size_t index_of(Activation activation) { return static_cast<std::size_t>(activation); }

void check_length(const char* where, const char* name, std::size_t found, const char* other,
                  std::size_t expected) {
  FOURFOLD_CHECK(found == expected, shape_mismatch,
                 std::string("[") + where + "] " + name + " has " + std::to_string(found) +
                     " values, " + other + " has " + std::to_string(expected) +
                     "; give both the same length");
}

void check_needs_no_gate(const char* where, Activation activation) {
  FOURFOLD_CHECK(!is_gated_only(activation), unsupported,
                 std::string("[") + where + "] " + std::string(activation_name(activation)) +
                     " needs a gate; call gated_" + where);
}

}  // namespace

void activate(Activation activation, std::span<const float> x, std::span<float> y) {
  check_needs_no_gate("activate", activation);
  check_length("activate", "y", y.size(), "x", x.size());
  const CallerScope scope(-1);
  kernels().activations.forward[index_of(activation)](x.data(), y.data(), x.size());
}

void activate_backward(Activation activation, std::span<const float> x, std::span<const float> dy,
                       std::span<float> dx) {
  check_needs_no_gate("activate_backward", activation);
  check_length("activate_backward", "dy", dy.size(), "x", x.size());
  check_length("activate_backward", "dx", dx.size(), "x", x.size());
  const CallerScope scope(-1);
  kernels().activations.backward[index_of(activation)](x.data(), dy.data(), dx.data(), x.size());
}

void gated_activate(Activation activation, std::span<const float> gate, std::span<const float> up,
                    std::span<float> h) {
  check_length("gated_activate", "up", up.size(), "gate", gate.size());
  check_length("gated_activate", "h", h.size(), "gate", gate.size());
  const CallerScope scope(-1);
  kernels().activations.glu[index_of(activation)](gate.data(), up.data(), h.data(), gate.size());
}

void gated_activate_backward(Activation activation, std::span<const float> gate,
                             std::span<const float> up, std::span<const float> dh,
                             std::span<float> dgate, std::span<float> dup) {
  check_length("gated_activate_backward", "up", up.size(), "gate", gate.size());
  check_length("gated_activate_backward", "dh", dh.size(), "gate", gate.size());
  check_length("gated_activate_backward", "dgate", dgate.size(), "gate", gate.size());
  check_length("gated_activate_backward", "dup", dup.size(), "gate", gate.size());
  const CallerScope scope(-1);
  kernels().activations.glu_backward[index_of(activation)](gate.data(), up.data(), dh.data(),
                                                           dgate.data(), dup.data(), gate.size());
}

}  // namespace fourfold
