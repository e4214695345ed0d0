// ThreadPool: every task once, the same split each time, barriers, sleep when idle, and a new life
// after fork().
#include "platform/thread_pool.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace fourfold {
namespace {

// ThreadSanitizer cannot follow threads that start in a forked child.
#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kForks = false;
#else
constexpr bool kForks = true;
#endif
#else
constexpr bool kForks = true;
#endif

constexpr unsigned kThreadCounts[] = {1, 2, 3, 7};

// A number that depends on each task, computed by the pool.
std::uint64_t checksum(ThreadPool& pool, std::size_t count) {
  std::vector<std::uint64_t> values(count);
  pool.for_each(count, [&](std::size_t index, unsigned) { values[index] = index * index + 17; });
  std::uint64_t sum = 0;
  for (const std::uint64_t value : values) sum = sum * 31 + value;
  return sum;
}

std::uint64_t expected_checksum(std::size_t count) {
  std::uint64_t sum = 0;
  for (std::uint64_t index = 0; index < count; ++index) sum = sum * 31 + index * index + 17;
  return sum;
}

double process_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Runs body in a child process that is killed after 5 seconds; its result is the exit code.
template <class Body>
int exit_code_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);
    _exit(body());
  }
  if (child < 0) return -1;
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_CASE("each task runs exactly once, for every count and number of threads") {
  for (const unsigned threads : kThreadCounts) {
    ThreadPool pool(threads, {});
    CHECK(pool.threads() == threads);
    std::size_t wrong = 0;
    for (std::size_t count = 0; count <= 1000; ++count) {
      std::vector<std::atomic<int>> runs(count);
      pool.for_each(count, [&](std::size_t index, unsigned) { runs[index].fetch_add(1); });
      for (const auto& run : runs) wrong += run.load() != 1;
    }
    CAPTURE(threads);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a thread's tasks are one contiguous range, equal in size but for one task, always") {
  for (const unsigned threads : kThreadCounts) {
    ThreadPool pool(threads, {});
    for (const std::size_t count : {1U, 2U, 5U, 7U, 13U, 997U}) {
      CAPTURE(threads);
      CAPTURE(count);
      std::vector<unsigned> first(count), again(count);
      pool.for_each(count, [&](std::size_t index, unsigned thread) { first[index] = thread; });
      pool.for_each(count, [&](std::size_t index, unsigned thread) { again[index] = thread; });
      CHECK(first == again);
      CHECK(std::is_sorted(first.begin(), first.end()));
      CHECK(first.back() < threads);
      for (unsigned thread = 0; thread < threads; ++thread) {
        const auto size = static_cast<std::size_t>(std::count(first.begin(), first.end(), thread));
        CHECK(size >= count / threads);
        CHECK(size <= (count + threads - 1) / threads);
      }
    }
  }
}

TEST_CASE("parallel runs once per thread, thread 0 is the caller, threads are really different") {
  ThreadPool pool(7, {});
  std::vector<std::thread::id> ids(7);
  std::atomic<int> calls{0};
  pool.parallel([&](unsigned thread, unsigned threads) {
    if (threads == 7) calls.fetch_add(1);
    ids[thread] = std::this_thread::get_id();
  });
  CHECK(calls.load() == 7);
  CHECK(ids[0] == std::this_thread::get_id());
  CHECK(std::set<std::thread::id>(ids.begin(), ids.end()).size() == 7);
}

TEST_CASE("zero threads means one") {
  ThreadPool pool(0, {});
  CHECK(pool.threads() == 1);
  CHECK(checksum(pool, 11) == expected_checksum(11));
}

TEST_CASE("pinning needs a CPU for each thread") {
  CHECK(ThreadPool(2, {}).caller_cpu() == -1);
  CHECK(ThreadPool(3, {0}).caller_cpu() == -1);
  CHECK(ThreadPool(1, {0}).caller_cpu() == -1);        // one thread is left where it is
  CHECK(ThreadPool(2, {0, 1, 2}).caller_cpu() == -1);  // so are some of many
  CHECK(ThreadPool(2, {0, 1}).caller_cpu() == 0);
}

TEST_CASE("a thousand pools come and go, used and unused") {
  std::size_t wrong = 0;
  for (std::size_t round = 0; round < 1000; ++round) {
    ThreadPool pool(kThreadCounts[round % 4], {});
    if (round % 3 != 0) wrong += checksum(pool, round % 29) != expected_checksum(round % 29);
  }
  CHECK(wrong == 0);
}

TEST_CASE("two callers at once each get their own whole result") {
  ThreadPool pool(3, {});
  std::atomic<int> wrong{0};
  const auto caller = [&](std::size_t count) {
    for (int round = 0; round < 300; ++round)
      if (checksum(pool, count) != expected_checksum(count)) wrong.fetch_add(1);
  };
  std::thread other(caller, 211);
  caller(307);
  other.join();
  CHECK(wrong.load() == 0);
}

TEST_CASE("writes of a region are seen by the next one on other threads") {
  ThreadPool pool(3, {});
  std::vector<std::size_t> values(97);
  for (std::size_t round = 0; round < 500; ++round)
    pool.for_each(97, [&](std::size_t i, unsigned) { ++values[(i * 31 + round * 13) % 97]; });
  CHECK(std::all_of(values.begin(), values.end(), [](std::size_t v) { return v == 500; }));
}

TEST_CASE("an idle pool sleeps: less than 20 ms of CPU in a second") {
  for (const unsigned threads : {2U, 7U}) {
    ThreadPool pool(threads, {});
    CHECK(checksum(pool, 1000) == expected_checksum(1000));
    const double before = process_cpu_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    CAPTURE(threads);
    CHECK(process_cpu_seconds() - before < 0.020);
  }
}

TEST_CASE("busy and waiting times are counted for each thread and can be reset") {
  ThreadPool pool(2, {});
  // Only the last task works, so thread 1 is busy and thread 0 waits.
  pool.for_each(2, [](std::size_t index, unsigned) {
    if (index == 1) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  });
  const auto times = pool.times();
  REQUIRE(times.size() == 2);
  CHECK(times[1].busy_s >= 0.055);
  CHECK(times[0].busy_s < times[1].busy_s);
  CHECK(times[0].wait_s > 0.010);
  CHECK(times[0].busy_s + times[0].wait_s >= 0.055);
  pool.reset_times();
  for (const ThreadTime& time : pool.times()) {
    CHECK(time.busy_s == 0);
    CHECK(time.wait_s == 0);
  }
}

// Rounds in which each thread reads what the others wrote in the round before; returns how often a
// value was not there.
std::size_t missed_writes(ThreadPool& pool, std::size_t rounds) {
  std::vector<std::size_t> values(pool.threads());
  std::atomic<std::size_t> missed{0};
  pool.region([&](const Region& region) {
    for (std::size_t round = 1; round <= rounds; ++round) {
      values[region.thread] = round * 31 + region.thread;
      region.barrier();
      for (std::size_t t = 0; t < region.threads; ++t)
        if (values[t] != round * 31 + t) missed.fetch_add(1);
      region.barrier();  // nobody writes while another one reads
    }
  });
  return missed.load();
}

TEST_CASE("a region tells each thread its place and its share") {
  for (const unsigned threads : kThreadCounts) {
    CAPTURE(threads);
    ThreadPool pool(threads, {});
    for (const std::size_t count : {0U, 1U, 5U, 997U}) {
      std::vector<int> seen(count);
      std::vector<unsigned> places(threads, 99);
      pool.region([&](const Region& region) {
        places[region.thread] = region.thread;
        if (region.threads != threads || &region.pool != &pool) places[region.thread] = 98;
        const Share share = region.share(count);
        for (std::size_t i = share.first; i < share.last; ++i) ++seen[i];
      });
      CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(count));
      for (unsigned thread = 0; thread < threads; ++thread) CHECK(places[thread] == thread);
    }
  }
}

