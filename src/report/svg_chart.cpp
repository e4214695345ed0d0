// All charts share one frame: legend on top, row names on the left, value axis below. Units are
// those of the viewBox.
#include "report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/number_text.h"
#include "report/safe_text.h"

namespace fourfold {
namespace {

constexpr double kWidth = 420, kLeft = 44, kRight = 48;
constexpr double kLegendLine = 20, kAxis = 42, kTop = 22;
constexpr double kLetter = 7.4;  // mean width of a letter at the size of the legend

template <class... T>
void put(std::string& out, fmt::format_string<T...> format, T&&... parts) {
  fmt::format_to(std::back_inserter(out), format, std::forward<T>(parts)...);
}

double clean(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

// Maps a value to x in the plot.
struct Axis {
  double low = 0, high = 1;
  Scale scale = Scale::linear;
  std::vector<double> ticks;

  double x(double value) const {
    const double room = kWidth - kLeft - kRight;
    const double part = scale == Scale::linear ? (value - low) / (high - low)
                                               : (std::log10(value) - low) / (high - low);
    return kLeft + room * std::clamp(part, 0.0, 1.0);
  }
};

double nice_step(double range) {
  const double rough = range / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * 0.999) return factor * power;
  return 10 * power;
}

Axis linear_axis(double largest, double axis_end) {
  Axis axis;
  const double step = nice_step(std::max(largest, axis_end) > 0 ? std::max(largest, axis_end) : 1);
  const double steps = std::max(1.0, std::ceil(std::max(largest, axis_end) / step - 1e-9));
  axis.high = step * steps;
  for (double i = 0; i <= steps; ++i) axis.ticks.push_back(step * i);
  return axis;
}

Axis log_axis(double smallest, double largest) {
  Axis axis;
  axis.scale = Scale::logarithmic;
  axis.low = std::floor(std::log10(smallest) + 1e-9);
  axis.high = std::max(axis.low + 1, std::ceil(std::log10(largest) - 1e-9));
  const double step = std::ceil((axis.high - axis.low) / 6);
  for (double power = axis.low; power <= axis.high; power += step)
    axis.ticks.push_back(std::pow(10, power));
  return axis;
}

double row_height(std::size_t rows) {
  if (rows <= 12) return 22;
  return rows <= 48 ? 16 : std::max(5.0, 768.0 / static_cast<double>(rows));
}

struct Frame {
  std::string head;  // everything before the marks
  double top = 0, height = 0, row = 0;

