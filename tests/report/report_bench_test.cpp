// The report of `bench` from made-up rows: ratio first, one line per reason, valid JSON.
#include "report/report_bench.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <limits>

namespace fourfold {
namespace {

BenchRow row(const std::string& name, double ms) {
  BenchRow one;
  one.kind = "gated";
  one.activation = "silu";
  one.dtype = "f32";
  one.d_model = 2048;
  one.d_ff = 5632;
  one.tokens = 16;
  one.implementation = name;
  one.version = "7.11";
  one.copies = 3;
  one.passes = 5;
  one.rounds = 9;
  one.ms = {ms, ms - 0.5, ms + 0.25};
  one.gflops = 123.4;
  one.gbs = 17.5;
  one.share_of_limit = 0.875;
  one.max_relative_error = 2.5e-6;
  one.error_samples = 4096;
  return one;
}

BenchReport sample() {
  BenchReport report;
  report.cpu = "A CPU";
  report.isa = "avx2";
  report.threads = 2;
  report.peak_gflops_f32 = 233;
  report.peak_gflops_bf16 = 466;
  report.read_gbs = 35.5;
  report.repeat = 9;
  report.rows = {row("fourfold", 2.5), row("onednn", 3.25)};
  report.rows[0].ratio_to_best_peer = 1.31;
  report.rows[0].best_peer = "onednn";
  report.rows[1].ratio_to_fourfold = 1.31;
  report.not_measured = {{"torch", "it is slow", 16},
                         {"torch", "it is slow", 64},
                         {"other", "not installed here", {}}};
  report.warnings = {"something moved"};
  return report;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

}  // namespace

TEST_CASE("the table starts with the ratio, and equal reasons share a line") {
  const std::string text = bench_text(sample());
  CAPTURE(text);
  CHECK(text.find("gated silu, d_model 2048, d_ff 5632, f32, forward") != std::string::npos);
  CHECK(text.find("ratio  tokens  implementation") != std::string::npos);
  CHECK(text.find("1.31      16  fourfold") != std::string::npos);
  CHECK(count(text, "it is slow") == 1);
  CHECK(text.find("torch: it is slow (16, 64 tokens)") != std::string::npos);
  CHECK(text.find("other: not installed here\n") != std::string::npos);
  CHECK(text.find("something moved") != std::string::npos);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       begin = end + 1, end = text.find('\n', begin))
    CHECK(end - begin <= 3 * 100);  // bytes: a rule's dashes have three each
}

TEST_CASE("the JSON object has every field, and null where nothing is defined") {
  BenchReport report = sample();
  report.rows[1].max_relative_error = std::numeric_limits<double>::infinity();
  const std::string text = bench_json(report);
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(text);
  CHECK(std::string_view(root["schema"]) == "fourfold.bench/1");
  CHECK(double(root["machine"]["peak_gflops"]["bf16"]) == 466);
  CHECK(root["model"].is_null());
  const simdjson::dom::element ours = root["rows"].at(0), peer = root["rows"].at(1);
  CHECK(double(ours["ms"]["max"]) == 2.75);
  CHECK(double(ours["ratio_to_best_peer"]) == 1.31);
  CHECK(std::string_view(ours["best_peer"]) == "onednn");
  CHECK(ours["ratio_to_fourfold"].is_null());
  CHECK(ours["routing"].is_null());
  CHECK(ours["stages_ms"].is_null());
  CHECK(double(peer["ratio_to_fourfold"]) == 1.31);
  CHECK(peer["ratio_to_best_peer"].is_null());
  CHECK(peer["max_relative_error"].is_null());
  CHECK(std::uint64_t(root["not_measured"].at(1)["tokens"]) == 64);
  CHECK(root["not_measured"].at(2)["tokens"].is_null());
}

TEST_CASE("a model's stages are shown with their shares") {
  BenchReport report = sample();
  report.model = "some/model";
  report.rows.resize(1);
  report.rows[0].batch = 3;
  report.rows[0].seq_len = 128;
  report.rows[0].stages_ms = {1.25, 0.5, 0.25, 0.125, 0.375};
  const std::string text = bench_text(report);
  CHECK(text.find("some/model, 3 sequences of 128 tokens") != std::string::npos);
  CHECK(text.find("expand 1.25 ms (50.0 %)") != std::string::npos);
}

}  // namespace fourfold
