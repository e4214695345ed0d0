// attention_forward against naive float64 attention; sequences, heads and what a mask hides do not
// see each other.
#include "ops/attention_core.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "reference_attention.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr std::size_t kHeads = 3;
constexpr float kGuard = -77.25F;

HeadShape plain_heads(std::size_t head_dim, Dtype dtype = Dtype::f32) {
  return {kHeads, kHeads, static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim))), false,
          dtype};
}

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::bf16};

std::vector<float> in_type(std::vector<float> values, Dtype dtype) {
  if (dtype == Dtype::bf16)
    for (float& value : values) value = round_to_bf16(value);
  return values;
}

struct Problem {
  Problem(std::vector<std::size_t> lengths, std::size_t dim, std::uint64_t seed = 1)
      : sequence_lengths(std::move(lengths)),
        head_dim(dim),
        width(kHeads * dim),
        tokens(std::accumulate(sequence_lengths.begin(), sequence_lengths.end(), std::size_t{0})),
        q(real_values(tokens * width, seed * 3 + 1, -1.9F, 2.3F)),
        k(real_values(tokens * width, seed * 5 + 2, -2.1F, 1.7F)),
        v(real_values(tokens * width, seed * 7 + 3)) {}

  std::vector<float> run(unsigned threads = 2) const {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    std::vector<float> y(tokens * width, kGuard);
    attention_forward({q.data(), tokens, width}, {k.data(), tokens, width},
                      {v.data(), tokens, width}, sequence_lengths, plain_heads(head_dim, dtype),
                      {y.data(), tokens, width}, workspace);
    return y;
  }

  Dtype dtype = Dtype::f32;

  std::vector<std::size_t> sequence_lengths;
  std::size_t head_dim, width, tokens;
  std::vector<float> q, k, v;
};

TEST_CASE("one sequence against float64") {
  for (const std::size_t tokens : {1U, 2U, 63U, 64U, 65U, 131U})
    for (const std::size_t head_dim : {5U, 32U, 67U}) {
      CAPTURE(tokens);
      CAPTURE(head_dim);
      const Problem problem({tokens}, head_dim, tokens + head_dim);
      const auto expected =
          reference::attention(reference::widened(problem.q), reference::widened(problem.k),
                               reference::widened(problem.v), tokens, kHeads, head_dim);
      CHECK(reference::largest_difference(problem.run(), expected) < 1e-5);
    }
}

TEST_CASE("a head wider than one depth block") {
  const Problem problem({7}, 149);
  const auto expected =
      reference::attention(reference::widened(problem.q), reference::widened(problem.k),
                           reference::widened(problem.v), 7, kHeads, 149);
  CHECK(reference::largest_difference(problem.run(), expected) < 2e-5);
}

TEST_CASE("one token gets its own value row") {
  Problem problem({1}, 5);
  for (const Dtype dtype : kDtypes) {
    problem.dtype = dtype;
    CHECK(same_bits(problem.run(), in_type(problem.v, dtype)));
  }
}

TEST_CASE("bf16: queries, keys and values are rounded, and so are weights before their sum") {
  for (const std::size_t tokens : {1U, 2U, 23U, 64U, 131U})
    for (const std::size_t head_dim : {1U, 5U, 32U, 67U}) {
      CAPTURE(tokens);
      CAPTURE(head_dim);
      Problem problem({tokens}, head_dim, tokens + head_dim);
      problem.dtype = Dtype::bf16;
      const std::vector<float> y = problem.run();
      Problem rounded = problem;
      rounded.q = in_type(problem.q, Dtype::bf16);
      rounded.k = in_type(problem.k, Dtype::bf16);
      rounded.v = in_type(problem.v, Dtype::bf16);
      CHECK(same_bits(rounded.run(), y));
      const auto expected =
          reference::attention(reference::widened(rounded.q), reference::widened(rounded.k),
                               reference::widened(rounded.v), tokens, kHeads, head_dim);
      // A weight is off by 2^-9 of itself at most, as is the sum of them; values are below 1.
      CHECK(reference::largest_difference(y, expected) < 1.01 / 256);
      // Values of 1 show that weights add up to 1.
      std::fill(rounded.v.begin(), rounded.v.end(), 1.0F);
      for (const float one : rounded.run()) REQUIRE(std::fabs(one - 1.0F) < 2e-5F);
    }
}

