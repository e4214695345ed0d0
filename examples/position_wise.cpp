// A feed-forward layer treats each position of a sequence alone: y[t] depends on x[t] only, through
// the same weights for every t. Shown here: what follows from that, and the classic mistake that
// breaks it. Exits with 1 when a claim does not hold.
#include <fourfold/fourfold.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace fourfold;
using Values = std::vector<float>;

constexpr std::size_t kTokens = 6, kModel = 5, kFf = 20;
bool all_hold = true;

void claim(const char* text, bool holds) {
  std::printf("%-6s %s\n", holds ? "yes" : "NO", text);
  all_hold = all_hold && holds;
}

// Made-up numbers between -0.5 and 0.5, always the same.
Values numbers(std::size_t count, unsigned seed) {
  Values values(count);
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(seed >> 8) / 16777216.0F - 0.5F;
  }
  return values;
}

bool same_bits(const float* a, const float* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

// up: [d_ff, d_model], down: [d_model, d_ff].
DenseFfn relu_layer(const Values& up, const Values& down, std::size_t d_model) {
  const std::size_t d_ff = up.size() / d_model;
  const ConstMatrix expand(up.data(), d_ff, d_model), contract(down.data(), d_model, d_ff);
  return DenseFfn({expand, contract, {}, {}}, Activation::relu);
}

// y: [tokens, d_model] of x: [tokens, d_model].
Values run(const DenseFfn& ffn, const Values& x, Workspace& workspace) {
  const std::size_t d = ffn.d_model(), tokens = x.size() / d;
  Values y(x.size());
  ffn.forward(ConstMatrix(x.data(), tokens, d), Matrix(y.data(), tokens, d), workspace);
  return y;
}

// A convolution of width 1 slides along the sequence and mixes channels, never positions.
// signal: [kTokens, in], kernel: [out, in].
Values convolve(const Values& signal, const Values& kernel, std::size_t in, std::size_t out) {
  Values result(kTokens * out);
  for (std::size_t i = 0; i < result.size(); ++i)
    for (std::size_t c = 0; c < in; ++c)
      result[i] += kernel[i % out * in + c] * signal[i / out * in + c];
  return result;
}

// Whose results move with token `changed`: where its column of the Jacobian is not 0.
std::vector<bool> tokens_reached(const DenseFfn& ffn, Values x, std::size_t changed,
                                 Workspace& workspace) {
  const Values before = run(ffn, x, workspace);
  for (std::size_t c = 0; c < kModel; ++c) x[changed * kModel + c] += 0.25F;
  const Values after = run(ffn, x, workspace);
  std::vector<bool> reached;
  for (std::size_t i = 0; i < x.size(); i += kModel)
    reached.push_back(!same_bits(&before[i], &after[i], kModel));
  return reached;
}

int main() {
  Runtime runtime;
  Workspace workspace(runtime);
  const Values x = numbers(kTokens * kModel, 1);
  const Values up = numbers(kFf * kModel, 2), down = numbers(kModel * kFf, 3);
  const DenseFfn ffn = relu_layer(up, down, kModel);
  const Values y = run(ffn, x, workspace);
  std::printf("One FFN (%zu -> %zu with ReLU -> back) over %zu tokens\n\n", kModel, kFf, kTokens);

  bool rows_agree = true;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const Values alone = run(ffn, {&x[t * kModel], &x[t * kModel] + kModel}, workspace);
    rows_agree &= same_bits(alone.data(), &y[t * kModel], kModel);
  }
  claim("a batch is the stack of its rows: each token alone gives the same bits", rows_agree);

  Values hidden = convolve(x, up, kModel, kFf);
  activate(Activation::relu, hidden, hidden);
  const Values convolved = convolve(hidden, down, kFf, kModel);
  bool close = true;
  for (std::size_t i = 0; i < y.size(); ++i) close &= std::fabs(y[i] - convolved[i]) < 1e-6F;
  claim("it is two 1x1 convolutions over the sequence, up to rounding", close);
  Values reversed(x.size()), y_reversed(y.size());
  for (std::size_t t = 0; t < kTokens; ++t) {
    std::copy_n(&x[t * kModel], kModel, &reversed[(kTokens - 1 - t) * kModel]);
    std::copy_n(&y[t * kModel], kModel, &y_reversed[(kTokens - 1 - t) * kModel]);
  }
  claim("reversed tokens give reversed results: it does not know the order",
        same_bits(run(ffn, reversed, workspace).data(), y_reversed.data(), y.size()));
  bool diagonal = true;
  for (std::size_t changed = 0; changed < kTokens; ++changed) {
    const std::vector<bool> reached = tokens_reached(ffn, x, changed, workspace);
    for (std::size_t t = 0; t < kTokens; ++t) diagonal &= reached[t] == (t == changed);
  }
  claim("changing one token changes no bit of another: dy[t]/dx[s] = 0 for t != s", diagonal);

  // The sequence as one long vector, as for an MLP over an image: good for this length alone.
  const std::size_t flat = kTokens * kModel, flat_ff = kTokens * kFf;
  const DenseFfn mixer = relu_layer(numbers(flat_ff * flat, 4), numbers(flat * flat_ff, 5), flat);
  std::printf("\nThe mistake, one MLP over the flattened sequence: %zu weights instead of %zu\n",
              2 * flat * flat_ff, 2 * kModel * kFf);
  const std::vector<bool> reached = tokens_reached(mixer, x, 0, workspace);
  claim("changing the first token changes every token: positions are mixed",
        std::count(reached.begin(), reached.end(), true) == kTokens);
  return all_hold ? 0 : 1;
}
