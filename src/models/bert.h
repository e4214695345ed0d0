// The BERT encoder (Devlin et al. 2018, arXiv 1810.04805): embeddings, then post-LN blocks. MiniLM
// is the same, smaller.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "fourfold/embedding.h"
#include "fourfold/transformer_block.h"
#include "models/model_config.h"

namespace fourfold {

class BertEncoder {
 public:
  // Reads every tensor the configuration implies. dtype: of the weights of attention and FFNs; the
  // stored_dtype when empty. Norms, biases and embeddings stay float32. Throws
  // Error{missing_tensor}, Error{bad_file} (rule C2) for a shape that differs from the
  // configuration's, before memory for it is taken.
  static BertEncoder load(const SafetensorsFile& file, const ModelConfig& config,
                          std::optional<Dtype> dtype = std::nullopt);

  // bf16 when the FFN weights of the first layer are stored in it, else f32. file: as checked.
  static Dtype stored_dtype(const SafetensorsFile& file);

  // What load checks, from the headers alone: every implied tensor is there with its shape, and no
  // layer beyond the last.
  static void check(const SafetensorsFile& file, const ModelConfig& config);

  // ids: the sequences one after the other, with their added tokens; hidden: [tokens, d_model]
  // receives the last layer. observers: one per layer, or none; null entries are skipped. Throws
  // Error{invalid_argument} for an id outside the vocabulary or a sequence longer than
  // max_positions, Error{shape_mismatch}.
  void forward(std::span<const std::int32_t> ids, std::span<const std::size_t> sequence_lengths,
               Matrix hidden, Workspace& workspace,
               std::span<FfnObserver* const> observers = {}) const;

  // hidden: [tokens, d_model] = LN(word + position + type 0).
  void embed(std::span<const std::int32_t> ids, std::span<const std::size_t> sequence_lengths,
             Matrix hidden, Workspace& workspace) const;

  const ModelConfig& config() const { return config_; }
  const std::vector<TransformerBlock>& blocks() const { return blocks_; }
  Dtype dtype() const { return dtype_; }
  std::uint64_t packed_bytes() const;  // weights read in one forward pass, without embeddings
  // ||down[:, i]||^2 per neuron of a layer, for statistics.
  const std::vector<double>& down_energy(std::size_t layer) const { return down_energy_[layer]; }

 private:
  BertEncoder(ModelConfig config, Dtype dtype, Embedding words, Embedding positions,
              Embedding types, LayerNorm norm)
      : config_(std::move(config)),
        dtype_(dtype),
        words_(std::move(words)),
        positions_(std::move(positions)),
        types_(std::move(types)),
        embedding_norm_(std::move(norm)) {}

  ModelConfig config_;
  Dtype dtype_;
  Embedding words_, positions_, types_;
  LayerNorm embedding_norm_;
  std::vector<TransformerBlock> blocks_;
  std::vector<std::vector<double>> down_energy_;
};

}  // namespace fourfold
