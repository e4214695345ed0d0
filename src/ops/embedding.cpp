#include "ops/embedding.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr std::size_t kColumns = 64;  // of one task of backward

// to = table[row], or to += table[row].
void put_row(const Weight& table, std::size_t row, bool add, std::span<float> to) {
  if (const auto* wide = std::get_if<ConstMatrix>(&table)) {
    const float* from = wide->row(row).data();
    if (add)
      kernels().rows.add(from, to.data(), to.size());
    else
      std::copy_n(from, to.size(), to.data());
    return;
  }
  const auto from = std::get<ConstBf16Matrix>(table).row(row);
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = add ? to[i] + to_float(from[i]) : to_float(from[i]);
}

}  // namespace

void embedding_forward(std::span<const std::int32_t> ids, const Weight& table, bool add, Matrix y,
                       Workspace& workspace) {
  workspace.runtime().pool().for_each(ids.size(), [&](std::size_t t, unsigned) {
    put_row(table, static_cast<std::size_t>(ids[t]), add, y.row(t));
  });
}

void embed_tokens(std::span<const std::int32_t> ids, std::span<const std::size_t> sequence_lengths,
                  const TokenTables& tables, Matrix y, Workspace& workspace) {
  workspace.runtime().pool().parallel([&](unsigned thread, unsigned threads) {
    const std::size_t first = ids.size() * thread / threads,
                      last = ids.size() * (thread + 1) / threads;
    std::size_t start = 0;  // of the sequence
    for (const std::size_t length : sequence_lengths) {
      for (std::size_t t = std::max(first, start); t < std::min(last, start + length); ++t) {
        put_row(tables.words, static_cast<std::size_t>(ids[t]), false, y.row(t));
        put_row(tables.types, 0, true, y.row(t));
        put_row(tables.positions, t - start, true, y.row(t));
      }
      start += length;
    }
  });
}

void embedding_backward(std::span<const std::int32_t> ids, ConstMatrix dy, Matrix dtable,
                        Workspace& workspace) {
  const auto add = kernels().rows.add;
  workspace.runtime().pool().for_each(
      (dy.cols + kColumns - 1) / kColumns, [&](std::size_t task, unsigned) {
        const std::size_t first = task * kColumns, width = std::min(kColumns, dy.cols - first);
        for (std::size_t t = 0; t < ids.size(); ++t)
          add(dy.row(t).data() + first, dtable.row(static_cast<std::size_t>(ids[t])).data() + first,
              width);
      });
}

}  // namespace fourfold
