// Where results go: text or JSON to stdout, JSON beside it to a file, progress to a terminal's
// stderr.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "cli/command.h"
#include "fourfold/error.h"
#include "fourfold/tools.h"

namespace fourfold::cli {

// A result that could not be written: exit 4.
struct WriteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

bool color_wanted();                  // stdout is a terminal, NO_COLOR is not set, TERM is not dumb
void print(const std::string& text);  // to stdout
void write_file(const std::string& path, const std::string& text);  // whole or not at all
// text (without --json) or json (with it) to stdout, json to --json-out.
void show(const CommonOptions& options, const std::function<std::string()>& text,
          const std::function<std::string()>& json);

std::string read_input(const std::string& path);  // a file, or "-" for stdin

// A progress line on stderr, only on a terminal and without --quiet; empty otherwise.
Progress progress_line(const CommonOptions& options, const std::string& unit);

// --dtype of commands that run a model: auto is empty. Throws Error{unsupported}.
inline constexpr const char* kModelDtypes = "auto (as stored), f32 or bf16";
std::optional<Dtype> parse_model_dtype(const std::string& name);

// The runtime that --threads asks for.
Threads threads_of(const CommonOptions& options);

}  // namespace fourfold::cli
