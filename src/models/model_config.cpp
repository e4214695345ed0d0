// BERT's config.json: sizes are never guessed, and whatever would change the computation in a way
// that is not built is refused (rules C1, C4, C5).
#include "models/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "formats/limits.h"
#include "formats/utf8.h"
#include "models/config_fields.h"

namespace fourfold {
namespace {

Activation read_activation(const ConfigFields& fields) {
  const std::string_view name = fields.text("hidden_act", "C4");
  try {
    return parse_activation(name);
  } catch (const Error& error) {
    throw fields.unsupported("hidden_act", printable(error.what()), "C4");
  }
}

float read_norm_eps(const ConfigFields& fields) {
  const double value = fields.number_or("layer_norm_eps", 1e-12);
  if (!std::isfinite(value) || value < 0 ||
      value > static_cast<double>(std::numeric_limits<float>::max()))
    throw fields.bad("layer_norm_eps",
                     fmt::format("found {}; expected a finite number of at least 0", value));
  return static_cast<float>(value);
}

void refuse_what_is_not_built(const ConfigFields& fields) {
  if (json_field(fields.object(), "auto_map"))
    throw fields.unsupported("auto_map",
                             "this model needs code from its own folder, and such code is never "
                             "run; expected a model without auto_map",
                             "C5");
  const std::string_view positions = fields.text_or("position_embedding_type", "absolute");
  if (positions != "absolute")
    throw fields.unsupported(
        "position_embedding_type",
        fmt::format("found \"{}\"; only \"absolute\" is supported", printable(positions, 64)));
  if (fields.flag_or("is_decoder", false))
    throw fields.unsupported("is_decoder", "found true; only encoders (false) are supported");
}

}  // namespace

ModelConfig read_model_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const JsonDocument document = read_json_file(path, "C1", limits::kConfigBytes);
  const ConfigFields fields(path, document.root());

  const std::string_view family = fields.text("model_type");
  if (family != "bert")
    throw fields.unsupported(
        "model_type",
        fmt::format("\"{}\" is not supported; supported: \"bert\"", printable(family, 64)));
  refuse_what_is_not_built(fields);

  ModelConfig config;
  config.path = path;
  config.architecture = family;
  config.n_layers = fields.natural("num_hidden_layers", 1, limits::kLayers);
  config.d_model = fields.natural("hidden_size", 1, limits::kDimension);
  config.d_ff = fields.natural("intermediate_size", 1, limits::kDimension);
  config.n_heads = fields.natural("num_attention_heads", 1, limits::kDimension);
  config.vocab_size = fields.natural("vocab_size", 1, limits::kVocabulary);
  config.max_positions = fields.natural("max_position_embeddings", 1, limits::kDimension);
  config.type_vocab_size = fields.natural("type_vocab_size", 1, limits::kDimension);
  if (config.d_model % config.n_heads != 0)
    throw fields.bad("num_attention_heads",
                     fmt::format("{} heads do not divide hidden_size {}; expected a divisor",
                                 config.n_heads, config.d_model));
  config.head_dim = config.d_model / config.n_heads;
  config.activation = read_activation(fields);
  config.norm_eps = read_norm_eps(fields);
  return config;
}

}  // namespace fourfold
