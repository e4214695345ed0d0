// Charts and tables are built from the same vectors, so they cannot disagree.
#include "report/report_panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "report/html_table.h"
#include "report/number_text.h"
#include "report/report_reading.h"
#include "report/svg_chart.h"

namespace fourfold {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::vector<std::string> row_names(const ProfileReport& report) {
  std::vector<std::string> names;
  for (const LayerProfile& layer : report.layers) names.push_back(fmt::format("{}", layer.index));
  return names;
}

template <class Read>
std::vector<double> column(const ProfileReport& report, Read read) {
  std::vector<double> values;
  for (const LayerProfile& layer : report.layers) values.push_back(read(layer));
  return values;
}

// Rows of a table whose first column is the layer and whose others are the series.
template <class Write>
Rows series_rows(const ProfileReport& report, const std::vector<ChartSeries>& series, Write write) {
  Rows rows;
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    std::vector<std::string> row{fmt::format("{}", report.layers[i].index)};
    for (const ChartSeries& line : series) row.push_back(write(line.values[i]));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<HtmlColumn> series_columns(const std::vector<ChartSeries>& series) {
  std::vector<HtmlColumn> columns{{"layer"}};
  for (const ChartSeries& line : series) columns.push_back({line.name});
  return columns;
}

}  // namespace

std::string time_panel(const ProfileReport& report) {
  std::vector<ChartSeries> stages;
  const auto add = [&](const char* name, int color, auto read) {
    stages.push_back({name, color, column(report, [&](const LayerProfile& layer) {
                        return read(layer.time_ms);
                      })});
  };
  const auto add_if_any = [&](const char* name, int color,
                              std::optional<double> StageTimesMs::*stage) {
    if (std::any_of(report.layers.begin(), report.layers.end(),
                    [&](const LayerProfile& layer) { return (layer.time_ms.*stage).has_value(); }))
      add(name, color, [&](const StageTimesMs& time) { return (time.*stage).value_or(0); });
  };
  add("expand", 1, [](const StageTimesMs& time) { return time.expand; });
  add("contract", 2, [](const StageTimesMs& time) { return time.contract; });
  add_if_any("router", 6, &StageTimesMs::router);
  add_if_any("gather", 7, &StageTimesMs::gather);
  add_if_any("combine", 8, &StageTimesMs::combine);
  add("attention", 3, [](const StageTimesMs& time) { return time.attention; });
  add("norm", 4, [](const StageTimesMs& time) { return time.norm; });
  add("other", 5, [](const StageTimesMs& time) { return time.other; });

  const std::string caption = "Time per layer and stage, in ms of the median window";
  const std::string chart = stacked_bar_chart(
      {"time", caption,
       "One bar per layer. The parts are the stages; the number at the end is the layer's time.",
       "layer", "ms"},
      row_names(report), stages);
  Rows rows = series_rows(report, stages, [](double ms) { return fixed(ms, 3); });
  std::vector<HtmlColumn> columns = series_columns(stages);
  columns.push_back({"all"});
  columns.push_back({"FFN GFLOP/s"});
  columns.push_back({"FFN GB/s"});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].push_back(fixed(layer_ms(report.layers[i].time_ms), 3));
    rows[i].push_back(fixed(report.layers[i].gflops, 1));
    rows[i].push_back(fixed(report.layers[i].gbs, 1));
  }
  return figure(caption, chart, html_table(caption, columns, rows));
}

std::string limit_panel(const ProfileReport& report) {
  const ChartSeries share{"share of limit", 1, column(report, [](const LayerProfile& layer) {
                            return 100 * layer.share_of_limit;
                          })};
  const std::string caption = "FFN speed as a share of this machine's limit, in %";
  const std::string chart =
      bar_chart({"limit", caption,
                 "One bar per layer. The dashed line at 100 % is the speed that the measured peak "
                 "and read rate allow.",
                 "layer", "% of the limit"},
                row_names(report), share, 100);
  Rows rows;
  for (const LayerProfile& layer : report.layers)
    rows.push_back({fmt::format("{}", layer.index), layer.kind, layer.activation,
                    grouped(layer.d_model), grouped(layer.d_ff), fixed(layer.gflops, 1),
                    fixed(layer.gbs, 1), percent_number(layer.share_of_limit)});
  return figure(caption, chart,
                html_table(caption,
                           {{"layer"},
                            {"kind", false},
                            {"activation", false},
                            {"d_model"},
                            {"d_ff"},
                            {"GFLOP/s"},
                            {"GB/s"},
                            {"of limit %"}},
                           rows));
}

