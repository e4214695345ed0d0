// A persistent pool with a fixed split: thread t of T always gets the same part of a range. The
// caller is thread 0. Workers spin briefly, then sleep; a forked child starts its own workers at
// the first call.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "fourfold/runtime.h"

namespace fourfold {

// The part of an index range that falls to one thread: contiguous, and the same every time.
struct Share {
  std::size_t first, last;
  Share(std::size_t count, unsigned thread, unsigned threads)
      : first(count * thread / threads), last(count * (thread + 1) / threads) {}
};

class ThreadPool;

// What one thread sees of a parallel region.
struct Region {
  ThreadPool& pool;
  unsigned thread, threads;

  // Waits until all threads of the region have come here. What they wrote before can be read after.
  void barrier() const;
  Share share(std::size_t count) const { return {count, thread, threads}; }
};

class ThreadPool {
 public:
  // cpus: where to pin, one thread each. Without exactly one per thread, and for a single thread,
  // nothing is pinned.
  ThreadPool(unsigned threads, std::vector<int> cpus);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned threads() const { return threads_; }
  int caller_cpu() const { return cpus_.empty() ? -1 : cpus_.front(); }

  // Calls work(thread, threads) once on each thread and returns when all are done. work must not
  // throw. A second caller waits for its turn.
  template <class Work>
  void parallel(Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    run([](void* context, unsigned thread,
           unsigned threads) { (*static_cast<Plain*>(context))(thread, threads); },
        const_cast<void*>(static_cast<const void*>(&work)));
  }

  // The same with work(region), which may have barriers.
  template <class Work>
  void region(Work&& work) {
    parallel([&](unsigned thread, unsigned threads) { work(Region{*this, thread, threads}); });
  }

  // Calls task(index, thread) for each index below count; thread t gets one contiguous range.
  template <class Task>
  void for_each(std::size_t count, Task&& task) {
    parallel([&](unsigned thread, unsigned threads) {
      const Share share(count, thread, threads);
      for (std::size_t index = share.first; index < share.last; ++index) task(index, thread);
    });
  }

  std::vector<ThreadTime> times() const;
  void reset_times();

 private:
  friend struct Region;
  using Function = void (*)(void* context, unsigned thread, unsigned threads);
  struct State;
  void run(Function function, void* context);
  void barrier(unsigned thread);
  State& running_state();
  void start(std::unique_ptr<State> fresh);
  int start_worker(unsigned index, int cpu);  // 0 or an errno
  void stop();

  unsigned threads_;
  bool may_spin_ = false;
  std::vector<int> cpus_;
  std::unique_ptr<State> state_;
};

inline void Region::barrier() const { pool.barrier(thread); }

}  // namespace fourfold
