// Fourfold's side of an FFN row of `bench`: copies of one layer, called one after the other.
#include <algorithm>
#include <optional>
#include <utility>

#include "fourfold/ffn.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"
#include "tools/bench_case.h"
#include "tools/bench_reference.h"
#include "tools/bench_work.h"

namespace fourfold {
namespace {

// Rows of few tokens read their weights from memory, as they do between the layers of a model.
constexpr std::uint64_t kFewTokens = 16, kRotatedBytes = 300'000'000;

std::uint64_t copies_for(std::uint64_t tokens, std::uint64_t bytes) {
  return tokens > kFewTokens ? 1 : std::max<std::uint64_t>(1, (kRotatedBytes + bytes - 1) / bytes);
}

// The weights in the type of the layer.
class TypedWeights {
 public:
  TypedWeights(const BenchCase& shape, BenchWeights values)
      : shape_(shape), values_(std::move(values)) {
    if (shape.dtype == Dtype::bf16)
      for (const auto* from : {&values_.gate, &values_.up, &values_.down}) {
        std::vector<Bf16> narrow(from->size());
        std::transform(from->begin(), from->end(), narrow.begin(), to_bf16);
        narrow_.push_back(std::move(narrow));
      }
    const std::size_t d = shape.d_model, f = shape.d_ff;
    for (std::size_t e = 0; e < shape.n_experts; ++e)
      experts_.push_back({weight(0, e, f, d), weight(1, e, f, d), weight(2, e, d, f), {}, {}, {}});
  }
  TypedWeights(const TypedWeights&) = delete;
  TypedWeights& operator=(const TypedWeights&) = delete;

  const BenchWeights& values() const { return values_; }
  std::uint64_t bytes() const {
    return (values_.gate.size() + values_.up.size() + values_.down.size()) *
           (shape_.dtype == Dtype::f32 ? sizeof(float) : sizeof(Bf16));
  }
  DenseWeights dense() const {
    return {experts_[0].up, experts_[0].down, values_.up_bias, values_.down_bias};
  }
  const GatedWeights& gated() const { return experts_[0]; }
  MoeWeights moe() const {
    MoeWeights weights;
    weights.router = ConstMatrix(values_.router.data(), shape_.n_experts, shape_.d_model);
    weights.experts = std::span<const GatedWeights>(experts_);
    return weights;
  }

 private:
  Weight weight(std::size_t which, std::size_t expert, std::size_t rows, std::size_t cols) const {
    const std::array all{&values_.gate, &values_.up, &values_.down};
    const std::size_t at = all[which]->empty() ? 0 : expert * rows * cols;
    if (shape_.dtype == Dtype::f32) return ConstMatrix(all[which]->data() + at, rows, cols);
    return ConstBf16Matrix(narrow_[which].data() + at, rows, cols);
  }

  BenchCase shape_;
  BenchWeights values_;
  std::vector<std::vector<Bf16>> narrow_;
  std::vector<GatedWeights> experts_;
};

AnyFfn make_layer(const BenchCase& shape, const TypedWeights& weights) {
  const Packing packing = shape.backward ? Packing::forward_and_backward : Packing::forward_only;
  if (shape.moe()) {
    Routing routing;
    routing.top_k = static_cast<int>(shape.top_k);
    return MoeFfn(weights.moe(), shape.activation, routing, packing);
  }
  if (shape.gated()) return GatedFfn(weights.gated(), shape.activation, packing);
  return DenseFfn(weights.dense(), shape.activation, packing);
}

// Gradient memory, and its views in the form that the layer's kind takes.
class Gradients {
 public:
  explicit Gradients(const BenchCase& shape) : shape_(shape) {
    const std::size_t count = shape.n_experts * shape.d_model * shape.d_ff;
    if (shape.gated()) gate.resize(count);
    up.resize(count);
    down.resize(count);
    if (shape.kind == FfnKind::dense) {
      up_bias.resize(shape.d_ff);
      down_bias.resize(shape.d_model);
    }
    if (shape.moe()) router.resize(shape.n_experts * shape.d_model);
  }

