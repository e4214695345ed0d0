// Rows of a table by number, and the sums that their gradients are.
#pragma once

#include <cstdint>
#include <span>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

// y = table[ids], or y += table[ids]. ids: [tokens], all inside the table: [vocab_size, d_model];
// y: [tokens, d_model].
void embedding_forward(std::span<const std::int32_t> ids, const Weight& table, bool add, Matrix y,
                       Workspace& workspace);

// What a token's vector is the sum of. words: [vocab_size, d_model], types: [type_vocab_size,
// d_model], positions: [max_positions, d_model].
struct TokenTables {
  Weight words, types, positions;
};
// y[t] = (words[ids[t]] + types[0]) + positions[p], p counted from 0 in each sequence.
// sequence_lengths add up to tokens, each at most max_positions; y: [tokens, d_model].
void embed_tokens(std::span<const std::int32_t> ids, std::span<const std::size_t> sequence_lengths,
                  const TokenTables& tables, Matrix y, Workspace& workspace);

// dtable[ids[t]] += dy[t] in the order of t, whatever the number of threads. dy: [tokens, d_model].
void embedding_backward(std::span<const std::int32_t> ids, ConstMatrix dy, Matrix dtable,
                        Workspace& workspace);

}  // namespace fourfold
