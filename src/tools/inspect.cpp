// inspect: what a checkpoint holds, from its headers alone.
#include "base/check.h"
#include "fourfold/ffn_counts.h"
#include "fourfold/tools.h"
#include "models/model_config.h"
#include "models/weight_names.h"
#include "tools/model_place.h"

namespace fourfold {
namespace {

TensorSummary summarize(const TensorEntry& tensor) {
  return {tensor.name, std::string(dtype_name(tensor.dtype)), tensor.shape,
          is_floating(tensor.dtype) ? tensor.elements : 0, tensor.end - tensor.begin};
}

void add(ParameterCounts& counts, TensorRole role, std::uint64_t parameters) {
  switch (role) {
    case TensorRole::ffn: counts.ffn += parameters; break;
    case TensorRole::attention: counts.attention += parameters; break;
    case TensorRole::norm: counts.norm += parameters; break;
    case TensorRole::embedding: counts.embedding += parameters; break;
    case TensorRole::other: counts.other += parameters; break;
  }
  counts.total += parameters;
}

LayerSummary layer_summary(const ModelConfig& config, std::size_t index,
                           const InspectOptions& options) {
  const std::uint64_t d = config.d_model, f = config.d_ff;
  FfnShape shape;
  shape.d_model = d;
  shape.d_ff = f;
  shape.biases = {false, true, true};
  const FfnCounts counts = count_ffn(shape);
  LayerSummary layer;
  layer.index = index;
  layer.kind = ffn_kind_name(shape.kind);
  layer.activation = activation_name(config.activation);
  layer.d_model = d;
  layer.d_ff = f;
  layer.ffn_macs_per_token = counts.macs_per_token;
  layer.attention_macs_per_token = 4 * d * d;
  if (options.seq_len)
    layer.attention_macs_per_token += 2 * d * *options.seq_len;  // q k^T and weights times v
  layer.elementwise_flops_per_token = counts.elementwise_flops_per_token;
  return layer;
}

}  // namespace

ModelSummary inspect_model(const std::string& model, const InspectOptions& options) {
  const ModelPlace place = find_model(model);
  const SafetensorsFile file = SafetensorsFile::open(place.weights);
  ModelSummary summary;
  summary.path = model;
  summary.seq_len = options.seq_len;
  if (options.tensors || place.folder.empty())
    for (const TensorEntry& tensor : file.tensors()) summary.tensors.push_back(summarize(tensor));
  if (place.folder.empty()) {
    summary.architecture = "unknown (no config.json beside the file)";
    for (const TensorEntry& tensor : file.tensors())
      add(summary.parameters, TensorRole::other, is_floating(tensor.dtype) ? tensor.elements : 0);
    summary.parameters.active = summary.parameters.total;
    return summary;
  }

  const ModelConfig config = read_model_config(place.folder);
  BertEncoder::check(file, config);
  summary.architecture = config.architecture;
  for (std::size_t i = 0; i < config.n_layers; ++i)
    summary.layers.push_back(layer_summary(config, i, options));
  const BertNames names(file);
  for (const TensorEntry& tensor : file.tensors()) {
    if (!is_floating(tensor.dtype)) continue;
    const TensorPlace at = bert_tensor_place(tensor.name);
    add(summary.parameters, at.role, tensor.elements);
    if (!at.layer) continue;
    LayerSummary& layer = summary.layers[*at.layer];
    if (at.role == TensorRole::ffn) layer.ffn_parameters += tensor.elements;
    if (at.role == TensorRole::attention) layer.attention_parameters += tensor.elements;
    if (at.role == TensorRole::norm) layer.norm_parameters += tensor.elements;
    if (tensor.name == names.up(*at.layer, "weight")) layer.dtype = dtype_name(tensor.dtype);
  }
  summary.parameters.active = summary.parameters.total;
  for (LayerSummary& layer : summary.layers) {
    layer.ffn_active_parameters = layer.ffn_parameters;
    const auto all = layer.ffn_parameters + layer.attention_parameters + layer.norm_parameters;
    layer.ffn_share =
        all == 0 ? 0 : static_cast<double>(layer.ffn_parameters) / static_cast<double>(all);
  }
  return summary;
}

}  // namespace fourfold
