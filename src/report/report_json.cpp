// One function per nested object, in the order in which docs/json.md lists the fields.
#include "report/report_json.h"

#include <optional>
#include <string_view>

#include "formats/json_writer.h"

namespace fourfold {
namespace {

template <class T>
void optional_field(JsonWriter& json, std::string_view name, const std::optional<T>& content) {
  json.key(name);
  if (content)
    json.value(*content);
  else
    json.null();
}

void counts_field(JsonWriter& json, std::string_view name,
                  const std::vector<std::uint64_t>& counts) {
  json.key(name).begin_array(true);
  for (const std::uint64_t count : counts) json.value(count);
  json.end_array();
}

void write_parameters(JsonWriter& json, const ParameterCounts& counts) {
  json.key("parameters").begin_object();
  json.field("total", counts.total).field("active", counts.active).field("ffn", counts.ffn);
  json.field("attention", counts.attention).field("norm", counts.norm);
  json.field("embedding", counts.embedding).field("other", counts.other);
  json.end_object();
}

void write_layer_summary(JsonWriter& json, const LayerSummary& layer) {
  json.begin_object();
  json.field("index", layer.index).field("kind", layer.kind);
  json.field("activation", layer.activation);
  json.field("d_model", layer.d_model).field("d_ff", layer.d_ff);
  optional_field(json, "n_experts", layer.n_experts);
  optional_field(json, "top_k", layer.top_k);
  json.field("dtype", layer.dtype);
  json.field("ffn_parameters", layer.ffn_parameters);
  json.field("ffn_active_parameters", layer.ffn_active_parameters);
  json.field("attention_parameters", layer.attention_parameters);
  json.field("norm_parameters", layer.norm_parameters);
  json.field("ffn_share", layer.ffn_share);
  json.field("ffn_macs_per_token", layer.ffn_macs_per_token);
  json.field("attention_macs_per_token", layer.attention_macs_per_token);
  json.field("elementwise_flops_per_token", layer.elementwise_flops_per_token);
  json.end_object();
}

void write_tensor(JsonWriter& json, const TensorSummary& tensor) {
  json.begin_object();
  json.field("name", tensor.name).field("dtype", tensor.dtype);
  json.key("shape").begin_array(true);
  for (const std::uint64_t extent : tensor.shape) json.value(extent);
  json.end_array();
  json.field("parameters", tensor.parameters).field("bytes", tensor.bytes);
  json.end_object();
}

void write_times(JsonWriter& json, const StageTimesMs& time) {
  json.key("time_ms").begin_object();
  json.field("expand", time.expand).field("contract", time.contract);
  optional_field(json, "router", time.router);
  optional_field(json, "gather", time.gather);
  optional_field(json, "combine", time.combine);
  json.field("attention", time.attention).field("norm", time.norm).field("other", time.other);
  json.end_object();
}

void write_dead(JsonWriter& json, const std::optional<DeadNeurons>& dead) {
  json.key("dead_neurons");
  if (!dead) {
    json.null();
    return;
  }
  json.begin_object();
  json.field("count", dead->count).field("tokens_seen", dead->tokens_seen);
  counts_field(json, "indices", dead->indices);
  json.end_object();
}

void write_top_neurons(JsonWriter& json, const std::vector<TopNeuron>& neurons) {
  json.key("top_neurons").begin_array();
  for (const TopNeuron& neuron : neurons) {
    json.begin_object();
    json.field("neuron", neuron.neuron).field("mean_energy", neuron.mean_energy);
    json.key("tokens").begin_array();
    for (const StrongToken& token : neuron.tokens) {
      json.begin_object();
      json.field("token", token.token).key("position");
      if (token.position)
        json.value(*token.position);
      else
        json.null();
      json.field("value", token.value).field("text", token.text);
      json.field("context", token.context);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

void write_experts(JsonWriter& json, const std::optional<ExpertUse>& experts) {
  json.key("experts");
  if (!experts) {
    json.null();
    return;
  }
  json.begin_object();
  counts_field(json, "load", experts->load);
  counts_field(json, "tokens_seen", experts->tokens_seen);
  json.field("entropy", experts->entropy);
  counts_field(json, "never_used", experts->never_used);
  json.end_object();
}

void write_layer_profile(JsonWriter& json, const LayerProfile& layer) {
  const LayerStatistics& numbers = layer.statistics;
  json.begin_object();
  json.field("index", layer.index).field("kind", layer.kind);
  json.field("activation", layer.activation);
  json.field("d_model", layer.d_model).field("d_ff", layer.d_ff);
  write_times(json, layer.time_ms);
  json.field("gflops", layer.gflops).field("gbs", layer.gbs);
  json.field("share_of_limit", layer.share_of_limit);
  json.key("sparsity").begin_object();
  json.field("exact_zero", numbers.exact_zero);
  optional_field(json, "gate_exact_zero", numbers.gate_exact_zero);
  json.field("below_1e-3_of_max", numbers.below_thousandth_of_max);
  optional_field(json, "energy_99", numbers.energy_99);
  json.end_object();
  write_dead(json, numbers.dead);
  json.key("firing_rate_histogram").begin_array(true);
  for (const std::uint64_t count : numbers.firing_rate_histogram) json.value(count);
  json.end_array();
  json.field("mean_firing_rate", numbers.mean_firing_rate);
  write_top_neurons(json, numbers.top_neurons);
  json.key("outliers").begin_object();
  json.field("max_abs", numbers.max_abs).field("median_abs", numbers.median_abs);
  json.end_object();
  write_experts(json, numbers.experts);
  json.end_object();
}

void write_model(JsonWriter& json, const ProfileReport& report) {
  json.key("model").begin_object();
  json.field("path", report.model_path).field("architecture", report.architecture);
  json.field("dtype", report.dtype).field("n_layers", report.n_layers);
  json.field("d_model", report.d_model);
  write_parameters(json, report.parameters);
  json.end_object();
}

void write_text(JsonWriter& json, const ProfileReport& report) {
  json.key("text").begin_object();
  json.field("name", report.text_name).field("tokens", report.tokens);
  json.field("total_tokens", report.text_tokens);
  json.field("windows", report.windows).field("seq_len", report.seq_len);
  json.field("batch", report.batch).field("count_special", report.count_special);
  json.end_object();
}

void write_machine(JsonWriter& json, const MachineReport& machine) {
  json.key("machine").begin_object();
  json.field("cpu", machine.cpu).field("isa", machine.isa).field("threads", machine.threads);
  json.key("peak_gflops").begin_object().field("f32", machine.peak_gflops_f32);
  if (machine.peak_gflops_bf16) json.field("bf16", *machine.peak_gflops_bf16);
  json.end_object();
  json.field("read_gbs", machine.read_gbs);
  json.field("read_buffer_bytes", machine.read_buffer_bytes);
  json.key("threads_busy_wait").begin_array();
  for (const ThreadTime& thread : machine.thread_times) {
    json.begin_object();
    json.field("busy_s", thread.busy_s).field("wait_s", thread.wait_s);
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace

std::string model_summary_json(const ModelSummary& summary) {
  JsonWriter json;
  json.begin_object();
  json.field("schema", "fourfold.inspect/1").field("path", summary.path);
  json.field("architecture", summary.architecture);
  optional_field(json, "seq_len", summary.seq_len);
  write_parameters(json, summary.parameters);
  json.key("layers").begin_array();
  for (const LayerSummary& layer : summary.layers) write_layer_summary(json, layer);
  json.end_array();
  if (!summary.tensors.empty()) {
    json.key("tensors").begin_array();
    for (const TensorSummary& tensor : summary.tensors) write_tensor(json, tensor);
    json.end_array();
  }
  json.end_object();
  return json.take();
}

std::string profile_json(const ProfileReport& report, bool pretty) {
  JsonWriter json(pretty);
  json.begin_object();
  json.field("schema", "fourfold.profile/1");
  write_model(json, report);
  write_text(json, report);
  write_machine(json, report.machine);
  json.key("pass_seconds").begin_object();
  json.field("timing", report.timing_seconds).field("statistics", report.statistics_seconds);
  json.end_object();
  optional_field(json, "dead_threshold", report.dead_threshold);
  json.key("layers").begin_array();
  for (const LayerProfile& layer : report.layers) write_layer_profile(json, layer);
  json.end_array();
  json.key("totals").begin_object();
  json.field("forward_ms", report.forward_ms);
  json.field("outside_layers_ms", report.outside_layers_ms);
  json.field("ffn_time_share", report.ffn_time_share);
  json.field("tokens_per_s", report.tokens_per_s);
  json.end_object();
  json.field("finite", report.finite);
  json.key("warnings").begin_array();
  for (const std::string& warning : report.warnings) json.value(warning);
  json.end_array().end_object();
  return json.take();
}

}  // namespace fourfold
