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

// dtable[ids[t]] += dy[t] in the order of t, whatever the number of threads. dy: [tokens, d_model].
void embedding_backward(std::span<const std::int32_t> ids, ConstMatrix dy, Matrix dtable,
                        Workspace& workspace);

}  // namespace fourfold
