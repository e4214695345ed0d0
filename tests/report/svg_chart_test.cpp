#include "report/svg_chart.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

using namespace fourfold;

namespace {

const ChartText kText{"id", "title", "description", "layer", "ms"};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// All numbers that follow `before`, in order.
std::vector<double> numbers_after(const std::string& text, const std::string& before) {
  std::vector<double> result;
  for (std::size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1))
    result.push_back(std::stod(text.substr(at + before.size())));
  return result;
}

}  // namespace

TEST_CASE("bars are as long as their values and lie end to end") {
  const std::string svg =
      stacked_bar_chart(kText, {"0", "1"}, {{"up", 1, {2, 3}}, {"down", 2, {5, 0}}});
  CHECK(count(svg, " part\"") == 3);
  std::vector<double> x = numbers_after(svg, " part\" x=\"");
  std::vector<double> width;
  for (std::size_t at = svg.find(" part\""); at != std::string::npos;
       at = svg.find(" part\"", at + 1))
    width.push_back(std::stod(svg.substr(svg.find("width=\"", at) + 7)));
  REQUIRE(x.size() == 3);
  CHECK(width[1] / width[0] == doctest::Approx(2.5).epsilon(0.01));
  CHECK(width[2] / width[0] == doctest::Approx(1.5).epsilon(0.01));
  CHECK(x[1] == doctest::Approx(x[0] + width[0]).epsilon(0.001));
  CHECK(x[2] == x[0]);
  CHECK(svg.find(">7.000</text>") != std::string::npos);
}

TEST_CASE("the limit line stands where the axis says, and larger values are not clipped") {
  const std::string svg = bar_chart(kText, {"0", "1"}, {"share", 1, {50, 130}}, 100);
  CHECK(count(svg, "class=\"limit\"") == 1);
  const double limit = numbers_after(svg, "class=\"limit\" d=\"M")[0];
  const double start = numbers_after(svg, " part\" x=\"")[0];
  const std::size_t second = svg.rfind(" part\"");
  const double width = std::stod(svg.substr(svg.find("width=\"", second) + 7));
  CHECK(width / (limit - start) == doctest::Approx(1.3).epsilon(0.01));
}

TEST_CASE("points that are missing or not positive on a log axis are left out") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string svg =
      point_chart(kText, {"0", "1", "2"}, {{"max", 3, {1, nan, 100}}}, Scale::logarithmic);
  CHECK(count(svg, "<title>layer") == 2);
  const std::string zero = point_chart(kText, {"0"}, {{"max", 3, {0}}}, Scale::logarithmic);
  CHECK(count(zero, "<title>layer") == 0);
  for (const std::string& text : {svg, zero}) {
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find("inf") == std::string::npos);
  }
}

TEST_CASE("histogram bars add up to the whole") {
  std::vector<double> heights(21, 0.0);
  heights[0] = 0.1;
  heights[7] = 0.55;
  heights[20] = 0.35;
  const std::string svg = histogram_chart(kText, heights, 1);
  double sum = 0;
  for (const double height : numbers_after(svg, "\" height=\"")) sum += height;
  CHECK(count(svg, "<rect") == 3);
  CHECK(sum == doctest::Approx(88).epsilon(0.01));
}

TEST_CASE("every chart has a title, a description and a viewBox") {
  const std::vector<ChartSeries> one{{"s", 1, {1}}};
  for (const std::string& svg :
       {stacked_bar_chart(kText, {"0"}, one), bar_chart(kText, {"0"}, one[0], 1),
        point_chart(kText, {"0"}, one, Scale::linear), histogram_chart(kText, {1}, 1),
        stacked_bar_chart(kText, {}, {})}) {
    CHECK(svg.find("<title id=\"id-t\">title</title>") != std::string::npos);
    CHECK(svg.find("<desc id=\"id-d\">description</desc>") != std::string::npos);
    CHECK(svg.find("viewBox=\"0 0 ") != std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
  }
}

TEST_CASE("names are escaped and many rows stay in a page's height") {
  const ChartText text{"id", "<b>", "\"&", "<i>", "<u>"};
  std::vector<std::string> rows(1000, "<x>");
  const std::string svg = stacked_bar_chart(text, rows, {{"<s>", 1, std::vector<double>(1000, 1)}});
  for (const char* raw : {"<b>", "<i>", "<u>", "<s>", "<x>"})
    CHECK(svg.find(raw) == std::string::npos);
  CHECK(count(svg, "text-anchor=\"end\"") < 400);
}

TEST_CASE("axis ends are round and never below the value") {
  CHECK(nice_end(0) == 1);
  CHECK(nice_end(0.31) == doctest::Approx(0.5));
  CHECK(nice_end(2.2) == doctest::Approx(2.5));
  CHECK(nice_end(60) == doctest::Approx(100));
}
