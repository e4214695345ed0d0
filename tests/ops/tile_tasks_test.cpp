// The cut of a product into tasks: each (row, panel) once, threads about equally busy, and the
// order that sums over tokens rely on.
#include "ops/tile_tasks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace fourfold {
namespace {

using Cut = TileTasks::Cut;
constexpr std::size_t kTokens[] = {0,  1,   2,   3,   31,  32,  33,   63,   64,   65,
                                   97, 129, 511, 512, 513, 600, 1031, 1361, 2047, 2048};
constexpr std::size_t kPanels[] = {0, 1, 2, 3, 5, 7, 12, 48, 129};
constexpr unsigned kThreads[] = {1, 2, 3, 7, 16};

struct Task {
  std::size_t first, rows, panel;
};

// What one of the threads gets; the pool is not used.
std::vector<Task> tasks_of(const TileTasks& tasks, ThreadPool& pool, unsigned thread,
                           unsigned threads) {
  std::vector<Task> list;
  tasks.for_each(Region{pool, thread, threads},
                 [&](std::size_t first, std::size_t rows, std::size_t panel) {
                   list.push_back({first, rows, panel});
                 });
  return list;
}

template <class Check>
void for_each_cut(const Check& check) {
  ThreadPool pool(1, {});
  for (const Cut cut : {Cut::rows_too, Cut::panels_only})
    for (const std::size_t tokens : kTokens)
      for (const std::size_t panels : kPanels)
        for (const unsigned threads : kThreads) {
          const TileTasks tasks(tokens, panels, threads, cut);
          std::vector<std::vector<Task>> lists;
          for (unsigned thread = 0; thread < threads; ++thread)
            lists.push_back(tasks_of(tasks, pool, thread, threads));
          CAPTURE(tokens);
          CAPTURE(panels);
          CAPTURE(threads);
          CAPTURE((cut == Cut::panels_only));
          check(tasks, lists);
        }
}

TEST_CASE(
    "every (row, panel) is in exactly one task, of an even start and at most kMostRows rows") {
  for_each_cut([](const TileTasks& tasks, const std::vector<std::vector<Task>>& lists) {
    std::vector<int> seen(tasks.tokens * tasks.panels);
    std::size_t wrong = 0;
    for (const auto& list : lists)
      for (const Task& task : list) {
        wrong += task.rows == 0 || task.rows > TileTasks::kMostRows || task.first % 2 != 0;
        wrong += task.first + task.rows > tasks.tokens || task.panel >= tasks.panels;
        if (wrong > 0) break;
        for (std::size_t row = task.first; row < task.first + task.rows; ++row)
          ++seen[row * tasks.panels + task.panel];
      }
    CHECK(wrong == 0);
    CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(seen.size()));
  });
}

TEST_CASE("shared panels are each taken once, by whoever asks, unless the rows are cut") {
  Runtime runtime({.count = 2, .pin = false});
  Workspace workspace(runtime);
  for (const std::size_t tokens : kTokens)
    for (const std::size_t panels : kPanels) {
      CAPTURE(tokens);
      CAPTURE(panels);
      const ScratchScope scope(workspace);
      const TileTasks tasks(tokens, panels, 2);
      const TaskShares shares(panels, workspace);
      std::vector<std::size_t> seen(panels);
      std::size_t wrong = 0;
      for (unsigned thread = 0; thread < 2; ++thread)
        tasks.for_each(
            Region{runtime.pool(), thread, 2},
            [&](std::size_t first, std::size_t rows, std::size_t panel) {
              seen.at(panel) += rows;
              // The first thread is alone until it is done.
              wrong += tasks.chunks == 1 && (first != 0 || rows != tokens || thread != 0);
            },
            shares);
      CHECK(wrong == 0);
      CHECK(seen == std::vector<std::size_t>(panels, tokens));
    }
}

TEST_CASE("with panels alone cut, one thread has all rows of a panel, in ascending order") {
  for_each_cut([](const TileTasks& tasks, const std::vector<std::vector<Task>>& lists) {
    if (tasks.cut == Cut::rows_too) return;
    std::vector<std::size_t> next(tasks.panels), owner(tasks.panels, lists.size());
    std::size_t wrong = 0;
    for (std::size_t thread = 0; thread < lists.size(); ++thread)
      for (const Task& task : lists[thread]) {
        wrong += task.first != next[task.panel];
        wrong += owner[task.panel] != lists.size() && owner[task.panel] != thread;
        owner[task.panel] = thread;
        next[task.panel] = task.first + task.rows;
      }
    CHECK(wrong == 0);
  });
}

TEST_CASE("a thread's panels are one range, walked once for each chunk of rows") {
  for_each_cut([](const TileTasks&, const std::vector<std::vector<Task>>& lists) {
    std::size_t wrong = 0;
    for (const auto& list : lists)
      for (std::size_t i = 1; i < list.size(); ++i) {
        const bool same_chunk = list[i].first == list[i - 1].first;
        wrong += same_chunk ? list[i].panel != list[i - 1].panel + 1
                            : list[i].first <= list[i - 1].first;
      }
    CHECK(wrong == 0);
  });
}

TEST_CASE("many rows: no thread has an eighth more than its share, whatever the number of panels") {
  ThreadPool pool(1, {});
  for (const std::size_t panels : {1U, 2U, 3U, 5U, 6U, 12U, 17U, 48U})
    for (const unsigned threads : {1U, 2U, 3U, 4U}) {
      CAPTURE(panels);
      CAPTURE(threads);
      const TileTasks tasks(2048, panels, threads);
      std::size_t most = 0;
      for (unsigned thread = 0; thread < threads; ++thread) {
        std::size_t rows = 0;
        for (const Task& task : tasks_of(tasks, pool, thread, threads)) rows += task.rows;
        most = std::max(most, rows);
      }
      CHECK(most * threads * 8 <= 2048 * panels * 9);
    }
}

TEST_CASE("tiles of sums do not overlap, for any thread and index") {
  for (const std::size_t rows : {1U, 7U, 512U, 2048U}) {
    CAPTURE(rows);
    Runtime runtime({.count = 3});
    Workspace workspace(runtime);
    const TileScratch scratch(rows, 2, workspace);
    std::vector<float*> starts;
    for (unsigned thread = 0; thread < 3; ++thread)
      for (std::size_t index = 0; index < 2; ++index)
        starts.push_back(scratch.tile(Region{runtime.pool(), thread, 3}, index));
    std::sort(starts.begin(), starts.end());
    const std::size_t floats = std::min(rows, TileTasks::kMostRows) * 64;
    for (std::size_t i = 1; i < starts.size(); ++i)
      CHECK(static_cast<std::size_t>(starts[i] - starts[i - 1]) >= floats);
    for (float* start : starts) std::fill_n(start, floats, 1.0F);  // all of it is there
  }
}

}  // namespace
}  // namespace fourfold
