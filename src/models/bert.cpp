#include "models/bert.h"

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "formats/file_error.h"
#include "layers/neuron_statistics.h"
#include "models/weight_names.h"
#include "ops/embedding.h"
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

[[noreturn]] void fail(const SafetensorsFile& file, ErrorCode code, const std::string& tensor,
                       const std::string& what) {
  throw file_error({.path = file.path(), .rule = "C2", .tensor = tensor}, what, code);
}

std::vector<float> read(const SafetensorsFile& file, const std::string& name) {
  const TensorEntry* tensor = file.find(name);
  std::vector<float> values(tensor->elements);
  file.read_f32(*tensor, values);
  return values;
}

// Calls group(first row, rows, lengths) for whole sequences in turn: what a layer writes for so
// many tokens is still in the caches when it is read.
template <class Group>
void for_each_group(std::span<const std::size_t> sequence_lengths, unsigned threads,
                    const Group& group) {
  // Tokens whose rows, hidden ones too, stay in a thread's L2 cache; for one thread twice as many,
  // as each group reads the weights of the layer anew.
  constexpr std::size_t kPerThread = 128, kFewest = 2 * kPerThread;
  const std::size_t wanted = std::max(kFewest, kPerThread * threads);
  std::size_t left = 0;
  for (const std::size_t length : sequence_lengths) left += length;
  std::size_t first = 0, first_row = 0, rows = 0;
  for (std::size_t i = 0; i < sequence_lengths.size(); ++i) {
    rows += sequence_lengths[i];
    left -= sequence_lengths[i];
    const bool more = i + 1 < sequence_lengths.size();
    if (more && (rows < wanted || left < wanted / 2)) continue;
    group(first_row, rows, sequence_lengths.subspan(first, i + 1 - first));
    first = i + 1;
    first_row += rows;
    rows = 0;
  }
}

// A weight of the file in the type in which the model computes.
class LoadedWeight {
 public:
  LoadedWeight(const SafetensorsFile& file, const std::string& name, Dtype dtype)
      : rows_(file.find(name)->shape.front()) {
    std::vector<float> values = read(file, name);
    if (dtype == Dtype::f32) {
      values_ = std::move(values);
      return;
    }
    std::vector<Bf16> narrow(values.size());
    std::transform(values.begin(), values.end(), narrow.begin(), to_bf16);
    values_ = std::move(narrow);
  }
  Weight view() const {
    return std::visit(
        [&](const auto& values) -> Weight {
          return MatrixView(values.data(), rows_, values.size() / rows_);
        },
        values_);
  }

 private:
  std::variant<std::vector<float>, std::vector<Bf16>> values_;
  std::uint64_t rows_;
};

}  // namespace

void BertEncoder::check(const SafetensorsFile& file, const ModelConfig& config) {
  const BertNames names(file);
  const std::uint64_t d = config.d_model, f = config.d_ff;
  const auto expect = [&](const std::string& name, const std::vector<std::uint64_t>& shape) {
    const TensorEntry* tensor = file.find(name);
    if (tensor == nullptr)
      fail(file, ErrorCode::missing_tensor, name, "it is missing; " + config.path + " implies it");
    if (tensor->shape != shape)
      fail(file, ErrorCode::bad_file, name,
           "its shape is " + shape_list(tensor->shape) + ", expected " + shape_list(shape) +
               " by " + config.path);
  };
  expect(names.word_embedding(), {config.vocab_size, d});
  expect(names.position_embedding(), {config.max_positions, d});
  expect(names.type_embedding(), {config.type_vocab_size, d});
  for (const char* part : {"weight", "bias"}) expect(names.embedding_norm(part), {d});
  for (std::size_t i = 0; i < config.n_layers; ++i) {
    for (const char* which : {"query", "key", "value"}) {
      expect(names.attention(i, which, "weight"), {d, d});
      expect(names.attention(i, which, "bias"), {d});
    }
    expect(names.attention_output(i, "weight"), {d, d});
    expect(names.attention_output(i, "bias"), {d});
    expect(names.up(i, "weight"), {f, d});
    expect(names.up(i, "bias"), {f});
    expect(names.down(i, "weight"), {d, f});
    expect(names.down(i, "bias"), {d});
    for (const char* part : {"weight", "bias"}) {
      expect(names.attention_norm(i, part), {d});
      expect(names.ffn_norm(i, part), {d});
    }
  }
  for (const TensorEntry& tensor : file.tensors()) {
    const auto layer = bert_tensor_place(tensor.name).layer;
    if (layer && *layer >= config.n_layers)
      fail(file, ErrorCode::bad_file, tensor.name,
           "it belongs to layer " + std::to_string(*layer) + ", but " + config.path + " has " +
               std::to_string(config.n_layers) + " layers, counted from 0");
  }
}

