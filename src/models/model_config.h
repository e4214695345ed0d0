// config.json of a Hugging Face model, checked by rules C1..C5 of docs/formats.md, and the
// sentence-embedding files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fourfold/activation.h"

namespace fourfold {

struct ModelConfig {
  std::string path;          // of config.json
  std::string architecture;  // model_type, for example "bert"
  std::uint64_t n_layers = 0, d_model = 0, d_ff = 0, n_heads = 0, head_dim = 0;
  std::uint64_t vocab_size = 0, max_positions = 0, type_vocab_size = 0;
  Activation activation = Activation::gelu_erf;
  float norm_eps = 1e-12F;
};

// Reads folder/config.json. Throws Error{bad_file} (path, rule C1.., offset when known),
// Error{unsupported} for a model_type or activation that Fourfold does not know.
ModelConfig read_model_config(const std::string& folder);

enum class Pooling { mean, cls, max };
std::optional<Pooling> parse_pooling(std::string_view name);  // "mean", "cls", "max"

// How a sentence-transformers folder turns token vectors into one vector; defaults where its files
// are absent.
struct SentenceConfig {
  Pooling pooling = Pooling::mean;
  bool normalize = false;
  std::optional<std::uint64_t> max_length;  // max_seq_length of sentence_bert_config.json
};
SentenceConfig read_sentence_config(const std::string& folder);

// Where the pieces of MODEL lie.
struct ModelFiles {
  std::string folder;   // empty for a lone .safetensors file
  std::string weights;  // the .safetensors file
};
// An existing path wins (a folder, or one .safetensors file); else org/name is looked up in the
// local Hugging Face cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub). Nothing is
// downloaded.
ModelFiles resolve_model(const std::string& model);

}  // namespace fourfold
