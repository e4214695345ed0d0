#include "report/report_json.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <limits>
#include <string>

#include "report/sample_report.h"

using namespace fourfold;

namespace {

struct Document {
  explicit Document(const std::string& json) : text(json) { root = parser.parse(text); }

  simdjson::padded_string text;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
};

std::string names(simdjson::dom::element object) {
  std::string out;
  for (const auto field : object.get_object()) out += std::string(field.key) + ' ';
  return out;
}

}  // namespace

TEST_CASE("inspect holds every field") {
  Document json(model_summary_json(sample_summary(false)));
  CHECK(names(json.root) == "schema path architecture seq_len parameters layers ");
  CHECK(std::string_view(json.root["schema"]) == "fourfold.inspect/1");
  CHECK(json.root["seq_len"].is_null());
  CHECK(names(json.root["parameters"]) == "total active ffn attention norm embedding other ");
  CHECK(std::uint64_t(json.root["parameters"]["active"]) == 22713217);
  CHECK(json.root["layers"].get_array().size() == 6);
  const simdjson::dom::element layer = json.root["layers"].at(4);
  CHECK(names(layer) ==
        "index kind activation d_model d_ff n_experts top_k dtype ffn_parameters "
        "ffn_active_parameters attention_parameters norm_parameters ffn_share ffn_macs_per_token "
        "attention_macs_per_token elementwise_flops_per_token ");
  CHECK(std::uint64_t(layer["index"]) == 4);
  CHECK(std::uint64_t(layer["attention_macs_per_token"]) == 589824);
  CHECK(std::uint64_t(layer["ffn_active_parameters"]) == 1181567);
  CHECK(layer["n_experts"].is_null());
  CHECK(layer["top_k"].is_null());

  ModelSummary moe = sample_summary(false);
  moe.layers[4].n_experts = 61;
  moe.layers[4].top_k = 7;
  Document with_experts(model_summary_json(moe));
  CHECK(std::uint64_t(with_experts.root["layers"].at(4)["n_experts"]) == 61);
  CHECK(std::uint64_t(with_experts.root["layers"].at(4)["top_k"]) == 7);
}

TEST_CASE("inspect lists tensors when there are any") {
  Document json(model_summary_json(sample_summary(true)));
  const simdjson::dom::element tensor = json.root["tensors"].at(0);
  CHECK(names(tensor) == "name dtype shape parameters bytes ");
  CHECK(std::uint64_t(tensor["shape"].at(0)) == 30522);
  CHECK(std::uint64_t(tensor["shape"].at(1)) == 384);
}

TEST_CASE("profile holds every field") {
  ProfileReport report = sample_profile();
  report.warnings = {"slow"};
  for (const bool pretty : {true, false}) {
    Document json(profile_json(report, pretty));
    CHECK(names(json.root) ==
          "schema model text machine pass_seconds dead_threshold layers totals finite warnings ");
    CHECK(std::string_view(json.root["schema"]) == "fourfold.profile/1");
    CHECK(names(json.root["model"]) == "path architecture dtype n_layers d_model parameters ");
    CHECK(names(json.root["text"]) ==
          "name tokens total_tokens windows seq_len batch count_special ");
    CHECK(std::uint64_t(json.root["text"]["tokens"]) == 4093);
    CHECK(names(json.root["machine"]) ==
          "cpu isa threads peak_gflops read_gbs read_buffer_bytes threads_busy_wait ");
    CHECK(double(json.root["machine"]["peak_gflops"]["f32"]) == 211.7);
    CHECK(double(json.root["machine"]["threads_busy_wait"].at(1)["wait_s"]) == 0.11);
    CHECK(names(json.root["pass_seconds"]) == "timing statistics ");
    CHECK(json.root["dead_threshold"].is_null());
    CHECK(names(json.root["totals"]) ==
          "forward_ms outside_layers_ms ffn_time_share tokens_per_s ");
    CHECK(std::string_view(json.root["warnings"].at(0)) == "slow");

    const simdjson::dom::element layer = json.root["layers"].at(3);
    CHECK(names(layer) ==
          "index kind activation d_model d_ff time_ms gflops gbs share_of_limit sparsity "
          "dead_neurons firing_rate_histogram mean_firing_rate top_neurons outliers experts ");
    CHECK(names(layer["time_ms"]) == "expand contract router gather combine attention norm other ");
    CHECK(layer["time_ms"]["router"].is_null());
    CHECK(layer["time_ms"]["combine"].is_null());
    CHECK(names(layer["sparsity"]) == "exact_zero gate_exact_zero below_1e-3_of_max energy_99 ");
    CHECK(layer["sparsity"]["gate_exact_zero"].is_null());
    CHECK(layer["dead_neurons"].is_null());
    CHECK(layer["experts"].is_null());
    CHECK(names(layer["outliers"]) == "max_abs median_abs ");
    std::uint64_t neurons = 0;
    for (const auto bin : layer["firing_rate_histogram"].get_array()) neurons += std::uint64_t(bin);
    CHECK(layer["firing_rate_histogram"].get_array().size() == 21);
    CHECK(neurons == 1536);
    const simdjson::dom::element neuron = layer["top_neurons"].at(2);
    CHECK(names(neuron) == "neuron mean_energy tokens ");
    CHECK(names(neuron["tokens"].at(4)) == "token position value text context ");
    CHECK(std::uint64_t(neuron["tokens"].at(4)["position"]) == 4054);
  }
}

TEST_CASE("a gated layer's second zero share, and the use of experts") {
  ProfileReport report = sample_profile(1, 53);
  LayerStatistics& numbers = report.layers[0].statistics;
  numbers.gate_exact_zero = 0.25;
  numbers.experts = ExpertUse{{7, 0, 5}, {7, 0, 4}, 0.625, {1}};
  Document json(profile_json(report));
  const simdjson::dom::element layer = json.root["layers"].at(0);
  CHECK(double(layer["sparsity"]["gate_exact_zero"]) == 0.25);
  CHECK(names(layer["experts"]) == "load tokens_seen entropy never_used ");
  CHECK(std::uint64_t(layer["experts"]["load"].at(2)) == 5);
  CHECK(std::uint64_t(layer["experts"]["tokens_seen"].at(2)) == 4);
  CHECK(double(layer["experts"]["entropy"]) == 0.625);
  CHECK(layer["experts"]["never_used"].get_array().size() == 1);
}

TEST_CASE("dead neurons and threshold are there when defined; NaN is null") {
  ProfileReport report = sample_profile(1, 53);
  report.dead_threshold = 0.125;
  report.layers[0].statistics.dead = DeadNeurons{2, 4093, {3, 47}};
  report.layers[0].gflops = std::numeric_limits<double>::quiet_NaN();
  report.layers[0].statistics.energy_99.reset();
  Document json(profile_json(report));
  CHECK(double(json.root["dead_threshold"]) == 0.125);
  const simdjson::dom::element layer = json.root["layers"].at(0);
  CHECK(names(layer["dead_neurons"]) == "count tokens_seen indices ");
  CHECK(std::uint64_t(layer["dead_neurons"]["indices"].at(1)) == 47);
  CHECK(layer["gflops"].is_null());
  CHECK(layer["sparsity"]["energy_99"].is_null());
}
