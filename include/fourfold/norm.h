// Norms over the values of a token, the same for every token.
// LayerNorm: y = (x - mean) / sqrt(var + eps) * gamma + beta (Ba et al. 2016, arXiv 1607.06450).
// RmsNorm: y = x / sqrt(mean of x^2 + eps) * gamma (Zhang and Sennrich 2019, arXiv 1910.07467).
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "fourfold/matrix.h"
#include "fourfold/runtime.h"

namespace fourfold {

// Gradients are added to what the caller's memory holds. An empty view: not wanted.
struct NormGrads {
  std::span<float> gamma, beta;  // [d]
};

// Both norms: x, y, dy, dx are [tokens, d]; y may be x and dx may be dy, else they must not
// overlap; zero tokens are fine. A token without spread, or of zeros, with eps 0 becomes beta, or
// 0, and gets no gradient. backward computes from x again, so nothing is saved; sums over tokens
// run in ascending order. Squares are summed in float32: a token whose values differ by more than
// about 1e19 / sqrt(d), or with eps 0 by less than 1e-19, counts as one without spread. All throw
// Error{shape_mismatch}.
class LayerNorm {
 public:
  // gamma: [d]; beta: [d], or empty: none. one_plus_gamma: 1 + gamma takes the place of gamma,
  // added in float32 (Nemotron). Throws Error{invalid_argument} for a negative or non-finite eps.
  LayerNorm(std::span<const float> gamma, std::span<const float> beta, float eps,
            bool one_plus_gamma = false);

  void forward(ConstMatrix x, Matrix y, Workspace& workspace) const;
  // x is widened exactly, y rounded once.
  void forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace) const;
  // x = norm(x + branch); branch: [tokens, d].
  void forward_residual(Matrix x, ConstMatrix branch, Workspace& workspace) const;
  void backward(ConstMatrix x, ConstMatrix dy, Matrix dx, const NormGrads& grads,
                Workspace& workspace) const;

  // New values of the same lengths.
  void set_weights(std::span<const float> gamma, std::span<const float> beta);

  std::size_t size() const { return factor_.size(); }
  float eps() const { return eps_; }
  bool has_beta() const { return has_beta_; }
  std::uint64_t parameters() const { return size() * (has_beta_ ? 2U : 1U); }

 private:
  std::vector<float> factor_, beta_;  // gamma or 1 + gamma; zeros for no beta
  float eps_;
  bool has_beta_, one_plus_gamma_;
};

// Where a norm of bf16 models rounds. Results other than none's are bf16 values in float32 words.
enum class NormRounding {
  none,
  before_gamma,  // Llama: the normalised value is rounded, and its product with gamma again
  after_gamma,   // Gemma: the product is computed in float32 and rounded once
};

struct RmsNormOptions {
  float eps = 1e-6F;
  bool one_plus_gamma = false;  // 1 + gamma in the place of gamma, added in float32 (Gemma)
  NormRounding rounding = NormRounding::none;
};

class RmsNorm {
 public:
  // gamma: [d]. Throws Error{invalid_argument} for a negative or non-finite eps.
  explicit RmsNorm(std::span<const float> gamma, const RmsNormOptions& options = {});

  void forward(ConstMatrix x, Matrix y, Workspace& workspace) const;
  void forward(ConstBf16Matrix x, Bf16Matrix y, Workspace& workspace) const;
  void forward_residual(Matrix x, ConstMatrix branch, Workspace& workspace) const;
  // The gradient of the norm without its rounding; there is no beta.
  void backward(ConstMatrix x, ConstMatrix dy, Matrix dx, const NormGrads& grads,
                Workspace& workspace) const;

  void set_weights(std::span<const float> gamma);

  std::size_t size() const { return factor_.size(); }
  const RmsNormOptions& options() const { return options_; }
  std::uint64_t parameters() const { return size(); }

 private:
  std::vector<float> factor_;  // gamma or 1 + gamma
  RmsNormOptions options_;
};

using AnyNorm = std::variant<LayerNorm, RmsNorm>;

// The kind at hand.
void forward(const AnyNorm& norm, ConstMatrix x, Matrix y, Workspace& workspace);
void forward_residual(const AnyNorm& norm, Matrix x, ConstMatrix branch, Workspace& workspace);
void backward(const AnyNorm& norm, ConstMatrix x, ConstMatrix dy, Matrix dx, const NormGrads& grads,
              Workspace& workspace);
// Throws what backward throws for these gradients; changes nothing.
void check_grads(const AnyNorm& norm, const NormGrads& grads);
std::size_t d_model(const AnyNorm& norm);
std::uint64_t parameters(const AnyNorm& norm);

}  // namespace fourfold
