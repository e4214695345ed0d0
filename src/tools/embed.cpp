// embed: one vector per text. Texts of a pass lie one after the other without padding, so a batch
// changes no bit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "fourfold/tools.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"
#include "tools/model_place.h"

namespace fourfold {
namespace {

// tokens: [tokens, d] -> vector: [d]. Sums in float64.
void pool(ConstMatrix tokens, Pooling pooling, std::span<float> vector) {
  for (std::size_t i = 0; i < vector.size(); ++i) {
    if (pooling == Pooling::cls) {
      vector[i] = tokens.row(0)[i];
    } else if (pooling == Pooling::max) {
      float top = -std::numeric_limits<float>::infinity();
      for (std::size_t row = 0; row < tokens.rows; ++row) {
        const float value = tokens.row(row)[i];
        if (value > top || std::isnan(value)) top = value;
      }
      vector[i] = top;
    } else {
      double sum = 0;
      for (std::size_t row = 0; row < tokens.rows; ++row) sum += tokens.row(row)[i];
      vector[i] = static_cast<float>(sum / static_cast<double>(tokens.rows));
    }
  }
}

// v / max(||v||, 1e-12), as torch.nn.functional.normalize.
void normalize(std::span<float> vector) {
  double square = 0;
  for (const float value : vector) square += static_cast<double>(value) * value;
  const double length = std::max(std::sqrt(square), 1e-12);
  for (float& value : vector) value = static_cast<float>(value / length);
}

struct Plan {
  Pooling pooling;
  bool normalized;
  std::uint64_t max_length;
};

Plan make_plan(const LoadedEncoder& model, const EmbedOptions& options) {
  const SentenceConfig defaults = read_sentence_config(model.place.folder);
  const std::uint64_t positions = model.encoder.config().max_positions,
                      added = model.tokenizer.added_tokens();
  Plan plan{
      defaults.pooling, options.normalize.value_or(defaults.normalize),
      options.max_length.value_or(std::min(defaults.max_length.value_or(positions), positions))};
  if (options.pooling) {
    const auto pooling = parse_pooling(*options.pooling);
    FOURFOLD_CHECK(pooling.has_value(), invalid_argument,
                   "pooling is \"" + *options.pooling + "\", expected mean, cls or max");
    plan.pooling = *pooling;
  }
  FOURFOLD_CHECK(plan.max_length >= added && plan.max_length <= positions, invalid_argument,
                 "max length is " + std::to_string(plan.max_length) + ", expected " +
                     std::to_string(added) + " to " + std::to_string(positions) +
                     " (the model's positions)");
  return plan;
}

}  // namespace

Embeddings embed_texts(const std::string& model_name, std::span<const std::string> texts,
                       const EmbedOptions& options, Workspace& workspace,
                       const Progress& progress) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  FOURFOLD_CHECK(options.batch >= 1, invalid_argument, "batch is 0, expected at least 1");
  const LoadedEncoder model = load_encoder(model_name, options.dtype);
  const Plan plan = make_plan(model, options);
  const std::size_t d = model.encoder.config().d_model;
  Embeddings result{texts.size(), d, std::vector<float>(texts.size() * d), true,
                    model.encoder.dtype()};
  for (std::size_t first = 0; first < texts.size(); first += options.batch) {
    const auto part =
        texts.subspan(first, std::min<std::size_t>(options.batch, texts.size() - first));
    std::vector<std::int32_t> ids;
    std::vector<std::size_t> lengths;
    for (const std::string& text : part) {
      std::vector<std::int32_t> own = model.tokenizer.encode(text);
      own.resize(
          std::min<std::size_t>(own.size(), plan.max_length - model.tokenizer.added_tokens()));
      own = model.tokenizer.with_added_tokens(own);
      lengths.push_back(own.size());
      ids.insert(ids.end(), own.begin(), own.end());
    }
    const ScratchScope scratch(workspace);
    const Matrix hidden(workspace.take(ids.size() * d), ids.size(), d);
    model.encoder.forward(ids, lengths, hidden, workspace);
    std::size_t row = 0;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const std::span<float> vector(result.values.data() + (first + i) * d, d);
      pool(hidden.rows_from(row, lengths[i]), plan.pooling, vector);
      if (plan.normalized) normalize(vector);
      row += lengths[i];
    }
    if (progress) progress(first + part.size(), texts.size());
  }
  result.finite = all_finite(ConstMatrix(result.values.data(), result.count, d));
  return result;
}

}  // namespace fourfold
