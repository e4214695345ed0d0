// What a mixture's forward pass does with its tokens: which expert takes which, in what order, and
// the rows of one expert brought together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "fourfold/ffn.h"
#include "layers/moe_core.h"

namespace fourfold {

// Logits, choice, weights and capacity into plan.routing, then the kept (token, choice) pairs
// sorted by expert, tokens ascending.
void plan_experts(const MoeCore& core, ConstMatrix x, MoeSaved& plan, Workspace& workspace);

// Marks what is beyond each expert's capacity: all first choices in token order, then all second
// ones. Without a capacity factor nothing is.
void drop_beyond_capacity(const Routing& routing, RoutingResult& result, Workspace& workspace);

// The plan of a pass that nobody saves. The workspace keeps it, so that later passes need no new
// memory; a pass inside this one gets a plan of its own.
class UnsavedPlan {
 public:
  explicit UnsavedPlan(Workspace& workspace);
  ~UnsavedPlan();
  UnsavedPlan(const UnsavedPlan&) = delete;
  UnsavedPlan& operator=(const UnsavedPlan&) = delete;

  MoeSaved& plan() const { return *plan_; }

 private:
  Workspace& workspace_;
  std::shared_ptr<MoeSaved> plan_;
};

// Throws Error{shape_mismatch} unless saved can be of a forward pass of this layer over so many
// tokens.
void check_saved(const MoeCore& core, std::size_t tokens, const MoeSaved& saved);

// At most kTokensPerPiece rows of one expert: their tokens and weights, and room for their inputs.
struct ExpertRows {
  std::size_t expert, first, rows;  // first: among the sorted pairs
  std::span<const std::uint32_t> pairs;
  std::span<std::uint32_t> tokens;
  std::span<float> weights;
  Matrix x;  // [rows, d_model]

  ExpertRows(const MoeCore& core, const MoeSaved& plan, std::size_t e, std::size_t begin,
             Workspace& workspace);
};

}  // namespace fourfold
