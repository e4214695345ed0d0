#include "ops/embedding.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr std::size_t kColumns = 64;  // of one task of backward

float as_f32(float value) { return value; }
float as_f32(Bf16 value) { return to_float(value); }

}  // namespace

void embedding_forward(std::span<const std::int32_t> ids, const Weight& table, bool add, Matrix y,
                       Workspace& workspace) {
  std::visit(
      [&](const auto& rows) {
        workspace.runtime().pool().for_each(ids.size(), [&](std::size_t t, unsigned) {
          const auto from = rows.row(static_cast<std::size_t>(ids[t]));
          const auto to = y.row(t);
          for (std::size_t i = 0; i < to.size(); ++i)
            to[i] = add ? to[i] + as_f32(from[i]) : as_f32(from[i]);
        });
      },
      table);
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
