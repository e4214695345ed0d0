// Small BERT folders for tests of models and tools: config.json, vocab.txt, and a model.safetensors
// whose data may be left out (a sparse file of zeros), so that very large layers cost nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "formats/safetensors_bytes.h"
#include "formats/temp_folder.h"
#include "fourfold/dtype.h"

namespace fourfold::testing {

struct TinyBert {
  std::uint64_t layers = 2, d_model = 6, d_ff = 11, heads = 3, vocab = 13, positions = 17,
                types = 2;
  std::string activation = "gelu", prefix, dtype = "F32";

  using Shape = std::vector<std::uint64_t>;
  std::vector<std::pair<std::string, Shape>> tensors() const {
    std::vector<std::pair<std::string, Shape>> list;
    const auto add = [&](const std::string& name, const Shape& shape) {
      list.emplace_back(prefix + name, shape);
    };
    const auto linear = [&](const std::string& name, std::uint64_t out, std::uint64_t in) {
      add(name + ".weight", {out, in});
      add(name + ".bias", {out});
    };
    const auto norm = [&](const std::string& name) {
      add(name + ".weight", {d_model});
      add(name + ".bias", {d_model});
    };
    add("embeddings.word_embeddings.weight", {vocab, d_model});
    add("embeddings.position_embeddings.weight", {positions, d_model});
    add("embeddings.token_type_embeddings.weight", {types, d_model});
    norm("embeddings.LayerNorm");
    for (std::uint64_t i = 0; i < layers; ++i) {
      const std::string layer = "encoder.layer." + std::to_string(i) + ".";
      for (const char* which : {"query", "key", "value"})
        linear(layer + "attention.self." + which, d_model, d_model);
      linear(layer + "attention.output.dense", d_model, d_model);
      norm(layer + "attention.output.LayerNorm");
      linear(layer + "intermediate.dense", d_ff, d_model);
      linear(layer + "output.dense", d_model, d_ff);
      norm(layer + "output.LayerNorm");
    }
    linear("pooler.dense", d_model, d_model);
    return list;
  }

  std::string config() const {
    return "{\"model_type\":\"bert\",\"hidden_act\":\"" + activation +
           "\",\"num_hidden_layers\":" + std::to_string(layers) +
           ",\"hidden_size\":" + std::to_string(d_model) +
           ",\"intermediate_size\":" + std::to_string(d_ff) +
           ",\"num_attention_heads\":" + std::to_string(heads) +
           ",\"vocab_size\":" + std::to_string(vocab) +
           ",\"max_position_embeddings\":" + std::to_string(positions) +
           ",\"type_vocab_size\":" + std::to_string(types) + ",\"layer_norm_eps\":1e-12}";
  }

  // edit may change the list of tensors; value(k) is the k-th float of the file.
  void write(const TempFolder& folder,
             const std::function<void(std::vector<std::pair<std::string, Shape>>&)>& edit = {},
             const std::function<float(std::uint64_t)>& value = {}) const {
    auto list = tensors();
    if (edit) edit(list);
    const std::uint64_t width = dtype == "F32" ? 4 : 2;
    std::string header = "{";
    std::uint64_t at = 0;
    for (const auto& [name, shape] : list) {
      std::uint64_t elements = 1;
      std::string dims;
      for (const auto size : shape) {
        elements *= size;
        dims += (dims.empty() ? "" : ",") + std::to_string(size);
      }
      header += (at == 0 ? "\"" : ",\"") + name +
                "\":" + entry(dtype, "[" + dims + "]", at, at + elements * width);
      at += elements * width;
    }
    header += "}";
    std::string data;
    for (std::uint64_t k = 0; value && k < at / width; ++k)
      data += dtype == "BF16" ? bytes_of(to_bf16(value(k)).bits) : bytes_of(value(k));
    const std::string file = folder.write("model.safetensors", safetensors_bytes(header, data));
    std::filesystem::resize_file(file, 8 + header.size() + at);
    folder.write("config.json", config());
    folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\n##f\n##g\n##h\n");
  }
};

}  // namespace fourfold::testing
