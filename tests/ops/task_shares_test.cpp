#include "ops/task_shares.h"

#include <doctest/doctest.h>

#include <atomic>
#include <vector>

namespace fourfold {
namespace {

TEST_CASE("a thread takes its own tasks in order, then those of others from their ends") {
  Runtime runtime({.count = 3, .pin = false});
  Workspace workspace(runtime);
  const ScratchScope scope(workspace);
  const TaskShares shares(7, workspace);  // 0 1 | 2 3 | 4 5 6
  CHECK_FALSE(shares.empty());
  const Region second{runtime.pool(), 1, 3};
  std::vector<std::size_t> taken;
  while (const auto task = shares.take(second)) taken.push_back(*task);
  CHECK(taken == std::vector<std::size_t>{2, 3, 6, 1, 5, 0, 4});
  CHECK_FALSE(shares.take(Region{runtime.pool(), 0, 3}).has_value());
}

TEST_CASE("each task is taken once, however the threads run") {
  for (const unsigned threads : {1U, 2U, 3U, 7U}) {
    Runtime runtime({.count = threads, .pin = false});
    Workspace workspace(runtime);
    for (const std::size_t tasks : {0U, 1U, 2U, 5U, 1000U})
      for (int round = 0; round < 20; ++round) {
        const ScratchScope scope(workspace);
        const TaskShares shares(tasks, workspace);
        std::vector<std::atomic<int>> taken(tasks);
        runtime.pool().region([&](const Region& region) {
          while (const auto task = shares.take(region)) ++taken[*task];
        });
        std::size_t wrong = 0;
        for (const auto& count : taken) wrong += count != 1;
        CHECK(wrong == 0);
      }
  }
}

TEST_CASE("nobody waits for the tasks of a thread that is late") {
  Runtime runtime({.count = 2, .pin = false});
  Workspace workspace(runtime);
  const ScratchScope scope(workspace);
  const TaskShares shares(100, workspace);
  std::atomic<std::size_t> by_first = 0;
  runtime.pool().region([&](const Region& region) {
    if (region.thread == 0) {
      while (shares.take(region)) ++by_first;
      region.barrier();
    } else {
      region.barrier();
      CHECK_FALSE(shares.take(region).has_value());
    }
  });
  CHECK(by_first == 100);
}

}  // namespace
}  // namespace fourfold
