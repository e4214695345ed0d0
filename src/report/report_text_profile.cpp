// The text of `profile`: what ran, two tables with a row per layer (time, neurons), totals, the
// readings, warnings, and on request each layer's firing rates and strongest neurons.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/number_text.h"
#include "report/report_reading.h"
#include "report/report_text.h"
#include "report/safe_text.h"
#include "report/text_table.h"

namespace fourfold {
namespace {

constexpr std::size_t kLabel = 10;
constexpr std::size_t kThreadsListed = 8;

// Counted tokens that the tokenizer added: one before and one after each window.
std::uint64_t added_tokens(const ProfileReport& report) {
  return report.count_special ? 2 * report.windows : 0;
}

std::string head(const ProfileReport& report, TextStyle style) {
  const MachineReport& machine = report.machine;
  const std::string facts =
      fmt::format("{}, {}, d_model {}, {}, computed in {}", report.architecture,
                  counted(report.n_layers, "layer"), grouped(report.d_model),
                  counted(report.parameters.total, "parameter"), report.dtype);
  std::string out = bold("Model", style) + std::string(kLabel - 5, ' ') +
                    shorten(visible_text(report.model_path), kTextWidth - kLabel, Keep::end) + '\n';
  out += labelled("", facts, kLabel, style);
  out += labelled(
      "Text",
      fmt::format("{}: {} in {} of up to {}, batch {}{}",
                  shorten(visible_text(report.text_name), 60, Keep::end),
                  counted(report.tokens, "counted token"), counted(report.windows, "window"),
                  grouped(report.seq_len), grouped(report.batch),
                  report.count_special ? ", special tokens counted" : ""),
      kLabel, style);
  const std::uint64_t used = report.tokens - std::min(report.tokens, added_tokens(report));
  if (report.text_tokens > used)
    out += labelled("",
                    fmt::format("the text goes on to {} tokens; --max-tokens takes more of it",
                                grouped(report.text_tokens)),
                    kLabel, style);
  out += labelled("Machine",
                  fmt::format("{}, {}, {} thread{}; peak {} GFLOP/s ({}), reads {} GB/s from {}",
                              shorten(visible_text(machine.cpu), 60), machine.isa, machine.threads,
                              machine.threads == 1 ? "" : "s",
                              fixed(machine.peak_gflops_bf16.value_or(machine.peak_gflops_f32), 1),
                              machine.peak_gflops_bf16 ? "bf16" : "f32", fixed(machine.read_gbs, 1),
                              bytes_text(machine.read_buffer_bytes)),
                  kLabel, style);
  return out;
}

double largest_stage(const ProfileReport& report) {
  double largest = 0;
  for (const LayerProfile& layer : report.layers) {
    const StageTimesMs& time = layer.time_ms;
    largest =
        std::max({largest, time.expand, time.contract, time.attention, time.norm, time.other});
  }
  return largest;
}

std::string time_table(const ProfileReport& report, TextStyle style) {
  // Stages that no layer of this model has get no column.
  const auto has = [&](std::optional<double> StageTimesMs::*stage) {
    return std::any_of(report.layers.begin(), report.layers.end(), [&](const LayerProfile& layer) {
      return (layer.time_ms.*stage).has_value();
    });
  };
  struct Stage {
    const char* header;
    std::optional<double> StageTimesMs::*member;
  };
  std::vector<Stage> routing;
  for (const Stage& stage :
       {Stage{"router", &StageTimesMs::router}, Stage{"gather", &StageTimesMs::gather},
        Stage{"combine", &StageTimesMs::combine}})
    if (has(stage.member)) routing.push_back(stage);

  std::vector<TextColumn> columns{
      {"layer"}, {"FFN", Align::left}, {"d_ff"}, {"expand"}, {"contract"}};
  for (const Stage& stage : routing) columns.push_back({stage.header});
  for (const char* header : {"attention", "norm", "other", "FFN\nGFLOP/s", "of\nlimit %"})
    columns.push_back({header});
  TextTable table(columns);

  const int decimals = decimals_for(largest_stage(report));
  const auto ms = [&](double time) { return fixed(time, decimals); };
  StageTimesMs sum;
  for (const LayerProfile& layer : report.layers) {
    const StageTimesMs& time = layer.time_ms;
    std::vector<std::string> cells{fmt::format("{}", layer.index),
                                   layer.kind + " " + layer.activation, grouped(layer.d_ff),
                                   ms(time.expand), ms(time.contract)};
    for (const Stage& stage : routing) {
      const std::optional<double>& value = time.*stage.member;
      cells.push_back(value ? ms(*value) : "-");
      if (value) sum.*stage.member = (sum.*stage.member).value_or(0) + *value;
    }
    for (const double value : {time.attention, time.norm, time.other}) cells.push_back(ms(value));
    cells.push_back(fixed(layer.gflops, 1));
    cells.push_back(percent_number(layer.share_of_limit));
    table.add_row(cells);
    sum.expand += time.expand;
    sum.contract += time.contract;
    sum.attention += time.attention;
    sum.norm += time.norm;
    sum.other += time.other;
  }
  table.add_rule();
  std::vector<std::string> totals{"sum", "", "", ms(sum.expand), ms(sum.contract)};
  for (const Stage& stage : routing) totals.push_back(ms((sum.*stage.member).value_or(0)));
  for (const double value : {sum.attention, sum.norm, sum.other}) totals.push_back(ms(value));
  table.add_row(totals);
  return table.render(style);
}

std::string neuron_table(const ProfileReport& report, TextStyle style) {
  TextTable table({{"layer"},
                   {"zero\n%"},
                   {"<=1e-3 of\nmax %"},
                   {"energy_99\n%"},
                   {"mean firing\nrate %"},
                   {"dead\nneurons"},
                   {"largest\n|h|"},
                   {"median\n|h|"}});
  for (const LayerProfile& layer : report.layers) {
    const LayerStatistics& numbers = layer.statistics;
    table.add_row({fmt::format("{}", layer.index), percent_number(numbers.exact_zero),
                   percent_number(numbers.below_thousandth_of_max),
                   percent_number(numbers.energy_99), percent_number(numbers.mean_firing_rate),
                   numbers.dead ? grouped(numbers.dead->count) : "-", short_number(numbers.max_abs),
                   short_number(numbers.median_abs)});
  }
  return table.render(style);
}

std::string thread_text(const std::vector<ThreadTime>& times) {
  std::string text;
  if (times.size() <= kThreadsListed) {
    for (std::size_t i = 0; i < times.size(); ++i)
      text += fmt::format("{}thread {} {} s busy, {} s waiting", i == 0 ? "" : "; ", i,
                          fixed(times[i].busy_s, 2), fixed(times[i].wait_s, 2));
    return text;
  }
  const auto [least, most] = std::minmax_element(
      times.begin(), times.end(), [](const auto& a, const auto& b) { return a.busy_s < b.busy_s; });
  return fmt::format("{} threads: the least busy {} s busy, {} s waiting; the most busy {} s, {} s",
                     times.size(), fixed(least->busy_s, 2), fixed(least->wait_s, 2),
                     fixed(most->busy_s, 2), fixed(most->wait_s, 2));
}

std::string totals(const ProfileReport& report, TextStyle style) {
  const int decimals = decimals_for(report.forward_ms);
  std::string out = labelled(
      "Forward",
      fmt::format("{} ms for the median window, {} tokens/s; FFNs {} %, outside layers {} ms",
                  fixed(report.forward_ms, decimals), fixed(report.tokens_per_s, 0),
                  percent_number(report.ffn_time_share), fixed(report.outside_layers_ms, decimals)),
      kLabel, style);
  out += labelled("Passes",
                  fmt::format("timing {} s, statistics {} s", fixed(report.timing_seconds, 2),
                              fixed(report.statistics_seconds, 2)),
                  kLabel, style);
  if (!report.machine.thread_times.empty())
    out += labelled("Threads", thread_text(report.machine.thread_times), kLabel, style);
  return out;
}

std::string firing_bars(const std::array<std::uint64_t, 21>& counts) {
  constexpr std::array<const char*, 9> kBars{"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double largest = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  std::string bars;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    // A bin with any neuron shows at least the lowest bar.
    const auto share = largest > 0 ? static_cast<double>(counts[i]) / largest : 0;
    const auto level = counts[i] == 0 ? 0 : std::max(1, static_cast<int>(share * 8 + 0.5));
    bars += kBars[static_cast<std::size_t>(std::min(level, 8))];
    if (i == 0) bars += ' ';
  }
  return bars;
}

std::string layer_details(const LayerProfile& layer, TextStyle style) {
  const LayerStatistics& numbers = layer.statistics;
  std::string out = bold(fmt::format("Layer {}", layer.index), style) + '\n';
  out += fmt::format("firing rate  never {}  always   ({} neurons never fired, mean rate {} %)\n",
                     firing_bars(numbers.firing_rate_histogram),
                     grouped(numbers.firing_rate_histogram[0]),
                     percent_number(numbers.mean_firing_rate));
  if (numbers.dead && !numbers.dead->indices.empty()) {
    constexpr std::size_t kListed = 20;
    std::string list;
    for (std::size_t i = 0; i < std::min(kListed, numbers.dead->indices.size()); ++i)
      list += fmt::format("{}{}", i == 0 ? "" : ", ", numbers.dead->indices[i]);
    if (numbers.dead->count > kListed)
      list += fmt::format(" and {} more (all in --json)", grouped(numbers.dead->count - kListed));
    out += "dead         " + wrap_text(list, kTextWidth, 13);
  }
  if (numbers.top_neurons.empty()) return out;
  TextTable table(
      {{"neuron"}, {"mean energy"}, {"strongest tokens (hidden value)", Align::left, true}});
  for (const TopNeuron& neuron : numbers.top_neurons) {
    std::string tokens;
    for (const StrongToken& token : neuron.tokens)
      tokens += fmt::format("{}{} {}", tokens.empty() ? "" : " · ",
                            shorten(visible_text(token.text), 16), short_number(token.value));
    table.add_row({fmt::format("{}", neuron.neuron), short_number(neuron.mean_energy), tokens});
  }
  return out + table.render(style);
}

}  // namespace

std::string profile_text(const ProfileReport& report, bool layers, TextStyle style) {
  std::string out = head(report, style) + '\n';
  if (!report.layers.empty()) {
    out += bold("Time per layer, in ms of the median window", style) + '\n' +
           time_table(report, style) + '\n';
    out += bold("Hidden values per layer", style) + '\n' + neuron_table(report, style) + '\n';
  }
  out += totals(report, style) + '\n';
  for (const std::string& reading : profile_readings(report))
    out += "* " + wrap_text(reading, kTextWidth, 2);
  for (const std::string& warning : report.warnings)
    out += bold("warning:", style) + " " + wrap_text(warning, kTextWidth, 9);
  if (layers)
    for (const LayerProfile& layer : report.layers) out += '\n' + layer_details(layer, style);
  return out;
}

}  // namespace fourfold
