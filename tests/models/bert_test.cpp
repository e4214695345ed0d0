#include "models/bert.h"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "fourfold/error.h"
#include "fourfold/runtime.h"
#include "tiny_bert.h"

using fourfold::Dtype;
using fourfold::testing::TempFolder;
using fourfold::testing::TinyBert;

namespace {

float some_value(std::uint64_t k) {
  return 0.4F * static_cast<float>(std::sin(0.7 * static_cast<double>(k * k % 101) + 0.1));
}

fourfold::BertEncoder load(const TempFolder& folder,
                           std::optional<fourfold::Dtype> dtype = std::nullopt) {
  return fourfold::BertEncoder::load(
      fourfold::SafetensorsFile::open(folder.path() + "/model.safetensors"),
      fourfold::read_model_config(folder.path()), dtype);
}

std::vector<float> run(const fourfold::BertEncoder& model, const std::vector<std::int32_t>& ids,
                       const std::vector<std::size_t>& lengths, unsigned threads = 2) {
  fourfold::Runtime runtime({.count = threads, .pin = false});
  fourfold::Workspace workspace(runtime);
  std::vector<float> out(ids.size() * 6);
  model.forward(ids, lengths, fourfold::Matrix(out.data(), ids.size(), 6), workspace);
  return out;
}

// What loading the folder fails with.
fourfold::Error failure(const TempFolder& folder) {
  try {
    load(folder);
  } catch (const fourfold::Error& error) {
    return error;
  }
  return {fourfold::ErrorCode::invalid_argument, "it loaded"};
}

}  // namespace

TEST_CASE("a sequence has the same bits alone, in a batch, and for any number of threads") {
  const TempFolder folder;
  TinyBert{}.write(folder, {}, some_value);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const auto model = load(folder, dtype);
    const auto alone = run(model, {2, 7, 9, 3}, {4}, 1);
    for (const float value : alone) CHECK(std::isfinite(value));
    for (const unsigned threads : {1U, 2U, 3U}) {
      const auto batch = run(model, {2, 5, 3, 2, 7, 9, 3, 2, 3}, {3, 4, 2}, threads);
      CHECK(std::vector<float>(batch.begin() + 18, batch.begin() + 42) == alone);
    }
  }
}

