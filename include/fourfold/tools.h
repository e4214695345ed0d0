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
  std::string text, text_name = "text";          // what is tokenised ...
  std::optional<std::vector<std::int32_t>> ids;  // ... unless token ids are given
  std::optional<std::uint64_t>
      seq_len;              // default: min(512, positions of the model), added tokens included
  std::uint64_t batch = 1;  // windows per forward pass
  std::uint64_t max_tokens = 4096;  // counted tokens, at most
  bool count_special = false;       // count the tokens that the tokenizer adds, too
  std::optional<double>
      dead_threshold;                 // dead: |h| <= threshold always; for gelu, silu and the like
  std::vector<std::uint64_t> layers;  // report these only; empty: all
};
ProfileReport profile_model(const std::string& model, const ProfileOptions& options,
                            Workspace& workspace, const Progress& progress = {});

struct EmbedOptions {
  std::optional<std::string>
      pooling;                    // mean, cls, max; default: the model's modules.json, else mean
  std::optional<bool> normalize;  // default: the model's modules.json, else no
  std::optional<std::uint64_t>
      max_length;  // tokens with the added ones; default: the model's own, else its positions
  std::uint64_t batch = 32;  // texts per forward pass; changes no bit
};
struct Embeddings {
  std::size_t count = 0, dimension = 0;
  std::vector<float> values;  // [count, dimension]
  bool finite = true;         // false when a value is NaN or Inf
};
Embeddings embed_texts(const std::string& model, std::span<const std::string> texts,
                       const EmbedOptions& options, Workspace& workspace,
                       const Progress& progress = {});

// The lesson's tiny example (d_model 4, d_ff 8, ReLU) with every multiplication,
// docs/tiny_example.md.
TraceReport trace_tiny_example(Workspace& workspace);
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