TEST_CASE("what is written before a barrier is read after it, thousands of times in one region") {
  for (const unsigned threads : kThreadCounts) {
    CAPTURE(threads);
    ThreadPool pool(threads, {});
    CHECK(missed_writes(pool, 3000) == 0);
    for (int region = 0; region < 100; ++region) CHECK(missed_writes(pool, 3) == 0);
  }
}

TEST_CASE("barriers with more threads than CPUs, and with threads that come late") {
  ThreadPool pool(4 * std::max(1U, std::thread::hardware_concurrency()) + 1, {});
  CHECK(missed_writes(pool, 200) == 0);
  std::atomic<unsigned> before{0}, early{0};
  pool.region([&](const Region& region) {
    for (unsigned round = 0; round < 3; ++round) {
      if (region.thread == round) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      before.fetch_add(1);
      region.barrier();
      if (before.load() < (round + 1) * region.threads) early.fetch_add(1);
    }
  });
  CHECK(early.load() == 0);
}

TEST_CASE("two callers with barriers each get a region of their own") {
  ThreadPool pool(3, {});
  std::atomic<std::size_t> missed{0};
  const auto caller = [&] {
    for (int region = 0; region < 200; ++region) missed.fetch_add(missed_writes(pool, 5));
  };
  std::thread other(caller);
  caller();
  other.join();
  CHECK(missed.load() == 0);
}

