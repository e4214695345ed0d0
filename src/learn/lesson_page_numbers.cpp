// The library's numbers for the script: the weights it computes with, and results that it must find
// itself for many settings. A browser test compares them.
#include <array>
#include <cstdint>

#include "formats/json_writer.h"
#include "learn/lesson_page.h"

namespace fourfold {
namespace {

// Every activation of the library, in the order of the page's menu.
constexpr std::array kMenu{Activation::relu,       Activation::gelu_erf,   Activation::gelu_tanh,
                           Activation::silu,       Activation::quick_gelu, Activation::mish,
                           Activation::leaky_relu, Activation::relu2,      Activation::relu6,
                           Activation::sigmoid,    Activation::tanh,       Activation::identity,
                           Activation::swiglu_oai};

void list(JsonWriter& json, std::string_view key, std::span<const float> values) {
  json.key(key).begin_array(true);
  for (const float value : values) json.value(value);
  json.end_array();
}

// values: rows of `width`, as an array of rows.
void rows(JsonWriter& json, std::string_view key, const std::vector<float>& values,
          std::size_t width) {
  json.key(key).begin_array(true);
  for (std::size_t first = 0; first < values.size(); first += width) {
    json.begin_array(true);
    for (std::size_t j = 0; j < width; ++j) json.value(values[first + j]);
    json.end_array();
  }
  json.end_array();
}

void write_check(JsonWriter& json, const MachineSetting& setting, Workspace& workspace) {
  const MachineNumbers numbers = machine_numbers(setting, workspace);
  json.begin_object();
  list(json, "x", setting.x);
  json.field("act", activation_name(setting.activation));
  json.field("ratio", setting.ratio).field("gated", setting.gated);
  json.field("experts", setting.n_experts).field("top", setting.top_k);
  list(json, "logits", numbers.logits);
  list(json, "weights", numbers.weights);
  json.key("chosen").begin_array();
  for (const ExpertNumbers& expert : numbers.experts) {
    json.begin_object().field("index", expert.index);
    list(json, "pre", expert.pre);
    list(json, "up", expert.up);
    list(json, "hidden", expert.hidden);
    list(json, "out", expert.out);
    json.end_object();
  }
  json.end_array();
  list(json, "y", numbers.y);
  list(json, "sum", numbers.sum);
  list(json, "normal", numbers.normal);
  json.end_object();
}

void write_checks(JsonWriter& json, Workspace& workspace) {
  json.key("checks").begin_array();
  std::size_t turn = 0;
  for (const Activation activation : known_activations()) {
    for (const bool gated : {false, true}) {
      if (!gated && is_gated_only(activation)) continue;
      MachineSetting setting;
      setting.activation = activation;
      setting.gated = gated;
      write_check(json, setting, workspace);
      // The other settings take turns, so that each value of each occurs.
      setting.ratio = 1 + turn % 4;
      setting.n_experts = 2 + turn % 7;
      setting.top_k = 1 + turn * 5 % setting.n_experts;
      setting.x = {-0.7F, 1.3F, 0.2F * static_cast<float>(turn), -1.1F};
      write_check(json, setting, workspace);
      ++turn;
    }
  }
  json.end_array();
}

// Each activation on -8 .. 8 in quarters; a gated one with up = 1 - x / 2.
void write_curves(JsonWriter& json) {
  std::vector<float> x(65), up(65), y(65);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i) / 4 - 8;
    up[i] = 1 - x[i] / 2;
  }
  list(json, "curve_x", x);
  json.key("curves").begin_object();
  for (const Activation activation : known_activations()) {
    if (is_gated_only(activation))
      gated_activate(activation, x, up, y);
    else
      activate(activation, x, y);
    list(json, activation_name(activation), y);
  }
  json.end_object();
}

// What the bars of the page show, for some shapes. Biases are left out, the router is not.
void write_sizes(JsonWriter& json) {
  struct Size {
    std::uint64_t d_model, quarters;  // d_ff = d_model * quarters / 4
    bool gated;
    std::uint64_t n_experts, top_k;
  };
  constexpr std::array<Size, 6> sizes{{{768, 16, false, 1, 1},
                                       {1024, 16, true, 1, 1},
                                       {64, 1, false, 7, 3},
                                       {4096, 14, true, 8, 2},
                                       {8192, 32, true, 64, 5},
                                       {320, 11, false, 64, 64}}};
  json.key("sizes").begin_array();
  for (const Size& size : sizes) {
    FfnShape shape;
    shape.d_model = size.d_model;
    shape.d_ff = size.d_model * size.quarters / 4;
    shape.kind = size.n_experts > 1 ? FfnKind::moe : size.gated ? FfnKind::gated : FfnKind::dense;
    if (size.n_experts > 1) {
      shape.gated_experts = size.gated;
      shape.n_experts = size.n_experts;
      shape.top_k = size.top_k;
    }
    const FfnCounts counts = count_ffn(shape);
    json.begin_object().field("d", size.d_model);
    json.field("ratio", static_cast<double>(size.quarters) / 4).field("gated", size.gated);
    json.field("experts", size.n_experts).field("top", size.top_k);
    json.field("total", counts.parameters).field("active", counts.active_parameters);
    json.field("flops", 2 * counts.macs_per_token).end_object();
  }
  json.end_array();
}

}  // namespace

std::span<const Activation> known_activations() { return kMenu; }

std::string page_numbers(Workspace& workspace) {
  const MachineWeights& weights = machine_weights();
  constexpr std::size_t width = kMachineWidth;
  JsonWriter json(false);
  json.begin_object();
  json.key("activations").begin_array();
  for (const Activation activation : known_activations()) json.value(activation_name(activation));
  json.end_array().key("gated_only").begin_array();
  for (const Activation activation : known_activations())
    if (is_gated_only(activation)) json.value(activation_name(activation));
  json.end_array();
  json.field("units", kMachineUnits).field("eps", kMachineEps);
  json.field("flattened_units", kFlattenedUnits);
  json.key("weights").begin_object();
  rows(json, "up", weights.up, width);
  rows(json, "gate", weights.gate, width);
  list(json, "up_bias", weights.up_bias);
  rows(json, "down", weights.down, width);
  rows(json, "down_bias", weights.down_bias, width);
  rows(json, "router", weights.router, width);
  json.end_object();
  const SentenceNumbers sentence = sentence_numbers(kInOrder, workspace);
  json.key("sentence").begin_object();
  rows(json, "x", sentence.x, width);
  rows(json, "attention", sentence.attention, width);
  rows(json, "ffn", sentence.ffn, width);
  rows(json, "flattened", sentence.flattened, width);
  const SentenceNumbers reversed = sentence_numbers(kReversed, workspace);
  rows(json, "reversed_flattened", reversed.flattened, width);
  json.end_object();
  json.key("joined").begin_array();
  for (const std::size_t n : {1U, 2U, 3U, 4U, 8U, 16U, 32U}) {
    const std::vector<float> t{0.1F, 0.37F, 0.9F};
    std::vector<float> y(t.size());
    join_lines(n, t, y, workspace);
    json.begin_object().field("n", n);
    list(json, "t", t);
    list(json, "y", y);
    json.end_object();
  }
  json.end_array();
  write_sizes(json);
  write_curves(json);
  write_checks(json, workspace);
  json.end_object();
  return json.take();
}

}  // namespace fourfold
