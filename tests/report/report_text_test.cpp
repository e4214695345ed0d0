#include "report/report_text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "report/sample_report.h"
#include "report/text_lines.h"

using namespace fourfold;

namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

ProfileReport huge_profile() {
  ProfileReport report = sample_profile(3, 11008);
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  report.model_path = std::string(1000000, 'p') + "/end";
  report.text_name = std::string(5000, 't');
  report.architecture = std::string(300, 'a');
  report.machine.cpu = std::string(300, 'c');
  report.tokens = report.windows = report.seq_len = report.batch = report.parameters.total = kMost;
  report.machine.thread_times.assign(128, {12345.678, 0.5});
  report.forward_ms = 1e17;
  report.tokens_per_s = std::numeric_limits<double>::infinity();
  report.warnings = {std::string(777, 'w'), "two words"};
  for (LayerProfile& layer : report.layers) {
    layer.index = kMost;
    layer.kind = layer.activation = std::string(200, 'k');
    layer.d_ff = kMost;
    layer.time_ms.expand = 1e14;
    layer.time_ms.router = layer.time_ms.gather = layer.time_ms.combine = 123456.7;
    layer.gflops = std::numeric_limits<double>::quiet_NaN();
    layer.statistics.max_abs = std::numeric_limits<float>::max();
    layer.statistics.dead = DeadNeurons{kMost, kMost, std::vector<std::uint64_t>(50, kMost)};
    for (TopNeuron& neuron : layer.statistics.top_neurons) {
      neuron.neuron = kMost;
      for (StrongToken& token : neuron.tokens) token.text = std::string(90, 'x');
    }
  }
  return report;
}

}  // namespace

TEST_CASE("no line of any report is wider than 100 columns") {
  CHECK(widest(lines_of(profile_text(sample_profile(), true))) <= 100);
  CHECK(widest(lines_of(profile_text(huge_profile(), true))) <= 100);
  CHECK(widest(lines_of(profile_text(hostile_profile(), true))) <= 100);
  CHECK(widest(lines_of(model_summary_text(sample_summary(true), true))) <= 100);
  ModelSummary summary = sample_summary(true);
  summary.path = std::string(1000, '/');
  summary.architecture = std::string(400, 'a');
  summary.tensors[0].name = std::string(1000000, 'n');
  summary.tensors[0].shape.assign(70, std::numeric_limits<std::uint64_t>::max());
  summary.layers[1].d_ff = summary.layers[1].ffn_parameters = summary.layers[1].ffn_macs_per_token =
      std::numeric_limits<std::uint64_t>::max();
  CHECK(widest(lines_of(model_summary_text(summary, true))) <= 100);
}

TEST_CASE("the profile shows what ran, a row per layer, totals and readings") {
  const std::string text = profile_text(sample_profile(), false);
  for (const char* part :
       {"models/all-MiniLM-L6-v2", "4,093 counted tokens in 9 windows", "Intel(R) Xeon(R)",
        "avx512", "2 threads", "211.7 GFLOP/s", "13.9 GB/s", "74.20 ms", "6,873 tokens/s",
        "66.70 %", "timing 1.43 s, statistics 1.71 s", "thread 1 1.27 s busy, 0.11 s waiting",
        "not defined for gelu unless --dead-threshold", "layer 2 takes the most time"})
    CHECK_MESSAGE(holds(text, part), part);
  std::size_t rows = 0;
  for (const std::string& line : lines_of(text)) rows += line.rfind("    4  ", 0) == 0;
  CHECK(rows == 2);
  CHECK_FALSE(holds(text, "router"));
  CHECK_FALSE(holds(text, "strongest tokens"));
}

TEST_CASE("details appear on request, one block per layer") {
  const std::string text = profile_text(sample_profile(), true);
  CHECK(holds(text, "Layer 5\n"));
  CHECK(holds(text, "strongest tokens"));
  CHECK(holds(text, "35 neurons never fired"));
  CHECK(holds(text, "█"));
}

TEST_CASE("stages that some layer has get a column") {
  ProfileReport report = sample_profile(2);
  report.layers[1].time_ms.router = 0.417;
  const std::string text = profile_text(report, false);
  CHECK(holds(text, "router"));
  CHECK(holds(text, "0.417"));
  CHECK_FALSE(holds(text, "gather"));
}

TEST_CASE("no control character leaves either report") {
  for (const std::string& text :
       {profile_text(hostile_profile(), true), profile_text(sample_profile(), true)}) {
    for (const char c : text) CHECK((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
    CHECK_FALSE(holds(text, "\xE2\x80\xAE"));
  }
}

TEST_CASE("the model summary has rows, totals and percentages") {
  const std::string text = model_summary_text(sample_summary(true), true);
  for (const char* part : {"1 MAC = 1 multiply-add = 2 FLOPs", "1,181,568", "66.59", "1,179,648",
                           "7,077,888 FFN MACs", "3,538,944 attention MACs", "52.46", "22,713,216",
                           "22,713,217", "embeddings.word_embeddings.weight", "[30522, 384]"})
    CHECK_MESSAGE(holds(text, part), part);
  CHECK_FALSE(holds(model_summary_text(sample_summary(true), false), "word_embeddings"));
}

TEST_CASE("layers with experts show how many and how many a token uses") {
  ModelSummary summary = sample_summary(false);
  CHECK_FALSE(holds(model_summary_text(summary, false), "top_k"));
  LayerSummary& layer = summary.layers[1];
  layer.kind = "moe";
  layer.n_experts = 128;
  layer.top_k = 8;
  layer.d_model = 4096;
  layer.d_ff = 14336;
  layer.ffn_parameters = 1'409'318'912;
  const std::vector<std::string> lines = lines_of(model_summary_text(summary, false));
  CHECK(widest(lines) <= 100);
  const auto row = [&](const char* start) {
    return std::find_if(lines.begin(), lines.end(),
                        [&](const std::string& line) { return line.rfind(start, 0) == 0; });
  };
  REQUIRE(row("    1  moe") != lines.end());
  CHECK(holds(*row("    1  moe"), "128, 8"));
  CHECK(holds(*row("    1  moe"), "1,409,318,912"));
  REQUIRE(row("    0  dense") != lines.end());
  CHECK(holds(*row("    0  dense"), " - "));
}

TEST_CASE("an empty model and an empty profile are shown, not divided by") {
  CHECK(holds(model_summary_text({}, true), "total"));
  CHECK(holds(profile_text({}, true), "no layers"));
  CHECK_FALSE(holds(model_summary_text({}, true), "NaN"));
}

TEST_CASE("colour adds only colour") {
  const ProfileReport report = sample_profile();
  const std::string colored = profile_text(report, true, {.color = true});
  CHECK(colored.find('\x1b') != std::string::npos);
  CHECK(without_colors(colored) == profile_text(report, true));
}
