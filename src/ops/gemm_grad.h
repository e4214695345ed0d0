// Gradients of weights and biases: sums over tokens, in ascending order, one accumulator per
// element (a new one for each piece of kTokensPerPiece tokens (ops/token_rows.h)). Bits do not
// depend on threads.
#pragma once

#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"
#include "ops/row_operand.h"
#include "ops/tile_tasks.h"

namespace fourfold {

// dw += dy^T x. dy: [tokens, out], x: [tokens, in], dw: [out, in].
void weight_gradient(ConstMatrix dy, ConstMatrix x, Matrix dw, Workspace& workspace);

// db += the sum of scale[row] * dy[row, :] over tokens. dy: [tokens, out], db: [out]; scale:
// [tokens], or empty: 1.
void bias_gradient(ConstMatrix dy, std::span<const float> scale, std::span<float> db,
                   Workspace& workspace);

// Parts of one thread of a region; operands are made in one of them and read after a barrier.

// to: [cols, tokens] = from^T, and panels of from; from: [tokens, cols]. An empty one: not wanted.
// scratch: one tile.
void turn_columns(const Region& region, ConstMatrix from, const RowBuffer& to,
                  const TokenPanels& panels, const TileScratch& scratch);
// The 64 columns from p * 64 on of such a pair, for tokens first .. first + values.rows of at most
// kMostRows. values: [rows, n]; turned: room for a tile.
void turn_tile(ConstMatrix values, std::size_t p, std::size_t first, const RowBuffer& to,
               float* turned);
// dw += dy^T x; dy_turned: [out, tokens], x: its panels; dw: [out, in]. scratch: one tile.
void add_weight_gradient(const Region& region, const RowOperand& dy_turned, const TokenPanels& x,
                         const TileScratch& scratch, Matrix dw);
// As bias_gradient, without pieces.
void add_bias_gradient(const Region& region, ConstMatrix dy, std::span<const float> scale,
                       std::span<float> db);

}  // namespace fourfold
