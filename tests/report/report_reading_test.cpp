#include "report/report_reading.h"

#include <doctest/doctest.h>

#include <string>

#include "report/sample_report.h"

using namespace fourfold;

namespace {

std::string all(const ProfileReport& report) {
  std::string text;
  for (const std::string& reading : profile_readings(report)) text += reading + '\n';
  return text;
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("sums of stages leave out what a layer does not have") {
  StageTimesMs time;
  time.expand = 2;
  time.contract = 3;
  time.attention = 7;
  time.norm = 11;
  time.other = 13;
  CHECK(ffn_ms(time) == 5);
  time.gather = 17;
  CHECK(ffn_ms(time) == 22);
  CHECK(layer_ms(time) == 53);
}

TEST_CASE("tokens without firing bound the rate at three over their number") {
  CHECK_FALSE(unseen_rate_bound(0).has_value());
  CHECK(*unseen_rate_bound(2) == 1.0);
  CHECK(*unseen_rate_bound(1500) == doctest::Approx(0.002));
}

TEST_CASE("dead neurons: undefined, counted, and by threshold") {
  ProfileReport report = sample_profile(2, 1500);
  CHECK(holds(all(report), "not defined for gelu unless --dead-threshold"));
  for (LayerProfile& layer : report.layers) layer.statistics.dead = DeadNeurons{7, 4093, {}};
  CHECK(holds(all(report), "14 of 3,000 neurons are dead"));
  CHECK(holds(all(report), "below 3/4,093 = 0.07 %"));
  report.dead_threshold = 0.25;
  CHECK(holds(all(report), "14 of 3,000 neurons are dead: |h| stayed at or below 0.2500"));
  CHECK(holds(all(report), "without a larger value"));
  for (LayerProfile& layer : report.layers) layer.activation = "relu";
  CHECK(holds(all(report), "they fired on no counted token"));
}

TEST_CASE("a run without tokens, without layers, or with NaN says so") {
  ProfileReport report = sample_profile(2);
  CHECK(holds(all(report), "Mean over all layers"));
  report.n_layers = 5;
  CHECK(holds(all(report), "Mean over the chosen layers"));
  report.tokens = 0;
  CHECK(holds(all(report), "No token was counted"));
  report.layers.clear();
  CHECK(holds(all(report), "no layers"));
  report.finite = false;
  CHECK(holds(all(report), "NaN or infinite"));
}
