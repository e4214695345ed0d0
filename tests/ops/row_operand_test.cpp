// Left operands as the kernels read them, and panels of tokens: where each value goes, in which
// type, and what is zero beside it.
#include "ops/row_operand.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "sample_values.h"

namespace fourfold {
namespace {

constexpr Dtype kTypes[] = {Dtype::f32, Dtype::bf16};
constexpr float kGuard = -77.25F;

// Value (row, k) of an operand; k may be the one after an odd last one.
float value_at(const RowOperand& x, std::size_t row, std::size_t k) {
  const void* data = x.rows_from(row, 1).data;
  if (x.stored == Dtype::bf16) return to_float({static_cast<const std::uint16_t*>(data)[k]});
  return static_cast<const float*>(data)[k];
}

// A value of a panel of tokens.
float value_at(const TokenPanels& panels, Dtype weight, std::size_t token, std::size_t column) {
  const auto* words = static_cast<const std::uint32_t*>(panels.panel(column / 64)) + column % 64;
  if (weight == Dtype::f32) return std::bit_cast<float>(words[token * 64]);
  const std::uint32_t word = words[token / 2 * 64];
  return to_float({static_cast<std::uint16_t>(token % 2 == 0 ? word : word >> 16)});
}

float in_type(float value, Dtype weight) {
  return weight == Dtype::bf16 ? round_to_bf16(value) : value;
}

TEST_CASE("rows stored whole or in parts hold their values in the type of the weight") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  for (const Dtype weight : kTypes)
    for (const std::size_t k : {1U, 2U, 7U, 63U, 64U, 65U, 131U, 512U, 1031U})
      for (const std::size_t part : {2U, 64U, 2048U}) {
        CAPTURE(std::string(dtype_name(weight)));
        CAPTURE(k);
        CAPTURE(part);
        const ScratchScope scope(workspace);
        const std::vector<float> x = real_values(7 * k, 11);
        const RowBuffer buffer(7, k, weight, workspace);
        CHECK_FALSE(buffer.empty());
        for (const std::size_t row : {6U, 3U, 0U})  // no order is asked for
          for (std::size_t first = 0; first < k; first += part)
            buffer.store(row, first,
                         {&x[row * k + first], std::min<std::size_t>(3, 7 - row),
                          std::min(part, k - first), k});
        const RowOperand operand = buffer.operand();
        CHECK(operand.rows == 7);
        CHECK(operand.k == k);
        CHECK(operand.weight == weight);
        const bool narrow = weight == Dtype::bf16 && runtime.isa() == "avx512_bf16";
        CHECK(operand.stored == (narrow ? Dtype::bf16 : Dtype::f32));
        CHECK(operand.row_bytes() % 64 == 0);
        std::size_t wrong = 0;
        for (std::size_t row = 0; row < 7; ++row) {
          for (std::size_t i = 0; i < k; ++i)
            wrong += !same_bits(value_at(operand, row, i), in_type(x[row * k + i], weight));
          if (weight == Dtype::bf16 && k % 2 == 1)
            wrong += !same_bits(value_at(operand, row, k), 0.0F);
        }
        CHECK(wrong == 0);
        const RowBuffer some = buffer.rows_from(2, 3);
        CHECK(some.operand().rows == 3);
        CHECK(some.operand().data == operand.rows_from(2, 3).data);
      }
}

TEST_CASE("a view of float32 rows is read where it lies") {
  const std::vector<float> x = real_values(5 * 11, 3);
  const ConstMatrix view(x.data(), 5, 7, 11);
  const RowOperand operand(view);
  for (std::size_t row = 0; row < 5; ++row)
    for (std::size_t i = 0; i < 7; ++i) CHECK(value_at(operand, row, i) == x[row * 11 + i]);
  CHECK(operand.rows_from(2, 3).rows == 3);
}

TEST_CASE("a copy is made to round, or for many rows at a distance that shares cache sets") {
  const auto view = [](std::size_t rows, std::size_t stride) {
    return ConstMatrix(nullptr, rows, 7, stride);
  };
  for (const std::size_t rows : {0U, 1U, 300U}) CHECK(needs_copy(view(rows, 7), Dtype::bf16));
  CHECK_FALSE(needs_copy(view(300, 7), Dtype::f32));
  CHECK_FALSE(needs_copy(view(1, 1024), Dtype::f32));
  CHECK(needs_copy(view(300, 1024), Dtype::f32));
}

TEST_CASE("panels of tokens: rows in the type of the weight, zeros beside them") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  for (const Dtype weight : kTypes)
    for (const std::size_t tokens : {1U, 2U, 13U, 64U, 129U})
      for (const std::size_t columns : {1U, 63U, 64U, 67U, 131U}) {
        CAPTURE(std::string(dtype_name(weight)));
        CAPTURE(tokens);
        CAPTURE(columns);
        const ScratchScope scope(workspace);
        const std::vector<float> x = real_values(tokens * (columns + 3), 17);
        const ConstMatrix view(x.data(), tokens, columns, columns + 3);
        const TokenPanels panels(tokens, columns, weight, workspace);
        REQUIRE(panels.panels() == (columns + 63) / 64);
        CHECK(panels.columns() == columns);
        constexpr std::size_t kPart = 6;  // even
        for (std::size_t p = 0; p < panels.panels(); ++p)
          for (std::size_t first = 0; first < tokens; first += kPart)
            panels.store(p, first,
                         view.rows_from(first, std::min(kPart, tokens - first))
                             .cols_from(p * 64, std::min<std::size_t>(64, columns - p * 64)));
        const std::size_t depth = weight == Dtype::bf16 ? (tokens + 1) / 2 * 2 : tokens;
        std::size_t wrong = 0;
        for (std::size_t t = 0; t < depth; ++t)
          for (std::size_t c = 0; c < panels.panels() * 64; ++c) {
            const bool inside = t < tokens && c < columns;
            const float expected = inside ? in_type(view.row(t)[c], weight) : 0.0F;
            wrong += !same_bits(value_at(panels, weight, t, c), expected);
          }
        CHECK(wrong == 0);
      }
}

TEST_CASE("a product of rows with a panel of tokens, in both types") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const std::size_t rows = 5, k = 13;
  const std::vector<float> a = whole_values(rows * k, 19, -9, 9);
  const std::vector<float> b = whole_values(k * 37, 23, -9, 9);
  for (const Dtype weight : kTypes) {
    const ScratchScope scope(workspace);
    const RowBuffer buffer(rows, k, weight, workspace);
    for (std::size_t row = 0; row < rows; ++row) buffer.store(row, 0, {&a[row * k], 1, k});
    const TokenPanels panels(k, 37, weight, workspace);
    panels.store(0, 0, {b.data(), k, 37});
    std::vector<float> sums(rows * 64 + 1, kGuard);
    for (const bool add : {false, true}) {
      panel_product(buffer.operand(), panels.panel(0), panels.panel(0), sums.data(), add);
      for (std::size_t i = 0; i < rows * 64; ++i) {
        float expected = 0;
        for (std::size_t l = 0; i % 64 < 37 && l < k; ++l)
          expected += a[i / 64 * k + l] * b[l * 37 + i % 64];
        CHECK(sums[i] == (add ? 2 * expected : expected));
      }
      CHECK(sums.back() == kGuard);
    }
  }
}

TEST_CASE("nothing was asked for: empty") {
  CHECK(RowBuffer().empty());
  CHECK(TokenPanels().empty());
  CHECK(TokenPanels().panels() == 0);
}

}  // namespace
}  // namespace fourfold
