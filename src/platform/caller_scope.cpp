#include "platform/caller_scope.h"

#include <pthread.h>

namespace fourfold {
namespace {
thread_local int depth = 0;
}

CallerScope::CallerScope(int cpu) : outermost_(depth++ == 0), floating_point_(), affinity_() {
  if (!outermost_) return;
  std::fegetenv(&floating_point_);
  std::fesetenv(FE_DFL_ENV);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  if (pthread_getaffinity_np(pthread_self(), sizeof(affinity_), &affinity_) != 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  moved_ = pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == 0;
}

CallerScope::~CallerScope() {
  --depth;
  if (!outermost_) return;
  std::fesetenv(&floating_point_);
  if (moved_) pthread_setaffinity_np(pthread_self(), sizeof(affinity_), &affinity_);
}

}  // namespace fourfold
