// Sequences that lie one after the other in the rows of a matrix, given by their lengths.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "layers/shape_check.h"

namespace fourfold {

// Throws Error{shape_mismatch} unless the lengths add up to tokens.
inline void check_sequences(const char* where, std::size_t tokens,
                            std::span<const std::size_t> sequence_lengths) {
  std::size_t covered = 0;  // stops at the largest number instead of wrapping around
  for (const std::size_t length : sequence_lengths) covered += std::min(length, SIZE_MAX - covered);
  check_length(where, "x (rows against the sum of sequence_lengths)", tokens, covered);
}

inline std::size_t longest_sequence(std::span<const std::size_t> sequence_lengths) {
  return sequence_lengths.empty()
             ? 0
             : *std::max_element(sequence_lengths.begin(), sequence_lengths.end());
}

}  // namespace fourfold
