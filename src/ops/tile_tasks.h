// How a product is cut into tasks: (row chunk, panel) pairs, each computed whole by one thread.
#pragma once

#include <algorithm>
#include <cstddef>

#include "fourfold/runtime.h"
#include "kernels/gemm_kernels.h"
#include "ops/task_shares.h"
#include "platform/thread_pool.h"

namespace fourfold {

struct TileTasks {
  // Rows of one task: its sums (256 x 64 floats) and a depth block of x stay in the L2 cache.
  static constexpr std::size_t kMostRows = 256, kFewestRows = 32;

  // Whether two threads may have rows of the same panel. If not, all rows of a panel come in order.
  enum class Cut { rows_too, panels_only };

  std::size_t tokens, rows, chunks, panels;
  Cut cut;

  // Where the threads cannot share the panels evenly, the rows are cut smaller.
  TileTasks(std::size_t n_tokens, std::size_t n_panels, std::size_t threads,
            Cut how = Cut::rows_too)
      : tokens(n_tokens), panels(n_panels), cut(how) {
    const bool even_panels = how == Cut::panels_only || panels % threads == 0;
    const std::size_t wanted = even_panels ? 1 : (16 * threads + panels - 1) / panels;
    const std::size_t even = (tokens + wanted - 1) / wanted;
    const std::size_t most = std::clamp(even, kFewestRows, kMostRows);
    // Chunks of nearly equal height: a short last one would waste the tile.
    chunks = std::max<std::size_t>(1, (tokens + most - 1) / most);
    rows = ((tokens + chunks - 1) / chunks + 1) / 2 * 2;  // bf16 tokens go in pairs
    chunks = rows == 0 ? 0 : (tokens + rows - 1) / rows;
  }

  // Calls tile(first row, rows, panel) for the thread's tasks. A thread has a range of panels and
  // walks them once per chunk: the chunk of x then stays in the cache while weights pass by. With
  // one chunk, panels can be shared as the threads get to them.
  template <class Tile>
  void for_each(const Region& region, Tile tile, const TaskShares& shares = {}) const {
    if (!shares.empty() && chunks == 1) {
      while (const auto panel = shares.take(region)) tile(0, tokens, *panel);
      return;
    }
    Share share = region.share(panels * (cut == Cut::rows_too ? chunks : 1));
    if (share.first == share.last || chunks == 0) return;
    if (cut == Cut::panels_only) {
      share.first *= chunks;
      share.last *= chunks;
    }
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
      for (std::size_t p = share.first / chunks; p <= (share.last - 1) / chunks; ++p) {
        const std::size_t task = p * chunks + chunk;
        if (task < share.first || task >= share.last) continue;
        tile(chunk * rows, std::min(rows, tokens - chunk * rows), p);
      }
  }
};

// Sums of tiles: each thread has `tiles` blocks of [at most `rows`, 64], or of [64, rows] with
// kTurnedPad floats between the rows of a turned one.
class TileScratch {
 public:
  static constexpr std::size_t kTurnedPad =
      16;  // rows then do not start on the same few cache sets

  TileScratch(std::size_t rows, std::size_t tiles, Workspace& workspace)
      : tile_((std::min(rows, TileTasks::kMostRows) + kTurnedPad) * kPanel),
        tiles_(tiles),
        base_(workspace.take(workspace.runtime().threads() * tiles * tile_)) {}
  float* tile(const Region& region, std::size_t index = 0) const {
    return base_ + (region.thread * tiles_ + index) * tile_;
  }

 private:
  std::size_t tile_, tiles_;
  float* base_;
};

}  // namespace fourfold
