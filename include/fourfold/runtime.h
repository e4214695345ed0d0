// Threads and scratch memory. One Runtime per process is the rule; one Workspace per concurrent
// caller.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

class ThreadPool;
class StageClock;

struct Threads {
  // 0: FOURFOLD_NUM_THREADS, else the CPUs this process may use (affinity, cgroup quota).
  unsigned count = 0;
  // One thread per CPU, when every usable CPU gets one; the caller's own mask is put back after
  // each call.
  bool pin = true;
};

// Seconds one thread computed and waited inside parallel regions.
struct ThreadTime {
  double busy_s = 0;
  double wait_s = 0;
};

class Runtime {
 public:
  // Throws Error{invalid_argument} for a bad FOURFOLD_NUM_THREADS or a count above 1024,
  // Error{unsupported} for an instruction set asked for in FOURFOLD_ISA that is unknown, not
  // compiled in, or not on this CPU.
  explicit Runtime(Threads threads = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  std::string_view isa() const;  // in use: scalar, avx2, avx512 or avx512_bf16
  unsigned threads() const;
  const std::string& threads_reason() const;  // why this many, for people
  std::vector<ThreadTime> thread_times() const;
  void reset_thread_times();

  ThreadPool& pool() const { return *pool_; }

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::string reason_;
};

// Scratch memory that grows to the largest call and is then reused. Not for two callers at once.
class Workspace {
 public:
  explicit Workspace(Runtime& runtime);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  Runtime& runtime() const { return *runtime_; }

  // Uninitialised, 64-byte aligned, `count` floats. Released in reverse order by ScratchScope.
  float* take(std::size_t count);
  // What a layer leaves here for its next call; null at first. key: an address of the layer's own.
  // The reference is good until the next call with a new key.
  std::shared_ptr<void>& kept(const void* key);

  StageClock* clock = nullptr;  // when set, layers add the time of each stage here

 private:
  friend class ScratchScope;
  struct Blocks;
  Runtime* runtime_;
  std::unique_ptr<Blocks> blocks_;
};

// Gives back everything taken from the workspace since its construction.
class ScratchScope {
 public:
  explicit ScratchScope(Workspace& workspace);
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  Workspace& workspace_;
  std::size_t block_, used_;
};

}  // namespace fourfold