  double middle(std::size_t i) const { return top + row * (static_cast<double>(i) + 0.5); }
};

void put_open(std::string& out, const ChartText& text, double width, double height) {
  put(out,
      "<svg class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-labelledby=\"{}-t {}-d\">",
      width, height, text.id, text.id);
  put(out, "<title id=\"{}-t\">{}</title><desc id=\"{}-d\">{}</desc>\n", text.id,
      html_text(text.title), text.id, html_text(text.description));
}

// One symbol per series, in the order of the series: disc, square, triangle.
void put_mark(std::string& out, std::size_t kind, int color, double x, double y,
              std::string_view tip) {
  const std::string title = tip.empty() ? "" : fmt::format("<title>{}</title>", tip);
  if (kind == 0)
    put(out, "<circle class=\"c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\">{}</circle>", color, x, y,
        title);
  else if (kind == 1)
    put(out, "<rect class=\"c{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"7\" height=\"7\">{}</rect>",
        color, x - 3.5, y - 3.5, title);
  else
    put(out, "<path class=\"c{}\" d=\"M{:.1f} {:.1f}l4.5 8h-9z\">{}</path>", color, x, y - 5,
        title);
}

enum class Legend { none, boxes, marks };

Frame frame(const ChartText& text, const std::vector<std::string>& rows,
            const std::vector<ChartSeries>& series, const Axis& axis, Legend legend) {
  std::string keys;
  double x = kLeft, y = 12;
  for (std::size_t s = 0; legend != Legend::none && s < series.size(); ++s) {
    const std::string name = visible_text(series[s].name);
    const double width = 16 + kLetter * static_cast<double>(display_width(name)) + 8;
    if (x > kLeft && x + width > kWidth) {
      x = kLeft;
      y += kLegendLine;
    }
    put_mark(keys, legend == Legend::boxes ? 1 : s, series[s].color, x + 4, y - 4, "");
    put(keys, "<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 14, y,
        html_text(name, 60));
    x += width;
  }
  Frame result;
  result.row = row_height(rows.size());
  result.top = (legend == Legend::none ? 0 : y + 6) + kTop;
  const double bottom =
      result.top + result.row * static_cast<double>(std::max<std::size_t>(rows.size(), 1));
  result.height = bottom + kAxis;

  std::string& out = result.head;
  put_open(out, text, kWidth, result.height);
  out += keys;
  put(out, "<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
      kLeft - 6, result.top - 7, html_text(text.row_label, 12));
  for (const double tick : axis.ticks) {
    put(out, "<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>", axis.x(tick), result.top,
        bottom + 4);
    put(out,
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.6g}</text>\n",
        axis.x(tick), bottom + 17, tick);
  }
  put(out, "<path class=\"axis\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", kLeft, result.top, bottom);
  put(out, "<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
      kLeft + (kWidth - kLeft - kRight) / 2, bottom + 35, html_text(text.value_label, 60));
  const auto every = static_cast<std::size_t>(std::ceil(13 / result.row));
  for (std::size_t i = 0; i < rows.size(); i += every)
    put(out, "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft - 6, result.middle(i) + 4, html_text(rows[i], 6));
  return result;
}

double value_at(const ChartSeries& series, std::size_t row) {
  return row < series.values.size() ? series.values[row] : std::nan("");
}

std::string tip(const ChartText& text, const std::string& row, const ChartSeries& series,
                double value) {
  return fmt::format("{} {}, {}: {}", html_text(text.row_label, 20), html_text(row, 20),
                     html_text(series.name, 60), short_number(value));
}

std::string bars(const ChartText& text, const std::vector<std::string>& rows,
                 const std::vector<ChartSeries>& series, double axis_end, Legend legend) {
  double largest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double sum = 0;
    for (const ChartSeries& part : series) sum += clean(value_at(part, i));
    largest = std::max(largest, sum);
  }
  const Axis axis = linear_axis(largest, axis_end);
  const Frame plot = frame(text, rows, series, axis, legend);
  std::string out = plot.head;
  const double thickness = plot.row * 0.68;
  // A figure that would stand on the limit's line goes into its bar.
  const auto inside = [&](double sum) {
    constexpr double kFigure = 48;
    return axis_end > 0 && sum <= axis_end && axis.x(sum) + kFigure > axis.x(axis_end);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double sum = 0;
    for (const ChartSeries& part : series) {
      const double value = value_at(part, i);
      if (clean(value) == 0) continue;
      put(out,
          "<rect class=\"c{} part\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
          "<title>{}</title></rect>",
          part.color, axis.x(sum), plot.middle(i) - thickness / 2,
          axis.x(sum + value) - axis.x(sum), thickness, tip(text, rows[i], part, value));
      sum += value;
    }
    if (plot.row >= 13)
      put(out, "<text class=\"tick{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
          inside(sum) ? " inside" : "", axis.x(sum) + (inside(sum) ? -5 : 5), plot.middle(i) + 4,
          fixed(sum, decimals_for(largest)));
  }
  if (axis_end > 0) {
    const double bottom = plot.height - kAxis;
    put(out, "<path class=\"limit\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", axis.x(axis_end),
        plot.top - 4, bottom);
  }
  return out + "</svg>\n";
}

}  // namespace

double nice_end(double value) {
  if (!(value > 0) || !std::isfinite(value)) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= value * 0.9999) return factor * power;
  return 10 * power;
}

