// The weights come from docs/tiny_example.md and, beyond its 8 units, from a small generator.
#include "learn/sample_machine.h"

#include <cmath>

namespace fourfold {
namespace {

constexpr std::size_t kWidth = kMachineWidth, kTinyUnits = 8;

// Tenths of the tiny example: rows of `up`, and columns of `down`.
constexpr std::array<int, kTinyUnits * kWidth> kTinyUp{5, 2,  -1, 3,  -3, 4,  6, -2, 1, -5, 3,
                                                       6, 7,  3,  -2, -4, -6, 8, 4,  1, 2,  -7,
                                                       5, -5, -4, 6,  -8, 9,  3, -1, 7, 4};
constexpr std::array<int, kTinyUnits> kTinyUpBias{1, -2, 3, -4, 5, -6, 7, -8};
constexpr std::array<int, kTinyUnits * kWidth> kTinyDown{2,  -4, 6,  1,  5, 3,  -2, 7, -3, 8, 4,
                                                         -5, 9,  -6, 1,  2, -1, 2,  7, 3,  4, 5,
                                                         -9, 6,  1,  -2, 3, 4,  6,  7, -8, -3};
constexpr std::array<int, kWidth> kTinyDownBias{1, 2, -1, -2};

constexpr std::array<std::array<float, kWidth>, kMachineTokens> kSentence{
    {{1, 0, -1, 2}, {0.5F, 1.5F, 0, -1}, {-1, 0.5F, 2, 0}, {0, -1.5F, 1, 0.5F}}};

float tenths(int count) { return static_cast<float>(count) / 10.0F; }

// A linear congruential generator (Numerical Recipes' constants); next() is one of -0.9 .. 0.9.
class Tenths {
 public:
  explicit Tenths(std::uint32_t seed) : state_(seed) {}
  float next() {
    state_ = state_ * 1664525U + 1013904223U;
    return tenths(static_cast<int>((state_ >> 16) % 19U) - 9);
  }
  std::vector<float> list(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = next();
    return values;
  }

 private:
  std::uint32_t state_;
};

template <std::size_t n>
void place(std::vector<float>& values, const std::array<int, n>& counts) {
  for (std::size_t i = 0; i < n; ++i) values[i] = tenths(counts[i]);
}

MachineWeights make_weights() {
  constexpr std::size_t units = kMachineExperts * kMachineUnits;
  Tenths tenth(4);
  MachineWeights weights;
  weights.up = tenth.list(units * kWidth);
  weights.gate = tenth.list(units * kWidth);
  weights.up_bias = tenth.list(units);
  weights.down = tenth.list(units * kWidth);
  weights.down_bias = tenth.list(kMachineExperts * kWidth);
  weights.router = tenth.list(kMachineExperts * kWidth);
  place(weights.up, kTinyUp);
  place(weights.up_bias, kTinyUpBias);
  place(weights.down, kTinyDown);
  place(weights.down_bias, kTinyDownBias);
  return weights;
}

ConstMatrix rows_of(const std::vector<float>& values, std::size_t first, std::size_t count) {
  return {values.data() + first * kWidth, count, kWidth};
}

// One expert's weights as the library takes them.
struct Expert {
  std::vector<float> down;  // [width, d_ff]
  GatedWeights gated;
  DenseWeights dense;

  Expert(std::size_t index, std::size_t d_ff) : down(kWidth * d_ff) {
    const MachineWeights& all = machine_weights();
    const std::size_t first = index * kMachineUnits;
    for (std::size_t unit = 0; unit < d_ff; ++unit)
      for (std::size_t j = 0; j < kWidth; ++j)
        down[j * d_ff + unit] = all.down[(first + unit) * kWidth + j];
    const ConstMatrix up = rows_of(all.up, first, d_ff);
    const ConstMatrix down_view(down.data(), kWidth, d_ff);
    const std::span<const float> up_bias(all.up_bias.data() + first, d_ff);
    const std::span<const float> down_bias(all.down_bias.data() + index * kWidth, kWidth);
    dense = {up, down_view, up_bias, down_bias};
    gated = {rows_of(all.gate, first, d_ff), up, down_view, {}, up_bias, down_bias};
  }
};

// Keeps the inner vectors of the only row.
class Recorder : public FfnObserver {
 public:
  explicit Recorder(ExpertNumbers& numbers) : numbers_(numbers) {}
  void observe(const FfnSample& sample, Workspace&) override {
    numbers_.pre = list(sample.pre);
    if (sample.up.rows > 0) numbers_.up = list(sample.up);
    numbers_.hidden = list(sample.hidden);
  }