  AnyFfnGrads views() {
    const std::size_t d = shape_.d_model, f = shape_.d_ff;
    if (!shape_.gated())
      return DenseGrads{{up.data(), f, d}, {down.data(), d, f}, up_bias, down_bias};
    std::vector<GatedGrads> experts;
    for (std::size_t e = 0; e < shape_.n_experts; ++e) {
      const std::size_t at = e * d * f;
      experts.push_back(
          {{gate.data() + at, f, d}, {up.data() + at, f, d}, {down.data() + at, d, f}, {}, {}, {}});
    }
    if (!shape_.moe()) return experts.front();
    MoeGrads grads;
    grads.router = Matrix(router.data(), shape_.n_experts, d);
    grads.experts = std::move(experts);
    return grads;
  }
  void clear() {
    for (auto* values : {&gate, &up, &down, &up_bias, &down_bias, &router})
      std::fill(values->begin(), values->end(), 0.0F);
  }

  std::vector<float> gate, up, down;

 private:
  BenchCase shape_;
  std::vector<float> up_bias, down_bias, router;
};

// Counts the hidden values that are exactly 0, and the neurons that are 0 for every token.
class ZeroCount : public FfnObserver {
 public:
  void observe(const FfnSample& sample, Workspace&) override {
    used_.resize(sample.hidden.cols, 0);
    for (std::size_t row = 0; row < sample.hidden.rows; ++row)
      for (std::size_t i = 0; i < sample.hidden.cols; ++i) {
        const bool zero = sample.hidden.row(row)[i] == 0;
        zeros_ += zero ? 1 : 0;
        if (!zero) used_[i] = 1;
      }
    all_ += sample.hidden.rows * sample.hidden.cols;
  }
  double share() const {
    return all_ == 0 ? 0 : static_cast<double>(zeros_) / static_cast<double>(all_);
  }
  double used_neurons() const {
    return used_.empty() ? 1
                         : static_cast<double>(std::count(used_.begin(), used_.end(), 1)) /
                               static_cast<double>(used_.size());
  }

 private:
  std::uint64_t zeros_ = 0, all_ = 0;
  std::vector<char> used_;
};

class FfnWork : public BenchWork {
 public:
  FfnWork(const BenchOptions& options, std::uint64_t tokens, Workspace& workspace,
          std::shared_ptr<const TypedWeights> weights);

  std::string write_case(BenchFolder& folder) override;
  void run(std::size_t passes) override {
    const CallerScope caller(workspace_.runtime().pool().caller_cpu());
    for (std::size_t pass = 0; pass < passes; ++pass)
      for (AnyFfn& layer : layers_) call(layer);
  }
  BenchOutputs our_outputs() override;
  BenchError error(const BenchOutputs& outputs) override { return reference_.error(outputs); }
  std::size_t copies() const override { return layers_.size(); }
  std::uint64_t weight_bytes() const override { return layers_.size() * packed_bytes(layers_[0]); }
  BenchCost cost() const override;
  void describe(BenchRow& row) const override;
  void skip_zeros(bool on) override {
    skipping_ = on;
    for (AnyFfn& layer : layers_) std::visit([on](auto& ffn) { ffn.set_skip_zeros(on); }, layer);
  }
  const std::shared_ptr<const TypedWeights>& weights() const { return weights_; }

 private:
  void call(AnyFfn& layer);
  ConstMatrix x() const { return {inputs_.x.data(), shape_.tokens, shape_.d_model}; }
  std::vector<std::uint64_t> expert_loads() const;
  std::uint64_t used_experts() const;