std::string stacked_bar_chart(const ChartText& text, const std::vector<std::string>& rows,
                              const std::vector<ChartSeries>& series) {
  return bars(text, rows, series, 0, Legend::boxes);
}

std::string bar_chart(const ChartText& text, const std::vector<std::string>& rows,
                      const ChartSeries& series, double axis_end) {
  return bars(text, rows, {series}, axis_end, Legend::none);
}

std::string point_chart(const ChartText& text, const std::vector<std::string>& rows,
                        const std::vector<ChartSeries>& series, Scale scale, double axis_end) {
  double smallest = 0, largest = 0;
  for (const ChartSeries& line : series)
    for (const double value : line.values)
      if (clean(value) > 0) {
        smallest = smallest == 0 ? value : std::min(smallest, value);
        largest = std::max(largest, value);
      }
  const bool logarithmic = scale == Scale::logarithmic;
  const Axis axis = logarithmic ? log_axis(smallest > 0 ? smallest : 1, largest > 0 ? largest : 10)
                                : linear_axis(largest, axis_end);
  const Frame plot = frame(text, rows, series, axis, Legend::marks);
  std::string out = plot.head;
  for (std::size_t s = 0; s < series.size(); ++s) {
    std::string path, marks;
    bool joined = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double value = value_at(series[s], i);
      if (!std::isfinite(value) || (logarithmic && value <= 0)) {
        joined = false;
        continue;
      }
      const double x = axis.x(value), y = plot.middle(i);
      put(path, "{}{:.1f} {:.1f}", joined ? "L" : "M", x, y);
      put_mark(marks, s, series[s].color, x, y, tip(text, rows[i], series[s], value));
      joined = true;
    }
    if (!path.empty()) put(out, "<path class=\"line l{}\" d=\"{}\"/>", series[s].color, path);
    out += marks + '\n';
  }
  return out + "</svg>\n";
}

std::string histogram_chart(const ChartText& text, const std::vector<double>& heights,
                            double axis_end) {
  constexpr double kBoxWidth = 210, kBoxHeight = 132, kPlotLeft = 34, kPlotTop = 24, kBase = 112;
  constexpr double kFirstGap = 4;
  std::string out;
  put_open(out, text, kBoxWidth, kBoxHeight);
  put(out, "<text class=\"name\" x=\"{:.0f}\" y=\"13\">{}</text>\n", kPlotLeft,
      html_text(text.title, 26));
  const double top_value = axis_end > 0 ? axis_end : 1;
  for (const double part : {0.0, 0.5, 1.0}) {
    const double y = kBase - (kBase - kPlotTop) * part;
    put(out, "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", kPlotLeft, y, kBoxWidth - 4);
    put(out, "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g}</text>\n",
        kPlotLeft - 5, y + 4, 100 * top_value * part);
  }
  const double room = kBoxWidth - 4 - kPlotLeft - kFirstGap;
  const double step = room / static_cast<double>(std::max<std::size_t>(heights.size(), 1));
  for (std::size_t i = 0; i < heights.size(); ++i) {
    const double height = (kBase - kPlotTop) * std::min(1.0, clean(heights[i]) / top_value);
    if (height == 0) continue;
    put(out, "<rect class=\"c{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
        i == 0 ? 5 : 1, kPlotLeft + (i == 0 ? 0 : kFirstGap) + step * static_cast<double>(i),
        kBase - height, step - 1, height);
  }
  put(out, "<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", kPlotLeft, kBase, kBoxWidth - 4);
  const double start = kPlotLeft + kFirstGap + step;
  for (const auto& [label, part] : {std::pair{"0", 0.0}, {"0.5", 0.5}, {"1", 1.0}})
    put(out, "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
        start + (kBoxWidth - 4 - start) * part, kBase + 14, label);
  return out + "</svg>\n";
}

}  // namespace fourfold
