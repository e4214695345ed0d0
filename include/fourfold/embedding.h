// A table of vectors looked up by number: tokens, learned positions, token types.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

class Embedding {
 public:
  // Copies table: [vocab_size, d_model]. Throws Error{invalid_argument} for a dimension of 0.
  explicit Embedding(const Weight& table);
  // Takes over a table without gaps. Throws Error{invalid_argument} unless d_model divides it.
  Embedding(std::vector<float>&& table, std::size_t d_model);

  // y = table[ids]; ids: [tokens], y: [tokens, d_model]; bf16 values are widened exactly. Throws
  // Error{shape_mismatch}, Error{invalid_argument} for an id outside the table; y then stays.
  void forward(std::span<const std::int32_t> ids, Matrix y, Workspace& workspace) const;
  // y += table[ids].
  void forward_add(std::span<const std::int32_t> ids, Matrix y, Workspace& workspace) const;
  // dtable[id] += dy[t] over the tokens t of that id, in ascending order. dy: [tokens, d_model],
  // dtable: [vocab_size, d_model]. Throws as forward does.
  void backward(std::span<const std::int32_t> ids, ConstMatrix dy, Matrix dtable,
                Workspace& workspace) const;

  // New values of the same shape; float32 values are rounded when the table is bf16.
  void set_weights(const Weight& table);

  std::size_t vocab_size() const;
  std::size_t d_model() const { return d_model_; }
  Dtype dtype() const { return table_.index() == 0 ? Dtype::f32 : Dtype::bf16; }
  Weight table() const;  // [vocab_size, d_model], valid until the layer changes or goes
  std::uint64_t parameters() const { return vocab_size() * d_model_; }

 private:
  std::variant<std::vector<float>, std::vector<Bf16>> table_;
  std::size_t d_model_;
};

}  // namespace fourfold
