// The one Runtime of the process and its workspaces, as Python threads share them. Everything here
// is called with the GIL held, which therefore is the only lock: a fork never meets a held one.
#pragma once

#include <memory>
#include <vector>

#include "fourfold/runtime.h"

namespace fourfold::python {

struct RuntimeState {
  Runtime runtime;
  std::vector<std::unique_ptr<Workspace>> idle;

  explicit RuntimeState(Threads threads) : runtime(threads) {}
};

// Made at first use.
std::shared_ptr<RuntimeState> shared_runtime();

// New calls use a Runtime with this many threads, running ones finish with theirs. Throws as
// Runtime's constructor does.
void set_num_threads(unsigned count);

// A workspace for one call. The runtime lives at least as long.
class Lease {
 public:
  Lease();
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Workspace& workspace() const { return *workspace_; }

 private:
  std::shared_ptr<RuntimeState> state_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace fourfold::python
