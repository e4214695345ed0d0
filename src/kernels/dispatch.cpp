#include "kernels/dispatch.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "fourfold/error.h"

namespace fourfold {
namespace {

struct Entry {
  const KernelTable& (*table)();
  bool (*supported)();
};

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("fma");
}

// AVX-512 with its dot products of bf16. Made at the first use: a layer may be built before main.
const KernelTable& avx512_bf16_kernels() {
  static const KernelTable made = [] {
    KernelTable table = kAvx512Kernels;
    table.name = "avx512_bf16";
    table.gemm.panel_bf16 = kAvx512Bf16Products.panel;
    table.gemm.listed_bf16 = kAvx512Bf16Products.listed;
    table.gemm.features_bf16 = kAvx512Bf16Products.features;
    table.gemm.peak_probe_bf16 = kAvx512Bf16Products.peak_probe;
    table.gemm.reads_bf16_rows = true;
    table.attention_bf16 = kAvx512Bf16Products.attention;
    return table;
  }();
  return made;
}

template <const KernelTable& kTable>
const KernelTable& table_of() {
  return kTable;
}

// Best first. __builtin_cpu_supports also asks whether the system saves the registers.
constexpr std::array<Entry, 4> kEntries{{
    {avx512_bf16_kernels, [] { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }},
    {table_of<kAvx512Kernels>, has_avx512},
    {table_of<kAvx2Kernels>,
     [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
    {table_of<kScalarKernels>, [] { return true; }},
}};

constexpr std::array<std::string_view, 6> kKnownNames{"scalar", "avx2",        "avx2_vnni",
                                                      "avx512", "avx512_vnni", "avx512_bf16"};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<std::string> names(bool supported_only) {
  std::vector<std::string> list;
  for (const auto& entry : kEntries)
    if (!supported_only || entry.supported()) list.emplace_back(entry.table().name);
  return list;
}

struct Choice {
  const KernelTable& table;
  bool forced;
};

Choice choose() {
  const char* forced = std::getenv("FOURFOLD_ISA");
  if (forced == nullptr || *forced == '\0') {
    for (const auto& entry : kEntries)
      if (entry.supported()) return {entry.table(), false};
    return {kScalarKernels, false};
  }
  if (const KernelTable* table = find_kernels(forced)) return {*table, true};
  const std::string name = std::string(std::string_view(forced).substr(0, 64));
  const auto compiled = names(false);
  const bool here = std::find(compiled.begin(), compiled.end(), name) != compiled.end();
  const bool known = std::find(kKnownNames.begin(), kKnownNames.end(), name) != kKnownNames.end();
  throw Error(ErrorCode::unsupported, "FOURFOLD_ISA=" + name + ": " +
                                          (here    ? "this CPU lacks it"
                                           : known ? "this build has no kernels for it"
                                                   : "unknown instruction set") +
                                          "; available here: " + joined(names(true)));
}

// The environment is read here, once; an exception leaves the choice open for the next call.
const Choice& choice() {
  static const Choice made = choose();
  return made;
}

}  // namespace

const KernelTable* find_kernels(std::string_view name) {
  for (const auto& entry : kEntries)
    if (name == entry.table().name) return entry.supported() ? &entry.table() : nullptr;
  return nullptr;
}

const KernelTable& kernels() { return choice().table; }

IsaReport isa_report() {
  return {names(false), names(true), kernels().name,
          choice().forced ? "FOURFOLD_ISA asks for it" : "the best that this CPU has"};
}

}  // namespace fourfold
