#include "fourfold/position.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "layers/sequence_check.h"
#include "layers/shape_check.h"
#include "ops/rotary.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

void turn_all(const RotaryOptions& options, Matrix x, std::size_t n_heads,
              std::span<const std::size_t> sequence_lengths, Turn turn, Workspace& workspace) {
  FOURFOLD_CHECK(n_heads > 0 && x.cols > 0 && x.cols % n_heads == 0, invalid_argument,
                 "[rotary] n_heads is " + std::to_string(n_heads) +
                     ", expected a divisor of the width " + std::to_string(x.cols));
  const std::size_t head_dim = x.cols / n_heads;
  check_rotary(options, head_dim);
  check_shape("rotary", "x", x, x.rows, x.cols);
  check_sequences("rotary", x.rows, sequence_lengths);
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const ScratchScope scratch(workspace);
  ThreadPool& pool = workspace.runtime().pool();
  const std::size_t longest = longest_sequence(sequence_lengths);
  const std::size_t width = rotary_width(options, head_dim);
  const Matrix table(workspace.take(longest * width), longest, width);
  fill_rotary_table(options, table, pool);
  turn_heads(x, n_heads, sequence_lengths, table, options.style, turn, pool);
}

}  // namespace

void fill_sinusoidal(Matrix table) {
  check_shape("sinusoidal", "table", table, table.rows, table.cols);
  for (std::size_t position = 0; position < table.rows; ++position) {
    const auto row = table.row(position);
    for (std::size_t c = 0; c < table.cols; ++c) {
      const double exponent = static_cast<double>(c - c % 2) / static_cast<double>(table.cols);
      const double angle = static_cast<double>(position) / std::pow(10000.0, exponent);
      row[c] = static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
}

void check_rotary(const RotaryOptions& options, std::size_t head_dim) {
  const std::size_t width = rotary_width(options, head_dim);
  FOURFOLD_CHECK(width >= 2 && width % 2 == 0 && width <= head_dim, invalid_argument,
                 "[rotary] rotary_dim is " + std::to_string(width) +
                     ", expected an even number from 2 to head_dim " + std::to_string(head_dim));
  FOURFOLD_CHECK(
      std::isfinite(options.theta) && options.theta > 0, invalid_argument,
      "[rotary] theta is " + std::to_string(options.theta) + ", expected a positive finite number");
}

void rotary_forward(const RotaryOptions& options, Matrix x, std::size_t n_heads,
                    std::span<const std::size_t> sequence_lengths, Workspace& workspace) {
  turn_all(options, x, n_heads, sequence_lengths, Turn::forward, workspace);
}

void rotary_backward(const RotaryOptions& options, Matrix dx, std::size_t n_heads,
                     std::span<const std::size_t> sequence_lengths, Workspace& workspace) {
  turn_all(options, dx, n_heads, sequence_lengths, Turn::back, workspace);
}

}  // namespace fourfold
