// CallerScope: default floating-point state and one CPU inside, the caller's own state afterwards.
#include "platform/caller_scope.h"

#include <doctest/doctest.h>
#include <immintrin.h>
#include <sched.h>

#include <cfenv>
#include <thread>
#include <vector>

namespace fourfold {
namespace {

constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;

std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof(set), &set) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

// Puts the floating-point state back whatever the test does.
class StateGuard {
 public:
  StateGuard() { std::fegetenv(&state_); }
  ~StateGuard() { std::fesetenv(&state_); }
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;

 private:
  std::fenv_t state_;
};

TEST_CASE("rounding mode and flush-to-zero are default inside and restored after") {
  const StateGuard guard;
  std::fesetround(FE_UPWARD);
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
  const unsigned before = _mm_getcsr();
  {
    const CallerScope scope(-1);
    CHECK(std::fegetround() == FE_TONEAREST);
    CHECK((_mm_getcsr() & (kFlushToZero | kDenormalsAreZero)) == 0);
    volatile float tiny = 1e-40F;
    CHECK(tiny * 0.5F > 0.0F);
  }
  CHECK(std::fegetround() == FE_UPWARD);
  CHECK(_mm_getcsr() == before);
}

TEST_CASE("an exception flag of the caller survives, one raised inside does not leak out") {
  const StateGuard guard;
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_OVERFLOW);
  {
    const CallerScope scope(-1);
    std::feraiseexcept(FE_DIVBYZERO);
  }
  CHECK(std::fetestexcept(FE_OVERFLOW) != 0);
  CHECK(std::fetestexcept(FE_DIVBYZERO) == 0);
}

TEST_CASE("the caller runs on the asked CPU inside and on its own mask after") {
  const std::vector<int> before = affinity();
  const int last = before.back();
  {
    const CallerScope scope(last);
    CHECK(affinity() == std::vector<int>{last});
  }
  CHECK(affinity() == before);
}

TEST_CASE("an inner scope neither moves the caller nor ends the outer one") {
  const std::vector<int> before = affinity();
  {
    const CallerScope outer(before.front());
    {
      const CallerScope inner(before.back());
      CHECK(affinity() == std::vector<int>{before.front()});
    }
    CHECK(affinity() == std::vector<int>{before.front()});
    std::thread([&] {
      // Another thread has its own outermost scope.
      const CallerScope other(before.back());
      CHECK(affinity() == std::vector<int>{before.back()});
    }).join();
  }
  CHECK(affinity() == before);
}

TEST_CASE("a CPU that does not exist leaves the mask alone") {
  const std::vector<int> before = affinity();
  for (const int cpu : {-1, CPU_SETSIZE - 1, CPU_SETSIZE, 1 << 30}) {
    CAPTURE(cpu);
    {
      const CallerScope scope(cpu);
      CHECK(affinity() == before);
    }
    CHECK(affinity() == before);
  }
}

}  // namespace
}  // namespace fourfold
