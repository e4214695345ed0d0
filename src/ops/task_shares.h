// Tasks that threads share while they run. Each has a range and works through it; one that is done
// takes from the end of the longest range left. Threads that the machine gives less of its memory
// or time then keep nobody waiting. Only for tasks whose results do not depend on who computes
// them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "fourfold/runtime.h"
#include "platform/thread_pool.h"

namespace fourfold {

class TaskShares {
 public:
  TaskShares() = default;
  // For one pass of one region over so many tasks.
  TaskShares(std::size_t tasks, Workspace& workspace);

  bool empty() const { return ranges_ == nullptr; }
  // The next task of the thread; none when all are taken.
  std::optional<std::size_t> take(const Region& region) const;

 private:
  // First task and the one after the last, of 32 bits each, on a cache line of its own.
  struct alignas(64) Range {
    std::atomic<std::uint64_t> bounds;
  };
  enum class End { first, last };
  static std::optional<std::size_t> take(Range& range, End end);

  Range* ranges_ = nullptr;
};

}  // namespace fourfold
