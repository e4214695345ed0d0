// The mistakes' figures as text of 100 columns and as JSON.
#include <fmt/format.h>

#include "formats/json_writer.h"
#include "fourfold/learn.h"
#include "learn/mistakes.h"
#include "report/number_text.h"
#include "report/safe_text.h"
#include "report/text_table.h"

namespace fourfold {
namespace {

using Tokens = FlattenedRun::Tokens;

std::string heading(std::size_t index) {
  const LessonMistake& mistake = lesson().mistakes.at(index);
  const std::string label = fmt::format("Mistake {}  ", index + 1);
  return fmt::format("{}\"{}\"\n\n{}\n", label, mistake.title,
                     wrap_text(mistake.believed, kTextWidth, 0));
}

std::string token_text(const std::array<float, FlattenedRun::kModel>& token) {
  std::string text;
  for (const float value : token) text += fmt::format("{:8.4f}", value);
  return text;
}

std::string paragraph(const std::string& text) { return "\n" + wrap_text(text, kTextWidth, 0); }

std::string flattened_text(const FlattenedRun& run) {
  std::string text = heading(0);
  const auto rows = [&](std::string_view name, const Tokens& before, const Tokens& after) {
    text += fmt::format("{}\n", name);
    for (std::size_t t = 0; t < FlattenedRun::kTokens; ++t)
      text += fmt::format("  token {}  {}   |{}\n", t, token_text(before[t]), token_text(after[t]));
  };
  text += "The three tokens x\n";
  for (std::size_t t = 0; t < FlattenedRun::kTokens; ++t)
    text += fmt::format("  token {}  {}\n", t, token_text(run.x[t]));
  text += fmt::format(
      "\nLeft: y of the tokens in order. Right: y after shuffling them to {}, {}, {} "
      "and putting y back.\n",
      run.order[0], run.order[1], run.order[2]);
  rows("One FFN, token by token", run.alone, run.alone_shuffled);
  rows("One network over all three", run.flat, run.flat_shuffled);
  TextTable table({{"", Align::left, true}, {"FFN per token"}, {"flattened network"}});
  const auto number = [](float value) { return fmt::format("{:.4f}", value); };
  table.add_row({"largest change by shuffling", number(run.alone_shuffle_change),
                 number(run.flat_shuffle_change)});
  table.add_row(
      {"change at token 0 when token 2 changes", number(run.alone_leak), number(run.flat_leak)});
  table.add_row({"parameters", grouped(run.alone_parameters), grouped(run.flat_parameters)});
  text += "\n" + table.render({});
  text += paragraph("Four tokens instead of three, the flattened network: " + run.one_token_more);
  return text + paragraph(lesson().mistakes.at(0).correction);
}

std::string ratio_text(const RatioRun& run) {
  std::string text = heading(1);
  text += wrap_text(
      fmt::format("The task: y_i = sin(2 x_i) + x_i x_(i+1) / 2 for {} numbers x. The hidden layer "
                  "is random, the output layer is the best there is for {} tokens, the error |y - "
                  "wanted| / |wanted| is measured on {} others, for {} seeds.",
                  run.d_model, grouped(run.tokens), grouped(run.tokens), run.seeds),
      kTextWidth, 0);
  TextTable table({{"d_ff /\nd_model"},
                   {"\nd_ff"},
                   {"\nparameters"},
                   {"MACs per\ntoken"},
                   {"whole layer\nagainst 4x"},
                   {"dimensions\nof y - b2"},
                   {"error,\nmean %"},
                   {"\nrange %"}});
  for (const RatioRow& row : run.rows)
    table.add_row({fmt::format("{:g}", row.ratio), grouped(row.d_ff), grouped(row.parameters),
                   grouped(row.macs), fmt::format("{:.2f}", row.layer_factor),
                   fmt::format("{} of {}", row.output_dimensions, run.d_model),
                   fmt::format("{:.1f}", 100 * row.error),
                   fmt::format("{:.1f}-{:.1f}", 100 * row.least_error, 100 * row.most_error)});
  text += "\n" + table.render({});
  text += paragraph(
      "Half the width loses dimensions for good. Each doubling costs twice the work, and from 2x "
      "on "
      "each helps less than the one before. This is a toy with a random hidden layer whose output "
      "layer was solved, not trained: it shows why width is no free choice, and says nothing about "
      "which ratio is best for language.");
  return text + paragraph(lesson().mistakes.at(1).correction);
}

void write_tokens(JsonWriter& json, std::string_view key, const Tokens& tokens) {
  json.key(key).begin_array();
  for (const auto& token : tokens) {
    json.begin_array(true);
    for (const float value : token) json.value(value);
    json.end_array();
  }
  json.end_array();
}

}  // namespace

std::string mistakes_text(const FlattenedRun& flattened, const RatioRun& ratio) {
  return flattened_text(flattened) + "\n\n" + ratio_text(ratio);
}

std::string mistakes_json(const FlattenedRun& flattened, const RatioRun& ratio) {
  JsonWriter json;
  json.begin_object().field("schema", "fourfold.learn-mistakes/1");
  json.key("flattened").begin_object();
  write_tokens(json, "x", flattened.x);
  json.key("order").begin_array(true);
  for (const std::size_t token : flattened.order) json.value(token);
  json.end_array();
  write_tokens(json, "ffn", flattened.alone);
  write_tokens(json, "ffn_shuffled", flattened.alone_shuffled);
  write_tokens(json, "network", flattened.flat);
  write_tokens(json, "network_shuffled", flattened.flat_shuffled);
  json.field("ffn_shuffle_change", flattened.alone_shuffle_change);
  json.field("network_shuffle_change", flattened.flat_shuffle_change);
  json.field("ffn_leak", flattened.alone_leak).field("network_leak", flattened.flat_leak);
  json.field("ffn_parameters", flattened.alone_parameters);
  json.field("network_parameters", flattened.flat_parameters);
  json.field("one_token_more", flattened.one_token_more).end_object();
  json.key("ratio").begin_object().field("d_model", ratio.d_model).field("tokens", ratio.tokens);
  json.field("seeds", ratio.seeds).key("rows").begin_array();
  for (const RatioRow& row : ratio.rows) {
    json.begin_object().field("ratio", row.ratio).field("d_ff", row.d_ff);
    json.field("parameters", row.parameters).field("macs_per_token", row.macs);
    json.field("layer_factor", row.layer_factor);
    json.field("output_dimensions", row.output_dimensions).field("error", row.error);
    json.field("least_error", row.least_error).field("most_error", row.most_error).end_object();
  }
  json.end_array().end_object().end_object();
  return json.take();
}

}  // namespace fourfold
