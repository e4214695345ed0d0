#include "cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

namespace fourfold::cli {
namespace {

constexpr std::size_t kMostInputBytes = std::size_t{1} << 30;

// Ctrl-C, SIGTERM and SIGHUP wait until a file is in its place, so no part of one is left. Workers
// take no signals.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &stops, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

bool terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) != 0 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

}  // namespace

bool color_wanted() { return terminal(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr; }

void print(const std::string& text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw WriteError(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

void write_file(const std::string& path, const std::string& text) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  const bool exists = fs::exists(status), plain = !exists || fs::is_regular_file(status);
  // A device or pipe is written as it is; a file is written beside its place, then renamed: it is
  // whole or as before.
  const std::string target = exists ? fs::canonical(path, ignored).string() : path;
  const std::string written_to = plain ? fmt::format("{}.partial-{}", target, getpid()) : path;
  std::optional<SignalsHeld> held;
  if (plain) held.emplace();  // a pipe without a reader must stay interruptible
  errno = 0;
  const int descriptor =
      open(written_to.c_str(), O_WRONLY | O_CLOEXEC | (plain ? O_CREAT | O_EXCL : 0), 0666);
  bool done = descriptor >= 0;
  if (done && plain && exists) fchmod(descriptor, static_cast<mode_t>(status.permissions()));
  for (std::size_t at = 0; done && at < text.size();) {
    const ssize_t count = write(descriptor, text.data() + at, text.size() - at);
    done = count > 0 || (count < 0 && errno == EINTR);
    if (count > 0) at += static_cast<std::size_t>(count);
  }
  int reason = errno;
  // A full disk may show only at close, so the file is renamed after it.
  if (descriptor >= 0 && close(descriptor) != 0 && done) {
    done = false;
    reason = errno;
  }
  if (done && plain && rename(written_to.c_str(), target.c_str()) != 0) {
    done = false;
    reason = errno;
  }
  if (done) return;
  if (descriptor >= 0 && plain) unlink(written_to.c_str());
  throw WriteError(
      fmt::format("{}: cannot write {} bytes: {}", path, text.size(), std::strerror(reason)));
}

void show(const CommonOptions& options, const std::function<std::string()>& text,
          const std::function<std::string()>& json) {
  if (!options.json_out.empty()) write_file(options.json_out, json());
  if (options.json)
    print(json());
  else
    print(text());
}

std::string read_input(const std::string& path) {
  std::string text;
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  errno = file == nullptr ? errno : 0;
  char buffer[1 << 16];
  while (file != nullptr && text.size() <= kMostInputBytes) {
    const std::size_t count = std::fread(buffer, 1, sizeof(buffer), file);
    text.append(buffer, count);
    if (count < sizeof(buffer)) break;
  }
  const int reason = file == nullptr || std::ferror(file) != 0 ? errno : 0;
  if (file != nullptr && file != stdin) std::fclose(file);
  if (reason != 0) {
    Error error(ErrorCode::io,
                fmt::format("{}: cannot read the text: {}", path, std::strerror(reason)));
    error.path = path;
    throw error;
  }
  if (text.size() > kMostInputBytes)
    throw Error(ErrorCode::invalid_argument,
                path + ": the text is larger than 1 GiB; give a smaller part");
  return text;
}

Progress progress_line(const CommonOptions& options, const std::string& unit) {
  if (options.quiet || !terminal(STDERR_FILENO)) return {};
  using Clock = std::chrono::steady_clock;
  struct State {
    Clock::time_point begin = Clock::now(), shown = Clock::now() - std::chrono::seconds(1);
  };
  return [state = std::make_shared<State>(), unit](std::uint64_t done, std::uint64_t total) {
    const auto now = Clock::now();
    if (done < total && now - state->shown < std::chrono::milliseconds(100)) return;
    state->shown = now;
    const double seconds = std::chrono::duration<double>(now - state->begin).count();
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    const double left = rate > 0 ? static_cast<double>(total - done) / rate : 0;
    std::string line = "\r\033[K";
    if (done < total)
      line += fmt::format("{} of {} {}, {:.1f}/s, {:.0f} s left", done, total, unit, rate, left);
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
  };
}

std::optional<Dtype> parse_model_dtype(const std::string& name) {
  if (name == "auto") return std::nullopt;
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    if (name == dtype_name(dtype)) return dtype;
  throw Error(ErrorCode::unsupported, "--dtype " + name + ": supported are auto, f32 and bf16");
}

Threads threads_of(const CommonOptions& options) { return {options.threads.value_or(0), true}; }

}  // namespace fourfold::cli
