// A dense FFN with made-up weights, its float64 result, and the error that float32 may make.
#pragma once

#include <vector>

#include "fourfold/ffn.h"
#include "reference.h"
#include "sample_values.h"

namespace fourfold {

struct SampleFfn {
  SampleFfn(std::size_t n_tokens, std::size_t model, std::size_t ff, bool with_bias = true)
      : tokens(n_tokens),
        d_model(model),
        d_ff(ff),
        x(real_values(tokens * d_model, 211)),
        up(real_values(d_ff * d_model, 223, -0.8F, 0.7F)),
        down(real_values(d_model * d_ff, 227, -0.5F, 0.9F)) {
    if (!with_bias) return;
    up_bias = real_values(d_ff, 229);
    down_bias = real_values(d_model, 233);
  }

  DenseWeights weights() const {
    return {ConstMatrix(up.data(), d_ff, d_model), ConstMatrix(down.data(), d_model, d_ff), up_bias,
            down_bias};
  }
  DenseFfn layer(Activation kind) const { return DenseFfn(weights(), kind); }
  ConstMatrix x_view() const { return {x.data(), tokens, d_model}; }

  std::vector<float> run(const DenseFfn& ffn, Workspace& workspace,
                         FfnObserver* observer = nullptr) const {
    std::vector<float> y(tokens * d_model, -77.25F);
    ffn.forward(x_view(), {y.data(), tokens, d_model}, workspace, nullptr, observer);
    return y;
  }

  reference::Values expected(Activation kind) const {
    using reference::widened;
    return reference::dense_ffn(widened(x), widened(up), widened(up_bias), widened(down),
                                widened(down_bias), kind, tokens, d_model, d_ff);
  }
  // Per element: each product's bound K eps sum |w||x|, carried through; no slope exceeds 1.13.
  reference::Values error_bound() const {
    using reference::widened;
    reference::Values hidden = reference::linear_magnitude(widened(x), widened(up),
                                                           widened(up_bias), tokens, d_ff, d_model);
    reference::Values bound = reference::linear_magnitude(hidden, widened(down), widened(down_bias),
                                                          tokens, d_model, d_ff);
    for (double& value : bound) value *= 1.13 * static_cast<double>(d_model + d_ff + 6) * 0x1p-23;
    return bound;
  }
  // The largest error in units of the bound.
  double error_share(const std::vector<float>& y, Activation kind) const {
    const reference::Values exact = expected(kind), bound = error_bound();
    double worst = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double share = std::fabs(static_cast<double>(y[i]) - exact[i]) / bound[i];
      if (!(share <= worst)) worst = share;
    }
    return worst;
  }

  std::size_t tokens, d_model, d_ff;
  std::vector<float> x, up, down, up_bias, down_bias;
};

}  // namespace fourfold
