// Rotary tables and turns against complex numbers in float64.
#include "ops/rotary.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "reference_attention.h"
#include "sample_values.h"

namespace fourfold {
namespace {

using Lengths = std::vector<std::size_t>;

std::vector<float> turned(std::vector<float> x, std::size_t heads, const Lengths& lengths,
                          const RotaryOptions& options, Turn turn, unsigned threads = 2) {
  Runtime runtime({.count = threads});
  const std::size_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  const std::size_t width = tokens == 0 ? heads * 2 : x.size() / tokens;
  const std::size_t longest =
      lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  const std::size_t turning = rotary_width(options, width / heads);
  std::vector<float> table(longest * turning);
  const Matrix rows(table.data(), longest, turning);
  fill_rotary_table(options, rows, runtime.pool());
  turn_heads({x.data(), tokens, width}, heads, lengths, rows, options.style, turn, runtime.pool());
  return x;
}

TEST_CASE("both styles, whole and partial, several heads and sequences") {
  const std::size_t heads = 3, dim = 10;
  const Lengths lengths{7, 0, 1, 29};
  const std::vector<float> x = real_values(37 * heads * dim, 3);
  for (const RotaryStyle style : {RotaryStyle::half_split, RotaryStyle::interleaved})
    for (const std::size_t turning : {0U, 2U, 6U})
      for (const double theta : {10000.0, 500000.0, 97.0}) {
        const RotaryOptions options{theta, turning, style};
        const std::vector<float> found = turned(x, heads, lengths, options, Turn::forward);
        std::size_t first = 0;
        for (const std::size_t length : lengths) {
          const std::size_t from = first * heads * dim, count = length * heads * dim;
          const reference::Values expected = reference::rotated(
              reference::widened({x.data() + from, count}), heads, dim,
              turning == 0 ? dim : turning, theta, style == RotaryStyle::interleaved);
          // Two products, one sum and the rounded sine: a few eps of values up to 2.4.
          CHECK(reference::largest_difference({found.data() + from, count}, expected) < 1e-6);
          first += length;
        }
      }
}

TEST_CASE("angles are computed in float64: position 100000 keeps its digits") {
  Runtime runtime({.count = 1});
  std::vector<float> table(100001 * 2);
  fill_rotary_table({10000.0, 0, RotaryStyle::half_split}, {table.data(), 100001, 2},
                    runtime.pool());
  CHECK(std::fabs(static_cast<double>(table[200000]) - std::cos(100000.0)) < 6e-8);
  CHECK(std::fabs(static_cast<double>(table[200001]) - std::sin(100000.0)) < 6e-8);
}

TEST_CASE("position 0 keeps its bits, turning back undoes, threads change no bit") {
  const RotaryOptions options{10000, 6, RotaryStyle::half_split};
  const std::vector<float> x = real_values(13 * 2 * 8, 5);
  const std::vector<float> once = turned(x, 2, {13}, options, Turn::forward, 1);
  CHECK(same_bits({once.data(), 16}, {x.data(), 16}));
  CHECK_FALSE(same_bits({once.data() + 16, 16}, {x.data() + 16, 16}));
  for (const unsigned threads : {2U, 7U})
    CHECK(same_bits(turned(x, 2, {13}, options, Turn::forward, threads), once));
  const std::vector<float> back = turned(once, 2, {13}, options, Turn::back);
  CHECK(reference::largest_difference(back, reference::widened(x)) < 1e-6);
  // Values beyond rotary_dim are not touched.
  for (std::size_t head = 0; head < 26; ++head)
    CHECK(same_bits({once.data() + head * 8 + 6, 2}, {x.data() + head * 8 + 6, 2}));
  CHECK(turned({}, 2, {}, options, Turn::forward).empty());
}

}  // namespace
}  // namespace fourfold
