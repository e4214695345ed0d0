// A scope in which the calling thread computes without the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace fourfold::python {

class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}

  // While the interpreter shuts down, CPython ends a thread that asks for the GIL by pthread_exit,
  // which unwinds the stack like an exception and would run into destructors that may not throw.
  // Such a thread sleeps here until the process is gone.
  ~ReleasedGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }

  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace fourfold::python
