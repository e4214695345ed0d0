// The text of `inspect`. The text of `profile` is in report_text_profile.cpp.
#include "report/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report/number_text.h"
#include "report/safe_text.h"
#include "report/text_table.h"

namespace fourfold {
namespace {

constexpr std::size_t kLabel = 12;

std::string head(const ModelSummary& summary, TextStyle style) {
  std::string out = bold("Model", style) + std::string(kLabel - 5, ' ') +
                    shorten(visible_text(summary.path), kTextWidth - kLabel, Keep::end) + '\n';
  out +=
      labelled("Family",
               fmt::format("{}, {}", summary.architecture, counted(summary.layers.size(), "layer")),
               kLabel, style);
  out += labelled("Work", "counted for one token; 1 MAC = 1 multiply-add = 2 FLOPs", kLabel, style);
  return out;
}

std::string layer_table(const ModelSummary& summary, TextStyle style) {
  const bool experts =
      std::any_of(summary.layers.begin(), summary.layers.end(),
                  [](const LayerSummary& layer) { return layer.n_experts.has_value(); });
  std::vector<TextColumn> columns{
      {"layer"}, {"kind", Align::left}, {"activation", Align::left}, {"d_model"}, {"d_ff"}};
  if (experts) columns.push_back({"experts,\ntop_k"});
  columns.insert(columns.end(), {{"dtype", Align::left},
                                 {"FFN\nparameters"},
                                 {"share of\nlayer %"},
                                 {"FFN MACs\nper token"}});
  TextTable table(std::move(columns));
  for (const LayerSummary& layer : summary.layers) {
    std::vector<std::string> row{fmt::format("{}", layer.index), layer.kind, layer.activation,
                                 grouped(layer.d_model), grouped(layer.d_ff)};
    if (experts)
      row.push_back(layer.n_experts && layer.top_k
                        ? fmt::format("{}, {}", *layer.n_experts, *layer.top_k)
                        : "-");
    row.insert(row.end(), {layer.dtype, grouped(layer.ffn_parameters),
                           percent_number(layer.ffn_share), grouped(layer.ffn_macs_per_token)});
    table.add_row(row);
  }
  return table.render(style);
}

std::string parameter_table(const ParameterCounts& counts, TextStyle style) {
  TextTable table({{"parameters", Align::left}, {"count"}, {"%"}});
  const auto row = [&](const char* name, std::uint64_t count) {
    table.add_row({name, grouped(count), percent_of(count, counts.total)});
  };
  row("ffn", counts.ffn);
  row("attention", counts.attention);
  row("norm", counts.norm);
  row("embedding", counts.embedding);
  row("other", counts.other);
  table.add_rule();
  row("total", counts.total);
  row("active", counts.active);
  return table.render(style);
}

std::string work_lines(const ModelSummary& summary, TextStyle style) {
  double ffn = 0, attention = 0, elementwise = 0;
  for (const LayerSummary& layer : summary.layers) {
    ffn += static_cast<double>(layer.ffn_macs_per_token);
    attention += static_cast<double>(layer.attention_macs_per_token);
    elementwise += static_cast<double>(layer.elementwise_flops_per_token);
  }
  const std::string scores =
      summary.seq_len ? fmt::format("with score work at seq_len {}", grouped(*summary.seq_len))
                      : "projections only; --seq-len adds the score work";
  return labelled(
      "All layers",
      fmt::format("{} FFN MACs, {} attention MACs ({}), {} elementwise FLOPs in the FFNs",
                  fixed(ffn, 0), fixed(attention, 0), scores, fixed(elementwise, 0)),
      kLabel, style);
}

std::string tensor_table(const ModelSummary& summary, TextStyle style) {
  TextTable table({{"tensor", Align::left, true},
                   {"dtype", Align::left},
                   {"shape", Align::left, true},
                   {"parameters"},
                   {"bytes"}});
  for (const TensorSummary& tensor : summary.tensors) {
    std::string shape = "[";
    for (const std::uint64_t extent : tensor.shape)
      shape += (shape.size() > 1 ? ", " : "") + fmt::format("{}", extent);
    table.add_row({tensor.name, tensor.dtype, shape + "]", grouped(tensor.parameters),
                   grouped(tensor.bytes)});
  }
  return table.render(style);
}

}  // namespace

std::string model_summary_text(const ModelSummary& summary, bool tensors, TextStyle style) {
  std::string out = head(summary, style) + '\n';
  if (!summary.layers.empty()) out += layer_table(summary, style) + '\n';
  out += parameter_table(summary.parameters, style) + '\n';
  if (!summary.layers.empty()) out += work_lines(summary, style);
  if (tensors) out += '\n' + tensor_table(summary, style);
  return out;
}

}  // namespace fourfold
