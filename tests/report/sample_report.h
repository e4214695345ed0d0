// A made-up report with plausible, asymmetric numbers, for tests of every way to show one.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "fourfold/profile.h"

namespace fourfold {

inline LayerProfile sample_layer(std::size_t index, std::uint64_t d_ff) {
  const auto i = static_cast<double>(index);
  LayerProfile layer;
  layer.index = index;
  layer.kind = "dense";
  layer.activation = "gelu";
  layer.d_model = 384;
  layer.d_ff = d_ff;
  layer.time_ms.expand = 4.31 + 0.07 * i;
  layer.time_ms.contract = 3.97 - 0.05 * i;
  layer.time_ms.attention = 3.1 + 0.11 * std::sin(i);
  layer.time_ms.norm = 0.243 + 0.003 * i;
  layer.time_ms.other = 0.081;
  layer.gflops = 71.3 - 1.7 * i;
  layer.gbs = 1.9 + 0.1 * i;
  layer.share_of_limit = 0.812 - 0.021 * i;
  LayerStatistics& numbers = layer.statistics;
  numbers.exact_zero = 0.00002 * i;
  numbers.below_thousandth_of_max = 0.041 + 0.013 * i;
  numbers.energy_99 = 0.61 / (1 + 0.13 * i);
  numbers.mean_firing_rate = 0.231 - 0.012 * i;
  std::uint64_t left = d_ff;
  for (std::size_t bin = 1; bin < 21; ++bin) {
    const double x = static_cast<double>(bin) - 3.0 - 0.2 * i;
    const auto count =
        static_cast<std::uint64_t>(0.11 * static_cast<double>(d_ff) * std::exp(-x * x / 19));
    numbers.firing_rate_histogram[bin] = count;
    left -= count;
  }
  // What the curve leaves over goes to the busiest bin, so that the bins sum to d_ff.
  numbers.firing_rate_histogram[0] = 7 * index;
  numbers.firing_rate_histogram[3] += left - 7 * index;
  numbers.max_abs = static_cast<float>(6.3 + 9.1 * i);
  numbers.median_abs = static_cast<float>(0.083 + 0.004 * i);
  for (std::uint64_t n = 0; n < 10; ++n) {
    TopNeuron neuron;
    neuron.neuron = (n * 131 + index * 17) % d_ff;
    neuron.mean_energy = 0.41 / static_cast<double>(n + 1);
    for (std::uint64_t t = 0; t < 5; ++t) {
      StrongToken token;
      token.token = 2003 + 7 * t;
      token.position = 1013 * t + n;
      token.value = static_cast<float>(6.3 + 9.1 * i - 0.7 * static_cast<double>(t));
      token.text = t == 0 ? "bank" : t == 1 ? "##ing" : "river";
      token.context =
          "they sat on the bank of the wide river, talking about banking and the evening light";
      neuron.tokens.push_back(token);
    }
    numbers.top_neurons.push_back(neuron);
  }
  return layer;
}

inline ProfileReport sample_profile(std::size_t layers = 6, std::uint64_t d_ff = 1536) {
  ProfileReport report;
  report.model_path = "models/all-MiniLM-L6-v2";
  report.architecture = "bert";
  report.dtype = "f32";
  report.text_name = "data/text/default.txt";
  report.n_layers = layers;
  report.d_model = 384;
  report.parameters = {22713216, 22713216, 7089408, 3548160, 10752, 11916288, 148608};
  report.tokens = 4093;
  report.windows = 9;
  report.seq_len = 512;
  report.machine.cpu = "Intel(R) Xeon(R) Processor @ 2.60GHz";
  report.machine.isa = "avx512";
  report.machine.threads = 2;
  report.machine.peak_gflops_f32 = 211.7;
  report.machine.read_gbs = 13.9;
  report.machine.read_buffer_bytes = 45 << 20;
  report.machine.thread_times = {{1.31, 0.07}, {1.27, 0.11}};
  report.timing_seconds = 1.43;
  report.statistics_seconds = 1.71;
  for (std::size_t i = 0; i < layers; ++i) report.layers.push_back(sample_layer(i, d_ff));
  report.forward_ms = 74.2;
  report.outside_layers_ms = 1.3;
  report.ffn_time_share = 0.667;
  report.tokens_per_s = 6873;
  return report;
}

// Strings that must stay harmless wherever they are shown.
inline std::string hostile_text() {
  return std::string("</script><img src=x onerror=alert(1)>&\"' \xE2\x80\xAE") + "gnp.exe" +
         std::string(1, '\0') + "\x1b[31m\xff";
}

inline ProfileReport hostile_profile() {
  ProfileReport report = sample_profile(2, 53);
  report.model_path = "models/" + hostile_text();
  report.architecture = report.dtype = report.text_name = hostile_text();
  report.machine.cpu = report.machine.isa = hostile_text();
  report.warnings = {hostile_text()};
  for (LayerProfile& layer : report.layers) {
    layer.kind = layer.activation = hostile_text();
    for (TopNeuron& neuron : layer.statistics.top_neurons)
      for (StrongToken& token : neuron.tokens) {
        token.text = hostile_text();
        token.context = "before " + hostile_text() + " after";
      }
  }
  return report;
}

inline ModelSummary sample_summary(bool tensors) {
  ModelSummary summary;
  summary.path = "models/all-MiniLM-L6-v2";
  summary.architecture = "bert";
  summary.parameters = {22713216, 22713217, 7089408, 3548160, 10752, 11916288, 148608};
  for (std::size_t i = 0; i < 6; ++i) {
    LayerSummary layer;
    layer.index = i;
    layer.kind = "dense";
    layer.activation = "gelu";
    layer.d_model = 384;
    layer.d_ff = 1536;
    layer.dtype = "F32";
    layer.ffn_parameters = 1181568;
    layer.ffn_active_parameters = 1181567;
    layer.attention_parameters = 591360;
    layer.norm_parameters = 1536;
    layer.ffn_share = 0.6659;
    layer.ffn_macs_per_token = 1179648;
    layer.attention_macs_per_token = 589824;
    layer.elementwise_flops_per_token = 3456;
    summary.layers.push_back(layer);
  }
  if (tensors)
    summary.tensors = {
        {"embeddings.word_embeddings.weight", "F32", {30522, 384}, 11720448, 46881792},
        {"encoder.layer.0.intermediate.dense.bias", "F32", {1536}, 1536, 6144}};
  return summary;
}

}  // namespace fourfold
