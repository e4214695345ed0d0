// Operations on the rows of token matrices that several layers share. Each row is done by one
// thread, so bits depend on neither threads nor other rows.
#pragma once

#include <cstdint>
#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

// Sums over tokens, and scratch, are made for at most this many tokens at a time. Gradients of
// weights start a new sum for each piece, so this number is part of their bits.
constexpr std::size_t kTokensPerPiece = 2048;

// The sum of a[i] * b[i], in the order of i.
float dot(std::span<const float> a, std::span<const float> b);

// y += x; x, y: [tokens, d].
void add_rows(ConstMatrix x, Matrix y, Workspace& workspace);
// rows[t, :] *= weights[t]; rows: [tokens, d], weights: [tokens].
void scale_rows(Matrix rows, std::span<const float> weights, Workspace& workspace);
// y[t, :] += weights[t] * values; y: [tokens, d], values: [d].
void add_scaled(std::span<const float> values, std::span<const float> weights, Matrix y,
                Workspace& workspace);
// to[r, :] = from[tokens[r], :].
void gather_rows(ConstMatrix from, std::span<const std::uint32_t> tokens, Matrix to,
                 Workspace& workspace);
// to[tokens[r], :] += from[r, :]; the tokens are distinct.
void scatter_add_rows(ConstMatrix from, std::span<const std::uint32_t> tokens, Matrix to,
                      Workspace& workspace);
void fill_zero(Matrix rows);

}  // namespace fourfold
