// trace: one token through one feed-forward layer of a model, every number kept.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "fourfold/tools.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"
#include "tools/model_place.h"
#include "tools/trace_steps.h"

namespace fourfold {

TraceReport trace_model(const std::string& model_name, const TraceOptions& options,
                        Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const LoadedEncoder model = load_encoder(model_name);
  const ModelConfig& config = model.encoder.config();
  FOURFOLD_CHECK(options.layer < config.n_layers, invalid_argument,
                 "layer is " + std::to_string(options.layer) + "; the model has layers 0 to " +
                     std::to_string(config.n_layers - 1));
  std::vector<std::int32_t> text = model.tokenizer.encode(options.text);
  text.resize(
      std::min<std::size_t>(text.size(), config.max_positions - model.tokenizer.added_tokens()));
  FOURFOLD_CHECK(options.token < text.size(), invalid_argument,
                 "token is " + std::to_string(options.token) + "; the text has " +
                     std::to_string(text.size()) + " tokens");
  const std::vector<std::int32_t> ids = model.tokenizer.with_added_tokens(text);
  const std::size_t lengths[] = {ids.size()}, row = options.token + 1;  // behind [CLS]

  std::vector<float> hidden_data(ids.size() * config.d_model);
  const Matrix hidden(hidden_data.data(), ids.size(), config.d_model);
  model.encoder.embed(ids, lengths, hidden, workspace);
  const auto& blocks = model.encoder.blocks();
  for (std::size_t i = 0; i < options.layer; ++i) blocks[i].forward(hidden, lengths, workspace);
  const TransformerBlock& block = blocks[options.layer];
  block.forward_attention(hidden, lengths, workspace);

  const auto x = hidden.row(row);
  FfnShape shape;
  shape.d_model = config.d_model;
  shape.d_ff = config.d_ff;
  shape.biases = {false, true, true};
  TraceReport trace = begin_trace(
      fmt::format("Layer {} of {}: {} -> {} -> {} with {}", options.layer, model_name,
                  config.d_model, config.d_ff, config.d_model, activation_name(config.activation)),
      shape, config.activation, {x.begin(), x.end()});
  trace_norm(std::get<LayerNorm>(*block.parts().ffn_norm),
             trace_dense(std::get<DenseFfn>(block.ffn()), nullptr, trace, workspace), false, trace,
             workspace);
  trace.notes = {
      fmt::format("x is token {} of the text, \"{}\", behind the layer's attention and norm.",
                  options.token, model.tokenizer.piece(text[options.token]))};
  return trace;
}

}  // namespace fourfold