TEST_CASE("waiting at a barrier is no computing") {
  ThreadPool pool(3, {});
  pool.region([&](const Region& region) {
    if (region.thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(80));
    region.barrier();
  });
  const auto times = pool.times();
  REQUIRE(times.size() == 3);
  CHECK(times[1].busy_s >= 0.075);
  for (const unsigned thread : {0U, 2U}) {
    CAPTURE(thread);
    CHECK(times[thread].busy_s >= 0);
    CHECK(times[thread].busy_s < 0.040);
    CHECK(times[thread].wait_s > 0.040);
    CHECK(times[thread].busy_s + times[thread].wait_s >= 0.075);
  }
}

TEST_CASE("after fork() the child computes with workers of its own, fifty times" *
          doctest::skip(!kForks)) {
  ThreadPool pool(3, {});
  CHECK(checksum(pool, 503) == expected_checksum(503));
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    const int code = exit_code_of_child([&] {
      for (int call = 0; call < 3; ++call)
        if (checksum(pool, 503) != expected_checksum(503) || missed_writes(pool, 5) > 0) return 1;
      return 0;
    });
    REQUIRE(code == 0);
  }
  CHECK(checksum(pool, 503) == expected_checksum(503));
}

TEST_CASE("a child of a child computes too" * doctest::skip(!kForks)) {
  ThreadPool pool(3, {});
  CHECK(checksum(pool, 101) == expected_checksum(101));
  const auto grandchild = [&] { return checksum(pool, 101) == expected_checksum(101) ? 0 : 1; };
  SUBCASE("when the child used the pool") {
    CHECK(exit_code_of_child([&] {
            if (checksum(pool, 103) != expected_checksum(103)) return 1;
            const int code = exit_code_of_child(grandchild);
            return code == 0 && checksum(pool, 107) == expected_checksum(107) ? 0 : 2;
          }) == 0);
  }
  SUBCASE("when the child did not") {
    CHECK(exit_code_of_child([&] { return exit_code_of_child(grandchild) == 0 ? 0 : 2; }) == 0);
  }
}

TEST_CASE("a child may destroy a pool of its parent, and make new ones" * doctest::skip(!kForks)) {
  CHECK(exit_code_of_child([] {
          auto pool = std::make_unique<ThreadPool>(3, std::vector<int>{});
          if (checksum(*pool, 61) != expected_checksum(61)) return 1;
          const int code = exit_code_of_child([&] {
            pool.reset();
            ThreadPool fresh(2, {});
            return checksum(fresh, 67) == expected_checksum(67) ? 0 : 2;
          });
          return code == 0 && checksum(*pool, 71) == expected_checksum(71) ? 0 : 3;
        }) == 0);
}

TEST_CASE("a fork while another thread computes leaves the child usable" * doctest::skip(!kForks)) {
  ThreadPool pool(3, {});
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread busy([&] {
    while (!stop.load())
      if (checksum(pool, 401) != expected_checksum(401)) wrong.fetch_add(1);
  });
  for (int round = 0; round < 20; ++round) {
    const int code =
        exit_code_of_child([&] { return checksum(pool, 409) == expected_checksum(409) ? 0 : 1; });
    CAPTURE(round);
    CHECK(code == 0);
  }
  stop.store(true);
  busy.join();
  CHECK(wrong.load() == 0);
}

}  // namespace
}  // namespace fourfold
