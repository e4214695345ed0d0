#include "report/report_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "formats/json_writer.h"
#include "report/number_text.h"
#include "report/safe_text.h"
#include "report/text_table.h"

namespace fourfold {
namespace {

constexpr std::array<const char*, 5> kStages{"expand", "contract", "attention", "norm", "other"};
constexpr std::size_t kLabel = 14;

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f}", *ratio) : "";
}

std::string case_text(const BenchReport& report, const BenchRow& row) {
  if (!report.model.empty())
    return fmt::format("{}, {} sequences of {} tokens, {}", report.model, row.batch, row.seq_len,
                       row.dtype);
  std::string text = fmt::format("{} {}, d_model {}, d_ff {}, {}", row.kind, row.activation,
                                 row.d_model, row.d_ff, row.dtype);
  if (row.n_experts > 0)
    text += fmt::format(", {} experts, {} per token, {} routing", row.n_experts, row.top_k,
                        row.routing);
  if (row.exact_zero)
    text += fmt::format(", {:.1f} % of hidden values are 0", *row.exact_zero * 100);
  return text + (row.backward ? ", set_weights + forward + backward" : ", forward");
}

std::string range_text(const BenchTimes& ms) {
  const int decimals = decimals_for(ms.max);
  return fixed(ms.min, decimals) + " - " + fixed(ms.max, decimals);
}

void optional_field(JsonWriter& json, const char* name, const std::optional<double>& number) {
  json.key(name);
  if (number)
    json.value(*number);
  else
    json.null();
}

void optional_field(JsonWriter& json, const char* name, std::uint64_t number) {
  json.key(name);
  if (number > 0)
    json.value(number);
  else
    json.null();
}

void optional_field(JsonWriter& json, const char* name, const std::string& text) {
  json.key(name);
  if (text.empty())
    json.null();
  else
    json.value(text);
}

void write_row(JsonWriter& json, const BenchRow& row) {
  json.begin_object();
  json.field("implementation", row.implementation).field("version", row.version);
  json.field("kind", row.kind).field("activation", row.activation).field("dtype", row.dtype);
  json.field("d_model", row.d_model).field("d_ff", row.d_ff).field("tokens", row.tokens);
  optional_field(json, "n_experts", row.n_experts);
  optional_field(json, "top_k", row.top_k);
  optional_field(json, "routing", row.routing);
  optional_field(json, "experts_hit", row.experts_hit);
  optional_field(json, "largest_load",
                 row.n_experts > 0 ? std::optional(row.largest_load) : std::nullopt);
  optional_field(json, "batch", row.batch);
  optional_field(json, "seq_len", row.seq_len);
  json.field("backward", row.backward);
  optional_field(json, "sparsity", row.sparsity);
  optional_field(json, "exact_zero", row.exact_zero);
  json.field("copies", row.copies).field("passes", row.passes).field("rounds", row.rounds);
  json.key("ms").begin_object();
  json.field("median", row.ms.median).field("min", row.ms.min).field("max", row.ms.max);
  json.end_object();
  json.field("gflops", row.gflops).field("gbs", row.gbs);
  json.field("share_of_limit", row.share_of_limit);
  json.field("peak_gflops", row.peak_gflops).field("read_gbs", row.read_gbs);
  optional_field(json, "ratio_to_best_peer", row.ratio_to_best_peer);
  optional_field(json, "best_peer", row.best_peer);
  optional_field(json, "ratio_to_fourfold", row.ratio_to_fourfold);
  optional_field(json, "max_relative_error", row.max_relative_error);
  json.field("error_samples", row.error_samples);
  json.key("stages_ms");
  if (row.stages_ms) {
    json.begin_object();
    for (std::size_t i = 0; i < kStages.size(); ++i) json.field(kStages[i], (*row.stages_ms)[i]);
    json.end_object();
  } else {
    json.null();
  }
  json.end_object();
}

// How the tokens of a mixture were spread, for each count of tokens.
std::string loads_text(const BenchReport& report, TextStyle style) {
  std::string loads;
  for (const BenchRow& row : report.rows)
    if (row.n_experts > 0 && row.implementation == "fourfold")
      loads += fmt::format("{}{}: {} of {} with tokens, the fullest with {} times the mean",
                           loads.empty() ? "" : "; ", counted(row.tokens, "token"), row.experts_hit,
                           row.n_experts, fixed(row.largest_load, 2));
  return loads.empty() ? "" : "\n" + labelled("experts", loads, kLabel, style);
}

