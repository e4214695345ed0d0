// Shape checks at the entry of every layer, with messages that name layer, matrix, found and
// expected.
#pragma once

#include <string>

#include "base/check.h"
#include "fourfold/matrix.h"

namespace fourfold {

inline std::string shape_text(std::size_t rows, std::size_t cols) {
  return "[" + std::to_string(rows) + ", " + std::to_string(cols) + "]";
}

// Throws Error{shape_mismatch} "[where] name is [a, b], expected [c, d]", also for a stride below
// the width.
template <class T>
void check_shape(const char* where, const char* name, MatrixView<T> matrix, std::size_t rows,
                 std::size_t cols) {
  FOURFOLD_CHECK(matrix.rows == rows && matrix.cols == cols, shape_mismatch,
                 std::string("[") + where + "] " + name + " is " +
                     shape_text(matrix.rows, matrix.cols) + ", expected " + shape_text(rows, cols));
  FOURFOLD_CHECK(rows < 2 || matrix.stride >= cols, shape_mismatch,
                 std::string("[") + where + "] " + name + " has stride " +
                     std::to_string(matrix.stride) + ", expected at least " + std::to_string(cols));
}

inline void check_length(const char* where, const char* name, std::size_t found,
                         std::size_t expected) {
  FOURFOLD_CHECK(found == expected, shape_mismatch,
                 std::string("[") + where + "] " + name + " has " + std::to_string(found) +
                     " values, expected " + std::to_string(expected));
}

}  // namespace fourfold