TEST_CASE("so many sequences that layers take them in groups have the same bits") {
  const TempFolder folder;
  TinyBert{}.write(folder, {}, some_value);
  const auto model = load(folder);
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> lengths;
  for (std::size_t i = 0; i < 97; ++i) {
    lengths.push_back(i % 14);  // also empty ones
    for (std::size_t k = 0; k < lengths.back(); ++k)
      ids.push_back(static_cast<std::int32_t>((3 * i + 5 * k) % 13));
  }
  lengths.push_back(0);
  CHECK(ids.size() > 600);
  for (const unsigned threads : {1U, 3U}) {
    const auto batch = run(model, ids, lengths, threads);
    std::size_t row = 0, wrong = 0;
    for (const std::size_t length : lengths) {
      const auto first = ids.begin() + static_cast<std::ptrdiff_t>(row);
      const auto alone = run(model, {first, first + static_cast<std::ptrdiff_t>(length)}, {length});
      for (std::size_t i = 0; i < alone.size(); ++i) wrong += alone[i] != batch[row * 6 + i];
      row += length;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("the stored type is the default, and each layer has the type of the model") {
  const TempFolder wide, narrow;
  TinyBert{}.write(wide, {}, some_value);
  TinyBert stored;
  stored.dtype = "BF16";
  stored.write(narrow, {}, some_value);
  CHECK(load(wide).dtype() == Dtype::f32);
  CHECK(load(narrow).dtype() == Dtype::bf16);
  for (const TempFolder* folder : {&wide, &narrow})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      const auto model = load(*folder, dtype);
      CHECK(model.dtype() == dtype);
      for (const auto& block : model.blocks()) {
        CHECK(block.attention().dtype() == dtype);
        CHECK(std::get<fourfold::DenseFfn>(block.ffn()).dtype() == dtype);
      }
    }
}

TEST_CASE("bf16 rounds the weights of attention and FFNs, nothing else of the file") {
  // Whether the k-th value of the file belongs to such a weight.
  std::vector<bool> is_weight;
  for (const auto& [name, shape] : TinyBert{}.tensors()) {
    std::uint64_t size = 1;
    for (const auto dimension : shape) size *= dimension;
    is_weight.insert(is_weight.end(), size,
                     name.starts_with("encoder.layer.") && shape.size() == 2);
  }
  const auto written = [&](const TempFolder& folder, bool weights, bool others) {
    TinyBert{}.write(folder, {}, [&](std::uint64_t k) {
      const bool round = is_weight[k] ? weights : others;
      return round ? fourfold::round_to_bf16(some_value(k)) : some_value(k);
    });
  };
  const TempFolder plain, weights, all;
  written(plain, false, false);
  written(weights, true, false);
  written(all, true, true);
  const auto result = [](const TempFolder& folder) {
    return run(load(folder, Dtype::bf16), {2, 5, 6, 3}, {4});
  };
  CHECK(result(plain) == result(weights));
  CHECK(result(plain) != result(all));

  const TempFolder stored;
  TinyBert narrow;
  narrow.dtype = "BF16";
  narrow.write(stored, {}, some_value);
  CHECK(run(load(stored), {2, 5, 6, 3}, {4}) == result(all));
  // Statistics weigh neurons by the weights that are used.
  CHECK(load(plain, Dtype::bf16).down_energy(1) == load(weights).down_energy(1));
}

TEST_CASE("the bert. prefix and the old norm names load to the same model") {
  const TempFolder plain, other;
  TinyBert{}.write(plain, {}, some_value);
  TinyBert prefixed;
  prefixed.prefix = "bert.";
  prefixed.write(
      other,
      [](auto& tensors) {
        for (auto& [name, shape] : tensors) {
          const auto at = name.find("LayerNorm.");
          if (at != std::string::npos)
            name = name.substr(0, at + 10) + (name.ends_with("weight") ? "gamma" : "beta");
        }
      },
      some_value);
  CHECK(run(load(other), {2, 5, 6, 3}, {4}) == run(load(plain), {2, 5, 6, 3}, {4}));
}

TEST_CASE("a tensor of another shape is named with both shapes") {
  const TempFolder folder;
  TinyBert{}.write(folder, [](auto& tensors) {
    for (auto& [name, shape] : tensors)
      if (name == "encoder.layer.1.intermediate.dense.weight") shape = {13, 6};
  });
  const auto error = failure(folder);
  CHECK(error.code == fourfold::ErrorCode::bad_file);
  CHECK(error.rule == "C2");
  CHECK(error.tensor == "encoder.layer.1.intermediate.dense.weight");
  CHECK(std::string(error.what()).find("[13, 6], expected [11, 6]") != std::string::npos);
}

TEST_CASE("a missing bias is named") {
  const TempFolder folder;
  TinyBert{}.write(folder, [](auto& tensors) {
    std::erase_if(tensors,
                  [](const auto& one) { return one.first == "encoder.layer.0.output.dense.bias"; });
  });
  const auto error = failure(folder);
  CHECK(error.code == fourfold::ErrorCode::missing_tensor);
  CHECK(error.tensor == "encoder.layer.0.output.dense.bias");
}

TEST_CASE("ids and lengths outside the model are refused") {
  const TempFolder folder;
  TinyBert{}.write(folder, {}, some_value);
  const auto model = load(folder);
  CHECK_THROWS_AS(run(model, {2, 13, 3}, {3}), fourfold::Error);
  CHECK_THROWS_AS(run(model, {2, -1, 3}, {3}), fourfold::Error);
  CHECK_THROWS_AS(run(model, std::vector<std::int32_t>(18, 5), {18}), fourfold::Error);
  CHECK_THROWS_AS(run(model, {2, 5, 3}, {2}), fourfold::Error);
}

TEST_CASE("no tokens, no output") {
  const TempFolder folder;
  TinyBert{}.write(folder, {}, some_value);
  CHECK(run(load(folder), {}, {}).empty());
}
