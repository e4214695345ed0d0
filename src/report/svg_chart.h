// Small static SVG charts: rows run downwards (one per layer), so that a phone shows them without
// scrolling. Colours, lines and fonts are CSS classes of the page's style; without it the shapes
// stay readable in black.
#pragma once

#include <string>
#include <vector>

namespace fourfold {

// Names and descriptions may come from files: they are escaped here.
struct ChartText {
  std::string id;     // unique in the page: letters, digits, '-'
  std::string title;  // read out by screen readers, as is the description
  std::string description;
  std::string row_label;    // what a row is, for example "layer"
  std::string value_label;  // what is drawn, with its unit
};

struct ChartSeries {
  std::string name;
  int color = 1;               // 1 to 8: class c1 to c8
  std::vector<double> values;  // one per row; not finite: nothing is drawn
};

enum class Scale { linear, logarithmic };

// One bar per row, its parts side by side; the row's sum stands at its end.
std::string stacked_bar_chart(const ChartText& text, const std::vector<std::string>& rows,
                              const std::vector<ChartSeries>& series);

// One bar per row on an axis from 0 to at least `axis_end`, where a dashed line is drawn.
std::string bar_chart(const ChartText& text, const std::vector<std::string>& rows,
                      const ChartSeries& series, double axis_end);

// Up to three series as joined points with different marks. Logarithmic: values that are not
// positive are left out.
std::string point_chart(const ChartText& text, const std::vector<std::string>& rows,
                        const std::vector<ChartSeries>& series, Scale scale, double axis_end = 0);

// Upright bars of equal width, the first set apart (class c5); `heights` are shares of the whole,
// axis 0 to `axis_end`. The axis below is labelled 0, 0.5 and 1; the title is also drawn.
std::string histogram_chart(const ChartText& text, const std::vector<double>& heights,
                            double axis_end);

// The smallest of 1, 2, 2.5, 5 times a power of ten that is not below `value`; 1 for nothing.
double nice_end(double value);

}  // namespace fourfold