TEST_CASE("sequences side by side equal each alone, bit for bit") {
  for (const Dtype dtype : kDtypes)
    for (const std::size_t head_dim : {5U, 32U, 67U}) {
      CAPTURE(head_dim);
      Problem both({17, 0, 71, 1}, head_dim, 9);
      both.dtype = dtype;
      const std::vector<float> together = both.run();
      std::size_t first = 0;
      for (const std::size_t length : both.sequence_lengths) {
        Problem alone({length}, head_dim);
        alone.dtype = dtype;
        const auto part = [&](const std::vector<float>& all) {
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * both.width);
          return std::vector<float>(begin,
                                    begin + static_cast<std::ptrdiff_t>(length * both.width));
        };
        alone.q = part(both.q);
        alone.k = part(both.k);
        alone.v = part(both.v);
        CAPTURE(length);
        CHECK(same_bits(alone.run(), part(together)));
        first += length;
      }
    }
}

TEST_CASE("the same bits for 1, 2 and 7 threads") {
  Problem problem({29, 67, 11}, 37);
  for (const Dtype dtype : kDtypes) {
    problem.dtype = dtype;
    const std::vector<float> one = problem.run(1);
    CHECK(same_bits(problem.run(2), one));
    CHECK(same_bits(problem.run(7), one));
  }
}

TEST_CASE("views into a wider matrix: the same bits, and nothing beside them is written") {
  const Problem problem({13, 5}, 7);
  const std::size_t width = problem.width, stride = 3 * width + 2;
  std::vector<float> wide(problem.tokens * stride, kGuard);
  for (std::size_t row = 0; row < problem.tokens; ++row) {
    float* to = wide.data() + row * stride;
    std::copy_n(problem.q.data() + row * width, width, to);
    std::copy_n(problem.k.data() + row * width, width, to + width);
    std::copy_n(problem.v.data() + row * width, width, to + 2 * width);
  }
  const ConstMatrix all(wide.data(), problem.tokens, 3 * width, stride);
  std::vector<float> y(problem.tokens * (width + 4), kGuard);
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  attention_forward(all.cols_from(0, width), all.cols_from(width, width),
                    all.cols_from(2 * width, width), problem.sequence_lengths, plain_heads(7),
                    {y.data(), problem.tokens, width, width + 4}, workspace);
  const std::vector<float> expected = problem.run();
  for (std::size_t row = 0; row < problem.tokens; ++row) {
    CHECK(same_bits({y.data() + row * (width + 4), width}, {expected.data() + row * width, width}));
    for (std::size_t i = width; i < width + 4; ++i) REQUIRE(y[row * (width + 4) + i] == kGuard);
  }
}

TEST_CASE("a NaN in one head of one sequence stays there") {
  Problem problem({5, 9}, 11);
  const std::vector<float> calm = problem.run();
  // Key of token 7 (second sequence), head 1: all tokens of that sequence read it.
  problem.k[7 * problem.width + 11 + 4] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = problem.run();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t token = i / problem.width, head = i % problem.width / 11;
    wrong += token >= 5 && head == 1 ? !std::isnan(y[i]) : !same_bits(y[i], calm[i]);
  }
  CHECK(wrong == 0);
}

TEST_CASE("large scores do not overflow: the strongest key takes all") {
  Problem problem({6}, 5);
  for (float& value : problem.q) value = 1e15F;
  for (std::size_t i = 0; i < problem.k.size(); ++i)
    problem.k[i] = i / problem.width == 4 ? 1e15F : -1e15F;
  const std::vector<float> y = problem.run();
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(y[i] == problem.v[4 * problem.width + i % problem.width]);
}

// Grouped heads with a causal mask: 6 heads read 2 key heads.
struct CausalProblem {
  static constexpr std::size_t kQueryHeads = 6, kKeyHeads = 2;

  CausalProblem(std::vector<std::size_t> lengths, std::size_t dim)
      : sequence_lengths(std::move(lengths)),
        head_dim(dim),
        tokens(std::accumulate(sequence_lengths.begin(), sequence_lengths.end(), std::size_t{0})),
        q(real_values(tokens * kQueryHeads * dim, 41, -1.9F, 2.3F)),
        k(real_values(tokens * kKeyHeads * dim, 42, -2.1F, 1.7F)),
        v(real_values(tokens * kKeyHeads * dim, 43)) {}