// Equal reasons in one line, with the token counts that they are for.
std::string absences_text(const BenchReport& report, TextStyle style) {
  std::vector<std::pair<std::string, std::string>> lines;  // name and reason, token counts
  for (const BenchAbsence& absence : report.not_measured) {
    const std::string what =
        visible_text(absence.implementation) + ": " + visible_text(absence.reason);
    auto known = std::find_if(lines.begin(), lines.end(),
                              [&](const auto& line) { return line.first == what; });
    if (known == lines.end()) known = lines.insert(lines.end(), {what, ""});
    if (absence.tokens)
      known->second += (known->second.empty() ? "" : ", ") + grouped(*absence.tokens);
  }
  std::string text = lines.empty() ? "" : "\n";
  for (const auto& [what, tokens] : lines)
    text += labelled("not measured", what + (tokens.empty() ? "" : " (" + tokens + " tokens)"),
                     kLabel, style);
  return text;
}

}  // namespace

std::string bench_text(const BenchReport& report, TextStyle style) {
  std::string text;
  if (!report.rows.empty())
    text += labelled("case", case_text(report, report.rows.front()), kLabel, style);
  text +=
      labelled("machine",
               fmt::format("{}, {}, {}", report.cpu, report.isa, counted(report.threads, "thread")),
               kLabel, style);
  text += labelled("limits",
                   fmt::format("multiply-add {} GFLOP/s f32, {} bf16; reading {} GB/s",
                               fixed(report.peak_gflops_f32, 0), fixed(report.peak_gflops_bf16, 0),
                               fixed(report.read_gbs, 1)),
                   kLabel, style);
  text += labelled("times",
                   fmt::format("median and range of {}, implementations in turn; ratio: time of "
                               "the best peer / Fourfold's, a peer's own in its row",
                               counted(report.repeat, "round")),
                   kLabel, style);
  TextTable table({{"ratio"},
                   {"tokens"},
                   {"implementation", Align::left, true},
                   {"ms"},
                   {"range"},
                   {"GFLOP/s"},
                   {"GB/s"},
                   {"% of\nlimit"},
                   {"largest\nerror"}});
  std::uint64_t tokens = 0;
  for (const BenchRow& row : report.rows) {
    if (tokens != 0 && row.tokens != tokens) table.add_rule();
    tokens = row.tokens;
    table.add_row(
        {ratio_text(row.ratio_to_best_peer ? row.ratio_to_best_peer : row.ratio_to_fourfold),
         grouped(row.tokens), row.implementation, fixed(row.ms.median, decimals_for(row.ms.median)),
         range_text(row.ms), fixed(row.gflops, 1), fixed(row.gbs, 1),
         fixed(row.share_of_limit * 100, 1),
         row.max_relative_error ? fmt::format("{:.1e}", *row.max_relative_error) : "-"});
  }
  text += "\n" + table.render(style);
  for (const BenchRow& row : report.rows)
    if (row.stages_ms) {
      text += "\n";
      std::string parts;
      for (std::size_t i = 0; i < kStages.size(); ++i)
        parts += fmt::format("{}{} {} ms ({} %)", i == 0 ? "" : ", ", kStages[i],
                             fixed((*row.stages_ms)[i], 2),
                             fixed((*row.stages_ms)[i] / row.ms.median * 100, 1));
      text += labelled("stages", parts, kLabel, style);
    }
  text += loads_text(report, style);
  text += absences_text(report, style);
  for (const std::string& warning : report.warnings)
    text += labelled("warning", warning, kLabel, style);
  return text;
}

std::string bench_json(const BenchReport& report) {
  JsonWriter json;
  json.begin_object().field("schema", "fourfold.bench/1");
  json.key("machine").begin_object();
  json.field("cpu", report.cpu).field("isa", report.isa).field("threads", report.threads);
  json.key("peak_gflops").begin_object();
  json.field("f32", report.peak_gflops_f32).field("bf16", report.peak_gflops_bf16).end_object();
  json.field("read_gbs", report.read_gbs).end_object();
  optional_field(json, "model", report.model);
  json.field("repeat", report.repeat).field("major_faults", report.major_faults);
  json.key("rows").begin_array();
  for (const BenchRow& row : report.rows) write_row(json, row);
  json.end_array();
  json.key("not_measured").begin_array();
  for (const BenchAbsence& absence : report.not_measured) {
    json.begin_object().field("implementation", absence.implementation);
    optional_field(json, "tokens", absence.tokens.value_or(0));
    json.field("reason", absence.reason).end_object();
  }
  json.end_array();
  json.key("warnings").begin_array();
  for (const std::string& warning : report.warnings) json.value(warning);
  json.end_array();
  json.end_object();
  return json.take();
}

}  // namespace fourfold