std::string firing_panel(const ProfileReport& report) {
  std::vector<std::vector<double>> shares;
  double largest = 0;
  for (const LayerProfile& layer : report.layers) {
    double all = 0;
    for (const std::uint64_t count : layer.statistics.firing_rate_histogram)
      all += static_cast<double>(count);
    std::vector<double> heights;
    for (const std::uint64_t count : layer.statistics.firing_rate_histogram)
      heights.push_back(all > 0 ? static_cast<double>(count) / all : 0);
    largest = std::max(largest, *std::max_element(heights.begin(), heights.end()));
    shares.push_back(std::move(heights));
  }
  std::string charts = "<div class=\"small\">\n";
  Rows rows;
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const LayerProfile& layer = report.layers[i];
    charts += histogram_chart(
        {fmt::format("firing-{}", i), fmt::format("layer {}", layer.index),
         fmt::format("Share of the neurons, in %, by the share of tokens on which they fire; {} of "
                     "{} neurons never fire.",
                     layer.statistics.firing_rate_histogram[0], layer.d_ff),
         "", ""},
        shares[i], nice_end(largest));
    std::vector<std::string> row{fmt::format("{}", layer.index),
                                 percent_number(layer.statistics.mean_firing_rate)};
    for (const std::uint64_t count : layer.statistics.firing_rate_histogram)
      row.push_back(grouped(count));
    rows.push_back(std::move(row));
  }
  charts += "</div>\n";
  std::vector<HtmlColumn> columns{{"layer"}, {"mean %"}, {"never"}};
  for (int bin = 0; bin < 20; ++bin)
    columns.push_back({fmt::format("{:.2f}–{:.2f}", 0.05 * bin, 0.05 * (bin + 1))});
  return figure(
      "Firing rates: share of the neurons (upwards, in %) by the share of tokens on which they "
      "fire "
      "(0 to 1); the bar set apart on the left never fires",
      charts, html_table("Neurons by firing rate: number of neurons in each range", columns, rows));
}

std::string sparsity_panel(const ProfileReport& report) {
  const std::vector<ChartSeries> lines{
      {"exactly zero", 1,
       column(report, [](const LayerProfile& l) { return 100 * l.statistics.exact_zero; })},
      {"<= 1e-3 of max", 3,
       column(report,
              [](const LayerProfile& l) { return 100 * l.statistics.below_thousandth_of_max; })},
      {"energy_99", 4, column(report, [](const LayerProfile& l) {
         return l.statistics.energy_99 ? 100 * *l.statistics.energy_99 : std::nan("");
       })}};
  const std::string caption = "Sparsity of the hidden values per layer, in %";
  const std::string chart = point_chart(
      {"sparsity", caption,
       "Three points per layer: hidden values that are exactly zero, those at most a thousandth of "
       "their token's largest, and the share of neurons that carries 99 % of the energy.",
       "layer", "%"},
      row_names(report), lines, Scale::linear, 100);
  std::vector<HtmlColumn> columns = series_columns(lines);
  columns.push_back({"dead neurons"});
  Rows rows = series_rows(report, lines, [](double percent) {
    return percent_number(std::isnan(percent) ? std::nullopt : std::optional(percent / 100));
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<DeadNeurons>& dead = report.layers[i].statistics.dead;
    rows[i].push_back(dead ? grouped(dead->count) : "not defined");
  }
  return figure(caption, chart, html_table(caption, columns, rows));
}

std::string outlier_panel(const ProfileReport& report) {
  const std::vector<ChartSeries> lines{
      {"largest |h|", 3,
       column(report, [](const LayerProfile& l) { return l.statistics.max_abs; })},
      {"median |h|", 1,
       column(report, [](const LayerProfile& l) { return l.statistics.median_abs; })}};
  const std::string caption = "Outliers: largest and median hidden value per layer";
  const std::string chart =
      point_chart({"outliers", caption,
                   "Two points per layer on a logarithmic axis: the largest and the median size of "
                   "a hidden value.",
                   "layer", "|h|, logarithmic"},
                  row_names(report), lines, Scale::logarithmic);
  std::vector<HtmlColumn> columns = series_columns(lines);
  columns.push_back({"ratio"});
  Rows rows = series_rows(report, lines, [](double value) { return short_number(value); });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LayerStatistics& numbers = report.layers[i].statistics;
    rows[i].push_back(numbers.median_abs > 0
                          ? short_number(static_cast<double>(numbers.max_abs) / numbers.median_abs)
                          : "-");
  }
  return figure(caption, chart, html_table(caption, columns, rows));
}

}  // namespace fourfold
