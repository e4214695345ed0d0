// Embedding: both kinds of table, new values, and its errors.
#include "fourfold/embedding.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "error_check.h"
#include "sample_values.h"

namespace fourfold {
namespace {

TEST_CASE("lookups, sums, gradients and new values") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::vector<float> table = real_values(7 * 3, 3), other = real_values(7 * 3, 4);
  Embedding layer(ConstMatrix(table.data(), 7, 3));
  CHECK(layer.vocab_size() == 7);
  CHECK(layer.d_model() == 3);
  CHECK(layer.parameters() == 21);
  CHECK(layer.dtype() == Dtype::f32);
  const std::vector<std::int32_t> ids{6, 2, 6};
  std::vector<float> y(9, 1.0F);
  const Matrix rows(y.data(), 3, 3);
  layer.forward_add(ids, rows, workspace);
  CHECK(y[4] == 1.0F + table[2 * 3 + 1]);
  layer.forward(ids, rows, workspace);
  CHECK(same_bits({y.data() + 6, 3}, {table.data() + 18, 3}));
  std::vector<float> dtable(21);
  layer.backward(ids, rows, {dtable.data(), 7, 3}, workspace);
  CHECK(dtable[19] == y[1] + y[7]);
  CHECK(dtable[0] == 0.0F);
  layer.set_weights(ConstMatrix(other.data(), 7, 3));
  layer.forward(ids, rows, workspace);
  CHECK(same_bits({y.data() + 3, 3}, {other.data() + 6, 3}));
  CHECK(std::get<ConstMatrix>(layer.table()).row(2)[0] == other[6]);

  Embedding taken(std::vector<float>(table), 3);
  taken.forward(ids, rows, workspace);
  CHECK(same_bits({y.data() + 3, 3}, {table.data() + 6, 3}));
  layer.forward({}, {y.data(), 0, 3}, workspace);
}

TEST_CASE("a bf16 table is widened exactly and takes float32 values rounded") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  std::vector<Bf16> table;
  for (const float value : real_values(10, 3)) table.push_back(to_bf16(value));
  Embedding layer(ConstBf16Matrix(table.data(), 5, 2));
  CHECK(layer.dtype() == Dtype::bf16);
  std::vector<float> y(2);
  layer.forward(std::vector<std::int32_t>{4}, {y.data(), 1, 2}, workspace);
  CHECK(y[1] == to_float(table[9]));
  const std::vector<float> other = real_values(10, 5);
  layer.set_weights(ConstMatrix(other.data(), 5, 2));
  layer.forward(std::vector<std::int32_t>{4}, {y.data(), 1, 2}, workspace);
  CHECK(y[1] == round_to_bf16(other[9]));
}

TEST_CASE("ids outside the table and wrong shapes are errors, and nothing is written") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const auto bad = ErrorCode::invalid_argument, shape = ErrorCode::shape_mismatch;
  const std::vector<float> table = real_values(14, 3);
  Embedding layer(ConstMatrix(table.data(), 7, 2));
  std::vector<float> y(4, -77.25F);
  for (const std::int32_t id : {-1, 7, 2147483647, -2147483647 - 1}) {
    const std::vector<std::int32_t> ids{0, id};
    const std::string text = "id " + std::to_string(id) + " is outside the table of 7 rows";
    CHECK(code_of(text, [&] { layer.forward(ids, {y.data(), 2, 2}, workspace); }) == bad);
    CHECK(code_of(text, [&] { layer.forward_add(ids, {y.data(), 2, 2}, workspace); }) == bad);
    std::vector<float> dtable(14);
    CHECK(code_of(text, [&] {
            layer.backward(ids, {y.data(), 2, 2}, {dtable.data(), 7, 2}, workspace);
          }) == bad);
  }
  for (const float value : y) CHECK(value == -77.25F);
  const std::vector<std::int32_t> two{0, 1};
  CHECK(code_of("y is [2, 1], expected [2, 2]", [&] {
          layer.forward(two, {y.data(), 2, 1}, workspace);
        }) == shape);
  CHECK(code_of("dtable is [6, 2]", [&] {
          layer.backward(two, {y.data(), 2, 2}, {y.data(), 6, 2}, workspace);
        }) == shape);
  CHECK(code_of("table is [6, 2]", [&] { layer.set_weights(ConstMatrix(table.data(), 6, 2)); }) ==
        shape);
  std::vector<Bf16> narrow(14);
  CHECK(code_of("table is bf16",
                [&] { layer.set_weights(ConstBf16Matrix(narrow.data(), 7, 2)); }) == shape);
  CHECK(code_of("[0, 2]", [&] { Embedding(ConstMatrix(table.data(), 0, 2)); }) == bad);
  CHECK(code_of("multiple of d_model 3", [&] { Embedding(std::vector<float>(7), 3); }) == bad);
  CHECK(code_of("table is", [&] { Embedding(std::vector<float>(7), 0); }) == bad);
}

}  // namespace
}  // namespace fourfold
