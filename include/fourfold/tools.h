// What the commands do, callable from C++: inspect, profile, embed, trace. MODEL is a folder with
// config.json and model.safetensors, one .safetensors file, or org/name in the local Hugging Face
// cache. Nothing is downloaded. All throw Error: io (not found, unreadable), bad_file,
// missing_tensor, unsupported, invalid_argument.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fourfold/dtype.h"
#include "fourfold/profile.h"
#include "fourfold/runtime.h"
#include "fourfold/trace.h"

namespace fourfold {

struct InspectOptions {
  std::optional<std::uint64_t>
      seq_len;           // also count attention score work for sequences of this length
  bool tensors = false;  // list every tensor
};
// Reads headers only. A lone .safetensors file without config.json gives tensors and the total.
ModelSummary inspect_model(const std::string& model, const InspectOptions& options = {});

// Called now and then with work done and work in all (in windows or texts).
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

struct ProfileOptions {
  // What is tokenised, unless token ids are given.
  std::string text, text_name = "text";
  std::optional<std::vector<std::int32_t>> ids;
  // Tokens of a window, added ones included; from 3 to the model's positions. Default: min(512,
  // positions).
  std::optional<std::uint64_t> seq_len;
  std::uint64_t batch = 1;          // windows per forward pass, 1 to 65536
  std::uint64_t max_tokens = 4096;  // counted tokens, at most; 1 or more
  bool count_special = false;       // count the tokens that the tokenizer adds, too
  // Dead: |h| <= threshold always; for gelu, silu and the like. relu, relu2 and relu6 have a
  // definition of their own.
  std::optional<double> dead_threshold;
  std::vector<std::uint64_t> layers;  // report these only; empty: all
  std::optional<Dtype> dtype;         // as in EmbedOptions
};
// Runs the model on the text, once for times and once for statistics. Throws
// Error{invalid_argument} for an option out of range, an empty text, or an id outside the
// vocabulary.
ProfileReport profile_model(const std::string& model, const ProfileOptions& options,
                            Workspace& workspace, const Progress& progress = {});

struct EmbedOptions {
  std::optional<std::string>
      pooling;                    // mean, cls, max; default: the model's modules.json, else mean
  std::optional<bool> normalize;  // default: the model's modules.json, else no
  // Tokens of a text, added ones included; from 2 to the model's positions. Default: the model's
  // own, else its positions.
  std::optional<std::uint64_t> max_length;
  std::uint64_t batch = 32;  // texts per forward pass, 1 or more; changes no bit
  // In which the model computes: bf16 rounds the weights of attention and FFNs. Default: the stored
  // type; f16 is widened.
  std::optional<Dtype> dtype;
};
struct Embeddings {
  std::size_t count = 0, dimension = 0;
  std::vector<float> values;  // [count, dimension]
  bool finite = true;         // false when a value is NaN or Inf
  Dtype dtype = Dtype::f32;   // in which the model computed
};
// One vector per text. Throws Error{invalid_argument} for an option out of range.
Embeddings embed_texts(const std::string& model, std::span<const std::string> texts,
                       const EmbedOptions& options, Workspace& workspace,
                       const Progress& progress = {});

// Tiny examples with every multiplication, docs/tiny_example.md: dense (4 -> 8 -> 4, ReLU), gated
// (3 -> 4 -> 3, SiLU), and a mixture of 4 gated experts (3 -> 2 -> 3), 2 per token.
TraceReport trace_tiny_example(Workspace& workspace);
TraceReport trace_tiny_gated(Workspace& workspace);
TraceReport trace_tiny_moe(Workspace& workspace);
// 768 -> 3072 -> 768, GELU, then LayerNorm(x + y), with seeded weights.
TraceReport trace_bert_base(Workspace& workspace);
// One token of `text` through the FFN of one layer of a model. token: index among the text's
// tokens.
struct TraceOptions {
  std::uint64_t layer = 0, token = 0;
  std::string text;
};
TraceReport trace_model(const std::string& model, const TraceOptions& options,
                        Workspace& workspace);

}  // namespace fourfold
