#include "models/bert.h"

#include "base/check.h"
#include "layers/neuron_statistics.h"
#include "models/weight_names.h"
#include "platform/caller_scope.h"
#include "platform/stage_clock.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

std::string shape_list(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const auto size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// Reads tensors whose shape the configuration implies.
class TensorSource {
 public:
  TensorSource(const SafetensorsFile& file, const ModelConfig& config)
      : file_(file), config_(config) {}

  std::vector<float> read(const std::string& name, const std::vector<std::uint64_t>& shape) const {
    const TensorEntry* tensor = file_.find(name);
    if (tensor == nullptr)
      fail(ErrorCode::missing_tensor, name, "is missing; " + config_.path + " implies it");
    if (tensor->shape != shape)
      fail(ErrorCode::bad_file, name,
           "is " + shape_list(tensor->shape) + ", expected " + shape_list(shape) + " by " +
               config_.path);
    std::vector<float> values(tensor->elements);
    file_.read_f32(*tensor, values);
    return values;
  }

 private:
  [[noreturn]] void fail(ErrorCode code, const std::string& tensor, const std::string& what) const {
    Error error(code, file_.path() + ": rule C2: tensor \"" + tensor + "\" " + what);
    error.path = file_.path();
    error.tensor = tensor;
    error.rule = "C2";
    throw error;
  }

  const SafetensorsFile& file_;
  const ModelConfig& config_;
};

ConstMatrix view(const std::vector<float>& values, std::size_t rows) {
  return {values.data(), rows, values.size() / rows};
}

}  // namespace

BertEncoder BertEncoder::load(const SafetensorsFile& file, const ModelConfig& config) {
  const BertNames names(file);
  const TensorSource source(file, config);
  const std::uint64_t d = config.d_model, f = config.d_ff;
  const auto norm = [&](const std::string& gamma, const std::string& beta) {
    return LayerNorm(source.read(gamma, {d}), source.read(beta, {d}), config.norm_eps);
  };

  BertEncoder model(config, norm(names.embedding_norm("weight"), names.embedding_norm("bias")));
  model.words_ = source.read(names.word_embedding(), {config.vocab_size, d});
  model.positions_ = source.read(names.position_embedding(), {config.max_positions, d});
  model.types_ = source.read(names.type_embedding(), {config.type_vocab_size, d});
  for (std::size_t i = 0; i < config.n_layers; ++i) {
    const auto project = [&](std::string_view which) {
      return std::pair(source.read(names.attention(i, which, "weight"), {d, d}),
                       source.read(names.attention(i, which, "bias"), {d}));
    };
    const auto [query, query_bias] = project("query");
    const auto [key, key_bias] = project("key");
    const auto [value, value_bias] = project("value");
    const auto output = source.read(names.attention_output(i, "weight"), {d, d});
    const auto output_bias = source.read(names.attention_output(i, "bias"), {d});
    MultiHeadAttention attention({view(query, d), view(key, d), view(value, d), view(output, d),
                                  query_bias, key_bias, value_bias, output_bias},
                                 config.n_heads);

    const auto up = source.read(names.up(i, "weight"), {f, d}),
               up_bias = source.read(names.up(i, "bias"), {f});
    const auto down = source.read(names.down(i, "weight"), {d, f}),
               down_bias = source.read(names.down(i, "bias"), {d});
    DenseFfn ffn({view(up, f), view(down, d), up_bias, down_bias}, config.activation);
    model.down_energy_.push_back(column_energy(view(down, d)));
    model.blocks_.emplace_back(
        std::move(attention),
        norm(names.attention_norm(i, "weight"), names.attention_norm(i, "bias")), std::move(ffn),
        norm(names.ffn_norm(i, "weight"), names.ffn_norm(i, "bias")));
  }
  return model;
}

void BertEncoder::embed(std::span<const std::int32_t> ids,
                        std::span<const std::size_t> sequence_lengths, Matrix hidden,
                        Workspace& workspace) const {
  const std::size_t d = config_.d_model;
  FOURFOLD_CHECK(hidden.rows == ids.size() && hidden.cols == d, shape_mismatch,
                 "[bert] hidden is [" + std::to_string(hidden.rows) + ", " +
                     std::to_string(hidden.cols) + "], expected [" + std::to_string(ids.size()) +
                     ", " + std::to_string(d) + "]");
  std::size_t covered =
      0;  // each length is checked before it is added, so the sum cannot wrap around
  for (const std::size_t length : sequence_lengths) {
    FOURFOLD_CHECK(length <= config_.max_positions, invalid_argument,
                   "a sequence of " + std::to_string(length) +
                       " tokens is longer than the model's " +
                       std::to_string(config_.max_positions) + " positions");
    covered += length;
  }
  FOURFOLD_CHECK(covered == ids.size(), shape_mismatch,
                 "[bert] sequence_lengths add up to " + std::to_string(covered) + ", expected " +
                     std::to_string(ids.size()) + " ids");
  for (const std::int32_t id : ids)
    FOURFOLD_CHECK(id >= 0 && static_cast<std::uint64_t>(id) < config_.vocab_size, invalid_argument,
                   "token id " + std::to_string(id) + " is outside the vocabulary of " +
                       std::to_string(config_.vocab_size));
  std::size_t row = 0;
  for (const std::size_t length : sequence_lengths) {
    for (std::size_t position = 0; position < length; ++position, ++row) {
      const float* word = words_.data() + static_cast<std::size_t>(ids[row]) * d;
      const float* place = positions_.data() + position * d;
      const auto out = hidden.row(row);
      for (std::size_t i = 0; i < d; ++i) out[i] = word[i] + types_[i] + place[i];
    }
  }
  embedding_norm_.forward(hidden, hidden, workspace);
}

void BertEncoder::forward(std::span<const std::int32_t> ids,
                          std::span<const std::size_t> sequence_lengths, Matrix hidden,
                          Workspace& workspace, std::span<FfnObserver* const> observers) const {
  FOURFOLD_CHECK(observers.empty() || observers.size() == blocks_.size(), invalid_argument,
                 "[bert] " + std::to_string(observers.size()) + " observers for " +
                     std::to_string(blocks_.size()) + " layers");
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  embed(ids, sequence_lengths, hidden, workspace);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (workspace.clock != nullptr) workspace.clock->enter_layer(i);
    blocks_[i].forward(hidden, sequence_lengths, workspace,
                       observers.empty() ? nullptr : observers[i]);
  }
}

std::uint64_t BertEncoder::packed_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& block : blocks_)
    bytes += block.attention().packed_bytes() + block.ffn().packed_bytes();
  return bytes;
}

}  // namespace fourfold
