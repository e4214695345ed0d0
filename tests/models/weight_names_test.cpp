#include "models/weight_names.h"

#include <doctest/doctest.h>

using fourfold::bert_tensor_place;
using fourfold::TensorRole;

TEST_CASE("every tensor of BERT has its place, with and without prefix") {
  const auto role = [](const char* name) { return bert_tensor_place(name).role; };
  CHECK(role("embeddings.word_embeddings.weight") == TensorRole::embedding);
  CHECK(role("bert.embeddings.LayerNorm.gamma") == TensorRole::norm);
  CHECK(role("encoder.layer.0.attention.self.query.weight") == TensorRole::attention);
  CHECK(role("bert.encoder.layer.10.attention.output.dense.bias") == TensorRole::attention);
  CHECK(role("encoder.layer.0.attention.output.LayerNorm.weight") == TensorRole::norm);
  CHECK(role("encoder.layer.0.intermediate.dense.weight") == TensorRole::ffn);
  CHECK(role("encoder.layer.0.output.dense.bias") == TensorRole::ffn);
  CHECK(role("encoder.layer.0.output.LayerNorm.bias") == TensorRole::norm);
  CHECK(role("pooler.dense.weight") == TensorRole::other);
  CHECK(role("cls.predictions.transform.dense.weight") == TensorRole::other);
}

TEST_CASE("the layer's number is read, and nonsense is not") {
  CHECK(bert_tensor_place("bert.encoder.layer.10.output.dense.bias").layer == 10);
  CHECK_FALSE(bert_tensor_place("pooler.dense.weight").layer.has_value());
  CHECK_FALSE(bert_tensor_place("encoder.layer.x.output.dense.bias").layer.has_value());
  CHECK_FALSE(bert_tensor_place("encoder.layer.3").layer.has_value());
  CHECK_FALSE(
      bert_tensor_place("encoder.layer.99999999999999999999.output.dense.bias").layer.has_value());
}
