#include "fourfold/embedding.h"

#include <string>

#include "layers/shape_check.h"
#include "ops/embedding.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr const char* kWhere = "embedding";

void check_dimensions(std::size_t vocab_size, std::size_t d_model) {
  FOURFOLD_CHECK(
      vocab_size > 0 && d_model > 0, invalid_argument,
      "[embedding] table is " + shape_text(vocab_size, d_model) + "; both must be at least 1");
}

void check_ids(std::span<const std::int32_t> ids, std::size_t vocab_size) {
  for (const std::int32_t id : ids)
    FOURFOLD_CHECK(id >= 0 && static_cast<std::size_t>(id) < vocab_size, invalid_argument,
                   "[embedding] id " + std::to_string(id) + " is outside the table of " +
                       std::to_string(vocab_size) + " rows");
}

float as_f32(float value) { return value; }
float as_f32(Bf16 value) { return to_float(value); }

void store(float value, float& to) { to = value; }
void store(float value, Bf16& to) { to = to_bf16(value); }

template <class From, class To>
void copy_rows(MatrixView<const From> from, std::vector<To>& to) {
  for (std::size_t row = 0; row < from.rows; ++row)
    for (std::size_t c = 0; c < from.cols; ++c)
      store(as_f32(from.row(row)[c]), to[row * from.cols + c]);
}

}  // namespace

Embedding::Embedding(const Weight& table) : d_model_(weight_cols(table)) {
  check_dimensions(weight_rows(table), d_model_);
  if (weight_dtype(table) == Dtype::f32)
    table_ = std::vector<float>(weight_rows(table) * d_model_);
  else
    table_ = std::vector<Bf16>(weight_rows(table) * d_model_);
  set_weights(table);
}

Embedding::Embedding(std::vector<float>&& table, std::size_t d_model)
    : table_(std::move(table)), d_model_(d_model) {
  const std::size_t size = std::get<0>(table_).size();
  check_dimensions(size, d_model);
  FOURFOLD_CHECK(size % d_model == 0, invalid_argument,
                 "[embedding] table has " + std::to_string(size) +
                     " values, expected a multiple of d_model " + std::to_string(d_model));
}

void Embedding::forward(std::span<const std::int32_t> ids, Matrix y, Workspace& workspace) const {
  check_shape(kWhere, "y", y, ids.size(), d_model_);
  check_ids(ids, vocab_size());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  embedding_forward(ids, table(), false, y, workspace);
}

void Embedding::forward_add(std::span<const std::int32_t> ids, Matrix y,
                            Workspace& workspace) const {
  check_shape(kWhere, "y", y, ids.size(), d_model_);
  check_ids(ids, vocab_size());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  embedding_forward(ids, table(), true, y, workspace);
}

void Embedding::backward(std::span<const std::int32_t> ids, ConstMatrix dy, Matrix dtable,
                         Workspace& workspace) const {
  check_shape(kWhere, "dy", dy, ids.size(), d_model_);
  check_shape(kWhere, "dtable", dtable, vocab_size(), d_model_);
  check_ids(ids, vocab_size());
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  embedding_backward(ids, dy, dtable, workspace);
}

void Embedding::set_weights(const Weight& table) {
  FOURFOLD_CHECK(dtype() == Dtype::bf16 || weight_dtype(table) == Dtype::f32, shape_mismatch,
                 "[embedding] table is bf16, expected f32");
  std::visit(
      [&](const auto& from) {
        check_shape(kWhere, "table", from, vocab_size(), d_model_);
        std::visit([&](auto& to) { copy_rows(from, to); }, table_);
      },
      table);
}

std::size_t Embedding::vocab_size() const {
  return std::visit([](const auto& values) { return values.size(); }, table_) / d_model_;
}

Weight Embedding::table() const {
  return std::visit(
      [&](const auto& values) -> Weight {
        return MatrixView(values.data(), vocab_size(), d_model_);
      },
      table_);
}

}  // namespace fourfold
