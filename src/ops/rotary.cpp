#include "ops/rotary.h"

#include <cmath>

#include "platform/thread_pool.h"

namespace fourfold {
namespace {

// One head. cosines, sines: [pairs]; the two values of pair i are x[i * kStep] and
// x[i * kStep + apart].
template <std::size_t kStep>
void turn_head(float* x, const float* cosines, const float* sines, std::size_t pairs,
               std::size_t apart, float sign) {
  for (std::size_t i = 0; i < pairs; ++i) {
    const float a = x[i * kStep], b = x[i * kStep + apart];
    const float sine = sign * sines[i];
    x[i * kStep] = a * cosines[i] - b * sine;
    x[i * kStep + apart] = b * cosines[i] + a * sine;
  }
}

}  // namespace

std::size_t rotary_width(const RotaryOptions& options, std::size_t head_dim) {
  return options.rotary_dim == 0 ? head_dim : options.rotary_dim;
}

void fill_rotary_table(const RotaryOptions& options, Matrix table, ThreadPool& pool) {
  const std::size_t pairs = table.cols / 2;
  pool.for_each(pairs, [&](std::size_t i, unsigned) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(table.cols);
    const double turn = std::pow(options.theta, exponent);
    for (std::size_t position = 0; position < table.rows; ++position) {
      const double angle = static_cast<double>(position) * turn;
      table.row(position)[i] = static_cast<float>(std::cos(angle));
      table.row(position)[pairs + i] = static_cast<float>(std::sin(angle));
    }
  });
}

void turn_heads(Matrix x, std::size_t n_heads, std::span<const std::size_t> sequence_lengths,
                ConstMatrix table, RotaryStyle style, Turn turn, ThreadPool& pool) {
  const std::size_t pairs = table.cols / 2, head_dim = x.cols / n_heads;
  const float sign = turn == Turn::forward ? 1.0F : -1.0F;
  pool.parallel([&](unsigned thread, unsigned threads) {
    std::size_t token = 0;
    const std::size_t first = x.rows * thread / threads, last = x.rows * (thread + 1) / threads;
    for (const std::size_t length : sequence_lengths) {
      for (std::size_t position = 0; position < length; ++position, ++token) {
        if (token < first || token >= last) continue;
        const float* angles = table.row(position).data();
        float* row = x.row(token).data();
        for (std::size_t head = 0; head < n_heads; ++head)
          if (style == RotaryStyle::half_split)
            turn_head<1>(row + head * head_dim, angles, angles + pairs, pairs, pairs, sign);
          else
            turn_head<2>(row + head * head_dim, angles, angles + pairs, pairs, 1, sign);
      }
    }
  });
}

}  // namespace fourfold
