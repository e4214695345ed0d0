// Parameter and work counts against figures derived by hand from the shapes.
#include <doctest/doctest.h>

#include "fourfold/error.h"
#include "fourfold/tools.h"
#include "tiny_bert.h"

using fourfold::testing::TempFolder;
using fourfold::testing::TinyBert;

TEST_CASE("inspect counts a small encoder by hand") {
  const TempFolder folder;
  TinyBert{}.write(folder);
  const fourfold::ModelSummary summary = fourfold::inspect_model(folder.path());
  REQUIRE(summary.layers.size() == 2);
  const auto& layer = summary.layers[1];
  CHECK(layer.kind == "dense");
  CHECK(layer.activation == "gelu");
  CHECK(layer.ffn_parameters == 2 * 6 * 11 + 11 + 6);
  CHECK(layer.attention_parameters == 4 * (6 * 6 + 6));
  CHECK(layer.norm_parameters == 4 * 6);
  CHECK(layer.ffn_share == doctest::Approx(149.0 / (149 + 168 + 24)));
  CHECK(layer.ffn_macs_per_token == 2 * 6 * 11);
  CHECK(layer.attention_macs_per_token == 4 * 6 * 6);
  CHECK(layer.elementwise_flops_per_token == 11 + 11 + 6);
  const auto& counts = summary.parameters;
  CHECK(counts.embedding == (13 + 17 + 2) * 6);
  CHECK(counts.other == 6 * 6 + 6);
  CHECK(counts.norm == 12 + 2 * 24);
  CHECK(counts.ffn + counts.attention + counts.norm + counts.embedding + counts.other ==
        counts.total);
  CHECK(counts.active == counts.total);
}

TEST_CASE("inspect counts attention scores for a sequence length") {
  const TempFolder folder;
  TinyBert{}.write(folder);
  const auto summary = fourfold::inspect_model(folder.path(), {.seq_len = 19, .tensors = false});
  CHECK(summary.layers[0].attention_macs_per_token ==
        4 * 6 * 6 + 2 * 3 * 2 * 19);  // 2 n_heads head_dim S
}

TEST_CASE("an ungated layer has two thirds of a gated one's parameters and FLOPs") {
  // Gated at d_model 4096, d_ff 11008: 135,266,304 parameters, 270,532,608 matmul FLOPs a token.
  const TempFolder folder;
  TinyBert bert;
  bert.layers = 1;
  bert.d_model = 4096;
  bert.d_ff = 11008;
  bert.heads = 32;
  bert.write(folder);
  const auto layer = fourfold::inspect_model(folder.path()).layers[0];
  CHECK(2 * layer.ffn_macs_per_token == 270'532'608 / 3 * 2);
  CHECK(layer.ffn_parameters - 4096 - 11008 == 135'266'304 / 3 * 2);
}

TEST_CASE("BERT-base's layer has 4,722,432 FFN parameters, 66.63 % of the layer") {
  const TempFolder folder;
  TinyBert bert;
  bert.layers = 12;
  bert.d_model = 768;
  bert.d_ff = 3072;
  bert.heads = 12;
  bert.vocab = 30522;
  bert.positions = 512;
  bert.prefix = "bert.";
  bert.write(folder);
  const auto summary = fourfold::inspect_model(folder.path());
  CHECK(summary.layers[11].ffn_parameters == 4'722'432);
  CHECK(summary.layers[11].ffn_share == doctest::Approx(0.6663).epsilon(1e-4));
  CHECK(summary.parameters.total == 109'482'240);
}

TEST_CASE("16-bit tensors count by elements") {
  const TempFolder folder;
  TinyBert bert;
  bert.dtype = "BF16";
  bert.write(folder);
  const auto summary = fourfold::inspect_model(folder.path());
  CHECK(summary.layers[0].dtype == "BF16");
  CHECK(summary.layers[0].ffn_parameters == 149);
}

TEST_CASE("a lone file gives its tensors and the total") {
  const TempFolder folder;
  TinyBert{}.write(folder);
  std::filesystem::remove(folder.path() + "/config.json");
  const auto summary = fourfold::inspect_model(folder.path() + "/model.safetensors");
  CHECK(summary.layers.empty());
  CHECK(summary.tensors.size() == TinyBert{}.tensors().size());
  CHECK(summary.parameters.total == summary.parameters.other);
}

TEST_CASE("a layer that the configuration implies and the file lacks is an error") {
  const TempFolder folder;
  TinyBert bert;
  bert.write(folder);
  bert.layers = 3;
  folder.write("config.json", bert.config());
  try {
    fourfold::inspect_model(folder.path());
    FAIL("accepted");
  } catch (const fourfold::Error& error) {
    CHECK(error.code == fourfold::ErrorCode::missing_tensor);
    CHECK(error.tensor == "encoder.layer.2.attention.self.query.weight");
    CHECK(error.rule == "C2");
  }
}

TEST_CASE("inspect refuses a file that contradicts its configuration") {
  const auto refused = [](const TinyBert& file, const TinyBert& config) {
    const TempFolder folder;
    file.write(folder);
    folder.write("config.json", config.config());
    try {
      fourfold::inspect_model(folder.path());
    } catch (const fourfold::Error& error) {
      return error.rule == "C2";
    }
    return false;
  };
  TinyBert other_width, fewer_layers;
  other_width.d_ff = 999;
  fewer_layers.layers = 1;
  CHECK(refused(TinyBert{}, other_width));
  CHECK(refused(TinyBert{}, fewer_layers));
}
