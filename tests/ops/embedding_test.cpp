// Lookups and their gradient: plain loops give the very bits.
#include "ops/embedding.h"

#include <doctest/doctest.h>

#include <vector>

#include "sample_values.h"

namespace fourfold {
namespace {

TEST_CASE("rows are copied or added, from float32 and bf16 tables") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::size_t vocab = 11, d = 71;
  const std::vector<float> table = real_values(vocab * d, 3);
  std::vector<Bf16> narrow;
  for (const float value : table) narrow.push_back(to_bf16(value));
  const std::vector<std::int32_t> ids{7, 0, 10, 7, 3};
  std::vector<float> y(5 * d), z(5 * d);
  const Matrix y_rows(y.data(), 5, d), z_rows(z.data(), 5, d);
  embedding_forward(ids, ConstMatrix(table.data(), vocab, d), false, y_rows, workspace);
  embedding_forward(ids, ConstBf16Matrix(narrow.data(), vocab, d), false, z_rows, workspace);
  std::vector<float> sum = y;
  embedding_forward(ids, ConstMatrix(table.data(), vocab, d), true, {sum.data(), 5, d}, workspace);
  std::size_t wrong = 0;
  for (std::size_t t = 0; t < 5; ++t)
    for (std::size_t c = 0; c < d; ++c) {
      const float value = table[static_cast<std::size_t>(ids[t]) * d + c];
      wrong += !same_bits(y[t * d + c], value);
      wrong += !same_bits(z[t * d + c], round_to_bf16(value));
      wrong += !same_bits(sum[t * d + c], value + value);
    }
  CHECK(wrong == 0);
}

TEST_CASE("token, type and position rows add up in that order; positions start again") {
  const std::size_t d = 37;
  const std::vector<float> words = real_values(11 * d, 3), types = real_values(2 * d, 4),
                           positions = real_values(5 * d, 5);
  const std::vector<std::int32_t> ids{7, 0, 10, 7, 3, 1, 2, 9};
  const std::vector<std::size_t> lengths{3, 0, 5};
  std::vector<float> expected;
  for (std::size_t t = 0; t < ids.size(); ++t)
    for (std::size_t c = 0; c < d; ++c) {
      const float word = words[static_cast<std::size_t>(ids[t]) * d + c];
      expected.push_back((word + types[c]) + positions[(t < 3 ? t : t - 3) * d + c]);
    }
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    std::vector<float> y(ids.size() * d);
    embed_tokens(ids, lengths,
                 {ConstMatrix(words.data(), 11, d), ConstMatrix(types.data(), 2, d),
                  ConstMatrix(positions.data(), 5, d)},
                 {y.data(), ids.size(), d}, workspace);
    CHECK(same_bits(y, expected));
  }
}

TEST_CASE("gradients add up in the order of tokens, for any number of threads") {
  const std::size_t vocab = 5, d = 131, tokens = 67;
  std::vector<std::int32_t> ids;
  SampleValues source(9);
  for (std::size_t t = 0; t < tokens; ++t) ids.push_back(source.whole(0, 3));
  const std::vector<float> dy = real_values(tokens * d, 5), start = real_values(vocab * d, 7);
  std::vector<float> expected = start;
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t c = 0; c < d; ++c)
      expected[static_cast<std::size_t>(ids[t]) * d + c] += dy[t * d + c];
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    std::vector<float> dtable = start;
    embedding_backward(ids, {dy.data(), tokens, d}, {dtable.data(), vocab, d}, workspace);
    CHECK(same_bits(dtable, expected));
  }
}

}  // namespace
}  // namespace fourfold
