#include "tools/bench_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "platform/thread_pool.h"
#include "tools/bench_activation.h"

namespace fourfold {
namespace {

// One number per sampled token.
using Lane = std::array<double, BenchReference::kTokens>;
using Lanes = std::vector<Lane>;

// out[r] = sum over c of matrix[r, c] in[c]; matrix: [rows, cols].
Lanes rows_times(const float* matrix, std::size_t rows, std::size_t cols, const Lanes& in,
                 ThreadPool& pool) {
  Lanes out(rows, Lane{});
  pool.for_each(rows, [&](std::size_t r, unsigned) {
    Lane sum{};
    for (std::size_t c = 0; c < cols; ++c) {
      const double weight = matrix[r * cols + c];
      for (std::size_t t = 0; t < sum.size(); ++t) sum[t] += weight * in[c][t];
    }
    out[r] = sum;
  });
  return out;
}

// out[c] += sum over r of matrix[r, c] in[r]; matrix: [rows, cols].
void add_columns_times(const float* matrix, std::size_t rows, std::size_t cols, const Lanes& in,
                       Lanes& out, ThreadPool& pool) {
  pool.parallel([&](unsigned thread, unsigned threads) {
    const std::size_t first = cols * thread / threads, last = cols * (thread + 1) / threads;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = first; c < last; ++c) {
        const double weight = matrix[r * cols + c];
        for (std::size_t t = 0; t < in[r].size(); ++t) out[c][t] += weight * in[r][t];
      }
  });
}

// Hidden value of one neuron, and what a change of it means for gate and up.
struct Neuron {
  double hidden = 0, by_gate = 0, by_up = 0;
};

Neuron neuron(Activation activation, bool gated, double gate, double up) {
  const auto [value, slope] = activation64(activation, gated ? gate : up);
  if (!gated) return {value, 0, slope};
  if (activation == Activation::swiglu_oai) {
    const double held = std::clamp(up, -7.0, 7.0);
    return {value * (held + 1), slope * (held + 1), up == held ? value : 0};
  }
  return {value * up, slope * up, value};
}

double dot(const float* a, const float* b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

BenchReference::BenchReference(const BenchCase& shape, const BenchWeights& weights,
                               const BenchInputs& inputs, Workspace& workspace)
    : shape_(shape), weights_(weights), inputs_(inputs) {
  add_tokens(workspace);
  if (!shape.backward) return;
  const std::size_t first = shape.moe() ? inputs.experts.front() : 0;
  const std::size_t last = shape.moe() ? inputs.experts.back() : 0;
  add_neurons(first);
  if (last != first) add_neurons(last);
}

// Softmax of the logits over the chosen experts: what softmax over all, renormalised, comes to.
double BenchReference::routing_weight(std::size_t token, std::size_t expert) const {
  if (!shape_.moe()) return 1;
  double sum = 0, own = 0;
  for (std::size_t k = 0; k < shape_.top_k; ++k) {
    const std::size_t e = inputs_.experts[token * shape_.top_k + k];
    const double power = std::exp(dot(inputs_.x.data() + token * shape_.d_model,
                                      weights_.router.data() + e * shape_.d_model, shape_.d_model));
    sum += power;
    if (e == expert) own = power;
  }
  return own / sum;
}

void BenchReference::add_tokens(Workspace& workspace) {
  ThreadPool& pool = workspace.runtime().pool();
  const std::size_t d = shape_.d_model, f = shape_.d_ff, count = std::min(kTokens, shape_.tokens);
  std::array<std::size_t, kTokens> token{};
  for (std::size_t t = 0; t < count; ++t)
    token[t] = count == 1 ? 0 : t * (shape_.tokens - 1) / (count - 1);
  const auto lanes_of = [&](const std::vector<float>& matrix) {
    Lanes lanes(d, Lane{});
    for (std::size_t c = 0; c < d; ++c)
      for (std::size_t t = 0; t < count; ++t) lanes[c][t] = matrix[token[t] * d + c];
    return lanes;
  };
  const Lanes x = lanes_of(inputs_.x);
  const Lanes dy = shape_.backward ? lanes_of(inputs_.dy) : Lanes();
  Lanes y(d, Lane{}), dx(d, Lane{});
  std::vector<Lane> weight_of(shape_.n_experts, Lane{}), slope_of(shape_.n_experts, Lane{});
  for (std::size_t e = 0; e < shape_.n_experts; ++e) {
    bool used = false;
    for (std::size_t t = 0; t < count; ++t) {
      weight_of[e][t] = routing_weight(token[t], e);
      used = used || weight_of[e][t] != 0;
    }
    if (!used) continue;
    const std::size_t at = e * d * f;
    const float* down = weights_.down.data() + at;
    Lanes up = rows_times(weights_.up.data() + at, f, d, x, pool);
    Lanes gate =
        shape_.gated() ? rows_times(weights_.gate.data() + at, f, d, x, pool) : Lanes(f, Lane{});
    Lanes hidden(f, Lane{}), gate_slope(f, Lane{}), up_slope(f, Lane{});
    for (std::size_t i = 0; i < f; ++i)
      for (std::size_t t = 0; t < count; ++t) {
        const double bias = weights_.up_bias.empty() ? 0 : weights_.up_bias[i];
        const Neuron one = neuron(shape_.activation, shape_.gated(), gate[i][t], up[i][t] + bias);
        hidden[i][t] = one.hidden;
        gate_slope[i][t] = one.by_gate;
        up_slope[i][t] = one.by_up;
      }
    const Lanes out = rows_times(down, d, f, hidden, pool);
    for (std::size_t c = 0; c < d; ++c)
      for (std::size_t t = 0; t < count; ++t) {
        const double bias = weights_.down_bias.empty() ? 0 : weights_.down_bias[c];
        y[c][t] += weight_of[e][t] * (out[c][t] + bias);
        if (shape_.backward) slope_of[e][t] += dy[c][t] * out[c][t];
      }
    if (!shape_.backward) continue;
    Lanes dhidden(f, Lane{});
    add_columns_times(down, d, f, dy, dhidden, pool);
    for (std::size_t i = 0; i < f; ++i)
      for (std::size_t t = 0; t < count; ++t) {
        gate_slope[i][t] *= weight_of[e][t] * dhidden[i][t];
        up_slope[i][t] *= weight_of[e][t] * dhidden[i][t];
      }
    add_columns_times(weights_.up.data() + at, f, d, up_slope, dx, pool);
    if (shape_.gated()) add_columns_times(weights_.gate.data() + at, f, d, gate_slope, dx, pool);
  }
  if (shape_.moe() && shape_.backward) {
    // dlogit_e = w_e (s_e - sum_j w_j s_j), s_e = dy . y_e.
    Lanes dlogits(shape_.n_experts, Lane{});
    for (std::size_t t = 0; t < count; ++t) {
      double mean = 0;
      for (std::size_t e = 0; e < shape_.n_experts; ++e) mean += weight_of[e][t] * slope_of[e][t];
      for (std::size_t e = 0; e < shape_.n_experts; ++e)
        dlogits[e][t] = weight_of[e][t] * (slope_of[e][t] - mean);
    }
    add_columns_times(weights_.router.data(), shape_.n_experts, d, dlogits, dx, pool);
  }
  const auto keep = [&](const std::string& name, const Lanes& lanes) {
    Sample sample{name, {}, {}};
    for (std::size_t t = 0; t < count; ++t)
      for (std::size_t c = 0; c < d; ++c) {
        sample.places.push_back(token[t] * d + c);
        sample.values.push_back(lanes[c][t]);
      }
    samples_.push_back(std::move(sample));
  };
  keep("y", y);
  if (shape_.backward) keep("dx", dx);
}

// Gradients of neurons spread over one expert: rows of gate and up, columns of down.
void BenchReference::add_neurons(std::size_t expert) {
  const std::size_t d = shape_.d_model, f = shape_.d_ff, at = expert * d * f;
  const std::size_t count = std::min(kNeurons, f);
  Sample dgate{"dgate", {}, {}}, dup{"dup", {}, {}}, ddown{"ddown", {}, {}};
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t i = count == 1 ? 0 : n * (f - 1) / (count - 1);
    std::vector<double> gate_row(d), up_row(d), down_column(d);
    for (std::size_t token = 0; token < shape_.tokens; ++token) {
      const double weight = routing_weight(token, expert);
      if (weight == 0) continue;
      const float* x = inputs_.x.data() + token * d;
      const float* dy = inputs_.dy.data() + token * d;
      const double bias = weights_.up_bias.empty() ? 0 : weights_.up_bias[i];
      const double up = dot(x, weights_.up.data() + at + i * d, d) + bias;
      const double gate = shape_.gated() ? dot(x, weights_.gate.data() + at + i * d, d) : 0;
      const Neuron one = neuron(shape_.activation, shape_.gated(), gate, up);
      double dhidden = 0;
      for (std::size_t c = 0; c < d; ++c)
        dhidden += static_cast<double>(dy[c]) * weights_.down[at + c * f + i];
      for (std::size_t c = 0; c < d; ++c) {
        gate_row[c] += weight * dhidden * one.by_gate * x[c];
        up_row[c] += weight * dhidden * one.by_up * x[c];
        down_column[c] += weight * one.hidden * dy[c];
      }
    }
    for (std::size_t c = 0; c < d; ++c) {
      if (shape_.gated()) {
        dgate.places.push_back(at + i * d + c);
        dgate.values.push_back(gate_row[c]);
      }
      dup.places.push_back(at + i * d + c);
      dup.values.push_back(up_row[c]);
      ddown.places.push_back(at + c * f + i);
      ddown.values.push_back(down_column[c]);
    }
  }
  for (Sample* sample : {&dgate, &dup, &ddown})
    if (!sample->places.empty()) samples_.push_back(std::move(*sample));
}

BenchError BenchReference::error(const BenchOutputs& outputs) const {
  BenchError error;
  for (const Sample& sample : samples_) {
    const std::span<const float> found = outputs(sample.output);
    error.samples += sample.places.size();
    add_relative_error(
        sample.values, [&](std::size_t i) { return found[sample.places[i]]; }, error);
  }
  return error;
}

}  // namespace fourfold
