// attention_backward against central differences of float64 attention.
#include "ops/attention_grad.h"

#include <doctest/doctest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "differences.h"
#include "reference_attention.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr std::size_t kHeads = 6, kKeyHeads = 2;
constexpr float kScale = 0.31F;

struct Gradients {
  std::vector<float> dq, dk, dv;
};

struct Problem {
  Problem(std::vector<std::size_t> lengths, std::size_t dim, bool with_mask)
      : sequence_lengths(std::move(lengths)),
        head_dim(dim),
        causal(with_mask),
        tokens(std::accumulate(sequence_lengths.begin(), sequence_lengths.end(), std::size_t{0})),
        q(real_values(tokens * kHeads * dim, 41, -1.9F, 2.3F)),
        k(real_values(tokens * kKeyHeads * dim, 42, -2.1F, 1.7F)),
        v(real_values(tokens * kKeyHeads * dim, 43)),
        dy(real_values(tokens * kHeads * dim, 44)) {}

  Gradients run(unsigned threads = 2) const {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    Gradients found{std::vector<float>(q.size(), -77.25F), std::vector<float>(k.size(), -77.25F),
                    std::vector<float>(v.size(), -77.25F)};
    const std::size_t wide = kHeads * head_dim, narrow = kKeyHeads * head_dim;
    attention_backward({q.data(), tokens, wide}, {k.data(), tokens, narrow},
                       {v.data(), tokens, narrow}, sequence_lengths,
                       {kHeads, kKeyHeads, kScale, causal}, {dy.data(), tokens, wide},
                       {found.dq.data(), tokens, wide}, {found.dk.data(), tokens, narrow},
                       {found.dv.data(), tokens, narrow}, workspace);
    return found;
  }

  std::vector<std::size_t> sequence_lengths;
  std::size_t head_dim;
  bool causal;
  std::size_t tokens;
  std::vector<float> q, k, v, dy;
};

// One sequence, analytically in float64: p and the gradients of scores row by row.
struct Exact {
  reference::Values dq, dk, dv;

  explicit Exact(const Problem& problem)
      : dq(problem.q.size()), dk(problem.k.size()), dv(problem.v.size()) {
    const std::size_t dim = problem.head_dim, wide = kHeads * dim, narrow = kKeyHeads * dim;
    const reference::Values q = reference::widened(problem.q), k = reference::widened(problem.k),
                            v = reference::widened(problem.v), dy = reference::widened(problem.dy);
    const double scale = static_cast<double>(kScale);
    for (std::size_t head = 0; head < kHeads; ++head)
      for (std::size_t i = 0; i < problem.tokens; ++i) {
        const std::size_t keys = problem.causal ? i + 1 : problem.tokens;
        const std::size_t at = i * wide + head * dim, kv = head / 3 * dim;
        reference::Values scores(keys), dp(keys);
        for (std::size_t j = 0; j < keys; ++j)
          for (std::size_t c = 0; c < dim; ++c) {
            scores[j] += scale * q[at + c] * k[j * narrow + kv + c];
            dp[j] += dy[at + c] * v[j * narrow + kv + c];
          }
        const reference::Values p = reference::softmax(scores);
        const double mean = reference::dot(p, dp);
        for (std::size_t j = 0; j < keys; ++j)
          for (std::size_t c = 0; c < dim; ++c) {
            const double slope = scale * p[j] * (dp[j] - mean);
            dq[at + c] += slope * k[j * narrow + kv + c];
            dk[j * narrow + kv + c] += slope * q[at + c];
            dv[j * narrow + kv + c] += p[j] * dy[at + c];
          }
      }
  }
};

