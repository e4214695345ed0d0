// Where float32 and bf16 layers round, forward and backward, as docs/numerics.md lists it: every
// bit against plain loops. Relu keeps the loops free of any activation of ours.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "dot_bf16.h"
#include "layers/layer_samples.h"

namespace fourfold {
namespace {

using Values = std::vector<float>;
constexpr std::size_t kModel = 29, kFf = 71;

// Sums as each instruction set makes them: float32 products are added in one rounding, or in two;
// bf16 as dot_bf16.h has it.
struct Loops {
  Bf16Steps steps;
  bool bf16;

  Loops(const Runtime& runtime, Dtype dtype)
      : steps(bf16_steps(runtime.isa())), bf16(dtype == Dtype::bf16) {}

  template <class A, class B>
  float sum(float start, std::size_t count, const A& a, const B& b) const {
    const bool alone = !bf16 && steps == Bf16Steps::pairs;  // float32 does not go in pairs
    return bf16_sum(alone ? Bf16Steps::fused : steps, start, count, a, b);
  }
  Values in_type(Values values) const {
    if (bf16)
      for (float& value : values) value = round_to_bf16(value);
    return values;
  }
  // y: [m, n] += x: [m, k] times w: [n, k] transposed, k ascending.
  void add_product(const Values& x, const Values& w, std::size_t n, std::size_t k,
                   Values& y) const {
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float *row = &x[i / n * k], *weights = &w[i % n * k];
      y[i] = sum(
          y[i], k, [&](std::size_t l) { return row[l]; },
          [&](std::size_t l) { return weights[l]; });
    }
  }
  Values product(const Values& x, const Values& w, std::size_t n, std::size_t k) const {
    Values y(x.size() / k * n);
    add_product(x, w, n, k, y);
    return y;
  }
  // [out, in] = dy: [tokens, out] transposed times x: [tokens, in], in pieces of 2048 tokens.
  Values weight_gradient(const Values& dy, const Values& x, std::size_t out, std::size_t in) const {
    Values total(out * in);
    const std::size_t tokens = x.size() / in;
    for (std::size_t first = 0; first < tokens; first += 2048)
      for (std::size_t i = 0; i < total.size(); ++i)
        total[i] += sum(
            0, std::min<std::size_t>(2048, tokens - first),
            [&](std::size_t t) { return dy[(first + t) * out + i / in]; },
            [&](std::size_t t) { return x[(first + t) * in + i % in]; });
    return total;
  }
};

Values transposed(const Values& w, std::size_t rows, std::size_t cols) {
  Values result(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) result[i % cols * rows + i / cols] = w[i];
  return result;
}

Values column_sums(const Values& values, std::size_t cols) {
  Values total(cols);
  for (std::size_t first = 0; first < values.size(); first += 2048 * cols) {
    Values sums(cols);
    for (std::size_t i = first; i < std::min(first + 2048 * cols, values.size()); ++i)
      sums[i % cols] += values[i];
    for (std::size_t i = 0; i < cols; ++i) total[i] += sums[i];
  }
  return total;
}

void add_bias(Values& values, const Values& bias) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += bias[i % bias.size()];
}

// The weights of an expert in the layer's type, for both the layer and the loops.
struct TypedExpert {
  SampleExpert wide;
  std::vector<Bf16> gate, up, down;
  bool bf16;

  TypedExpert(const SampleExpert& sample, Dtype dtype) : wide(sample), bf16(dtype == Dtype::bf16) {
    if (!bf16) return;
    for (auto* one : {&wide.gate, &wide.up, &wide.down})
      for (float& value : *one) value = round_to_bf16(value);
    const auto narrow = [](const Values& from, std::vector<Bf16>& to) {
      for (const float value : from) to.push_back(to_bf16(value));
    };
    narrow(wide.gate, gate);
    narrow(wide.up, up);
    narrow(wide.down, down);
  }
  GatedWeights gated() const {
    GatedWeights result = wide.gated();
    if (!bf16) return result;
    result.gate = ConstBf16Matrix(gate.data(), wide.d_ff, wide.d_model);
    result.up = ConstBf16Matrix(up.data(), wide.d_ff, wide.d_model);
    result.down = ConstBf16Matrix(down.data(), wide.d_model, wide.d_ff);
    return result;
  }
  DenseWeights dense() const {
    const GatedWeights all = gated();
    return {all.up, all.down, all.up_bias, all.down_bias};
  }
};

