#include "report/report_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/json_writer.h"
#include "report/number_text.h"
#include "report/safe_text.h"

namespace fourfold {
namespace {

constexpr std::size_t kShownValues = 8, kShownNeurons = 8, kWidth = 98;

std::string values_text(const std::vector<float>& values) {
  std::string text;
  const std::size_t shown = std::min(values.size(), kShownValues);
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{}{:.6g}", i == 0 ? "" : ", ", values[i]);
  return "[" + text + (values.size() > shown ? ", ...]" : "]");
}

std::string range_text(const std::vector<float>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return fmt::format("min {:.6g}, mean {:.6g}, max {:.6g}", *low, mean, *high);
}

// The hidden units that matter most, for layers too large to print whole.
std::string strongest_text(const std::vector<float>& hidden) {
  std::vector<std::size_t> order(hidden.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size = [&](std::size_t i) {
    return std::isnan(hidden[i]) ? -1.0F : std::fabs(hidden[i]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  std::string text;
  for (std::size_t i = 0; i < std::min(order.size(), kShownNeurons); ++i)
    text += fmt::format("{}{}: {:.4g}", i == 0 ? "" : ", ", order[i], hidden[order[i]]);
  return text;
}

// Two spaces in front, four on the lines that continue it.
std::string indented(const std::string& line) { return "  " + wrap_text(line, kWidth, 4); }

}  // namespace

std::string trace_text(const TraceReport& trace) {
  std::string text = wrap_text(trace.title, kWidth, 2);
  for (const auto& note : trace.notes) text += indented(note);
  const std::string active =
      trace.active_parameters < trace.parameters
          ? fmt::format(", {} used by this token", grouped(trace.active_parameters))
          : "";
  text +=
      fmt::format("  {} parameters{}, {} MACs = {} FLOPs per token (1 MAC = 2 FLOPs)\n\n",
                  grouped(trace.parameters), active, grouped(trace.macs), grouped(2 * trace.macs));
  text += fmt::format("x  [{}]\n  {}\n", trace.x.size(), values_text(trace.x));
  const std::vector<float>* pre = nullptr;  // what the next activation gets
  for (const TraceStep& step : trace.steps) {
    text += fmt::format("\n{}{}  {}  [{}]\n",
                        step.expert ? fmt::format("expert {}: ", *step.expert) : "", step.name,
                        step.formula, step.values.size());
    if (step.name == "expand" || step.name == "gate") pre = &step.values;
    if (step.parameters > 0 || step.macs > 0 || step.elementwise_flops > 0)
      text +=
          fmt::format("  {} parameters, {} MACs, {} elementwise FLOPs\n", grouped(step.parameters),
                      grouped(step.macs), grouped(step.elementwise_flops));
    for (const auto& line : step.workings) text += indented(line);
    text += "  " + values_text(step.values) + "\n";
    if (step.values.size() > kShownValues) text += "  " + range_text(step.values) + "\n";
    if (step.name == "activate" && pre != nullptr) {
      const auto fired =
          std::count_if(pre->begin(), pre->end(), [](float value) { return value > 0; });
      text += fmt::format("  {} of {} units fire ({} > 0)\n", fired, step.values.size(),
                          trace.kind == "dense" ? "pre" : "g");
    }
    const bool is_hidden =
        step.name == "product" || (step.name == "activate" && trace.kind == "dense");
    if (is_hidden && step.values.size() > kShownValues)
      text += indented("strongest units: " + strongest_text(step.values));
  }
  return text;
}

std::string trace_json(const TraceReport& trace) {
  JsonWriter json;
  const auto numbers = [&](std::string_view name, const std::vector<float>& values) {
    json.key(name).begin_array(true);
    for (const float value : values) json.value(value);
    json.end_array();
  };
  json.begin_object().field("schema", "fourfold.trace/1");
  const auto optional = [&](std::string_view name, const std::optional<std::uint64_t>& content) {
    json.key(name);
    if (content)
      json.value(*content);
    else
      json.null();
  };
  json.field("title", trace.title).field("kind", trace.kind);
  json.field("activation", trace.activation);
  json.field("d_model", trace.d_model).field("d_ff", trace.d_ff);
  optional("n_experts", trace.n_experts);
  optional("top_k", trace.top_k);
  json.field("parameters", trace.parameters);
  json.field("active_parameters", trace.active_parameters).field("macs", trace.macs);
  json.key("notes").begin_array();
  for (const auto& note : trace.notes) json.value(note);
  json.end_array();
  numbers("x", trace.x);
  json.key("steps").begin_array();
  for (const TraceStep& step : trace.steps) {
    json.begin_object().field("name", step.name).field("formula", step.formula);
    optional("expert", step.expert);
    json.field("parameters", step.parameters).field("macs", step.macs);
    json.field("elementwise_flops", step.elementwise_flops);
    numbers("values", step.values);
    json.key("workings").begin_array();
    for (const auto& line : step.workings) json.value(line);
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.take();
}

}  // namespace fourfold
