// Dispatch: the instruction set asked for is the one that runs; a wrong one is an error, never a
// fallback.
#include "kernels/dispatch.h"

#include <doctest/doctest.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "fourfold/error.h"
#include "isa_check.h"

namespace fourfold {
namespace {

// Asked for while variables of files get their first values: this file's come before the library's.
const bool complete_before_main = [] {
  for (const char* name : {"scalar", "avx2", "avx512", "avx512_bf16"}) {
    const KernelTable* table = find_kernels(name);
    if (table != nullptr && (table->gemm.panel_f32 == nullptr || table->name == nullptr))
      return false;
  }
  return find_kernels("scalar") != nullptr;
}();

// Runs one case of this executable in a process of its own, as the choice is made once.
std::string output_with_isa(const std::string& isa) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  REQUIRE(length > 0);
  const std::string command = "FOURFOLD_ISA='" + isa + "' '" +
                              std::string(path, static_cast<std::size_t>(length)) +
                              "' --test-case='tell what runs' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char part[512];
  for (std::size_t n = 0; (n = fread(part, 1, sizeof(part), pipe)) > 0;) text.append(part, n);
  pclose(pipe);
  return text;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The cases that set FOURFOLD_ISA read what this one prints.
TEST_CASE("tell what runs") {
  for (int attempt = 1; attempt <= 2; ++attempt) {
    try {
      const Runtime runtime({.count = 1});
      CHECK(runtime.isa() == kernels().name);
      printf("[attempt %d runs %s]\n", attempt, std::string(runtime.isa()).c_str());
    } catch (const Error& error) {
      printf("[attempt %d %s] %s\n", attempt, std::string(error_code_name(error.code)).c_str(),
             error.what());
    }
  }
}

TEST_CASE("the instruction set asked for is the one that runs") { check_isa_asked_for(); }

TEST_CASE("the table in use is the one of that name") {
  const KernelTable* found = find_kernels(kernels().name);
  CHECK(found == &kernels());
}

TEST_CASE("scalar is always there, unknown names never") {
  REQUIRE(find_kernels("scalar") != nullptr);
  CHECK(std::string(find_kernels("scalar")->name) == "scalar");
  for (const char* name : {"", "SCALAR", "avx", "avx2 ", "avx512_vnni", "neon"}) {
    CAPTURE(name);
    CHECK(find_kernels(name) == nullptr);
  }
}

TEST_CASE("every table is complete") {
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    const KernelTable* table = find_kernels(name);
    REQUIRE(table != nullptr);
    CHECK(table->name == name);
    const GemmKernels& gemm = table->gemm;
    CHECK((gemm.panel_f32 != nullptr));
    CHECK((gemm.listed_f32 != nullptr));
    CHECK((gemm.panel_bf16 != nullptr));
    CHECK((gemm.listed_bf16 != nullptr));
    CHECK((gemm.transpose != nullptr));
    CHECK((gemm.round_rows != nullptr));
    CHECK((gemm.narrow_rows != nullptr));
    CHECK((gemm.pair_rows != nullptr));
    CHECK((gemm.peak_probe_f32 != nullptr));
    CHECK((gemm.peak_probe_bf16 != nullptr));
    CHECK((gemm.read_probe != nullptr));
    for (std::size_t i = 0; i < kActivations; ++i) {
      CHECK((table->activations.epilogue[i] != nullptr));
      CHECK((table->activations.forward[i] != nullptr));
      CHECK((table->activations.backward[i] != nullptr));
      CHECK((table->activations.glu[i] != nullptr));
      CHECK((table->activations.glu_backward[i] != nullptr));
    }
    CHECK((table->rows.layer_norm != nullptr));
    CHECK((table->rows.softmax_backward != nullptr));
    CHECK((table->attention.pack_keys != nullptr));
    CHECK((table->attention.divide_row != nullptr));
    const AttentionBf16Kernels& bf16 = table->attention_bf16;
    CHECK(bf16.values_per_word == (name == "avx512_bf16" ? 2 : 1));
    CHECK((bf16.pack_queries != nullptr));
    CHECK((bf16.pack_keys != nullptr));
    CHECK((bf16.pack_values != nullptr));
    CHECK((bf16.score_rows != nullptr));
    CHECK((bf16.mix_rows != nullptr));
    CHECK((bf16.exp_rows != nullptr));
    CHECK((table->rows.add != nullptr));
  }
}

TEST_CASE("tables are complete before main, where a program may build its layers") {
  CHECK(complete_before_main);
}

TEST_CASE("dot products of bf16 come with rows in bf16, and change nothing else of AVX-512") {
  for (const std::string& name : isa_report().detected)
    CHECK(find_kernels(name)->gemm.reads_bf16_rows == (name == "avx512_bf16"));
  const KernelTable *dots = find_kernels("avx512_bf16"), *plain = find_kernels("avx512");
  if (dots == nullptr || plain == nullptr) return;
  CHECK((dots->gemm.panel_f32 == plain->gemm.panel_f32));
  CHECK((dots->gemm.listed_f32 == plain->gemm.listed_f32));
  CHECK((dots->gemm.panel_bf16 != plain->gemm.panel_bf16));
  CHECK((dots->gemm.listed_bf16 != plain->gemm.listed_bf16));
  CHECK((dots->attention.score_rows == plain->attention.score_rows));
  CHECK((dots->attention_bf16.score_rows != plain->attention_bf16.score_rows));
  CHECK((dots->gemm.peak_probe_bf16 != plain->gemm.peak_probe_bf16));
  CHECK((dots->activations.forward[0] == plain->activations.forward[0]));
  CHECK((dots->rows.layer_norm == plain->rows.layer_norm));
}

TEST_CASE("the report lists what is compiled, what the CPU has, and what was chosen") {
  const IsaReport report = isa_report();
  CHECK(report.compiled == std::vector<std::string>{"avx512_bf16", "avx512", "avx2", "scalar"});
  REQUIRE_FALSE(report.detected.empty());
  CHECK(report.detected.back() == "scalar");
  for (const std::string& name : report.detected)
    CHECK(std::count(report.compiled.begin(), report.compiled.end(), name) == 1);
  CHECK(report.chosen == kernels().name);
  CHECK_FALSE(report.reason.empty());
}

TEST_CASE("each detected instruction set runs when asked for") {
  for (const std::string& name : isa_report().detected)
    CHECK(holds(output_with_isa(name), "[attempt 1 runs " + name + "]"));
}

TEST_CASE("an empty FOURFOLD_ISA means the best") {
  CHECK(holds(output_with_isa(""), "[attempt 1 runs " + isa_report().detected.front() + "]"));
}

TEST_CASE("an unknown instruction set is unsupported, each time, and the message lists what is") {
  const std::string text = output_with_isa("avx1024");
  CHECK(holds(text, "[attempt 1 unsupported] FOURFOLD_ISA=avx1024: unknown instruction set"));
  CHECK(holds(text, "[attempt 2 unsupported]"));
  CHECK(holds(text, "available here: "));
  for (const std::string& name : isa_report().detected) CHECK(holds(text, name));
}

TEST_CASE("a known instruction set without kernels in this build is unsupported") {
  const std::string text = output_with_isa("avx512_vnni");
  CHECK(holds(text, "[attempt 1 unsupported] FOURFOLD_ISA=avx512_vnni: this build has no kernels"));
}

}  // namespace
}  // namespace fourfold
