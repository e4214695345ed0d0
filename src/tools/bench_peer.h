// A peer of `bench`: a child process that times another implementation. It answers one line per
// question (bench/README.md) and is stopped by a signal whenever it is not asked, so that its
// threads cannot spin while others are timed.
#pragma once

#include <sys/types.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "fourfold/bench.h"
#include "tools/bench_folder.h"

namespace fourfold {

// The peer ended, hung, or said what it should not: it is out of the run.
struct PeerLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The peer lives, but not for this case.
struct PeerCannot : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class PeerProcess {
 public:
  // Starts the program in the folder, on these CPUs. Throws PeerLost.
  PeerProcess(const BenchPeer& peer, const BenchFolder& folder, unsigned threads,
              const std::vector<int>& cpus, double timeout_s,
              const std::function<bool()>& stop_requested);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Wakes the peer, asks, and stops it again. What follows "ok "; throws PeerLost, PeerCannot,
  // BenchStopped.
  std::string ask(const std::string& question);
  double cpu_seconds() const;  // used so far by all its threads

 private:
  std::string read_line();
  void pause();
  [[noreturn]] void lost(const std::string& what);

  std::string name_, errors_, buffer_;
  double timeout_s_;
  std::function<bool()> stop_requested_;
  pid_t process_ = -1;
  int channel_ = -1;
};

}  // namespace fourfold