  std::size_t width() const { return kQueryHeads * head_dim; }
  std::vector<float> run(unsigned threads = 2) const {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    std::vector<float> y(tokens * width(), kGuard);
    const std::size_t narrow = kKeyHeads * head_dim;
    attention_forward({q.data(), tokens, width()}, {k.data(), tokens, narrow},
                      {v.data(), tokens, narrow}, sequence_lengths,
                      {kQueryHeads, kKeyHeads, 0.31F, causal, dtype}, {y.data(), tokens, width()},
                      workspace);
    return y;
  }
  // The first `count` tokens as one sequence.
  CausalProblem first(std::size_t count) const {
    CausalProblem part({count}, head_dim);
    part.dtype = dtype;
    std::copy_n(q.begin(), part.q.size(), part.q.begin());
    std::copy_n(k.begin(), part.k.size(), part.k.begin());
    std::copy_n(v.begin(), part.v.size(), part.v.begin());
    return part;
  }

  bool causal = true;
  Dtype dtype = Dtype::f32;
  std::vector<std::size_t> sequence_lengths;
  std::size_t head_dim, tokens;
  std::vector<float> q, k, v;
};

TEST_CASE("shared key heads and a causal mask against float64") {
  for (const bool causal : {true, false})
    for (const std::size_t tokens : {1U, 2U, 63U, 64U, 65U, 131U})
      for (const std::size_t head_dim : {5U, 67U}) {
        CAPTURE(causal);
        CAPTURE(tokens);
        CAPTURE(head_dim);
        CausalProblem problem({tokens}, head_dim);
        problem.causal = causal;
        for (auto* values : {&problem.q, &problem.k, &problem.v})
          for (float& value : *values) value = round_to_bf16(value);
        const auto expected =
            reference::attention(reference::widened(problem.q), reference::widened(problem.k),
                                 reference::widened(problem.v), tokens,
                                 {6, 2, head_dim, causal, static_cast<double>(0.31F)});
        CHECK(reference::largest_difference(problem.run(), expected) < 2e-5);
        // Each weight is rounded by up to 2^-9, and their sum is that of the rounded ones.
        problem.dtype = Dtype::bf16;
        CHECK(reference::largest_difference(problem.run(), expected) < 1.01 / 256);
      }
}

TEST_CASE("causal: the start of a sequence has the bits of that start alone") {
  CausalProblem whole({197}, 37);
  for (const Dtype dtype : kDtypes) {
    whole.dtype = dtype;
    const std::vector<float> y = whole.run();
    for (const std::size_t count : {1U, 2U, 31U, 63U, 64U, 65U, 127U, 128U, 129U, 196U}) {
      CAPTURE(count);
      CHECK(same_bits(whole.first(count).run(), {y.data(), count * whole.width()}));
    }
  }
}

TEST_CASE("causal: sequences side by side equal each alone; threads change no bit") {
  CausalProblem both({71, 0, 13}, 5);
  for (const Dtype dtype : kDtypes) {
    both.dtype = dtype;
    const std::vector<float> y = both.run(1);
    for (const unsigned threads : {2U, 7U}) CHECK(same_bits(both.run(threads), y));
    CHECK(same_bits(both.first(71).run(), {y.data(), 71 * both.width()}));
  }
}

TEST_CASE("causal: NaN and infinity in a later token reach no earlier one") {
  for (const Dtype dtype : kDtypes)
    for (const float special :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
      for (const std::size_t token : {1U, 40U, 41U, 64U, 66U}) {
        CausalProblem problem({67}, 7);
        problem.dtype = dtype;
        const std::vector<float> calm = problem.run();
        for (std::size_t c = 0; c < 7; ++c) {
          problem.q[token * 42 + c] = special;
          problem.k[token * 14 + c] = special;
          problem.v[token * 14 + c] = special;
        }
        const std::vector<float> y = problem.run();
        CHECK(same_bits({y.data(), token * 42}, {calm.data(), token * 42}));
        // Its own row, in the heads that read key head 0, and what follows.
        for (std::size_t c = 0; c < 3 * 7; ++c) CHECK(std::isnan(y[token * 42 + c]));
        CHECK(std::isnan(y[66 * 42]));
        // Key head 1 is calm.
        CHECK(same_bits({y.data() + 66 * 42 + 21, 21}, {calm.data() + 66 * 42 + 21, 21}));
      }
}

TEST_CASE("no sequences, or only empty ones, write nothing") {
  CHECK(Problem({}, 5).run().empty());
  CHECK(Problem({0, 0}, 5).run().empty());
}

}  // namespace
}  // namespace fourfold