struct Inner {
  Values gate, up, hidden;  // before any rounding of hidden
};

Inner expand(const Loops& loops, const SampleExpert& weights, const Values& x, bool gated) {
  Inner inner;
  const Values x_in = loops.in_type(x);
  inner.up = loops.product(x_in, weights.up, weights.d_ff, weights.d_model);
  add_bias(inner.up, weights.up_bias);
  const auto relu = [](float value) { return value > 0 ? value : 0.0F; };
  if (gated) {
    inner.gate = loops.product(x_in, weights.gate, weights.d_ff, weights.d_model);
    add_bias(inner.gate, weights.gate_bias);
  }
  for (std::size_t i = 0; i < inner.up.size(); ++i)
    inner.hidden.push_back(gated ? relu(inner.gate[i]) * inner.up[i] : relu(inner.up[i]));
  return inner;
}

// For both types and both kinds.
void for_each_layer(const std::function<void(Dtype, bool gated)>& check) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const bool gated : {false, true}) {
      CAPTURE(std::string(dtype_name(dtype)));
      CAPTURE(gated);
      check(dtype, gated);
    }
}

TEST_CASE("forward: x rounded, float32 sums and biases, hidden rounded once, y not") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const Values x = real_values(23 * kModel, 701);
  for_each_layer([&](Dtype dtype, bool gated) {
    const TypedExpert expert(SampleExpert(kModel, kFf, 709), dtype);
    const Loops loops(runtime, dtype);
    const Inner inner = expand(loops, expert.wide, x, gated);
    Values y = loops.product(loops.in_type(inner.hidden), expert.wide.down, kModel, kFf);
    add_bias(y, expert.wide.down_bias);
    CHECK(same_bits(gated ? run_layer(GatedFfn(expert.gated(), Activation::relu), x, workspace)
                          : run_layer(DenseFfn(expert.dense(), Activation::relu), x, workspace),
                    y));
  });
}

TEST_CASE("backward: dy, hidden and inner gradients rounded for products, biases from unrounded") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  for (const std::size_t tokens : {std::size_t{23}, std::size_t{2053}}) {
    const std::size_t d = tokens > 2048 ? 5 : kModel, f = tokens > 2048 ? 7 : kFf;
    const Values x = real_values(tokens * d, 719), dy = real_values(tokens * d, 727);
    for_each_layer([&](Dtype dtype, bool gated) {
      const TypedExpert expert(SampleExpert(d, f, 733), dtype);
      Values y(tokens * d), dx(tokens * d), gate(f * d), up(f * d), down(d * f), gate_bias(f),
          up_bias(f), down_bias(d);
      const ConstMatrix x_view(x.data(), tokens, d), dy_view(dy.data(), tokens, d);
      const Matrix y_view(y.data(), tokens, d), dx_view(dx.data(), tokens, d);
      const DenseGrads dense{{up.data(), f, d}, {down.data(), d, f}, up_bias, down_bias};
      if (gated) {
        const GatedFfn layer(expert.gated(), Activation::relu, Packing::forward_and_backward);
        GatedSaved saved;
        layer.forward(x_view, y_view, workspace, &saved);
        layer.backward(x_view, saved, dy_view, dx_view,
                       {{gate.data(), f, d}, dense.up, dense.down, gate_bias, up_bias, down_bias},
                       workspace);
      } else {
        const DenseFfn layer(expert.dense(), Activation::relu, Packing::forward_and_backward);
        DenseSaved saved;
        layer.forward(x_view, y_view, workspace, &saved);
        layer.backward(x_view, saved, dy_view, dx_view, dense, workspace);
      }

      const Loops loops(runtime, dtype);
      const SampleExpert& w = expert.wide;
      const Inner inner = expand(loops, w, x, gated);
      const Values dy_in = loops.in_type(dy), x_in = loops.in_type(x);
      Values dup = loops.product(dy_in, transposed(w.down, d, f), f, d), dgate(dup.size());
      for (std::size_t i = 0; i < dup.size(); ++i) {
        const float dh = dup[i];
        if (!gated) {
          dup[i] = inner.up[i] > 0 ? dh : 0.0F;
        } else {
          dgate[i] = inner.gate[i] > 0 ? dh * inner.up[i] : 0.0F;
          dup[i] = dh * (inner.gate[i] > 0 ? inner.gate[i] : 0.0F);
        }
      }
      const auto equal = [](const Values& a, const Values& b) {
        std::size_t different = 0;
        for (std::size_t i = 0; i < a.size(); ++i) different += a[i] == b[i] ? 0 : 1;
        return a.size() == b.size() && different == 0;
      };
      CHECK(equal(down, loops.weight_gradient(dy_in, loops.in_type(inner.hidden), d, f)));
      CHECK(equal(down_bias, column_sums(dy, d)));
      CHECK(equal(up_bias, column_sums(dup, f)));
      dup = loops.in_type(dup);
      CHECK(equal(up, loops.weight_gradient(dup, x_in, f, d)));
      Values expected = loops.product(dup, transposed(w.up, f, d), d, f);
      if (gated) {
        CHECK(equal(gate_bias, column_sums(dgate, f)));
        dgate = loops.in_type(dgate);
        CHECK(equal(gate, loops.weight_gradient(dgate, x_in, f, d)));
        loops.add_product(dgate, transposed(w.gate, f, d), d, f, expected);
      }
      CHECK(equal(dx, expected));
    });
  }
}

