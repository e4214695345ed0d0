// Runs the mistakes. All numbers come from a fixed seed and, in the second run, from least squares
// in float64: min over W2 of sum |W2 h - target|^2.
#include "learn/mistakes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fourfold/error.h"
#include "fourfold/ffn.h"
#include "learn/question_random.h"

namespace fourfold {
namespace {

// In [-1, 1), exact in float32.
float unit(QuestionRandom& random) {
  return static_cast<float>(random.next() >> 41) * 0x1p-22F - 1.0F;
}

std::vector<float> random_values(QuestionRandom& random, std::size_t count, float scale) {
  std::vector<float> values(count);
  for (float& value : values) value = scale * unit(random);
  return values;
}

DenseFfn random_ffn(QuestionRandom& random, std::size_t d_model, std::size_t d_ff) {
  const auto up = random_values(random, d_ff * d_model, 1.0F);
  const auto down = random_values(random, d_model * d_ff, 0.5F);
  const auto up_bias = random_values(random, d_ff, 0.5F);
  const auto down_bias = random_values(random, d_model, 0.5F);
  return DenseFfn({ConstMatrix(up.data(), d_ff, d_model), ConstMatrix(down.data(), d_model, d_ff),
                   up_bias, down_bias},
                  Activation::relu);
}

using Tokens = FlattenedRun::Tokens;
constexpr std::size_t kTokens = FlattenedRun::kTokens, kModel = FlattenedRun::kModel;

// `rows` rows of the tokens' numbers: kTokens for the FFN, 1 for the flattened network.
Tokens run(const DenseFfn& ffn, const Tokens& x, std::size_t rows, Workspace& workspace) {
  Tokens y{};
  const std::size_t width = kTokens * kModel / rows;
  ffn.forward(ConstMatrix(x[0].data(), rows, width), Matrix(y[0].data(), rows, width), workspace);
  return y;
}

float largest_change(const Tokens& a, const Tokens& b, std::size_t tokens) {
  float most = 0;
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t i = 0; i < kModel; ++i) most = std::max(most, std::abs(a[t][i] - b[t][i]));
  return most;
}

// a: [n, n], symmetric and positive definite, is overwritten by its Cholesky factor L; b: [n,
// columns] becomes a^-1 b.
void solve(std::vector<double>& a, std::vector<double>& b, std::size_t n, std::size_t columns) {
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = j; i < n; ++i) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(sum) : sum / a[j * n + j];
    }
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) b[i * columns + c] -= a[i * n + k] * b[k * columns + c];
      b[i * columns + c] /= a[i * n + i];
    }
    for (std::size_t i = n; i-- > 0;) {
      for (std::size_t k = i + 1; k < n; ++k)
        b[i * columns + c] -= a[k * n + i] * b[k * columns + c];
      b[i * columns + c] /= a[i * n + i];
    }
  }
}

// How many directions the rows of y ([rows, cols], overwritten) span, by elimination with the
// largest pivot; what is below 1e-4 of the largest number is rounding.
std::size_t dimensions(std::vector<double> y, std::size_t rows, std::size_t cols) {
  double largest = 0;
  for (const double value : y) largest = std::max(largest, std::abs(value));
  std::size_t rank = 0;
  for (; rank < std::min(rows, cols); ++rank) {
    std::size_t pivot_row = rank, pivot_col = rank;
    for (std::size_t r = rank; r < rows; ++r)
      for (std::size_t c = rank; c < cols; ++c)
        if (std::abs(y[r * cols + c]) > std::abs(y[pivot_row * cols + pivot_col])) {
          pivot_row = r;
          pivot_col = c;
        }
    const double pivot = y[pivot_row * cols + pivot_col];
    if (std::abs(pivot) <= 1e-4 * largest) break;
    for (std::size_t c = 0; c < cols; ++c) std::swap(y[rank * cols + c], y[pivot_row * cols + c]);
    for (std::size_t r = 0; r < rows; ++r) std::swap(y[r * cols + rank], y[r * cols + pivot_col]);
    for (std::size_t r = rank + 1; r < rows; ++r) {
      const double factor = y[r * cols + rank] / pivot;
      for (std::size_t c = rank; c < cols; ++c) y[r * cols + c] -= factor * y[rank * cols + c];
    }
  }
  return rank;
}

constexpr std::size_t kWidth = 8, kSamples = 1024, kSeeds = 5;
constexpr std::array<std::size_t, 6> kWidths{4, 8, 16, 32, 64, 128};

// sin(2 x_i) + x_i x_(i+1) / 2, which no linear map can do: [tokens, kWidth].
std::vector<float> target_of(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (std::size_t t = 0; t < x.size() / kWidth; ++t)
    for (std::size_t i = 0; i < kWidth; ++i) {
      const float* token = x.data() + t * kWidth;
      y[t * kWidth + i] = std::sin(2.0F * token[i]) + token[i] * token[(i + 1) % kWidth] / 2;
    }
  return y;
}

struct Fit {
  double error;
  std::size_t dimensions;
  std::uint64_t parameters;
};

