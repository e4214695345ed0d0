// Rotary positions (Su et al. 2021, arXiv 2104.09864): pairs of a head's values turn by an angle
// that grows with the position.
#pragma once

#include <cstddef>
#include <span>

#include "fourfold/matrix.h"
#include "fourfold/position.h"
#include "fourfold/runtime.h"

namespace fourfold {

// Values of a head that turn.
std::size_t rotary_width(const RotaryOptions& options, std::size_t head_dim);

// table: [positions, rotary_width] = cosines, then sines, of each pair's angle at each position,
// rounded from float64.
void fill_rotary_table(const RotaryOptions& options, Matrix table, ThreadPool& pool);

enum class Turn { forward, back };

// x: [tokens, n_heads * head_dim] in place; positions count from 0 in each sequence; table as above
// with at least as many rows as the longest sequence.
void turn_heads(Matrix x, std::size_t n_heads, std::span<const std::size_t> sequence_lengths,
                ConstMatrix table, RotaryStyle style, Turn turn, ThreadPool& pool);

}  // namespace fourfold