 private:
  static std::vector<float> list(ConstMatrix rows) {
    return {rows.row(0).begin(), rows.row(0).end()};
  }
  ExpertNumbers& numbers_;
};

ExpertNumbers expert_numbers(const Expert& expert, std::size_t index, const MachineSetting& setting,
                             Workspace& workspace) {
  ExpertNumbers numbers;
  numbers.index = index;
  numbers.out.resize(kWidth);
  Recorder recorder(numbers);
  const ConstMatrix x(setting.x.data(), 1, kWidth);
  const Matrix out(numbers.out.data(), 1, kWidth);
  if (setting.gated)
    GatedFfn(expert.gated, setting.activation).forward(x, out, workspace, nullptr, &recorder);
  else
    DenseFfn(expert.dense, setting.activation).forward(x, out, workspace, nullptr, &recorder);
  return numbers;
}

void run_mixture(const std::vector<Expert>& experts, const MachineSetting& setting,
                 MachineNumbers& numbers, Workspace& workspace) {
  std::vector<DenseWeights> dense;
  std::vector<GatedWeights> gated;
  for (const Expert& expert : experts) {
    dense.push_back(expert.dense);
    gated.push_back(expert.gated);
  }
  MoeWeights weights;
  weights.router = rows_of(machine_weights().router, 0, setting.n_experts);
  if (setting.gated)
    weights.experts = std::span<const GatedWeights>(gated);
  else
    weights.experts = std::span<const DenseWeights>(dense);
  Routing routing;
  routing.top_k = static_cast<int>(setting.top_k);
  MoeSaved saved;
  MoeFfn(weights, setting.activation, routing)
      .forward(ConstMatrix(setting.x.data(), 1, kWidth), Matrix(numbers.y.data(), 1, kWidth),
               workspace, &saved);
  numbers.logits = saved.routing.logits;
  numbers.weights = saved.routing.weights;
  for (const std::uint32_t index : saved.routing.experts)
    numbers.experts.push_back(expert_numbers(experts[index], index, setting, workspace));
}

}  // namespace

const MachineWeights& machine_weights() {
  static const MachineWeights weights = make_weights();
  return weights;
}

MachineNumbers machine_numbers(const MachineSetting& setting, Workspace& workspace) {
  std::vector<Expert> experts;
  experts.reserve(setting.n_experts);
  for (std::size_t e = 0; e < setting.n_experts; ++e)
    experts.emplace_back(e, setting.ratio * kWidth);
  MachineNumbers numbers;
  numbers.y.resize(kWidth);
  if (setting.n_experts > 1) {
    run_mixture(experts, setting, numbers, workspace);
  } else {
    numbers.weights = {1};
    numbers.experts.push_back(expert_numbers(experts[0], 0, setting, workspace));
    numbers.y = numbers.experts[0].out;
  }
  numbers.sum.resize(kWidth);
  for (std::size_t j = 0; j < kWidth; ++j) numbers.sum[j] = setting.x[j] + numbers.y[j];
  numbers.normal.resize(kWidth);
  const std::vector<float> ones(kWidth, 1.0F), zeros(kWidth, 0.0F);
  LayerNorm(ones, zeros, kMachineEps)
      .forward(ConstMatrix(numbers.sum.data(), 1, kWidth), Matrix(numbers.normal.data(), 1, kWidth),
               workspace);
  return numbers;
}

SentenceNumbers sentence_numbers(const TokenOrder& order, Workspace& workspace) {
  constexpr std::size_t tokens = kMachineTokens, all = tokens * kWidth;
  SentenceNumbers numbers;
  numbers.x.reserve(all);
  for (const std::size_t token : order)
    for (const float value : kSentence[token]) numbers.x.push_back(value);
  numbers.attention.resize(all);
  numbers.ffn.resize(all);
  numbers.flattened.resize(all);
  const ConstMatrix x(numbers.x.data(), tokens, kWidth);

  std::vector<float> identity(kWidth * kWidth, 0.0F);
  for (std::size_t j = 0; j < kWidth; ++j) identity[j * kWidth + j] = 1;
  const Weight same = ConstMatrix(identity.data(), kWidth, kWidth);
  const std::vector<float> zeros(kWidth, 0.0F);
  const std::array<std::size_t, 1> lengths{tokens};
  MultiHeadAttention({same, same, same, same, zeros, zeros, zeros, zeros}, 1)
      .forward(x, lengths, Matrix(numbers.attention.data(), tokens, kWidth), workspace);

  const Expert layer(0, MachineSetting{}.ratio * kWidth);
  DenseFfn(layer.dense, Activation::relu)
      .forward(x, Matrix(numbers.ffn.data(), tokens, kWidth), workspace);

  const MachineWeights& weights = machine_weights();
  const ConstMatrix up(weights.up.data(), kFlattenedUnits, all);
  const ConstMatrix down(weights.down.data(), all, kFlattenedUnits);
  DenseFfn({up, down, {}, {}}, Activation::relu)
      .forward(ConstMatrix(numbers.x.data(), 1, all), Matrix(numbers.flattened.data(), 1, all),
               workspace);
  return numbers;
}

void join_lines(std::size_t n, std::span<const float> t, std::span<float> y, Workspace& workspace) {
  // Unit i starts to rise at knot i and adds the change of slope there.
  std::vector<float> up(n, 1.0F), up_bias(n), down(n);
  double slope_before = 0;
  const auto count = static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double left = static_cast<double>(i) / count, right = static_cast<double>(i + 1) / count;
    const double slope = (std::sin(5 * right) - std::sin(5 * left)) * count;
    up_bias[i] = static_cast<float>(-left);
    down[i] = static_cast<float>(slope - slope_before);
    slope_before = slope;
  }
  DenseFfn({ConstMatrix(up.data(), n, 1), ConstMatrix(down.data(), 1, n), up_bias, {}},
           Activation::relu)
      .forward(ConstMatrix(t.data(), t.size(), 1), Matrix(y.data(), y.size(), 1), workspace);
}

}  // namespace fourfold
