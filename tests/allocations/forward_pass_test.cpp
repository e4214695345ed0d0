// A forward pass after the first asks for no memory: blocks and encoders.
#include <doctest/doctest.h>

#include <vector>

#include "allocations/allocation_count.h"
#include "isa_check.h"
#include "layers/block_reference.h"
#include "models/bert.h"
#include "tiny_bert.h"

namespace fourfold {
namespace {

TEST_CASE("the instruction set asked for runs") { check_isa_asked_for(); }

TEST_CASE("the counter counts") {
  CHECK(count_allocations([] { const std::vector<float> some(3); }) == 1);
  CHECK(count_allocations([] {}) == 0);
  Runtime runtime({.count = 1});
  CHECK(count_allocations([&] { (void)Workspace(runtime).take(5); }) >= 2);
}

TEST_CASE("a second forward pass of a block, also with save") {
  const AttentionOptions encoder{3, 3, 7, false, std::nullopt, 0};
  const AttentionOptions decoder{4, 2, 6, true, RotaryOptions{1000, 4, RotaryStyle::half_split}, 0};
  for (const BlockOrder order :
       {BlockOrder::post_norm, BlockOrder::pre_norm, BlockOrder::sandwich, BlockOrder::parallel})
    for (const bool gated : {false, true})
      for (const AttentionOptions& options : {encoder, decoder}) {
        CAPTURE(static_cast<int>(order));
        CAPTURE(gated);
        BlockKind kind{order, gated};
        if (gated) kind.activation = Activation::silu;
        const BlockSample sample(kind, options, 21, 53);
        const TransformerBlock block = sample.block();
        Runtime runtime({.count = 2});
        Workspace workspace(runtime);
        std::vector<float> x = real_values(std::size_t{73} * 21, 3);
        const std::vector<std::size_t> lengths{67, 5, 1}, shorter{29, 1, 11};
        BlockSaved saved;
        const auto pass = [&](const std::vector<std::size_t>& which, std::size_t tokens,
                              BlockSaved* save) {
          block.forward({x.data(), tokens, 21}, which, workspace, nullptr, save);
        };
        CHECK(count_allocations([&] { pass(lengths, 73, nullptr); }) > 0);
        CHECK(count_allocations([&] { pass(lengths, 73, nullptr); }) == 0);
        CHECK(count_allocations([&] { pass(shorter, 41, nullptr); }) == 0);
        pass(lengths, 73, &saved);
        CHECK(count_allocations([&] { pass(lengths, 73, &saved); }) == 0);
      }
}

TEST_CASE("a second forward pass of an encoder") {
  const testing::TempFolder folder;
  testing::TinyBert{}.write(folder);
  const auto model = BertEncoder::load(SafetensorsFile::open(folder.path() + "/model.safetensors"),
                                       read_model_config(folder.path()));
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::vector<std::int32_t> ids{2, 5, 3, 2, 7, 9, 3, 2, 3};
  const std::vector<std::size_t> lengths{3, 4, 2};
  std::vector<float> hidden(ids.size() * 6);
  const auto pass = [&] {
    model.forward(ids, lengths, Matrix(hidden.data(), ids.size(), 6), workspace);
  };
  CHECK(count_allocations(pass) > 0);
  CHECK(count_allocations(pass) == 0);
}

}  // namespace
}  // namespace fourfold
