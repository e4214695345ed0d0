// Who may use a layer: any number of calls at once, or one change alone. Counters that are touched
// with the GIL held only: unlike a mutex, a fork cannot copy them in the middle of a step.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "fourfold/error.h"
#include "released_gil.h"

namespace fourfold::python {

// A layer whose new weights were being written by another thread when the process was forked.
struct TornLayer : Error {
  explicit TornLayer(const std::string& where)
      : Error(ErrorCode::unsupported, "[" + where +
                                          "] the process was forked while set_weights ran, so this "
                                          "copy of the layer is half-written; call set_weights "
                                          "again in this process") {}
};

class CallGate {
 public:
  // replace: a change that writes every weight; it alone may use a torn layer, and mends it.
  enum class Use { call, change, replace };

  // Waits for its turn without the GIL; calls that come later than a change wait for it. Throws
  // TornLayer.
  class Pass {
   public:
    Pass(CallGate& gate, Use use, const char* where) : gate_(gate), use_(use) {
      gate.enter(use, where);
    }
    ~Pass() { gate_.leave(use_); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    void succeeded() {
      if (use_ == Use::replace) gate_.torn_ = false;
    }

   private:
    CallGate& gate_;
    Use use_;
  };

 private:
  void enter(Use use, const char* where) {
    forget_parent();
    if (torn_ && use != Use::replace) throw TornLayer(where);
    if (use == Use::call) {
      while (changing_ || waiting_ > 0) let_others_run();
      ++running_;
      return;
    }
    ++waiting_;
    while (changing_ || running_ > 0) let_others_run();
    --waiting_;
    changing_ = true;
    replacing_ = use == Use::replace;
  }

  void leave(Use use) {
    if (use == Use::call)
      --running_;
    else
      changing_ = replacing_ = false;
  }

  // In a forked child, the calls of the parent's other threads never end.
  void forget_parent() {
    if (process_ == getpid()) return;
    process_ = getpid();
    running_ = waiting_ = 0;
    torn_ = torn_ || replacing_;
    changing_ = replacing_ = false;
  }

  static void let_others_run() {
    const ReleasedGil released;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

  pid_t process_ = getpid();
  int running_ = 0, waiting_ = 0;
  bool changing_ = false, replacing_ = false, torn_ = false;
};

}  // namespace fourfold::python
