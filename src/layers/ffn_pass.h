// Forward and backward through one FfnCore, and their parts for layers that run several in one
// parallel region.
#pragma once

#include <cstdint>
#include <span>

#include "fourfold/ffn.h"
#include "layers/ffn_core.h"
#include "ops/expand.h"
#include "ops/feature_rows.h"
#include "ops/skip_zeros.h"

namespace fourfold {

// Who looks, and as what the rows are shown.
struct Watcher {
  FfnObserver* observer = nullptr;
  std::size_t expert = FfnSample::kNoExpert;
  std::span<const std::uint32_t> token_rows = {};
};

// A whole forward pass, in pieces. x, y: [tokens, d_model]; gate, up: [tokens, d_ff] receive the
// pre-activations; empty: not wanted.
void core_forward(const FfnCore& core, ConstMatrix x, Matrix y, Matrix gate, Matrix up,
                  Workspace& workspace, FfnObserver* observer);

// Where the products with down go: y[row] = or, with add, y[tokens[row]] += (row without tokens).
// y: [.., d_model].
struct ContractRows {
  RowOperand hidden;                      // [rows, d_ff]
  NonZeroBits non_zero;                   // of hidden, or empty
  std::span<const float> weights;         // [rows], multiplies the bias; empty: 1
  std::span<const std::uint32_t> tokens;  // [rows], distinct; empty: row r is token r
  bool add = false;
  TaskShares shares;  // of the panels of down, or empty; not with add
  Matrix y;
};

// Scratch of both parts for at most so many rows of one core, or of two.
struct PassScratch {
  TileScratch tiles;
  UnitLists lists;
  ActiveScratch active;
  PassScratch(const FfnCore& core, const FfnCore* other, std::size_t rows, Workspace& workspace);
};

// Whether hidden is searched for zeros, by expand_rows.
bool finds_zeros(const FfnCore& core);

// The part of one thread of a region; the input of each must be complete. With add, each thread
// has the same columns of y in every call.
void expand_rows(const Region& region, const FfnCore& core, const ExpandRows& rows,
                 const PassScratch& scratch);
void contract_rows(const Region& region, const FfnCore& core, const ContractRows& rows,
                   const PassScratch& scratch);

// Shows what expand_rows wrote; first: row of the pass that is row 0 of rows.
void show_rows(const Watcher& watcher, const FfnCore& core, const ExpandRows& rows,
               std::size_t first, Workspace& workspace);
// Room for what an observer wants to see and nobody else does.
void take_shown(const FfnCore& core, std::size_t n, ExpandRows& rows, Workspace& workspace);

struct CoreSaved {
  ConstMatrix gate, up;  // pre-activations, [tokens, d_ff]; a dense FFN has only up
};

// dx is overwritten. weights: [tokens] multiplied each hidden row and the down bias; empty: 1. Then
// weight_grads: [tokens] receives their gradients.
void core_backward(const FfnCore& core, ConstMatrix x, const CoreSaved& saved, ConstMatrix dy,
                   Matrix dx, const CoreGrads& grads, std::span<const float> weights,
                   std::span<float> weight_grads, Workspace& workspace);

}  // namespace fourfold
