// The only place where tensor names of checkpoints occur. BERT's names serve MiniLM too; "bert." in
// front is optional, and old files call a norm's weight and bias gamma and beta.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "formats/safetensors.h"

namespace fourfold {

enum class TensorRole { ffn, attention, norm, embedding, other };

struct TensorPlace {
  TensorRole role = TensorRole::other;
  std::optional<std::size_t> layer;  // for tensors of a layer
};

// What a tensor of a BERT checkpoint is for. Unknown names are `other` (pooler, heads).
TensorPlace bert_tensor_place(std::string_view name);

class BertNames {
 public:
  explicit BertNames(const SafetensorsFile& file);

  std::string word_embedding() const { return prefix_ + "embeddings.word_embeddings.weight"; }
  std::string position_embedding() const {
    return prefix_ + "embeddings.position_embeddings.weight";
  }
  std::string type_embedding() const { return prefix_ + "embeddings.token_type_embeddings.weight"; }
  std::string embedding_norm(std::string_view part) const;  // part: "weight" or "bias"

  std::string attention(std::size_t index, std::string_view which,
                        std::string_view part) const;  // query, key, value
  std::string attention_output(std::size_t index, std::string_view part) const;
  std::string attention_norm(std::size_t index, std::string_view part) const;
  std::string up(std::size_t index, std::string_view part) const;
  std::string down(std::size_t index, std::string_view part) const;
  std::string ffn_norm(std::size_t index, std::string_view part) const;

 private:
  std::string layer(std::size_t index, std::string_view rest, std::string_view part) const;
  std::string_view norm_part(std::string_view part) const;

  std::string prefix_;
  bool old_norm_names_;
};

}  // namespace fourfold
