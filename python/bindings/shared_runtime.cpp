// A finished call puts its workspace back; the next one takes the workspace used last, whose memory
// is the likeliest to be cached.
#include "shared_runtime.h"

#include <utility>

namespace fourfold::python {
namespace {

// Never destroyed: at exit other threads may still compute.
std::shared_ptr<RuntimeState>& current() {
  static auto& state = *new std::shared_ptr<RuntimeState>;
  return state;
}

}  // namespace

std::shared_ptr<RuntimeState> shared_runtime() {
  if (current() == nullptr) current() = std::make_shared<RuntimeState>(Threads{});
  return current();
}

void set_num_threads(unsigned count) {
  Threads threads;
  threads.count = count;
  current() = std::make_shared<RuntimeState>(threads);
}

Lease::Lease() : state_(shared_runtime()) {
  if (state_->idle.empty()) {
    workspace_ = std::make_unique<Workspace>(state_->runtime);
    state_->idle.reserve(state_->idle.capacity() + 1);  // so that giving back never allocates
  } else {
    workspace_ = std::move(state_->idle.back());
    state_->idle.pop_back();
  }
}

Lease::~Lease() { state_->idle.push_back(std::move(workspace_)); }

}  // namespace fourfold::python
