#include "platform/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <utility>

#include "fourfold/error.h"

namespace fourfold {
namespace {

using Clock = std::chrono::steady_clock;
// Longer than the gap between two regions of a forward pass.
constexpr auto kSpin = std::chrono::microseconds(50);

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Counts forks; a pool that sees a new count knows that its workers stayed in the parent. The mutex
// lets one caller at a time start workers; it is held across a fork, so a child never inherits it
// locked by a thread it does not have.
std::atomic<unsigned> fork_count{0};
std::mutex start_mutex;
void watch_forks() {
  static const int registered =
      pthread_atfork([] { start_mutex.lock(); }, [] { start_mutex.unlock(); },
                     [] {
                       fork_count.fetch_add(1);
                       start_mutex.unlock();
                     });
  (void)registered;
}

unsigned usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

}  // namespace

struct ThreadPool::State {
  struct Worker {
    State* state = nullptr;
    unsigned index = 0;
    pthread_t handle{};
  };
  struct alignas(64) Time {
    std::atomic<double> busy{0}, wait{0};
  };

  State(unsigned count, bool may_spin)
      : threads(count),
        spin(may_spin ? kSpin : Clock::duration::zero()),
        workers(count - 1),
        times(count) {}

  void compute(unsigned index) {
    const auto begin = Clock::now();
    function(context, index, threads);
    const auto end = Clock::now();
    times[index].busy.store(
        times[index].busy.load(std::memory_order_relaxed) + seconds(end - begin),
        std::memory_order_relaxed);
  }

  // Waits until ready() holds: spins, then sleeps. `sleepers` tells the other side to wake us; both
  // sides write before they read, so a wake-up cannot be lost.
  template <class Ready>
  void await(std::condition_variable& signal, std::atomic<unsigned>& sleepers, Ready ready) {
    for (const auto limit = Clock::now() + spin; !ready();) {
      if (Clock::now() < limit) {
        _mm_pause();
        continue;
      }
      std::unique_lock lock(mutex);
      sleepers.fetch_add(1);
      signal.wait(lock, ready);
      sleepers.fetch_sub(1);
    }
  }

  void meet(unsigned index) {
    const auto begin = Clock::now();
    const std::uint64_t phase = phases.load();
    if (arrived.fetch_add(1) + 1 == threads) {
      arrived.store(0);
      phases.fetch_add(1);
      if (meeting_sleepers.load() > 0) {
        const std::lock_guard lock(mutex);
        meeting_signal.notify_all();
      }
    } else {
      await(meeting_signal, meeting_sleepers, [&] { return phases.load() != phase; });
    }
    // The region counts it as computing.
    times[index].busy.store(
        times[index].busy.load(std::memory_order_relaxed) - seconds(Clock::now() - begin),
        std::memory_order_relaxed);
  }

  void serve(unsigned index) {
    std::fesetenv(FE_DFL_ENV);
    for (std::uint64_t seen = 0;;) {
      await(start_signal, start_sleepers, [&] { return epoch.load() != seen; });
      seen = epoch.load();
      if (stop.load()) return;
      compute(index);
      if (running.fetch_sub(1) == 1 && done_sleepers.load() > 0) {
        const std::lock_guard lock(mutex);
        done_signal.notify_all();
      }
    }
  }

  void publish() {
    epoch.fetch_add(1);
    if (start_sleepers.load() > 0) {
      const std::lock_guard lock(mutex);
      start_signal.notify_all();
    }
  }

