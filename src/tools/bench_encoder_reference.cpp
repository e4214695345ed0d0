#include "tools/bench_encoder_reference.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/weight_names.h"
#include "platform/thread_pool.h"
#include "tools/bench_activation.h"

namespace fourfold {
namespace {

using Rows = std::vector<double>;  // row-major

class Encoder64 {
 public:
  Encoder64(const SafetensorsFile& file, const ModelConfig& config, std::size_t tokens,
            ThreadPool& pool)
      : file_(file), names_(file), config_(config), tokens_(tokens), pool_(pool) {}

  Rows run(std::span<const std::int32_t> ids);

 private:
  std::vector<float> read(const std::string& name) const {
    const TensorEntry* tensor = file_.find(name);
    std::vector<float> values(tensor->elements);
    file_.read_f32(*tensor, values);
    return values;
  }
  Rows linear(const Rows& x, const std::string& weight, const std::string& bias) const;
  void norm(Rows& x, const std::string& weight, const std::string& bias) const;
  Rows attention(const Rows& x, std::size_t layer) const;

  const SafetensorsFile& file_;
  BertNames names_;
  const ModelConfig& config_;
  std::size_t tokens_;
  ThreadPool& pool_;
};

// x: [tokens, in] -> [tokens, out] = x weight^T + bias; weight: [out, in].
Rows Encoder64::linear(const Rows& x, const std::string& weight, const std::string& bias) const {
  constexpr std::size_t kLanes = 8;
  const std::vector<float> w = read(weight), b = read(bias);
  const std::size_t in = x.size() / tokens_, out = b.size();
  const std::size_t groups = (tokens_ + kLanes - 1) / kLanes;
  std::vector<std::array<double, kLanes>> lanes(groups * in);  // [groups, in] of eight tokens each
  for (std::size_t t = 0; t < tokens_; ++t)
    for (std::size_t i = 0; i < in; ++i) lanes[t / kLanes * in + i][t % kLanes] = x[t * in + i];
  Rows y(tokens_ * out);
  pool_.for_each(out, [&](std::size_t o, unsigned) {
    for (std::size_t group = 0; group < groups; ++group) {
      std::array<double, kLanes> sum{};
      for (std::size_t i = 0; i < in; ++i) {
        const double value = w[o * in + i];
        for (std::size_t t = 0; t < kLanes; ++t) sum[t] += value * lanes[group * in + i][t];
      }
      for (std::size_t t = group * kLanes; t < std::min(tokens_, (group + 1) * kLanes); ++t)
        y[t * out + o] = sum[t % kLanes] + b[o];
    }
  });
  return y;
}

void Encoder64::norm(Rows& x, const std::string& weight, const std::string& bias) const {
  const std::vector<float> gamma = read(weight), beta = read(bias);
  const std::size_t d = gamma.size();
  for (std::size_t t = 0; t < tokens_; ++t) {
    double* row = x.data() + t * d;
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < d; ++i) mean += row[i] / static_cast<double>(d);
    for (std::size_t i = 0; i < d; ++i)
      variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(d);
    const double scale = 1 / std::sqrt(variance + static_cast<double>(config_.norm_eps));
    for (std::size_t i = 0; i < d; ++i) row[i] = (row[i] - mean) * scale * gamma[i] + beta[i];
  }
}

Rows Encoder64::attention(const Rows& x, std::size_t layer) const {
  const auto project = [&](const char* which) {
    return linear(x, names_.attention(layer, which, "weight"),
                  names_.attention(layer, which, "bias"));
  };
  const Rows query = project("query"), key = project("key"), value = project("value");
  const std::size_t d = config_.d_model, width = config_.head_dim;
  Rows mixed(tokens_ * d);
  pool_.for_each(config_.n_heads, [&](std::size_t head, unsigned) {
    const std::size_t at = head * width;
    Rows share(tokens_);
    for (std::size_t t = 0; t < tokens_; ++t) {
      double largest = -INFINITY, sum = 0;
      for (std::size_t s = 0; s < tokens_; ++s) {
        share[s] = 0;
        for (std::size_t i = at; i < at + width; ++i) share[s] += query[t * d + i] * key[s * d + i];
        share[s] /= std::sqrt(static_cast<double>(width));
        largest = std::max(largest, share[s]);
      }
      for (double& one : share) sum += one = std::exp(one - largest);
      for (std::size_t s = 0; s < tokens_; ++s)
        for (std::size_t i = at; i < at + width; ++i)
          mixed[t * d + i] += share[s] / sum * value[s * d + i];
    }
  });
  return linear(mixed, names_.attention_output(layer, "weight"),
                names_.attention_output(layer, "bias"));
}

Rows Encoder64::run(std::span<const std::int32_t> ids) {
  const std::size_t d = config_.d_model;
  Rows x(tokens_ * d);
  {
    const std::vector<float> words = read(names_.word_embedding()),
                             positions = read(names_.position_embedding()),
                             types = read(names_.type_embedding());
    for (std::size_t t = 0; t < tokens_; ++t)
      for (std::size_t i = 0; i < d; ++i)
        x[t * d + i] = static_cast<double>(words[static_cast<std::size_t>(ids[t]) * d + i]) +
                       positions[t * d + i] + types[i];
  }
  norm(x, names_.embedding_norm("weight"), names_.embedding_norm("bias"));
  const auto add = [&](const Rows& more) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += more[i];
  };
  for (std::size_t layer = 0; layer < config_.n_layers; ++layer) {
    add(attention(x, layer));
    norm(x, names_.attention_norm(layer, "weight"), names_.attention_norm(layer, "bias"));
    Rows hidden = linear(x, names_.up(layer, "weight"), names_.up(layer, "bias"));
    for (double& value : hidden) value = activation64(config_.activation, value).value;
    add(linear(hidden, names_.down(layer, "weight"), names_.down(layer, "bias")));
    norm(x, names_.ffn_norm(layer, "weight"), names_.ffn_norm(layer, "bias"));
  }
  return x;
}

}  // namespace

std::vector<double> encode64(const SafetensorsFile& file, const ModelConfig& config,
                             std::span<const std::int32_t> ids, Workspace& workspace) {
  return Encoder64(file, config, ids.size(), workspace.runtime().pool()).run(ids);
}

}  // namespace fourfold
