#include "report/report_trace.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <sstream>

namespace {

fourfold::TraceReport sample() {
  fourfold::TraceReport trace;
  trace.title = "Layer 3 of a\x1b[31mmodel";
  trace.activation = "relu";
  trace.d_model = 2;
  trace.d_ff = 40;
  trace.parameters = trace.active_parameters = 202;
  trace.macs = 160;
  trace.notes = {std::string(150, 'n')};
  trace.x = {1.5F, -2.0F};
  const std::vector<float> pre(40, -0.123456F), hidden(40, 0.0F);
  trace.steps = {{"expand", "pre = up x + up_bias", 120, 80, 40, pre, {std::string(130, 'w')}},
                 {"activate", "hidden = relu(pre)", 0, 0, 40, hidden, {}},
                 {"contract", "y = down hidden + down_bias", 82, 80, 2, {0.25F, 3.0F}, {}}};
  return trace;
}

}  // namespace

TEST_CASE("a trace fits 100 columns and hides control characters") {
  const std::string text = fourfold::trace_text(sample());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("0 of 40 units fire") != std::string::npos);
  CHECK(text.find("202 parameters, 160 MACs = 320 FLOPs") != std::string::npos);
}

TEST_CASE("a mixture's trace names the expert of each step, and units fire by the gate") {
  fourfold::TraceReport trace = sample();
  trace.kind = "moe";
  trace.parameters = 1010;
  trace.n_experts = 5;
  trace.top_k = 1;
  const std::vector<float> logits(5, 0.25F), gate{1.5F, -2.0F, 0.0F}, nine(9, 1.0F);
  trace.steps = {{"router", "logit = router x", 10, 10, 0, logits, {}},
                 {"gate", "g = gate x", 0, 0, 0, gate, {}, 3},
                 {"activate", "a = silu(g)", 0, 0, 3, {1, -0.2F, 0}, {}, 3},
                 {"product", "hidden = a * u", 0, 0, 9, nine, {}, 3}};
  const std::string text = fourfold::trace_text(trace);
  for (const char* part :
       {"1,010 parameters, 202 used by this token", "\nrouter  logit",
        "\nexpert 3: gate  g = gate x  [3]", "1 of 3 units fire (g > 0)", "strongest units: 0: 1"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(fourfold::trace_json(trace));
  CHECK(std::string_view(root["kind"]) == "moe");
  CHECK(std::uint64_t(root["n_experts"]) == 5);
  CHECK(std::uint64_t(root["top_k"]) == 1);
  CHECK(std::uint64_t(root["active_parameters"]) == 202);
  CHECK(root["steps"].at(0)["expert"].is_null());
  CHECK(std::uint64_t(root["steps"].at(3)["expert"]) == 3);
}

TEST_CASE("a trace's JSON holds every number") {
  const std::string json = fourfold::trace_json(sample());
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(json);
  CHECK(std::string_view(root["schema"]) == "fourfold.trace/1");
  CHECK(std::uint64_t(root["macs"]) == 160);
  const simdjson::dom::array steps = root["steps"];
  REQUIRE(steps.size() == 3);
  const simdjson::dom::array pre = steps.at(0)["values"];
  REQUIRE(pre.size() == 40);
  CHECK(static_cast<float>(double(pre.at(39))) == -0.123456F);
  CHECK(double(steps.at(2)["values"].at(1)) == 3.0);
}