Dtype BertEncoder::stored_dtype(const SafetensorsFile& file) {
  const TensorEntry* up = file.find(BertNames(file).up(0, "weight"));
  return up->dtype == TensorDtype::bf16 ? Dtype::bf16 : Dtype::f32;
}

BertEncoder BertEncoder::load(const SafetensorsFile& file, const ModelConfig& config,
                              std::optional<Dtype> dtype) {
  check(file, config);
  const BertNames names(file);
  const Dtype type = dtype.value_or(stored_dtype(file));
  const std::uint64_t d = config.d_model;
  const auto norm = [&](const std::string& gamma, const std::string& beta) {
    return LayerNorm(read(file, gamma), read(file, beta), config.norm_eps);
  };
  const auto table = [&](const std::string& name) { return Embedding(read(file, name), d); };

  BertEncoder model(config, type, table(names.word_embedding()), table(names.position_embedding()),
                    table(names.type_embedding()),
                    norm(names.embedding_norm("weight"), names.embedding_norm("bias")));
  for (std::size_t i = 0; i < config.n_layers; ++i) {
    const auto weight = [&](std::string_view which) {
      return LoadedWeight(file, names.attention(i, which, "weight"), type);
    };
    const auto bias = [&](std::string_view which) {
      return read(file, names.attention(i, which, "bias"));
    };
    const auto query = weight("query"), key = weight("key"), value = weight("value");
    const auto query_bias = bias("query"), key_bias = bias("key"), value_bias = bias("value");
    const LoadedWeight output(file, names.attention_output(i, "weight"), type);
    const auto output_bias = read(file, names.attention_output(i, "bias"));
    MultiHeadAttention attention({query.view(), key.view(), value.view(), output.view(), query_bias,
                                  key_bias, value_bias, output_bias},
                                 config.n_heads);

    const LoadedWeight up(file, names.up(i, "weight"), type),
        down(file, names.down(i, "weight"), type);
    const auto up_bias = read(file, names.up(i, "bias")),
               down_bias = read(file, names.down(i, "bias"));
    DenseFfn ffn({up.view(), down.view(), up_bias, down_bias}, config.activation);
    model.down_energy_.push_back(
        std::visit([](const auto& w) { return column_energy(w); }, down.view()));
    model.blocks_.emplace_back(
        BlockOrder::post_norm,
        BlockParts{std::move(attention),
                   norm(names.attention_norm(i, "weight"), names.attention_norm(i, "bias")),
                   std::move(ffn), norm(names.ffn_norm(i, "weight"), names.ffn_norm(i, "bias"))});
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
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  embed_tokens(ids, sequence_lengths, {words_.table(), types_.table(), positions_.table()}, hidden,
               workspace);
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
    if (!observers.empty()) {  // samples are numbered from the start of one call
      blocks_[i].forward(hidden, sequence_lengths, workspace, observers[i]);
      continue;
    }
    for_each_group(sequence_lengths, workspace.runtime().threads(),
                   [&](std::size_t first_row, std::size_t rows, auto lengths) {
                     blocks_[i].forward(hidden.rows_from(first_row, rows), lengths, workspace);
                   });
  }
}

std::uint64_t BertEncoder::packed_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& block : blocks_)
    bytes += block.attention().packed_bytes() + fourfold::packed_bytes(block.ffn());
  return bytes;
}

}  // namespace fourfold
