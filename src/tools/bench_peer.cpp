#include "tools/bench_peer.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace fourfold {
namespace {

using Clock = std::chrono::steady_clock;

std::string joined(const std::vector<int>& cpus) {
  std::string text;
  for (const int cpu : cpus) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text;
}

// Runs in the child between fork and exec: system calls only.
[[noreturn]] void become(const char* folder, const char* errors, int channel, const cpu_set_t& cpus,
                         char* const* arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  sched_setaffinity(0, sizeof(cpus), &cpus);
  const int log = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (chdir(folder) == 0 && log >= 0 && dup2(channel, 0) == 0 && dup2(channel, 1) == 1 &&
      dup2(log, 2) == 2) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    execvp(arguments[0], arguments);
  }
  _exit(127);
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line))
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  return last.substr(0, 300);
}

}  // namespace

PeerProcess::PeerProcess(const BenchPeer& peer, const BenchFolder& folder, unsigned threads,
                         const std::vector<int>& cpus, double timeout_s,
                         const std::function<bool()>& stop_requested)
    : name_(peer.name),
      errors_(folder.file(peer.name + ".stderr")),
      timeout_s_(timeout_s),
      stop_requested_(stop_requested) {
  std::vector<std::string> words = peer.command;
  words.insert(words.end(), {"--threads", std::to_string(threads), "--cpus", joined(cpus)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpu), &mask);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw PeerLost(std::string("cannot be started: ") + std::strerror(errno));
  process_ = fork();
  if (process_ == 0)
    become(folder.path().c_str(), errors_.c_str(), ends[1], mask, arguments.data());
  const int reason = errno;
  close(ends[1]);
  channel_ = ends[0];
  if (process_ < 0) {
    close(channel_);
    throw PeerLost(std::string("cannot be started: ") + std::strerror(reason));
  }
  setpgid(process_, process_);  // the child does the same; whoever is first
}

PeerProcess::~PeerProcess() {
  close(channel_);
  if (process_ > 0) {
    kill(-process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
}

void PeerProcess::lost(const std::string& what) {
  std::string how = what;
  int status = 0;
  if (process_ > 0) {
    // A process that closed its end is about to end by itself and say why.
    for (int wait = 0; wait < 50; ++wait) {
      if (waitpid(process_, &status, WNOHANG) == process_) {
        if (WIFEXITED(status)) how += ", it ended with code " + std::to_string(WEXITSTATUS(status));
        if (WIFSIGNALED(status))
          how += ", signal " + std::to_string(WTERMSIG(status)) + " ended it";
        kill(-process_, SIGKILL);
        process_ = -1;
        break;
      }
      poll(nullptr, 0, 10);
    }
  }
  const std::string said = last_line(errors_);
  throw PeerLost(how + (said.empty() ? "" : ": " + said));
}

// The next line of the peer that is an answer; what its libraries print is passed over.
std::string PeerProcess::read_line() {
  const auto end = Clock::now() + std::chrono::duration<double>(timeout_s_);
  while (true) {
    const std::size_t at = buffer_.find('\n');
    if (at != std::string::npos) {
      std::string line = buffer_.substr(0, at);
      buffer_.erase(0, at + 1);
      if (line == "ok" || line.starts_with("ok ") || line.starts_with("cannot ")) return line;
      continue;
    }
    if (stop_requested_ && stop_requested_()) throw BenchStopped();
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left <= 0) {
      kill(-process_, SIGKILL);
      lost("no answer for " + std::to_string(static_cast<long>(timeout_s_)) + " s");
    }
    pollfd ready{channel_, POLLIN, 0};
    const int found = poll(&ready, 1, static_cast<int>(std::min(left, 0.5) * 1e3) + 1);
    if (found < 0 && errno != EINTR) lost(std::string("cannot be read: ") + std::strerror(errno));
    if (found <= 0) continue;
    char bytes[4096];
    const ssize_t count = read(channel_, bytes, sizeof(bytes));
    if (count == 0 || (count < 0 && errno != EINTR)) lost("no answer");
    if (count > 0) buffer_.append(bytes, static_cast<std::size_t>(count));
    if (buffer_.size() > (1U << 20)) lost("it answers without end");
  }
}

// All its threads have stopped when this returns.
void PeerProcess::pause() {
  kill(-process_, SIGSTOP);
  int status = 0;
  while (waitpid(process_, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
  if (!WIFSTOPPED(status)) {
    process_ = -1;
    lost("it ended by itself");
  }
}

std::string PeerProcess::ask(const std::string& question) {
  kill(-process_, SIGCONT);
  const std::string line = question + "\n";
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t count = send(channel_, line.data() + at, line.size() - at, MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR) lost("it does not listen");
    if (count > 0) at += static_cast<std::size_t>(count);
  }
  const std::string answer = read_line();
  pause();
  if (answer.starts_with("cannot ")) throw PeerCannot(answer.substr(7));
  return answer.size() > 3 ? answer.substr(3) : "";
}

double PeerProcess::cpu_seconds() const {
  std::ifstream file("/proc/" + std::to_string(process_) + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  std::string rest = text.str();
  const std::size_t at = rest.rfind(')');  // the name before it may hold anything
  if (at == std::string::npos) return 0;
  std::istringstream fields(rest.substr(at + 1));
  std::string skipped;
  for (int field = 0; field < 11; ++field) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace fourfold