TEST_CASE("a mixture: routing in float32 of the unrounded x, weight times hidden before rounding") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const std::size_t tokens = 23, n_experts = 5;
  const Values x = real_values(tokens * kModel, 739);
  const SampleMixture sample(n_experts, kModel, kFf, 743);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    CAPTURE(std::string(dtype_name(dtype)));
    std::vector<TypedExpert> experts;
    std::vector<GatedWeights> list;
    for (const SampleExpert& one : sample.experts) experts.emplace_back(one, dtype);
    for (const TypedExpert& one : experts) list.push_back(one.gated());
    const TypedExpert shared(SampleExpert(kModel, 13, 751), dtype);
    MoeWeights weights = sample.weights();
    weights.experts = std::span<const GatedWeights>(list);
    weights.shared = SharedExpert{shared.gated(), Activation::relu, {}};
    const MoeFfn layer(weights, Activation::relu, {});
    Values y(x.size());
    MoeSaved saved;
    layer.forward({x.data(), tokens, kModel}, {y.data(), tokens, kModel}, workspace, &saved);

    CHECK(same_bits(saved.routing.logits,
                    Loops(runtime, Dtype::f32).product(x, sample.router, n_experts, kModel)));
    const Loops loops(runtime, dtype);
    Values expected;
    for (std::size_t t = 0; t < tokens; ++t) {
      const Values row(&x[t * kModel], &x[t * kModel] + kModel);
      Values sum(kModel);
      for (std::size_t e = 0; e < n_experts; ++e)
        for (std::size_t j = 0; j < 2; ++j) {
          if (saved.routing.experts[t * 2 + j] != e) continue;
          const float weight = saved.routing.weights[t * 2 + j];
          Values hidden = expand(loops, experts[e].wide, row, true).hidden;
          for (float& value : hidden) value *= weight;
          Values out = loops.product(loops.in_type(hidden), experts[e].wide.down, kModel, kFf);
          Values bias = experts[e].wide.down_bias;
          for (float& value : bias) value *= weight;
          add_bias(out, bias);
          add_bias(sum, out);
        }
      const Values hidden = expand(loops, shared.wide, row, true).hidden;
      Values out = loops.product(loops.in_type(hidden), shared.wide.down, kModel, 13);
      add_bias(out, shared.wide.down_bias);
      add_bias(sum, out);  // last
      expected.insert(expected.end(), sum.begin(), sum.end());
    }
    CHECK(same_bits(y, expected));
  }
}

TEST_CASE("bf16 in and out: x widened exactly, y rounded once") {
  Runtime runtime({.count = 2});
  Workspace workspace(runtime);
  const TypedExpert expert(SampleExpert(kModel, kFf, 757), Dtype::bf16);
  const GatedFfn layer(expert.gated(), Activation::silu);
  std::vector<Bf16> x, y(11 * kModel);
  Values wide;
  for (const float value : real_values(11 * kModel, 761)) {
    x.push_back(to_bf16(value));
    wide.push_back(to_float(x.back()));
  }
  layer.forward(ConstBf16Matrix(x.data(), 11, kModel), Bf16Matrix(y.data(), 11, kModel), workspace);
  const Values expected = run_layer(layer, wide, workspace);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i].bits == to_bf16(expected[i]).bits);
}

}  // namespace
}  // namespace fourfold
