// Transformer blocks with made-up weights, and their float64 result: four orders of norms,
// LayerNorm or RMSNorm, dense or gated FFN.
#pragma once

#include <utility>
#include <vector>

#include "fourfold/transformer_block.h"
#include "layers/attention_sample.h"
#include "reference_norm.h"

namespace fourfold {

// Which block: gated blocks have RMSNorm and no beta.
struct BlockKind {
  BlockOrder order;
  bool gated = false;
  bool second_norm = true;  // of a parallel block
  Activation activation = Activation::gelu_erf;
};

constexpr double kBlockEps = 1e-5;

// A block's weights as float64 numbers, so that a test may move one of them.
struct ExactBlock {
  struct Norm {
    reference::Values gamma, beta;  // no beta: RMSNorm
    reference::Values operator()(const reference::Values& x) const {
      return beta.empty() ? reference::rms_norm(x, gamma, kBlockEps)
                          : reference::layer_norm(x, gamma, beta, kBlockEps);
    }
  };
  BlockKind kind;
  ExactAttention attention;
  Norm norms[4];  // attention, FFN, behind attention, behind the FFN
  reference::Values gate, up, down, up_bias, down_bias;

  reference::Values ffn(const reference::Values& x) const {
    const std::size_t d = attention.d_model, tokens = x.size() / d, d_ff = up.size() / d;
    reference::Values hidden = reference::linear(x, up, up_bias, tokens, d_ff, d);
    const reference::Values pre =
        kind.gated ? reference::linear(x, gate, {}, tokens, d_ff, d) : hidden;
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      const double active = reference::activation(kind.activation, pre[i]);
      hidden[i] = kind.gated ? active * hidden[i] : active;
    }
    return reference::linear(hidden, down, down_bias, tokens, d, d_ff);
  }

  reference::Values operator()(const reference::Values& x,
                               const std::vector<std::size_t>& lengths) const {
    using reference::added;
    const auto& n = norms;
    switch (kind.order) {
      case BlockOrder::post_norm: {
        const auto middle = n[0](added(x, attention(x, lengths)));
        return n[1](added(middle, ffn(middle)));
      }
      case BlockOrder::pre_norm: {
        const auto middle = added(x, attention(n[0](x), lengths));
        return added(middle, ffn(n[1](middle)));
      }
      case BlockOrder::sandwich: {
        const auto middle = added(x, n[2](attention(n[0](x), lengths)));
        return added(middle, n[3](ffn(n[1](middle))));
      }
      case BlockOrder::parallel: break;
    }
    const auto normed = n[0](x);
    return added(added(x, attention(normed, lengths)), ffn(kind.second_norm ? n[1](x) : normed));
  }
};

struct BlockSample {
  BlockSample(const BlockKind& which, const AttentionOptions& options, std::size_t model,
              std::size_t ff)
      : kind(which),
        d_ff(ff),
        attention(options, model, !which.gated),
        up(real_values(ff * model, 421, -0.5F, 0.6F)),
        down(real_values(ff * model, 422, -0.4F, 0.3F)) {
    for (std::size_t i = 0; i < 4; ++i) {
      gammas[i] = real_values(model, 431 + i, 0.3F, 1.9F);
      if (!which.gated) betas[i] = real_values(model, 441 + i);
    }
    if (which.gated) {
      gate = real_values(ff * model, 423, -0.6F, 0.5F);
    } else {
      up_bias = real_values(ff, 424);
      down_bias = real_values(model, 425);
    }
  }

  std::size_t d_model() const { return attention.d_model; }
  AnyNorm norm(std::size_t i) const {
    const auto eps = static_cast<float>(kBlockEps);
    if (kind.gated) return RmsNorm(gammas[i], {.eps = eps});
    return LayerNorm(gammas[i], betas[i], eps);
  }
  ConstMatrix view(const std::vector<float>& values, std::size_t rows) const {
    return {values.data(), rows, values.size() / rows};
  }
  AnyFfn ffn(Packing packing) const {
    if (kind.gated)
      return GatedFfn({view(gate, d_ff), view(up, d_ff), view(down, d_model()), {}, {}, {}},
                      kind.activation, packing);
    return DenseFfn({view(up, d_ff), view(down, d_model()), up_bias, down_bias}, kind.activation,
                    packing);
  }
  bool has_norm(std::size_t i) const {
    if (i == 1) return kind.order != BlockOrder::parallel || kind.second_norm;
    return i == 0 || kind.order == BlockOrder::sandwich;
  }
  TransformerBlock block(Packing packing = Packing::forward_only) const {
    const auto optional = [&](std::size_t i) {
      return has_norm(i) ? std::optional<AnyNorm>(norm(i)) : std::nullopt;
    };
    return TransformerBlock(kind.order, BlockParts{attention.layer(packing), norm(0), ffn(packing),
                                                   optional(1), optional(2), optional(3)});
  }
  ExactBlock exact() const {
    using reference::widened;
    ExactBlock all{kind,
                   attention.exact(),
                   {},
                   widened(gate),
                   widened(up),
                   widened(down),
                   widened(up_bias),
                   widened(down_bias)};
    for (std::size_t i = 0; i < 4; ++i) all.norms[i] = {widened(gammas[i]), widened(betas[i])};
    return all;
  }

  BlockKind kind;
  std::size_t d_ff;
  AttentionSample attention;
  std::vector<float> gammas[4], betas[4], gate, up, down, up_bias, down_bias;
};

// Gradients of a sample's weights, at first 0.
struct BlockGradients {
  explicit BlockGradients(const BlockSample& s)
      : sample(s),
        attention(s.attention),
        gate(s.gate.size()),
        up(s.up.size()),
        down(s.down.size()),
        up_bias(s.up_bias.size()),
        down_bias(s.down_bias.size()) {
    for (std::size_t i = 0; i < 4; ++i) {
      gammas[i].resize(s.gammas[i].size());
      betas[i].resize(s.betas[i].size());
    }
  }

  BlockGrads views() {
    const std::size_t d = sample.d_model(), f = sample.d_ff;
    BlockGrads all;
    all.attention = attention.views();
    if (sample.kind.gated)
      all.ffn = GatedGrads{Matrix(gate.data(), f, d),
                           Matrix(up.data(), f, d),
                           Matrix(down.data(), d, f),
                           {},
                           {},
                           {}};
    else
      all.ffn = DenseGrads{Matrix(up.data(), f, d), Matrix(down.data(), d, f), up_bias, down_bias};
    all.attention_norm = {gammas[0], betas[0]};
    all.ffn_norm = {gammas[1], betas[1]};
    all.attention_post_norm = {gammas[2], betas[2]};
    all.ffn_post_norm = {gammas[3], betas[3]};
    return all;
  }

  const BlockSample& sample;
  AttentionGradients attention;
  std::vector<float> gammas[4], betas[4], gate, up, down, up_bias, down_bias;
};

}  // namespace fourfold
