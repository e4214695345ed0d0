// Runtime: how many threads and why. Workspace: scratch that is aligned, stays put and is reused.
#include "fourfold/runtime.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <stdlib.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fourfold/error.h"
#include "platform/cpu_budget.h"

namespace fourfold {
namespace {

// Sets a variable (or removes it, without a value) and puts the old value back at the end.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST_CASE("without a wish: the budget of the process, with its reason") {
  const Variable unset("FOURFOLD_NUM_THREADS", nullptr);
  const CpuBudget budget = read_cpu_budget();
  const Runtime runtime;
  CHECK(runtime.threads() == budget.threads);
  CHECK(runtime.threads_reason() == budget.reason);
}

TEST_CASE("an empty FOURFOLD_NUM_THREADS is no wish") {
  const Variable empty("FOURFOLD_NUM_THREADS", "");
  CHECK(Runtime().threads() == read_cpu_budget().threads);
}

TEST_CASE("FOURFOLD_NUM_THREADS beats the budget, an explicit count beats both") {
  const Variable three("FOURFOLD_NUM_THREADS", "3");
  const Runtime from_variable;
  CHECK(from_variable.threads() == 3);
  CHECK(from_variable.threads_reason() == "FOURFOLD_NUM_THREADS");
  const Runtime from_count({.count = 5});
  CHECK(from_count.threads() == 5);
  CHECK(from_count.threads_reason() == "asked for");
}

TEST_CASE("a bad FOURFOLD_NUM_THREADS is an error that shows it") {
  for (const char* value : {"0", "-1", "+2", " 2", "2 ", "two", "1.5", "0x2", "1025", "4,4",
                            "99999999999999999999999", "18446744073709551617"}) {
    CAPTURE(value);
    const Variable bad("FOURFOLD_NUM_THREADS", value);
    try {
      const Runtime runtime;
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.code == ErrorCode::invalid_argument);
      const std::string text = error.what();
      CHECK(text.find("FOURFOLD_NUM_THREADS") != std::string::npos);
      CHECK(text.find('"' + std::string(value) + '"') != std::string::npos);
      CHECK(text.find("1024") != std::string::npos);
    }
    CHECK(Runtime({.count = 2}).threads() == 2);
  }
}

TEST_CASE("more than 1024 threads is an error that names the number") {
  for (const unsigned count : {1025U, 100'000U, UINT32_MAX}) {
    CAPTURE(count);
    try {
      const Runtime runtime({.count = count});
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.code == ErrorCode::invalid_argument);
      CHECK(std::string(error.what()).find(std::to_string(count)) != std::string::npos);
    }
  }
}

TEST_CASE("a thread bound to one CPU makes a runtime of one thread") {
  const Variable unset("FOURFOLD_NUM_THREADS", nullptr);
  unsigned threads = 0;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(read_cpu_budget().cpus.back(), &one);
    if (sched_setaffinity(0, sizeof(one), &one) == 0) threads = Runtime().threads();
  }).join();
  CHECK(threads == 1);
}

TEST_CASE("scratch is aligned, writable and apart") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  CHECK(&workspace.runtime() == &runtime);
  const ScratchScope scope(workspace);
  std::vector<std::pair<float*, std::size_t>> taken;
  for (const std::size_t count : {1U, 17U, 0U, 1009U, 70'001U, 3U, 200'003U}) {
    float* first = workspace.take(count);
    CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
    taken.emplace_back(first, count);
    for (std::size_t i = 0; i < count; ++i) first[i] = static_cast<float>(taken.size());
  }
  // Written in full and still there: no two pieces overlap and none has moved.
  std::size_t wrong = 0;
  for (std::size_t piece = 0; piece < taken.size(); ++piece)
    for (std::size_t i = 0; i < taken[piece].second; ++i)
      wrong += taken[piece].first[i] != static_cast<float>(piece + 1);
  CHECK(wrong == 0);
}

TEST_CASE("a scope gives back what was taken in it, in nested order") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const ScratchScope outer(workspace);
  float* kept = workspace.take(31);
  kept[30] = 7.5F;
  float *first = nullptr, *second = nullptr;
  {
    const ScratchScope scope(workspace);
    first = workspace.take(90'001);
    second = workspace.take(13);
    second[12] = 1;
  }
  {
    const ScratchScope scope(workspace);
    CHECK(workspace.take(90'001) == first);
    CHECK(workspace.take(13) == second);
  }
  CHECK(kept[30] == 7.5F);
}

TEST_CASE("a repeated call takes no new memory: the same addresses for ever") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  std::vector<float*> seen;
  for (int round = 0; round < 5; ++round) {
    const ScratchScope scope(workspace);
    std::vector<float*> now;
    for (const std::size_t count : {50'021U, 40'009U, 120'011U})
      now.push_back(workspace.take(count));
    if (round > 0) CHECK(now == seen);
    seen = now;
  }
}

TEST_CASE("a size that cannot be had is bad_alloc") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const ScratchScope scope(workspace);
  CHECK_THROWS_AS(workspace.take(SIZE_MAX), std::bad_alloc);
  CHECK_THROWS_AS(workspace.take(SIZE_MAX / sizeof(float)), std::bad_alloc);
  float* after = workspace.take(11);
  after[10] = 1;
  CHECK(after[10] == 1);
}

}  // namespace
}  // namespace fourfold
