// What every command has in common: its options, its output, its exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

namespace fourfold::cli {

// Exit codes, docs/exit_codes.md.
constexpr int kDone = 0, kFinding = 1, kUsage = 2, kBadFile = 3, kNoRoom = 4;

struct CommonOptions {
  bool json = false, quiet = false;
  std::string json_out;
  std::optional<unsigned> threads;
};

// Adds a command to the program. `examples`: three lines, shown first in its help. When the command
// was given, `run` is set to what carries it out and returns the exit code.
using Runner = std::function<int()>;
void add_info(CLI::App& program, Runner& run);
void add_inspect(CLI::App& program, Runner& run);
void add_profile(CLI::App& program, Runner& run);
void add_trace(CLI::App& program, Runner& run);
void add_embed(CLI::App& program, Runner& run);
void add_learn(CLI::App& program, Runner& run);
void add_bench(CLI::App& program, Runner& run);

// --json, --json-out, --quiet, and --threads for commands that compute.
void add_common(CLI::App& command, CommonOptions& options, bool computes);
void set_examples(CLI::App& command, const std::string& examples);

}  // namespace fourfold::cli
