// While the library computes on the caller's thread: default floating-point state and, with
// pinning, the first CPU of the pool. Both are put back at the end, so the caller never notices.
#pragma once

#include <sched.h>

#include <cfenv>

namespace fourfold {

class CallerScope {
 public:
  explicit CallerScope(int cpu);  // cpu < 0: leave the affinity alone. Inner scopes do nothing.
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  bool outermost_, moved_ = false;
  std::fenv_t floating_point_;
  cpu_set_t affinity_;
};

}  // namespace fourfold
