#include "fourfold/ffn_counts.h"

#include <string>

#include "base/check.h"

namespace fourfold {
namespace {

// A whole number that refuses to wrap around.
class Count {
 public:
  Count(std::uint64_t value = 0) : value_(value) {}  // NOLINT: numbers mix freely with counts
  std::uint64_t value() const { return value_; }

  friend Count operator*(Count a, Count b) {
    Count result;
    check(__builtin_mul_overflow(a.value_, b.value_, &result.value_));
    return result;
  }
  friend Count operator+(Count a, Count b) {
    Count result;
    check(__builtin_add_overflow(a.value_, b.value_, &result.value_));
    return result;
  }
  Count& operator+=(Count other) { return *this = *this + other; }

 private:
  static void check(bool wrapped) {
    FOURFOLD_CHECK(!wrapped, invalid_argument,
                   "[ffn_counts] a count does not fit into 64 bits; check the dimensions");
  }
  std::uint64_t value_;
};

struct Work {
  Count parameters, macs, elementwise;
};

Work one_ffn(Count d_model, Count d_ff, bool gated, const FfnBiases& biases) {
  const Count inner = (biases.gate ? d_ff : 0) + (biases.up ? d_ff : 0);
  const Count outer = biases.down ? d_model : 0;
  Work work;
  work.macs = Count(gated ? 3 : 2) * d_model * d_ff;
  work.parameters = work.macs + inner + outer;
  work.elementwise = inner + outer + d_ff + (gated ? d_ff : 0);  // activation, gating product
  return work;
}

void check_biases(const FfnBiases& biases, bool gated, const char* what) {
  FOURFOLD_CHECK(gated || !biases.gate, invalid_argument,
                 std::string("[ffn_counts] ") + what + " has a gate bias, but no gate");
}

void check_shape_fields(const FfnShape& shape) {
  const bool moe = shape.kind == FfnKind::moe;
  FOURFOLD_CHECK(shape.d_model > 0 && shape.d_ff > 0, invalid_argument,
                 "[ffn_counts] d_model is " + std::to_string(shape.d_model) + " and d_ff " +
                     std::to_string(shape.d_ff) + "; both must be at least 1");
  check_biases(shape.biases, moe ? shape.gated_experts : shape.kind == FfnKind::gated, "the layer");
  if (moe) {
    FOURFOLD_CHECK(shape.top_k >= 1 && shape.top_k <= shape.n_experts, invalid_argument,
                   "[ffn_counts] top_k is " + std::to_string(shape.top_k) +
                       ", expected 1 to n_experts, which is " + std::to_string(shape.n_experts));
    check_biases(shape.shared_biases, shape.shared_gated, "the shared expert");
  } else {
    FOURFOLD_CHECK(
        shape.n_experts == 0 && shape.top_k == 0 && !shape.router_bias && !shape.selection_bias,
        invalid_argument,
        "[ffn_counts] a " + std::string(ffn_kind_name(shape.kind)) +
            " layer has no experts and no router; use the kind moe");
  }
  FOURFOLD_CHECK(shape.shared_d_ff > 0 ? moe
                                       : !shape.shared_gate && !shape.shared_biases.gate &&
                                             !shape.shared_biases.up && !shape.shared_biases.down,
                 invalid_argument,
                 "[ffn_counts] parts of a shared expert need shared_d_ff and the kind moe");
}

}  // namespace

std::string_view ffn_kind_name(FfnKind kind) {
  switch (kind) {
    case FfnKind::dense: return "dense";
    case FfnKind::gated: return "gated";
    case FfnKind::moe: return "moe";
  }
  return "";
}

FfnCounts count_ffn(const FfnShape& shape) {
  check_shape_fields(shape);
  const bool moe = shape.kind == FfnKind::moe;
  const Count d_model = shape.d_model;
  const Work ffn = one_ffn(d_model, shape.d_ff,
                           moe ? shape.gated_experts : shape.kind == FfnKind::gated, shape.biases);
  FfnCounts counts;
  Count all = ffn.parameters, active = all, macs = ffn.macs, elementwise = ffn.elementwise;
  if (moe) {
    const Count n_experts = shape.n_experts, top_k = shape.top_k;
    const Count biases =
        (shape.router_bias ? n_experts : 0) + (shape.selection_bias ? n_experts : 0);
    const Count router = n_experts * d_model + biases;
    // Scores, one per expert, then the weighted sum of top_k results.
    elementwise = biases + n_experts + top_k * ffn.elementwise + top_k * d_model +
                  (shape.top_k - 1) * d_model;
    macs = n_experts * d_model + top_k * ffn.macs;
    Count shared;
    if (shape.shared_d_ff > 0) {
      const Work one = one_ffn(d_model, shape.shared_d_ff, shape.shared_gated, shape.shared_biases);
      shared = one.parameters + (shape.shared_gate ? d_model : 0);
      macs += one.macs + (shape.shared_gate ? d_model : 0);
      elementwise += one.elementwise + d_model + (shape.shared_gate ? d_model + 1 : 0);
    }
    counts.expert = ffn.parameters.value();
    counts.router = router.value();
    counts.shared = shared.value();
    all = n_experts * ffn.parameters + router + shared;
    active = top_k * ffn.parameters + router + shared;
  }
  counts.parameters = all.value();
  counts.active_parameters = active.value();
  counts.macs_per_token = macs.value();
  counts.backward_macs_per_token = (2 * macs).value();
  counts.elementwise_flops_per_token = elementwise.value();
  return counts;
}

}  // namespace fourfold
