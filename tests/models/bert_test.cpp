#include "models/bert.h"

#include <doctest/doctest.h>

#include <cmath>

#include "fourfold/error.h"
#include "fourfold/runtime.h"
#include "tiny_bert.h"

using fourfold::testing::TempFolder;
using fourfold::testing::TinyBert;

namespace {

float some_value(std::uint64_t k) {
  return 0.4F * static_cast<float>(std::sin(0.7 * static_cast<double>(k * k % 101) + 0.1));
}

fourfold::BertEncoder load(const TempFolder& folder) {
  return fourfold::BertEncoder::load(
      fourfold::SafetensorsFile::open(folder.path() + "/model.safetensors"),
      fourfold::read_model_config(folder.path()));
}

std::vector<float> run(const fourfold::BertEncoder& model, const std::vector<std::int32_t>& ids,
                       const std::vector<std::size_t>& lengths) {
  fourfold::Runtime runtime({.count = 2, .pin = false});
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

TEST_CASE("a sequence has the same bits alone and in a batch") {
  const TempFolder folder;
  TinyBert{}.write(folder, {}, some_value);
  const auto model = load(folder);
  const auto alone = run(model, {2, 7, 9, 3}, {4});
  const auto batch = run(model, {2, 5, 3, 2, 7, 9, 3, 2, 3}, {3, 4, 2});
  for (const float value : alone) CHECK(std::isfinite(value));
  CHECK(std::vector<float>(batch.begin() + 18, batch.begin() + 42) == alone);
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
