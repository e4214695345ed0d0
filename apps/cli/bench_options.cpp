#include "cli/bench_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/output.h"
#include "fourfold/error.h"

namespace fourfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostCounts = 4096;
constexpr std::array kKnownPeers{"onednn", "torch", "onnxruntime", "openvino"};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  if (text.empty() || text.back() == at) parts.emplace_back();
  return parts;
}

std::uint64_t whole(const std::string& text, const std::string& list) {
  if (text.empty() || text.size() > 9 ||
      text.find_first_not_of("0123456789") != std::string::npos || text[0] == '0')
    refuse(
        fmt::format("--tokens {}: expected numbers from 1 and ranges, for example 1,4,16-64 or "
                    "16-64+16, found \"{}\"",
                    list, text));
  return std::stoull(text);
}

// The command that starts a peer of a folder: an executable NAME, or the script NAME_ffn.py.
std::vector<std::string> command_of(const std::string& name, const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    const fs::path program = folder / name, script = folder / (name + "_ffn.py");
    std::error_code ignored;
    if (fs::is_regular_file(program, ignored) && access(program.c_str(), X_OK) == 0)
      return {fs::absolute(program).string()};
    if (fs::is_regular_file(script, ignored)) {
      const char* python = std::getenv("FOURFOLD_PEERS_PYTHON");
      const std::string built = FOURFOLD_PEERS_PYTHON;
      return {python != nullptr            ? python
              : fs::exists(built, ignored) ? built
                                           : "python3",
              fs::absolute(script).string()};
    }
  }
  return {};
}

fs::path folder_of_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace

std::vector<std::uint64_t> parse_token_counts(const std::string& text) {
  std::vector<std::uint64_t> counts;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dash = part.find('-'), plus = part.find('+');
    if (dash == std::string::npos) {
      counts.push_back(whole(part, text));
      continue;
    }
    const bool stepped = plus != std::string::npos && plus > dash;
    const std::uint64_t first = whole(part.substr(0, dash), text);
    const std::uint64_t last =
        whole(part.substr(dash + 1, stepped ? plus - dash - 1 : std::string::npos), text);
    const std::uint64_t step = stepped ? whole(part.substr(plus + 1), text) : 1;
    if (last < first)
      refuse(fmt::format("--tokens {}: the range {} runs backwards; write {}-{}", text, part, last,
                         first));
    if ((last - first) / step >= kMostCounts)
      refuse(fmt::format("--tokens {}: more than {} counts", text, kMostCounts));
    for (std::uint64_t count = first; count <= last; count += step) counts.push_back(count);
  }
  if (counts.size() > kMostCounts)
    refuse(fmt::format("--tokens {}: more than {} counts", text, kMostCounts));
  return counts;
}

void read_routing(const std::string& text, BenchOptions& options) {
  for (const BenchRouting routing :
       {BenchRouting::uniform, BenchRouting::zipf, BenchRouting::single})
    if (text == bench_routing_name(routing)) {
      options.routing = routing;
      return;
    }
  if (std::error_code ignored;
      text.find('/') == std::string::npos && text != "-" && !fs::exists(text, ignored))
    refuse(fmt::format("--routing {}: expected uniform, zipf, single or a file", text));
  options.routing = BenchRouting::listed;
  std::istringstream lines(read_input(text));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::size_t count = 0;
    for (std::string word; words >> word; ++count) {
      if (word.size() > 9 || word.find_first_not_of("0123456789") != std::string::npos)
        refuse(fmt::format("{}: line {}: expected numbers of experts, found \"{}\"", text, number,
                           word.substr(0, 40)));
      options.experts.push_back(static_cast<std::uint32_t>(std::stoul(word)));
    }
    if (count != 0 && count != options.top_k)
      refuse(fmt::format("{}: line {} names {} experts, expected {} (--top-k)", text, number, count,
                         options.top_k));
  }
}

void find_peers(const std::string& wanted, const std::string& folder, BenchOptions& options) {
  if (wanted == "none") return;
  std::vector<fs::path> folders{folder};
  if (folder.empty())
    folders = {folder_of_program() / "peers", fs::path(FOURFOLD_PEERS_DIR)};
  else if (std::error_code ignored; !fs::is_directory(folder, ignored))
    refuse("--peers-dir " + folder + ": there is no such folder");
  std::vector<std::string> names(kKnownPeers.begin(), kKnownPeers.end());
  if (!wanted.empty()) names = split(wanted, ',');
  for (const std::string& name : names) {
    if (name.empty() || name.find('/') != std::string::npos)
      refuse("--peers " + wanted + ": expected names with commas between them, or none");
    if (std::any_of(options.peers.begin(), options.peers.end(),
                    [&](const BenchPeer& peer) { return peer.name == name; }))
      continue;
    const std::vector<std::string> command = command_of(name, folders);
    const bool known = std::find(kKnownPeers.begin(), kKnownPeers.end(), name) != kKnownPeers.end();
    if (!command.empty())
      options.peers.push_back({name, command});
    else if (known)
      options.absent.push_back({name, "it is not built or not installed here", {}});
    else
      refuse(
          fmt::format("--peers {}: there is no peer \"{}\"; known are {}, and any program of "
                      "--peers-dir",
                      wanted, name, fmt::join(kKnownPeers, ", ")));
  }
}

}  // namespace fourfold::cli