  const unsigned threads;
  const Clock::duration spin;
  std::mutex turn, mutex;
  std::condition_variable start_signal, done_signal, meeting_signal;
  std::atomic<unsigned> start_sleepers{0}, done_sleepers{0}, meeting_sleepers{0};
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<unsigned> running{0}, arrived{0};
  std::atomic<std::uint64_t> phases{0};  // how many barriers have opened
  std::atomic<bool> stop{false};
  Function function = nullptr;
  void* context = nullptr;
  std::vector<Worker> workers;
  std::size_t started = 0;
  std::vector<Time> times;
  const unsigned born_at_fork = fork_count.load();
};

ThreadPool::ThreadPool(unsigned threads, std::vector<int> cpus)
    : threads_(threads == 0 ? 1 : threads), cpus_(std::move(cpus)) {
  watch_forks();
  // More threads than CPUs: spinning would take the CPU from the thread that is waited for.
  may_spin_ = threads_ <= usable_cpus();
  // With CPUs to spare, pinning would put every process on the same first ones.
  if (cpus_.size() != threads_ || threads_ == 1) cpus_.clear();
  start(std::make_unique<State>(threads_, may_spin_));
}

// Starts the workers of a fresh state. The old one is dropped without its destructor: its workers
// are in the parent.
void ThreadPool::start(std::unique_ptr<State> fresh) {
  (void)state_.release();
  state_ = std::move(fresh);
  for (unsigned index = 1; index < threads_; ++index) {
    const int cpu = cpus_.empty() ? -1 : cpus_[index];
    int failed = start_worker(index, cpu);
    if (failed == EINVAL && cpu >= 0) failed = start_worker(index, -1);  // the CPU has left our set
    if (failed == 0) {
      ++state_->started;
      continue;
    }
    stop();
    throw Error(ErrorCode::out_of_memory, "cannot start thread " + std::to_string(index + 1) +
                                              " of " + std::to_string(threads_) + ": " +
                                              std::strerror(failed) + "; ask for fewer threads");
  }
}

int ThreadPool::start_worker(unsigned index, int cpu) {
  auto& worker = state_->workers[index - 1];
  worker.state = state_.get();
  worker.index = index;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (cpu >= 0 && cpu < CPU_SETSIZE) {
    // Set before the thread runs: a new thread inherits its creator's mask and would wait for that
    // CPU.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_attr_setaffinity_np(&attributes, sizeof(one), &one);
  }
  const auto body = [](void* argument) -> void* {
    auto* self = static_cast<State::Worker*>(argument);
    self->state->serve(self->index);
    return nullptr;
  };
  // Workers take no signals: those belong to the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&worker.handle, &attributes, body, &worker);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return failed;
}

void ThreadPool::stop() {
  state_->stop.store(true);
  state_->publish();
  for (; state_->started > 0; --state_->started)
    pthread_join(state_->workers[state_->started - 1].handle, nullptr);
}

ThreadPool::~ThreadPool() {
  if (state_->born_at_fork != fork_count.load())
    (void)state_.release();  // the workers live in the parent process
  else
    stop();
}

ThreadPool::State& ThreadPool::running_state() {
  const std::lock_guard lock(start_mutex);
  // Too few workers: an earlier start in a child failed.
  if (state_->born_at_fork != fork_count.load() || state_->started + 1 != threads_)
    start(std::make_unique<State>(threads_, may_spin_));
  return *state_;
}

void ThreadPool::run(Function function, void* context) {
  State& state = running_state();
  const std::lock_guard turn(state.turn);
  const auto begin = Clock::now();
  state.function = function;
  state.context = context;
  if (threads_ > 1) {
    state.running.store(threads_ - 1);
    state.publish();
  }
  state.compute(0);
  if (threads_ > 1)
    state.await(state.done_signal, state.done_sleepers, [&] { return state.running.load() == 0; });
  const double region = seconds(Clock::now() - begin);
  // Waiting is the part of the region in which a thread did not compute; kept as the region's total
  // until read.
  for (auto& time : state.times)
    time.wait.store(time.wait.load(std::memory_order_relaxed) + region, std::memory_order_relaxed);
}

void ThreadPool::barrier(unsigned thread) {
  if (threads_ > 1) state_->meet(thread);
}

std::vector<ThreadTime> ThreadPool::times() const {
  std::vector<ThreadTime> result;
  for (const auto& time : state_->times) {
    const double busy = time.busy.load(), regions = time.wait.load();
    result.push_back({busy, regions > busy ? regions - busy : 0});
  }
  return result;
}

void ThreadPool::reset_times() {
  for (auto& time : state_->times) {
    time.busy.store(0);
    time.wait.store(0);
  }
}

}  // namespace fourfold
