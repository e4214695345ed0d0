// Who may use a layer: any number of calls at once, or one change alone. Counters that are touched
// with the GIL held only: unlike a mutex, a fork cannot copy them in the middle of a step.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace fourfold::python {

class CallGate {
 public:
  // Waits for its turn without the GIL; calls that come later than a change wait for it.
  class Pass {
   public:
    Pass(CallGate& gate, bool alone) : gate_(gate), alone_(alone) { gate.enter(alone); }
    ~Pass() { gate_.leave(alone_); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    CallGate& gate_;
    bool alone_;
  };

 private:
  void enter(bool alone) {
    forget_parent();
    if (!alone) {
      while (changing_ || waiting_ > 0) let_others_run();
      ++running_;
      return;
    }
    ++waiting_;
    while (changing_ || running_ > 0) let_others_run();
    --waiting_;
    changing_ = true;
  }

  void leave(bool alone) {
    if (alone)
      changing_ = false;
    else
      --running_;
  }

  // In a forked child, the calls of the parent's other threads never end.
  void forget_parent() {
    if (process_ == getpid()) return;
    process_ = getpid();
    running_ = waiting_ = 0;
    changing_ = false;
  }

  static void let_others_run() {
    const nanobind::gil_scoped_release released;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

  pid_t process_ = getpid();
  int running_ = 0, waiting_ = 0;
  bool changing_ = false;
};

}  // namespace fourfold::python
