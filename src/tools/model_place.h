// MODEL as users type it, resolved; a lone weights file next to its config.json counts as its
// folder.
#pragma once

#include <optional>
#include <string>

#include "formats/safetensors.h"
#include "models/bert.h"
#include "models/model_config.h"
#include "models/tokenizer_wordpiece.h"

namespace fourfold {

using ModelPlace = ModelFiles;

ModelPlace find_model(const std::string& model);

// Everything that runs an encoder on text.
struct LoadedEncoder {
  ModelPlace place;
  BertEncoder encoder;
  WordPieceTokenizer tokenizer;
  std::string stored;  // type of the first layer's weights in the file, as the file calls it
};

// dtype: in which the model computes; empty: the stored type. Throws Error{unsupported} for a lone
// file without config.json.
LoadedEncoder load_encoder(const std::string& model, std::optional<Dtype> dtype = std::nullopt);

// True when every value of m is finite.
bool all_finite(ConstMatrix m);

}  // namespace fourfold
