// fourfold <command> [MODEL] [options]. Errors become one message on stderr and the exit code of
// their kind.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <new>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "fourfold/error.h"
#include "report/safe_text.h"

namespace fourfold::cli {
namespace {

int exit_code(const Error& error) {
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported: return kUsage;
    case ErrorCode::shape_mismatch:
    case ErrorCode::bad_file:
    case ErrorCode::missing_tensor:
    case ErrorCode::io: return kBadFile;
    case ErrorCode::out_of_memory: return kNoRoom;
  }
  return kUsage;
}

int fail(int code, const std::string& message) {
  const std::string line = "fourfold: error: " + visible_text(message) + "\n";
  std::fwrite(line.data(), 1, line.size(),
              stderr);  // a closed stderr must not change the exit code
  return code;
}

// Edit distance (insert, delete, replace), for "did you mean".
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

int unknown_command(const CLI::App& program, const std::string& word) {
  std::string nearest, all;
  std::size_t best = 4;
  for (const CLI::App* command : program.get_subcommands({})) {
    const std::string& name = command->get_name();
    all += (all.empty() ? "" : ", ") + name;
    if (const std::size_t far = distance(word, name); far < best) {
      best = far;
      nearest = name;
    }
  }
  std::string message = fmt::format("unknown command \"{}\"", word);
  message += nearest.empty() ? fmt::format("; commands: {}", all)
                             : fmt::format("; did you mean \"{}\"?", nearest);
  return fail(kUsage, message);
}

// CLI11 cuts an argument in square brackets at its commas and reads "++" as an end of options. A
// mark in front keeps an argument whole until its option takes it.
constexpr char kWhole = '\x01';

// In CLI11's order: last argument first.
std::vector<std::string> marked_arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::string& one : arguments)
    if (one.starts_with(kWhole) || (one.starts_with('[') && one.ends_with(']')) || one == "++")
      one.insert(0, 1, kWhole);
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

// Digits as people write them: CLI11 alone takes 010 for 8 and -1 for the largest number.
std::string not_plain_number(const std::string& text) {
  const bool plain = !text.empty() && text.size() <= 18 &&
                     text.find_first_not_of("0123456789") == std::string::npos &&
                     (text.size() == 1 || text[0] != '0');
  return plain ? "" : "expected a whole number, found \"" + text + "\"";
}

// What holds for every option: marks are taken off, an empty value is a mistake and not "not
// given".
void prepare_options(CLI::App& program) {
  for (CLI::App* command : program.get_subcommands({})) {
    prepare_options(*command);
    for (CLI::Option* option : command->get_options()) {
      if (option->get_expected_max() == 0) {
        option->disable_flag_override();  // --json=false
        continue;
      }
      if (!option->get_positional())
        option->check([](const std::string& text) {
          return text.empty() ? std::string("expected a value, found an empty one") : std::string();
        });
      if (option->get_type_name().starts_with("UINT")) option->check(not_plain_number);
      option->transform(
          [](const std::string& text) { return text.starts_with(kWhole) ? text.substr(1) : text; });
    }
  }
}

int run_program(int argc, char** argv) {
  CLI::App program(
      "Shows, FFN by FFN, where a transformer's parameters, time, sparsity and dead neurons are.",
      "fourfold");
  set_examples(program,
               "  fourfold inspect MODEL                     parameters and work per layer\n"
               "  fourfold profile MODEL --html report.html  time, sparsity and neurons on a text\n"
               "  fourfold trace                             every number of a tiny FFN\n");
  program.set_version_flag("--version", "fourfold " FOURFOLD_VERSION);
  program.footer(
      "MODEL: a folder with config.json and model.safetensors, one .safetensors file, or org/name "
      "in the\n"
      "local Hugging Face cache. Nothing is ever downloaded. Help of a command: fourfold COMMAND "
      "--help");
  Runner run;
  add_info(program, run);
  add_inspect(program, run);
  add_profile(program, run);
  add_trace(program, run);
  add_embed(program, run);
  add_learn(program, run);
  add_bench(program, run);
  program.require_subcommand(0, 1);  // a text may be the name of a command
  prepare_options(program);

  if (argc == 1) {
    print(program.help());
    return kDone;
  }
  if (const std::string word = argv[1]; !word.starts_with('-')) {
    const auto commands = program.get_subcommands({});
    if (std::none_of(commands.begin(), commands.end(),
                     [&](const CLI::App* one) { return one->check_name(word); }))
      return unknown_command(program, word);
  }
  try {
    program.parse(marked_arguments(argc, argv));
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text, ignored;
    program.exit(success, text, ignored);
    print(text.str());
    return kDone;
  } catch (const CLI::ParseError& error) {
    return fail(kUsage, fmt::format("{}; see fourfold {}--help", error.what(),
                                    argv[1][0] == '-' ? "" : std::string(argv[1]) + " "));
  }
  return run ? run() : fail(kUsage, "no command is given; see fourfold --help");
}

}  // namespace

void add_common(CLI::App& command, CommonOptions& options, bool computes) {
  command.add_flag("--json", options.json, "one JSON object on stdout");
  command.add_option("--json-out", options.json_out, "also write the JSON object to FILE")
      ->type_name("FILE");
  command.add_flag("-q,--quiet", options.quiet, "no progress");
  if (computes)
    command
        .add_option("--threads", options.threads,
                    "threads (default: FOURFOLD_NUM_THREADS, else the cores usable here)")
        ->check(CLI::Range(1, 1024));
}

// Puts the examples before everything else in a command's help, and keeps them out of the list of
// commands.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string examples) : examples_(std::move(examples)) {}
  std::string make_description(const CLI::App* app) const override {
    return "Examples:\n" + examples_ + "\n" + CLI::Formatter::make_description(app);
  }

 private:
  std::string examples_;
};

void set_examples(CLI::App& command, const std::string& examples) {
  command.formatter(std::make_shared<HelpFormatter>(examples));
}

}  // namespace fourfold::cli

int main(int argc, char** argv) {
  using namespace fourfold::cli;
  std::signal(SIGPIPE, SIG_DFL);  // `fourfold ... | head` ends quietly
  try {
    return run_program(argc, argv);
  } catch (const fourfold::Error& error) {
    return fail(exit_code(error), error.what());
  } catch (const WriteError& error) {
    return fail(kNoRoom, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kNoRoom, "out of memory");
  } catch (const std::exception& error) {
    return fail(kUsage, error.what());
  }
}
