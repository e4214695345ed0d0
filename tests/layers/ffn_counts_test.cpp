// Parameters and work against published layers, figures derived by hand, and the layers themselves.
#include "fourfold/ffn_counts.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "fourfold/error.h"
#include "layers/ffn_sample.h"
#include "layers/layer_samples.h"

namespace fourfold {
namespace {

FfnShape plain(FfnKind kind, std::uint64_t d_model, std::uint64_t d_ff, bool biases = false) {
  FfnShape shape;
  shape.kind = kind;
  shape.d_model = d_model;
  shape.d_ff = d_ff;
  shape.biases = {biases && kind == FfnKind::gated, biases, biases};
  return shape;
}

FfnShape mixtral() {
  FfnShape shape = plain(FfnKind::moe, 4096, 14336);
  shape.n_experts = 8;
  shape.top_k = 2;
  return shape;
}

TEST_CASE("LLaMA-7B's gated layer, and the ungated one of the same widths") {
  const FfnCounts gated = count_ffn(plain(FfnKind::gated, 4096, 11008));
  const FfnCounts dense = count_ffn(plain(FfnKind::dense, 4096, 11008));
  CHECK(gated.parameters == 135'266'304);
  CHECK(2 * gated.macs_per_token == 270'532'608);
  CHECK(3 * dense.parameters == 2 * gated.parameters);
  CHECK(3 * dense.macs_per_token == 2 * gated.macs_per_token);
  CHECK(gated.backward_macs_per_token == 2 * gated.macs_per_token);
  // Activation and gating product; a dense layer has the activation alone.
  CHECK(gated.elementwise_flops_per_token == 2 * 11008);
  CHECK(dense.elementwise_flops_per_token == 11008);
  CHECK(32 * gated.parameters == 4'328'521'728);
}

TEST_CASE("a gated layer of 8/3 d_model is as large as a dense one of 4 d_model") {
  for (const std::uint64_t d_model : {3U, 768U, 12288U}) {
    const FfnCounts gated = count_ffn(plain(FfnKind::gated, d_model, d_model * 8 / 3));
    const FfnCounts dense = count_ffn(plain(FfnKind::dense, d_model, d_model * 4));
    CHECK(gated.parameters == dense.parameters);
    CHECK(gated.macs_per_token == dense.macs_per_token);
  }
  // LLaMA rounds 4096 * 8 / 3 = 10922.67 up to a multiple of 256.
  CHECK((4096 * 8 / 3 + 255) / 256 * 256 == 11008);
}

TEST_CASE("BERT-base") {
  const FfnCounts counts = count_ffn(plain(FfnKind::dense, 768, 3072, true));
  CHECK(counts.parameters == 4'722'432);
  CHECK(counts.active_parameters == 4'722'432);
  CHECK(counts.macs_per_token == 2 * 768 * 3072);
  CHECK(counts.elementwise_flops_per_token == 3072 + 3072 + 768);
  CHECK(counts.expert == 0);
  CHECK(counts.router == 0);
  CHECK(counts.shared == 0);
}

TEST_CASE("a layer of Mixtral: all, active, router") {
  const FfnCounts counts = count_ffn(mixtral());
  CHECK(counts.expert == 176'160'768);
  CHECK(counts.router == 32'768);
  CHECK(counts.parameters - counts.router == 1'409'286'144);
  CHECK(counts.active_parameters - counts.router == 352'321'536);
  CHECK(counts.shared == 0);
  CHECK(counts.macs_per_token == 8 * 4096 + 2 * 176'160'768);
  // Scores; per chosen expert activation and product; two weightings, one sum.
  CHECK(counts.elementwise_flops_per_token == 8 + 2 * 2 * 14336 + 2 * 4096 + 4096);
}

TEST_CASE("every part of a mixture, by hand") {
  FfnShape shape = plain(FfnKind::moe, 5, 7);
  shape.n_experts = 11;
  shape.top_k = 3;
  shape.biases = {true, true, true};
  shape.router_bias = shape.selection_bias = true;
  shape.shared_d_ff = 13;
  shape.shared_biases = {false, true, false};
  shape.shared_gate = true;
  const FfnCounts counts = count_ffn(shape);
  CHECK(counts.expert == 3 * 5 * 7 + 7 + 7 + 5);
  CHECK(counts.router == 11 * 5 + 11 + 11);
  CHECK(counts.shared == 3 * 5 * 13 + 13 + 5);
  CHECK(counts.parameters == 11 * counts.expert + counts.router + counts.shared);
  CHECK(counts.active_parameters == 3 * counts.expert + counts.router + counts.shared);
  CHECK(counts.macs_per_token == 11 * 5 + 3 * 3 * 5 * 7 + 3 * 5 * 13 + 5);
  const std::uint64_t expert = 7 + 7 + 5 + 7 + 7, shared = 13 + 13 + 13;
  CHECK(counts.elementwise_flops_per_token ==
        11 + 11 + 11 + 3 * expert + 3 * 5 + 2 * 5 + shared + 5 + (5 + 1));

  shape.gated_experts = shape.shared_gated = false;
  shape.biases.gate = false;
  const FfnCounts dense = count_ffn(shape);
  CHECK(dense.expert == 2 * 5 * 7 + 7 + 5);
  CHECK(dense.shared == 2 * 5 * 13 + 13 + 5);
  CHECK(dense.macs_per_token == 11 * 5 + 3 * 2 * 5 * 7 + 2 * 5 * 13 + 5);
}

TEST_CASE("one expert that is always chosen costs what it is, plus its router") {
  FfnShape shape = plain(FfnKind::moe, 17, 19);
  shape.n_experts = shape.top_k = 1;
  const FfnCounts moe = count_ffn(shape), gated = count_ffn(plain(FfnKind::gated, 17, 19));
  CHECK(moe.parameters == moe.active_parameters);
  CHECK(moe.parameters == gated.parameters + 17);
  CHECK(moe.macs_per_token == gated.macs_per_token + 17);
}

TEST_CASE("the shapes give what the layers hold") {
  for (const bool biases : {false, true}) {
    const SampleFfn sample(1, 29, 43, biases);
    CHECK(count_ffn(plain(FfnKind::dense, 29, 43, biases)).parameters ==
          sample.layer(Activation::relu).parameters());
    const std::vector<float> gate(43 * 29), gate_bias(biases ? 43 : 0);
    const DenseWeights dense = sample.weights();
    const GatedFfn gated({ConstMatrix(gate.data(), 43, 29), dense.up, dense.down, gate_bias,
                          dense.up_bias, dense.down_bias},
                         Activation::silu);
    CHECK(count_ffn(plain(FfnKind::gated, 29, 43, biases)).parameters == gated.parameters());
  }
}

TEST_CASE("a mixture's shape gives what the layer holds") {
  MoeSample moe(29, 43, 7, 19);
  moe.router_bias.assign(7, 0.5F);
  Routing routing;
  routing.top_k = 3;
  const MoeFfn layer = moe.layer(Activation::silu, routing);
  FfnShape shape = plain(FfnKind::moe, 29, 43);
  shape.biases = shape.shared_biases = {true, true, true};
  shape.n_experts = 7;
  shape.top_k = 3;
  shape.router_bias = true;
  shape.shared_d_ff = 19;
  shape.shared_gate = true;
  const FfnCounts counts = count_ffn(shape);
  CHECK(counts.parameters == layer.parameters());
  CHECK(counts.active_parameters == layer.active_parameters());
}

TEST_CASE("what cannot be counted is refused") {
  const auto refused = [](FfnShape shape, const std::string& part) {
    try {
      count_ffn(shape);
      FAIL("accepted: " << part);
    } catch (const Error& error) {
      CHECK(error.code == ErrorCode::invalid_argument);
      CHECK_MESSAGE(std::string(error.what()).find(part) != std::string::npos, error.what());
    }
  };
  refused(plain(FfnKind::dense, 0, 7), "d_model is 0");
  refused(plain(FfnKind::gated, 7, 0), "d_ff 0");
  refused(plain(FfnKind::gated, 1ULL << 32, 1ULL << 31), "64 bits");
  FfnShape shape = mixtral();
  shape.n_experts = 1ULL << 60;
  refused(shape, "64 bits");
  shape = mixtral();
  shape.top_k = 9;
  refused(shape, "top_k is 9, expected 1 to n_experts, which is 8");
  shape.top_k = 0;
  refused(shape, "top_k is 0");
  shape = mixtral();
  shape.gated_experts = false;
  shape.biases.gate = true;
  refused(shape, "gate bias");
  shape = mixtral();
  shape.shared_gate = true;
  refused(shape, "shared_d_ff");
  shape = plain(FfnKind::dense, 5, 7);
  shape.biases.gate = true;
  refused(shape, "gate bias");
  shape = plain(FfnKind::gated, 5, 7);
  shape.n_experts = 8;
  refused(shape, "a gated layer has no experts");
  shape = plain(FfnKind::dense, 5, 7);
  shape.shared_d_ff = 3;
  refused(shape, "kind moe");
}

TEST_CASE("the largest counts that fit are exact") {
  const FfnCounts counts = count_ffn(plain(FfnKind::dense, 1ULL << 31, 1ULL << 30));
  CHECK(counts.parameters == 1ULL << 62);
  CHECK(counts.backward_macs_per_token == 1ULL << 63);
}

}  // namespace
}  // namespace fourfold
