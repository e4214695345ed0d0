#include "tools/model_place.h"

#include <cmath>
#include <filesystem>

#include "base/check.h"
#include "models/weight_names.h"

namespace fourfold {

ModelPlace find_model(const std::string& model) {
  ModelPlace place = resolve_model(model);
  if (place.folder.empty()) {
    const auto parent = std::filesystem::path(place.weights).parent_path();
    std::error_code ignored;
    if (std::filesystem::exists(parent / "config.json", ignored))
      place.folder = parent.empty() ? "." : parent.string();
  }
  return place;
}

LoadedEncoder load_encoder(const std::string& model, std::optional<Dtype> dtype) {
  ModelPlace place = find_model(model);
  FOURFOLD_CHECK(
      !place.folder.empty(), unsupported,
      place.weights +
          ": there is no config.json beside the file, so its layers are unknown; give the folder "
          "of a Hugging Face model");
  const ModelConfig config = read_model_config(place.folder);
  const SafetensorsFile file = SafetensorsFile::open(place.weights);
  BertEncoder encoder = BertEncoder::load(file, config, dtype);
  WordPieceTokenizer tokenizer = WordPieceTokenizer::open(place.folder);
  FOURFOLD_CHECK(tokenizer.vocab_size() <= config.vocab_size, bad_file,
                 place.folder + ": the tokenizer has " + std::to_string(tokenizer.vocab_size()) +
                     " ids, the model's vocab_size is " + std::to_string(config.vocab_size));
  const TensorEntry* up = file.find(BertNames(file).up(0, "weight"));
  return {std::move(place), std::move(encoder), std::move(tokenizer),
          std::string(dtype_name(up->dtype))};
}

bool all_finite(ConstMatrix m) {
  for (std::size_t row = 0; row < m.rows; ++row)
    for (const float value : m.row(row))
      if (!std::isfinite(value)) return false;
  return true;
}

}  // namespace fourfold
