// Gradients of weights and biases: exact on whole numbers, close to float64 on others, the same
// bits for any number of threads.
#include "ops/gemm_grad.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "sample_values.h"

namespace fourfold {
namespace {

struct Sizes {
  std::size_t tokens, out, in;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {3, 5, 7}, {29, 67, 131}, {131, 3, 65}, {2111, 17, 13}};

TEST_CASE("whole numbers: dw grows by dy^T x and db by the sum over tokens, exactly") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  for (const Sizes& size : kSizes) {
    CAPTURE(size.tokens);
    const auto dy = whole_values(size.tokens * (size.out + 2), 31, -5, 9);
    const auto x = whole_values(size.tokens * (size.in + 3), 37, -7, 4);
    auto dw = whole_values(size.out * (size.in + 1), 41, -99, 99),
         db = std::vector<float>(size.out);
    const auto before = dw;
    std::fill(db.begin(), db.end(), 3.0F);
    const ConstMatrix dy_view(dy.data(), size.tokens, size.out, size.out + 2);
    const ConstMatrix x_view(x.data(), size.tokens, size.in, size.in + 3);
    weight_gradient(dy_view, x_view, {dw.data(), size.out, size.in, size.in + 1}, workspace);
    bias_gradient(dy_view, {}, db, workspace);
    std::size_t wrong = 0;
    for (std::size_t n = 0; n < size.out; ++n) {
      double column = 3;
      for (std::size_t t = 0; t < size.tokens; ++t) column += dy_view.row(t)[n];
      wrong += db[n] != static_cast<float>(column);
      for (std::size_t k = 0; k < size.in; ++k) {
        double sum = before[n * (size.in + 1) + k];
        for (std::size_t t = 0; t < size.tokens; ++t)
          sum += static_cast<double>(dy_view.row(t)[n]) * static_cast<double>(x_view.row(t)[k]);
        wrong += dw[n * (size.in + 1) + k] != static_cast<float>(sum);
      }
      wrong += dw[n * (size.in + 1) + size.in] != before[n * (size.in + 1) + size.in];
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a bias gradient may weigh each token") {
  Runtime runtime({.count = 1});
  Workspace workspace(runtime);
  const std::vector<float> dy{1, 2, 3, 4, 5, 6}, scale{2, 0, -1};
  std::vector<float> db(2);
  bias_gradient({dy.data(), 3, 2}, scale, db, workspace);
  CHECK(db == std::vector<float>{2 - 5, 4 - 6});
}

TEST_CASE("threads do not change a bit; zero tokens change nothing") {
  const auto dy = real_values(2111 * 17, 43), x = real_values(2111 * 13, 47);
  std::vector<float> first, first_db;
  for (const unsigned threads : {1U, 2U, 7U}) {
    Runtime runtime({.count = threads});
    Workspace workspace(runtime);
    std::vector<float> dw(17 * 13, 0.5F), db(17, 0.5F);
    weight_gradient({dy.data(), 2111, 17}, {x.data(), 2111, 13}, {dw.data(), 17, 13}, workspace);
    bias_gradient({dy.data(), 2111, 17}, {}, db, workspace);
    if (first.empty()) first = dw, first_db = db;
    CHECK(same_bits(dw, first));
    CHECK(same_bits(db, first_db));
    weight_gradient({dy.data(), 0, 17}, {x.data(), 0, 13}, {dw.data(), 17, 13}, workspace);
    bias_gradient({dy.data(), 0, 17}, {}, db, workspace);
    CHECK(same_bits(dw, first));
    CHECK(same_bits(db, first_db));
  }
}

}  // namespace
}  // namespace fourfold
