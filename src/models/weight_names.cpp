#include "models/weight_names.h"

#include <charconv>

namespace fourfold {
namespace {

constexpr std::string_view kLayers = "encoder.layer.";

std::string_view without_prefix(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

}  // namespace

TensorPlace bert_tensor_place(std::string_view name) {
  name = without_prefix(name, "bert.");
  if (name.starts_with("embeddings."))
    return {
        name.find("LayerNorm") != std::string_view::npos ? TensorRole::norm : TensorRole::embedding,
        std::nullopt};
  if (!name.starts_with(kLayers)) return {};
  name.remove_prefix(kLayers.size());
  std::size_t layer = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || rest == name.data() + name.size() || *rest != '.') return {};
  name.remove_prefix(static_cast<std::size_t>(rest - name.data()) + 1);
  if (name.find("LayerNorm.") != std::string_view::npos) return {TensorRole::norm, layer};
  if (name.starts_with("attention.")) return {TensorRole::attention, layer};
  if (name.starts_with("intermediate.") || name.starts_with("output."))
    return {TensorRole::ffn, layer};
  return {TensorRole::other, layer};
}

BertNames::BertNames(const SafetensorsFile& file)
    : prefix_(file.find("bert.embeddings.word_embeddings.weight") != nullptr ? "bert." : ""),
      old_norm_names_(file.find(prefix_ + "embeddings.LayerNorm.gamma") != nullptr) {}

std::string_view BertNames::norm_part(std::string_view part) const {
  if (!old_norm_names_) return part;
  return part == "weight" ? "gamma" : "beta";
}

std::string BertNames::layer(std::size_t index, std::string_view rest,
                             std::string_view part) const {
  std::string name = prefix_ + std::string(kLayers) + std::to_string(index);
  return name.append(".").append(rest).append(".").append(part);
}

std::string BertNames::embedding_norm(std::string_view part) const {
  return prefix_ + "embeddings.LayerNorm." + std::string(norm_part(part));
}
std::string BertNames::attention(std::size_t index, std::string_view which,
                                 std::string_view part) const {
  return layer(index, "attention.self." + std::string(which), part);
}
std::string BertNames::attention_output(std::size_t index, std::string_view part) const {
  return layer(index, "attention.output.dense", part);
}
std::string BertNames::attention_norm(std::size_t index, std::string_view part) const {
  return layer(index, "attention.output.LayerNorm", norm_part(part));
}
std::string BertNames::up(std::size_t index, std::string_view part) const {
  return layer(index, "intermediate.dense", part);
}
std::string BertNames::down(std::size_t index, std::string_view part) const {
  return layer(index, "output.dense", part);
}
std::string BertNames::ffn_norm(std::size_t index, std::string_view part) const {
  return layer(index, "output.LayerNorm", norm_part(part));
}

}  // namespace fourfold