TEST_CASE("small sequences against central differences") {
  for (const bool causal : {false, true}) {
    const Problem problem({7}, 5, causal);
    reference::Values q = reference::widened(problem.q), k = reference::widened(problem.k),
                      v = reference::widened(problem.v);
    const reference::Values dy = reference::widened(problem.dy);
    const auto loss = [&] {
      return reference::dot(
          dy, reference::attention(q, k, v, 7,
                                   {kHeads, kKeyHeads, 5, causal, static_cast<double>(kScale)}));
    };
    const Gradients found = problem.run();
    const Exact exact(problem);
    const auto check = [](const std::vector<float>& values, const reference::Values& slopes,
                          const reference::Values& analytic) {
      CHECK(reference::relative_difference(values, slopes) < 2e-6);
      for (std::size_t i = 0; i < slopes.size(); ++i)
        CHECK(std::fabs(analytic[i] - slopes[i]) < 1e-8);
    };
    check(found.dq, reference::differences(q, loss), exact.dq);
    check(found.dk, reference::differences(k, loss), exact.dk);
    check(found.dv, reference::differences(v, loss), exact.dv);
  }
}

TEST_CASE("sequences over several blocks, wide and narrow heads") {
  for (const bool causal : {false, true})
    for (const std::size_t tokens : {1U, 63U, 64U, 65U, 131U})
      for (const std::size_t head_dim : {5U, 67U}) {
        CAPTURE(causal);
        CAPTURE(tokens);
        CAPTURE(head_dim);
        const Problem problem({tokens}, head_dim, causal);
        const Exact exact(problem);
        const Gradients found = problem.run();
        CHECK(reference::relative_difference(found.dq, exact.dq) < 2e-5);
        CHECK(reference::relative_difference(found.dk, exact.dk) < 2e-5);
        CHECK(reference::relative_difference(found.dv, exact.dv) < 2e-5);
      }
}

TEST_CASE("threads change no bit; a sequence beside others has the bits it has alone") {
  for (const bool causal : {false, true}) {
    const Problem both({71, 0, 13}, 5, causal);
    const Gradients one = both.run(1);
    for (const unsigned threads : {2U, 7U}) {
      const Gradients found = both.run(threads);
      CHECK(same_bits(found.dq, one.dq));
      CHECK(same_bits(found.dk, one.dk));
      CHECK(same_bits(found.dv, one.dv));
    }
    Problem alone({71}, 5, causal);
    const auto start = [](std::vector<float>& to, const std::vector<float>& from) {
      std::copy_n(from.begin(), to.size(), to.begin());
    };
    start(alone.q, both.q);
    start(alone.k, both.k);
    start(alone.v, both.v);
    start(alone.dy, both.dy);
    const Gradients found = alone.run();
    CHECK(same_bits(found.dq, {one.dq.data(), found.dq.size()}));
    CHECK(same_bits(found.dk, {one.dk.data(), found.dk.size()}));
    CHECK(same_bits(found.dv, {one.dv.data(), found.dv.size()}));
  }
}

TEST_CASE("causal: NaN in an earlier token's gradient reaches no later key") {
  Problem problem({67}, 5, true);
  const Gradients calm = problem.run();
  for (const std::size_t token : {0U, 40U, 65U}) {
    Problem spoiled = problem;
    for (std::size_t c = 0; c < kHeads * 5; ++c)
      spoiled.dy[token * kHeads * 5 + c] = std::numeric_limits<float>::quiet_NaN();
    const Gradients found = spoiled.run();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.dv.size(); ++i) {
      const bool later = i / (kKeyHeads * 5) > token;
      wrong += later ? !same_bits(found.dv[i], calm.dv[i]) || !same_bits(found.dk[i], calm.dk[i])
                     : !std::isnan(found.dv[i]) || !std::isnan(found.dk[i]);
    }
    for (std::size_t i = 0; i < found.dq.size(); ++i)
      wrong += i / (kHeads * 5) == token ? !std::isnan(found.dq[i])
                                         : !same_bits(found.dq[i], calm.dq[i]);
    CHECK(wrong == 0);
  }
}

TEST_CASE("no tokens write nothing") { CHECK(Problem({0, 0}, 5, true).run().dq.empty()); }

}  // namespace
}  // namespace fourfold
