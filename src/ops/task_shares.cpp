#include "ops/task_shares.h"

#include <new>

namespace fourfold {
namespace {

std::uint64_t bounds_of(std::uint64_t first, std::uint64_t last) { return last << 32 | first; }
std::uint64_t first_of(std::uint64_t bounds) { return bounds & 0xFFFFFFFFU; }
std::uint64_t last_of(std::uint64_t bounds) { return bounds >> 32; }

}  // namespace

TaskShares::TaskShares(std::size_t tasks, Workspace& workspace) {
  const unsigned threads = workspace.runtime().threads();
  void* memory = workspace.take(threads * sizeof(Range) / sizeof(float));
  ranges_ = static_cast<Range*>(memory);
  for (unsigned thread = 0; thread < threads; ++thread) {
    const Share share(tasks, thread, threads);
    new (ranges_ + thread) Range{bounds_of(share.first, share.last)};
  }
}

// What a task writes is published by the barrier behind the pass, not here.
std::optional<std::size_t> TaskShares::take(Range& range, End end) {
  std::uint64_t bounds = range.bounds.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t first = first_of(bounds), last = last_of(bounds);
    if (first == last) return std::nullopt;
    const bool front = end == End::first;
    const std::uint64_t rest = front ? bounds_of(first + 1, last) : bounds_of(first, last - 1);
    if (range.bounds.compare_exchange_weak(bounds, rest, std::memory_order_relaxed))
      return front ? first : last - 1;
  }
}

std::optional<std::size_t> TaskShares::take(const Region& region) const {
  if (const auto task = take(ranges_[region.thread], End::first)) return task;
  for (;;) {
    Range* longest = nullptr;
    std::uint64_t most = 0;
    for (unsigned thread = 0; thread < region.threads; ++thread) {
      const std::uint64_t bounds = ranges_[thread].bounds.load(std::memory_order_relaxed);
      if (last_of(bounds) - first_of(bounds) <= most) continue;
      most = last_of(bounds) - first_of(bounds);
      longest = ranges_ + thread;
    }
    if (longest == nullptr) return std::nullopt;
    if (const auto task = take(*longest, End::last)) return task;
  }
}

}  // namespace fourfold
