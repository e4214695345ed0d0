// Questions about the numbers that flow through a layer, small enough for paper: a hidden unit, a
// whole FFN, LayerNorm, router weights, expert loads, activations. The library computes each answer
// in float32.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "fourfold/activation.h"
#include "fourfold/ffn.h"
#include "fourfold/norm.h"
#include "learn/quiz_question.h"
#include "ops/expert_router.h"
#include "report/number_text.h"

namespace fourfold {
namespace {

using Numbers = std::vector<double>;

std::vector<float> floats(const Numbers& values) { return {values.begin(), values.end()}; }

// "-0.3" in brackets, so that sums read well.
std::string signed_text(double value) {
  return value < 0 ? fmt::format("({:g})", value) : fmt::format("{:g}", value);
}

std::string list_text(const Numbers& values) {
  std::string text = "[";
  for (const double value : values)
    text += fmt::format("{}{:g}", text.size() > 1 ? ", " : "", value);
  return text + "]";
}

// "2 * 0.5 + (-1) * 0.3"
std::string dot_text(const Numbers& a, const Numbers& b) {
  std::string text;
  for (std::size_t i = 0; i < a.size(); ++i)
    text += fmt::format("{}{} * {}", i > 0 ? " + " : "", signed_text(a[i]), signed_text(b[i]));
  return text;
}

Numbers whole_numbers(QuestionRandom& random, std::size_t count, int first, int last) {
  Numbers values(count);
  for (double& value : values) value = random.whole(first, last);
  return values;
}

Numbers tenths(QuestionRandom& random, std::size_t count) {
  Numbers values = whole_numbers(random, count, -9, 9);
  for (double& value : values) value /= 10;
  return values;
}

double activate_one(Activation activation, double x) {
  const float in = static_cast<float>(x);
  float out = 0;
  activate(activation, {&in, 1}, {&out, 1});
  return static_cast<double>(out) + 0.0;  // -0 reads as 0
}

// The activation written out at z.
std::string activation_text(Activation activation, double z, double value) {
  switch (activation) {
    case Activation::relu: return fmt::format("max({:g}, 0) = {:g}", z, value);
    case Activation::gelu_erf:
      return fmt::format("z Phi(z) = {:g} * {:.4f} = {:.4f}", z,
                         0.5 * std::erfc(-z / std::sqrt(2.0)), value);
    case Activation::silu:
      return fmt::format("z / (1 + e^-z) = {:g} / (1 + {:.4f}) = {:.4f}", z, std::exp(-z), value);
    default: return fmt::format("{:g}", value);
  }
}

const std::vector<Activation>& asked_activations() {
  static const std::vector<Activation> all{Activation::relu, Activation::gelu_erf,
                                           Activation::silu};
  return all;
}

QuizQuestion hidden_unit(QuestionRandom& random, Workspace&) {
  const std::size_t width = random.between(3, 4);
  const Numbers x = whole_numbers(random, width, -2, 3), w = tenths(random, width);
  const double bias = random.whole(-9, 9) / 10.0;
  const Activation activation = random.pick(asked_activations());
  const double pre =
      std::round(10 * std::inner_product(x.begin(), x.end(), w.begin(), bias)) / 10 + 0.0;
  QuizQuestion question;
  question.question = fmt::format(
      "One hidden unit has the weights w = {}, bias {:g} and the activation {}. What is its value "
      "h "
      "for x = {}, to three decimals?",
      list_text(w), bias, activation_name(activation), list_text(x));
  question.parameters = {
      {"x", x}, {"w", w}, {"bias", bias}, {"activation", std::string(activation_name(activation))}};
  question.answer = activate_one(activation, pre);
  question.tolerance = 0.001;
  question.decimals = 3;
  question.working = fmt::format("z = {} + {} = {:g}; h = {}.", dot_text(x, w), signed_text(bias),
                                 pre, activation_text(activation, pre, question.answer));
  question.sources = {"vaswani2017", activation == Activation::gelu_erf ? "hendrycks2016"
                                     : activation == Activation::silu   ? "elfwing2017"
                                                                        : "computed-no-activation"};
  return question;
}

QuizQuestion ffn_output(QuestionRandom& random, Workspace& workspace) {
  constexpr std::size_t kModel = 2, kFf = 3;
  Numbers x = whole_numbers(random, kModel, -3, 3);
  if (x[0] == 0 && x[1] == 0) x[0] = 1;
  const Numbers up = whole_numbers(random, kFf * kModel, -2, 2);    // [d_ff, d_model]
  const Numbers down = whole_numbers(random, kModel * kFf, -2, 2);  // [d_model, d_ff]
  const Numbers up_bias = whole_numbers(random, kFf, -2, 2);
  const Numbers down_bias = whole_numbers(random, kModel, -2, 2);
  const std::size_t index = random.between(0, kModel - 1);

  const std::vector<float> up_f = floats(up), down_f = floats(down), up_b = floats(up_bias),
                           down_b = floats(down_bias), x_f = floats(x);
  const DenseFfn ffn({ConstMatrix(up_f.data(), kFf, kModel),
                      ConstMatrix(down_f.data(), kModel, kFf), up_b, down_b},
                     Activation::relu);
  std::array<float, kModel> y{};
  DenseSaved saved;
  ffn.forward(ConstMatrix(x_f.data(), 1, kModel), Matrix(y.data(), 1, kModel), workspace, &saved);

  const auto row = [](const Numbers& matrix, std::size_t r, std::size_t cols) {
    const auto first = matrix.begin() + static_cast<std::ptrdiff_t>(r * cols);
    return Numbers(first, first + static_cast<std::ptrdiff_t>(cols));
  };
  const auto matrix_text = [&](const Numbers& matrix, std::size_t rows, std::size_t cols) {
    std::string text = "[";
    for (std::size_t r = 0; r < rows; ++r)
      text += (r > 0 ? ", " : "") + list_text(row(matrix, r, cols));
    return text + "]";
  };
  QuizQuestion question;
  question.question = fmt::format(
      "A ReLU FFN has W1 = {}, b1 = {}, W2 = {}, b2 = {} (a row is an output). What is y[{}], "
      "counting from 0, for x = {}?",
      matrix_text(up, kFf, kModel), list_text(up_bias), matrix_text(down, kModel, kFf),
      list_text(down_bias), index, list_text(x));
  question.parameters = {{"x", x},
                         {"up", up},
                         {"up_bias", up_bias},
                         {"down", down},
                         {"down_bias", down_bias},
                         {"index", index},
                         {"activation", std::string("relu")}};
  question.answer = static_cast<double>(y[index]) + 0.0;
  Numbers hidden;
  for (std::size_t i = 0; i < kFf; ++i) {
    const double pre = static_cast<double>(saved.pre.view().row(0)[i]) + 0.0;
    hidden.push_back(std::max(pre, 0.0));
    question.working +=
        fmt::format("h{} = max({} + {}, 0) = max({:g}, 0) = {:g}. ", i,
                    dot_text(x, row(up, i, kModel)), signed_text(up_bias[i]), pre, hidden.back());
  }
  question.working +=
      fmt::format("y[{}] = {} + {} = {:g}.", index, dot_text(hidden, row(down, index, kFf)),
                  signed_text(down_bias[index]), question.answer);
  question.sources = {"vaswani2017"};
  return question;
}

QuizQuestion layer_norm(QuestionRandom& random, Workspace& workspace) {
  const std::size_t width = random.between(3, 4);
  Numbers x;
  do x = whole_numbers(random, width, -6, 9);
  while (std::all_of(x.begin(), x.end(), [&](double value) { return value == x[0]; }));
  const std::size_t index = random.between(0, width - 1);
  constexpr float kEps = 1e-5F;
  const std::vector<float> gamma(width, 1.0F), beta(width, 0.0F), x_f = floats(x);
  std::vector<float> y(width);
  LayerNorm(gamma, beta, kEps)
      .forward(ConstMatrix(x_f.data(), 1, width), Matrix(y.data(), 1, width), workspace);

  const double count = static_cast<double>(width);
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / count;
  double variance = 0;
  for (const double value : x) variance += (value - mean) * (value - mean) / count;
  QuizQuestion question;
  question.question = fmt::format(
      "LayerNorm with gamma = 1, beta = 0 and eps = 0.00001 is applied to {}. What is number {} of "
      "the result, counting from 0, to three decimals?",
      list_text(x), index);
  question.parameters = {{"x", x}, {"eps", 1e-5}, {"index", index}};
  question.answer = static_cast<double>(y[index]) + 0.0;
  question.tolerance = 0.001;
  question.decimals = 3;
  question.working = fmt::format(
      "Mean {:.4f}; variance, the mean of the squared distances, {:.4f}; ({:g} - {}) / sqrt({:.4f} "
      "+ "
      "0.00001) = {:.4f}.",
      mean, variance, x[index],
      mean < 0 ? fmt::format("({:.4f})", mean) : fmt::format("{:.4f}", mean), variance,
      question.answer);
  question.sources = {"ba2016"};
  return question;
}

QuizQuestion router_weight(QuestionRandom& random, Workspace& workspace) {
  const std::size_t n_experts = random.between(3, 6);
  Numbers logits(n_experts);  // distinct, so that no tie decides
  for (std::size_t i = 0; i < n_experts; ++i) logits[i] = static_cast<double>(i);
  for (double& value : logits) value = (value * 4 + random.whole(0, 3) - 8) / 4;
  random.shuffle(logits);
  const std::size_t top_k = random.between(1, 2);
  const bool renormalize = top_k > 1 && random.coin();
  const std::size_t rank = random.between(0, top_k - 1);

  RoutingResult result;
  result.tokens = 1;
  result.n_experts = n_experts;
  result.top_k = top_k;
  result.logits = floats(logits);
  result.experts.resize(top_k);
  result.weights.resize(top_k);
  result.dropped.resize(top_k);
  Routing routing;
  routing.top_k = static_cast<int>(top_k);
  routing.renormalize = renormalize;
  choose_experts(routing, {}, result, workspace);

  QuizQuestion question;
  question.question = fmt::format(
      "A router gives the logits {}. Softmax over all experts, then the top {}{}. What is the "
      "weight "
      "of the {} expert, to three decimals?",
      list_text(logits), top_k,
      renormalize ? ", their weights divided by their sum"
                  : ", weights used as they are (not renormalised)",
      rank == 0 ? "best" : "second best");
  question.parameters = {
      {"logits", logits}, {"top_k", top_k}, {"renormalize", renormalize}, {"rank", rank}};
  question.answer = static_cast<double>(result.weights[rank]);
  question.tolerance = 0.001;
  question.decimals = 3;
  std::string terms;
  double sum = 0, chosen_sum = 0;
  for (const double logit : logits) {
    terms += fmt::format("{}{:.4f}", terms.empty() ? "" : " + ", std::exp(logit));
    sum += std::exp(logit);
  }
  const auto power = [&](std::size_t choice) { return std::exp(logits[result.experts[choice]]); };
  for (std::size_t choice = 0; choice < top_k; ++choice) chosen_sum += power(choice);
  question.working =
      fmt::format("e^logit: {} = {:.4f}. Expert {} (counting from 0): {:.4f} / {:.4f} = {:.4f}.",
                  terms, sum, result.experts[rank], power(rank), sum, power(rank) / sum);
  if (renormalize)
    question.working +=
        fmt::format(" Divided by the sum of the chosen, {:.4f} / {:.4f} = {:.4f}, it is {:.4f}.",
                    chosen_sum, sum, chosen_sum / sum, question.answer);
  question.sources = {"shazeer2017", "fedus2021"};
  return question;
}

QuizQuestion expert_balance(QuestionRandom& random, Workspace&) {
  const std::size_t n_experts = random.between(3, 6);
  RouterLoad load;
  Numbers counts;
  std::uint64_t total = 0;
  for (std::size_t e = 0; e < n_experts; ++e) {
    load.load.push_back(random.between(e == 0 ? 1 : 0, 40));
    counts.push_back(static_cast<double>(load.load.back()));
    total += load.load.back();
  }
  load.tokens = total;  // one choice each
  const bool entropy = random.coin();
  QuizQuestion question;
  question.question = fmt::format(
      "A router sent {} tokens to its {} experts, in this order. {}, to three decimals?",
      list_text(counts), n_experts,
      entropy ? "What is the entropy of the load, -sum p ln p / ln n_experts (1 = even)"
              : "What is the largest load divided by the mean load (1 = even)");
  question.parameters = {{"load", counts},
                         {"measure", std::string(entropy ? "entropy" : "max_over_mean")}};
  question.answer = entropy ? load.entropy() + 0.0 : load.max_over_mean();
  question.tolerance = 0.001;
  question.decimals = 3;
  if (entropy) {
    std::string terms;
    double sum = 0;
    for (const double count : counts) {
      if (count == 0) continue;
      const double p = count / static_cast<double>(total);
      terms += fmt::format("{}{:.4f} * {:.4f}", terms.empty() ? "" : " + ", p, -std::log(p) + 0.0);
      sum -= p * std::log(p);
    }
    question.working = fmt::format(
        "p = count / {}; p * (-ln p), experts without tokens adding 0: {} = {:.4f}; divided by ln "
        "{} = {:.4f}: {:.4f}.",
        total, terms, sum + 0.0, n_experts, std::log(static_cast<double>(n_experts)),
        question.answer);
  } else {
    question.working =
        fmt::format("Mean {} / {} = {:.4f}; {:g} / {:.4f} = {:.4f}.", total, n_experts,
                    static_cast<double>(total) / static_cast<double>(n_experts),
                    *std::max_element(counts.begin(), counts.end()),
                    static_cast<double>(total) / static_cast<double>(n_experts), question.answer);
  }
  question.sources = {"fedus2021"};
  return question;
}

QuizQuestion which_activation(QuestionRandom& random, Workspace&) {
  std::vector<Activation> all{Activation::identity, Activation::relu, Activation::gelu_erf,
                              Activation::silu};
  const Activation asked = random.pick(all);
  // The negative x tells all four apart at four decimals.
  Numbers x{-0.25 * random.whole(2, 12), 0.25 * random.whole(1, 12), 0.25 * random.whole(-12, 12)};
  random.shuffle(x);
  random.shuffle(all);
  Numbers y;
  std::string pairs;
  for (const double one : x) {
    y.push_back(std::round(1e4 * activate_one(asked, one)) / 1e4 + 0.0);
    pairs += fmt::format("{}f({:g}) = {:.4f}", pairs.empty() ? "" : ", ", one, y.back());
  }
  QuizQuestion question;
  question.question = "Which activation is this: " + pairs + "?";
  question.parameters = {{"x", x}, {"y", y}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    question.options.emplace_back(activation_name(all[i]));
    if (all[i] == asked) question.answer = static_cast<double>(i);
  }
  const auto negative = static_cast<std::size_t>(std::min_element(x.begin(), x.end()) - x.begin());
  question.working = fmt::format("At {:g}:", x[negative]);
  for (const Activation one : all)
    question.working += fmt::format("{} {} gives {:.4f}", one == all[0] ? "" : ",",
                                    activation_name(one), activate_one(one, x[negative]));
  question.working += fmt::format("; the value here is {:.4f}.", y[negative]);
  question.sources = {"hendrycks2016", "elfwing2017"};
  return question;
}

constexpr std::array<QuestionKind, 6> kKinds{{{"hidden_unit", hidden_unit},
                                              {"ffn_output", ffn_output},
                                              {"layer_norm", layer_norm},
                                              {"router_weight", router_weight},
                                              {"expert_balance", expert_balance},
                                              {"which_activation", which_activation}}};

}  // namespace

std::span<const QuestionKind> value_questions() { return kKinds; }

}  // namespace fourfold