Fit fit_width(std::size_t d_ff, std::uint64_t seed, Workspace& workspace) {
  QuestionRandom random(seed);
  const auto train = random_values(random, kSamples * kWidth, 1.0F);
  const auto test = random_values(random, kSamples * kWidth, 1.0F);
  const auto up = random_values(random, d_ff * kWidth, 1.0F);
  const auto up_bias = random_values(random, d_ff, 1.0F);
  std::vector<float> down(kWidth * d_ff), down_bias(kWidth);
  const auto weights = [&] {
    return DenseWeights{ConstMatrix(up.data(), d_ff, kWidth),
                        ConstMatrix(down.data(), kWidth, d_ff), up_bias, down_bias};
  };
  DenseFfn ffn(weights(), Activation::relu);
  std::vector<float> y(kSamples * kWidth);
  const ConstMatrix train_rows(train.data(), kSamples, kWidth);
  DenseSaved saved;
  ffn.forward(train_rows, Matrix(y.data(), kSamples, kWidth), workspace, &saved);

  // Normal equations of the output layer; the last column of h is 1, for the bias.
  const std::size_t n = d_ff + 1;
  std::vector<double> gram(n * n, 0.0), right(n * kWidth, 0.0), h(n, 1.0);
  const auto wanted = target_of(train);
  for (std::size_t t = 0; t < kSamples; ++t) {
    const auto pre = saved.pre.view().row(t);
    for (std::size_t i = 0; i < d_ff; ++i) h[i] = std::max(static_cast<double>(pre[i]), 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) gram[i * n + j] += h[i] * h[j];
      for (std::size_t c = 0; c < kWidth; ++c)
        right[i * kWidth + c] += h[i] * static_cast<double>(wanted[t * kWidth + c]);
    }
  }
  for (std::size_t i = 0; i < n; ++i) gram[i * n + i] += 1e-3;
  solve(gram, right, n, kWidth);
  for (std::size_t c = 0; c < kWidth; ++c) {
    for (std::size_t i = 0; i < d_ff; ++i)
      down[c * d_ff + i] = static_cast<float>(right[i * kWidth + c]);
    down_bias[c] = static_cast<float>(right[d_ff * kWidth + c]);
  }

  ffn.set_weights(weights(), workspace);
  ffn.forward(ConstMatrix(test.data(), kSamples, kWidth), Matrix(y.data(), kSamples, kWidth),
              workspace);
  const auto truth = target_of(test);
  double missed = 0, whole = 0;
  std::vector<double> written(kSamples * kWidth);
  for (std::size_t i = 0; i < y.size(); ++i) {
    missed += std::pow(static_cast<double>(y[i]) - static_cast<double>(truth[i]), 2);
    whole += std::pow(static_cast<double>(truth[i]), 2);
    written[i] = static_cast<double>(y[i]) - static_cast<double>(down_bias[i % kWidth]);
  }
  return {std::sqrt(missed / whole), dimensions(std::move(written), kSamples, kWidth),
          ffn.parameters()};
}

}  // namespace

FlattenedRun run_flattened_mistake(Workspace& workspace) {
  FlattenedRun result;
  QuestionRandom random(4);
  const DenseFfn alone = random_ffn(random, kModel, 4 * kModel);
  const DenseFfn flat = random_ffn(random, kTokens * kModel, 4 * kTokens * kModel);
  result.alone_parameters = alone.parameters();
  result.flat_parameters = flat.parameters();
  for (auto& token : result.x)
    for (float& value : token) value = std::round(8.0F * unit(random)) / 4.0F;
  result.order = {2, 0, 1};

  Tokens shuffled{};
  for (std::size_t t = 0; t < kTokens; ++t) shuffled[t] = result.x[result.order[t]];
  const auto back = [&](const Tokens& y) {
    Tokens in_order{};
    for (std::size_t t = 0; t < kTokens; ++t) in_order[result.order[t]] = y[t];
    return in_order;
  };
  result.alone = run(alone, result.x, kTokens, workspace);
  result.alone_shuffled = back(run(alone, shuffled, kTokens, workspace));
  result.flat = run(flat, result.x, 1, workspace);
  result.flat_shuffled = back(run(flat, shuffled, 1, workspace));
  result.alone_shuffle_change = largest_change(result.alone, result.alone_shuffled, kTokens);
  result.flat_shuffle_change = largest_change(result.flat, result.flat_shuffled, kTokens);

  Tokens changed = result.x;
  for (float& value : changed[2]) value += 1.0F;
  result.alone_leak = largest_change(result.alone, run(alone, changed, kTokens, workspace), 1);
  result.flat_leak = largest_change(result.flat, run(flat, changed, 1, workspace), 1);

  std::array<float, (kTokens + 1) * kModel> longer{}, y{};
  try {
    flat.forward(ConstMatrix(longer.data(), 1, longer.size()), Matrix(y.data(), 1, y.size()),
                 workspace);
  } catch (const Error& error) {
    result.one_token_more = error.what();
  }
  return result;
}

RatioRun run_ratio_mistake(Workspace& workspace) {
  RatioRun result;
  result.d_model = kWidth;
  result.tokens = kSamples;
  result.seeds = kSeeds;
  for (const std::size_t d_ff : kWidths) {
    RatioRow row;
    row.ratio = static_cast<double>(d_ff) / static_cast<double>(kWidth);
    row.d_ff = d_ff;
    row.macs = 2 * kWidth * d_ff;
    row.layer_factor = (4 + 2 * row.ratio) / 12;
    row.least_error = 2;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const Fit fit = fit_width(d_ff, seed, workspace);
      row.error += fit.error / static_cast<double>(kSeeds);
      row.least_error = std::min(row.least_error, fit.error);
      row.most_error = std::max(row.most_error, fit.error);
      row.output_dimensions = std::max(row.output_dimensions, fit.dimensions);
      row.parameters = fit.parameters;
    }
    result.rows.push_back(row);
  }
  return result;
}

}  // namespace fourfold
