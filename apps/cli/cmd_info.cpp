#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "formats/json_writer.h"
#include "kernels/dispatch.h"
#include "platform/cpu_info.h"
#include "report/number_text.h"

namespace fourfold::cli {
namespace {

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string info_text(const CpuInfo& cpu, const IsaReport& isa, const Runtime& runtime) {
  std::string text = fmt::format("fourfold  {}\nCPU       {}\n", FOURFOLD_VERSION, cpu.name);
  for (const auto& cache : cpu.caches)
    text += fmt::format("cache     L{} {}, {}\n", cache.level, cache.type, bytes_text(cache.bytes));
  text += fmt::format("compiled  {}\ndetected  {}\nchosen    {} ({})\nthreads   {} ({})\n",
                      join(isa.compiled), join(isa.detected), isa.chosen, isa.reason,
                      runtime.threads(), runtime.threads_reason());
  return text;
}

std::string info_json(const CpuInfo& cpu, const IsaReport& isa, const Runtime& runtime) {
  JsonWriter json;
  const auto names = [&](std::string_view key, const std::vector<std::string>& list) {
    json.key(key).begin_array(true);
    for (const auto& name : list) json.value(name);
    json.end_array();
  };
  json.begin_object()
      .field("schema", "fourfold.info/1")
      .field("version", FOURFOLD_VERSION)
      .field("cpu", cpu.name);
  json.key("caches").begin_array();
  for (const auto& cache : cpu.caches)
    json.begin_object()
        .field("level", cache.level)
        .field("type", cache.type)
        .field("bytes", cache.bytes)
        .end_object();
  json.end_array();
  json.key("isa").begin_object();
  names("compiled", isa.compiled);
  names("detected", isa.detected);
  json.field("chosen", isa.chosen).field("reason", isa.reason).end_object();
  json.key("threads").begin_object();
  json.field("count", runtime.threads()).field("reason", runtime.threads_reason()).end_object();
  json.end_object();
  return json.take();
}

}  // namespace

void add_info(CLI::App& program, Runner& run) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* command = program.add_subcommand(
      "info", "CPU, instruction sets, threads and caches, and why they were chosen");
  set_examples(*command,
               "  fourfold info\n"
               "  fourfold info --json\n"
               "  FOURFOLD_ISA=avx2 fourfold info --threads 1\n");
  add_common(*command, *options, true);
  command->callback([options, &run] {
    run = [options] {
      const Runtime runtime(threads_of(*options));
      const CpuInfo cpu = read_cpu_info();
      const IsaReport isa = isa_report();
      show(
          *options, [&] { return info_text(cpu, isa, runtime); },
          [&] { return info_json(cpu, isa, runtime); });
      return kDone;
    };
  });
}

}  // namespace fourfold::cli