  BenchCase shape_;
  BenchRouting routing_;
  std::optional<double> sparsity_;
  Workspace& workspace_;
  std::shared_ptr<const TypedWeights> weights_;
  BenchInputs inputs_;
  BenchReference reference_;
  std::vector<AnyFfn> layers_;
  std::vector<float> y_, dx_;
  std::vector<Bf16> narrow_x_, narrow_y_;
  AnyFfnSaved saved_;
  std::optional<Gradients> gradients_;
  AnyFfnGrads gradient_views_;
  ZeroCount zeros_;
  bool skipping_ = false;
};

FfnWork::FfnWork(const BenchOptions& options, std::uint64_t tokens, Workspace& workspace,
                 std::shared_ptr<const TypedWeights> weights)
    : shape_(make_case(options, tokens)),
      routing_(options.routing),
      sparsity_(options.sparsity),
      workspace_(workspace),
      weights_(std::move(weights)),
      inputs_(make_inputs(shape_, options)),
      reference_(shape_, weights_->values(), inputs_, workspace),
      y_(tokens * shape_.d_model) {
  const std::uint64_t copies = copies_for(tokens, weights_->bytes());
  for (std::uint64_t copy = 0; copy < copies; ++copy)
    layers_.push_back(make_layer(shape_, *weights_));
  if (shape_.backward) {
    dx_.resize(y_.size());
    gradients_.emplace(shape_);
    gradient_views_ = gradients_->views();
    if (shape_.moe())
      saved_ = MoeSaved();
    else if (shape_.gated())
      saved_ = GatedSaved();
  } else if (shape_.dtype == Dtype::bf16) {
    narrow_x_.resize(inputs_.x.size());
    std::transform(inputs_.x.begin(), inputs_.x.end(), narrow_x_.begin(), to_bf16);
    narrow_y_.resize(y_.size());
  }
  if (sparsity_)
    fourfold::forward(layers_[0], x(), {y_.data(), tokens, shape_.d_model}, workspace, nullptr,
                      &zeros_);
}

void FfnWork::call(AnyFfn& layer) {
  const std::size_t tokens = shape_.tokens, d = shape_.d_model;
  if (shape_.backward) {
    if (auto* moe = std::get_if<MoeFfn>(&layer))
      moe->set_weights(weights_->moe(), workspace_);
    else if (auto* gated = std::get_if<GatedFfn>(&layer))
      gated->set_weights(weights_->gated(), workspace_);
    else
      std::get<DenseFfn>(layer).set_weights(weights_->dense(), workspace_);
    fourfold::forward(layer, x(), {y_.data(), tokens, d}, workspace_, &saved_);
    fourfold::backward(layer, x(), saved_, {inputs_.dy.data(), tokens, d}, {dx_.data(), tokens, d},
                       gradient_views_, workspace_);
  } else if (shape_.dtype == Dtype::bf16) {
    const ConstBf16Matrix from(narrow_x_.data(), tokens, d);
    const Bf16Matrix to(narrow_y_.data(), tokens, d);
    std::visit([&](const auto& ffn) { ffn.forward(from, to, workspace_); }, layer);
  } else {
    fourfold::forward(layer, x(), {y_.data(), tokens, d}, workspace_);
  }
}

BenchOutputs FfnWork::our_outputs() {
  if (gradients_) gradients_->clear();
  call(layers_.front());
  if (!narrow_y_.empty())
    std::transform(narrow_y_.begin(), narrow_y_.end(), y_.begin(),
                   [](Bf16 value) { return to_float(value); });
  return [this](std::string_view name) -> std::span<const float> {
    if (name == "y") return y_;
    if (name == "dx") return dx_;
    if (name == "dgate") return gradients_->gate;
    return name == "dup" ? gradients_->up : gradients_->down;
  };
}

// Tokens of each expert; a layer that is no mixture counts as one.
std::vector<std::uint64_t> FfnWork::expert_loads() const {
  std::vector<std::uint64_t> loads(shape_.n_experts, shape_.moe() ? 0 : shape_.tokens);
  for (const std::uint32_t expert : inputs_.experts) ++loads[expert];
  return loads;
}

std::uint64_t FfnWork::used_experts() const {
  const auto loads = expert_loads();
  return loads.size() -
         static_cast<std::uint64_t>(std::count(loads.begin(), loads.end(), std::uint64_t{0}));
}

// forward + backward: three products of the size of each forward one; weights are read by both,
// gradients written once.
BenchCost FfnWork::cost() const {
  const auto tokens = static_cast<double>(shape_.tokens), d = static_cast<double>(shape_.d_model);
  const auto one =
      tokens * static_cast<double>(shape_.top_k) * d * static_cast<double>(shape_.d_ff);
  const double into = shape_.gated() ? 2 : 1, matrices = into + 1;
  const double down_flops = skipping_ ? 1 - zeros_.share() : 1;
  const double down_bytes = skipping_ ? zeros_.used_neurons() : 1;
  const auto used = static_cast<double>(used_experts());
  const double packed =
      static_cast<double>(packed_bytes(layers_[0])) * used / static_cast<double>(shape_.n_experts);
  const double element = shape_.dtype == Dtype::bf16 && !shape_.backward ? 2 : 4;
  BenchCost cost;
  cost.flops = 2 * one * (into + down_flops);
  if (shape_.moe()) cost.flops += 2 * tokens * d * static_cast<double>(shape_.n_experts);
  cost.bytes = packed * (into + down_bytes) / matrices + 2 * element * tokens * d;
  if (shape_.backward) {
    const double gradients = 4 * matrices * d * static_cast<double>(shape_.d_ff) * used;
    cost.flops *= 3;
    cost.bytes = 2 * packed + gradients + 4 * element * tokens * d;
  }
  return cost;
}

void FfnWork::describe(BenchRow& row) const {
  row.kind = ffn_kind_name(shape_.kind);
  row.activation = activation_name(shape_.activation);
  row.dtype = dtype_name(shape_.dtype);
  row.d_model = shape_.d_model;
  row.d_ff = shape_.d_ff;
  row.tokens = shape_.tokens;
  row.backward = shape_.backward;
  row.sparsity = sparsity_;
  if (sparsity_) row.exact_zero = zeros_.share();
  if (shape_.moe()) {
    row.n_experts = shape_.n_experts;
    row.top_k = shape_.top_k;
    row.routing = bench_routing_name(routing_);
    const auto loads = expert_loads();
    row.experts_hit = used_experts();
    row.largest_load = static_cast<double>(*std::max_element(loads.begin(), loads.end())) *
                       static_cast<double>(loads.size()) /
                       static_cast<double>(shape_.tokens * shape_.top_k);
  }
}

std::string FfnWork::write_case(BenchFolder& folder) {
  const BenchWeights& values = weights_->values();
  if (!folder.has("up.bin")) {
    folder.write("up.bin", values.up, shape_.dtype);
    folder.write("down.bin", values.down, shape_.dtype);
    if (shape_.gated()) folder.write("gate.bin", values.gate, shape_.dtype);
    if (shape_.kind == FfnKind::dense) {
      folder.write("up_bias.bin", values.up_bias, Dtype::f32);
      folder.write("down_bias.bin", values.down_bias, Dtype::f32);
    }
    if (shape_.moe()) folder.write("router.bin", values.router, Dtype::f32);
  }
  folder.write("x.bin", inputs_.x, shape_.dtype);
  if (shape_.backward) folder.write("dy.bin", inputs_.dy, shape_.dtype);
  BenchRow row;
  describe(row);
  return "kind=" + row.kind + " activation=" + row.activation + " dtype=" + row.dtype +
         " d_model=" + std::to_string(row.d_model) + " d_ff=" + std::to_string(row.d_ff) +
         " tokens=" + std::to_string(row.tokens) +
         " n_experts=" + std::to_string(shape_.n_experts) +
         " top_k=" + std::to_string(shape_.top_k) + " backward=" + (row.backward ? "1" : "0") +
         " copies=" + std::to_string(copies()) + " isa=" + std::string(workspace_.runtime().isa());
}

}  // namespace

std::unique_ptr<BenchWork> make_ffn_work(const BenchOptions& options, std::uint64_t tokens,
                                         Workspace& workspace, std::unique_ptr<BenchWork> before) {
  std::shared_ptr<const TypedWeights> weights;
  if (const auto* known = dynamic_cast<const FfnWork*>(before.get())) weights = known->weights();
  before.reset();  // its layers go before new ones are made
  if (!weights) {
    const BenchCase shape = make_case(options, tokens);
    weights = std::make_shared<TypedWeights>(shape, make_weights(shape, options));
  }
  return std::make_unique<FfnWork>(options, tokens, workspace, std::move(weights));
}

}  // namespace fourfold
