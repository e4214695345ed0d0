#include "tools/trace_steps.h"

#include <fmt/format.h>

#include <utility>

namespace fourfold {
namespace {

// Keeps what the layer computes inside.
class Recorder : public FfnObserver {
 public:
  void observe(const FfnSample& sample, Workspace&) override {
    pre.assign(sample.pre.row(0).begin(), sample.pre.row(0).end());
    hidden.assign(sample.hidden.row(0).begin(), sample.hidden.row(0).end());
    if (sample.up.data != nullptr) up.assign(sample.up.row(0).begin(), sample.up.row(0).end());
  }
  std::vector<float> pre, up, hidden;
};

// "a1 = silu(2) = 2 / (1 + exp(-2)) = 1.76159"
std::vector<std::string> activation_workings(const char* name, Activation activation,
                                             std::span<const float> x,
                                             std::span<const float> result) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::string line =
        fmt::format("{}{} = {}({:g})", name, i + 1, activation_name(activation), x[i]);
    if (activation == Activation::silu)
      line += fmt::format(" = {} / (1 + exp({:g}))", trace_number(x[i]), 0.0F - x[i]);
    lines.push_back(line + fmt::format(" = {:g}", result[i]));
  }
  return lines;
}

std::string product_formula(const char* result, const char* weight, const char* x, bool bias) {
  return fmt::format("{} = {} {}{}", result, weight, x,
                     bias ? fmt::format(" + {}_bias", weight) : std::string());
}

}  // namespace

std::string trace_number(float value) {
  return value < 0 ? fmt::format("({:g})", value) : fmt::format("{:g}", value);
}

std::vector<std::string> product_workings(const char* name, std::size_t first, ConstMatrix weight,
                                          std::span<const float> x, std::span<const float> bias,
                                          std::span<const float> result) {
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < weight.rows; ++row) {
    std::string line = fmt::format("{}{} =", name, row + first);
    for (std::size_t i = 0; i < weight.cols; ++i)
      line += fmt::format("{} {} * {}", i == 0 ? "" : " +", trace_number(x[i]),
                          trace_number(weight.row(row)[i]));
    if (!bias.empty()) line += " + " + trace_number(bias[row]);
    lines.push_back(line + fmt::format(" = {:g}", result[row]));
  }
  return lines;
}

TraceReport begin_trace(std::string title, const FfnShape& shape, Activation activation,
                        std::vector<float> x) {
  const FfnCounts counts = count_ffn(shape);
  TraceReport trace;
  trace.title = std::move(title);
  trace.kind = ffn_kind_name(shape.kind);
  trace.activation = activation_name(activation);
  trace.d_model = shape.d_model;
  trace.d_ff = shape.d_ff;
  if (shape.kind == FfnKind::moe) {
    trace.n_experts = shape.n_experts;
    trace.top_k = shape.top_k;
  }
  trace.parameters = counts.parameters;
  trace.active_parameters = counts.active_parameters;
  trace.macs = counts.macs_per_token;
  trace.x = std::move(x);
  return trace;
}

std::vector<float> trace_dense(const DenseFfn& ffn, const DenseWeights* weights, TraceReport& trace,
                               Workspace& workspace) {
  const std::size_t d = ffn.d_model(), f = ffn.d_ff();
  const std::size_t up_bias = ffn.up_bias().size(), down_bias = ffn.down_bias().size();
  Recorder seen;
  std::vector<float> y(d);
  ffn.forward(ConstMatrix(trace.x.data(), 1, d), Matrix(y.data(), 1, d), workspace, nullptr, &seen);
  TraceStep expand{"expand",
                   product_formula("pre", "up", "x", up_bias > 0),
                   d * f + up_bias,
                   d * f,
                   up_bias,
                   seen.pre,
                   {}};
  TraceStep act{"activate", fmt::format("hidden = {}(pre)", trace.activation), 0, 0, f, seen.hidden,
                {}};
  TraceStep contract{"contract",
                     product_formula("y", "down", "hidden", down_bias > 0),
                     d * f + down_bias,
                     d * f,
                     down_bias,
                     y,
                     {}};
  if (weights != nullptr) {
    expand.workings = product_workings("pre", 1, std::get<ConstMatrix>(weights->up), trace.x,
                                       weights->up_bias, seen.pre);
    act.workings = activation_workings("hidden", ffn.activation(), seen.pre, seen.hidden);
    contract.workings = product_workings("y", 1, std::get<ConstMatrix>(weights->down), seen.hidden,
                                         weights->down_bias, y);
  }
  for (TraceStep* step : {&expand, &act, &contract}) trace.steps.push_back(std::move(*step));
  return y;
}

std::vector<float> trace_gated(const GatedFfn& ffn, const GatedWeights* weights,
                               std::optional<std::uint64_t> expert, TraceReport& trace,
                               Workspace& workspace) {
  const std::size_t d = ffn.d_model(), f = ffn.d_ff();
  const std::size_t gate_bias = ffn.gate_bias().size(), up_bias = ffn.up_bias().size(),
                    down_bias = ffn.down_bias().size();
  Recorder seen;
  std::vector<float> y(d), activated(f);
  ffn.forward(ConstMatrix(trace.x.data(), 1, d), Matrix(y.data(), 1, d), workspace, nullptr, &seen);
  activate(ffn.activation(), seen.pre, activated);
  TraceStep gate{"gate",
                 product_formula("g", "gate", "x", gate_bias > 0),
                 d * f + gate_bias,
                 d * f,
                 gate_bias,
                 seen.pre,
                 {}};
  TraceStep up{
      "up", product_formula("u", "up", "x", up_bias > 0), d * f + up_bias, d * f, up_bias, seen.up,
      {}};
  TraceStep act{"activate", fmt::format("a = {}(g)", trace.activation), 0, 0, f, activated, {}};
  TraceStep product{"product", "hidden = a * u", 0, 0, f, seen.hidden, {}};
  TraceStep contract{"contract",
                     product_formula("y", "down", "hidden", down_bias > 0),
                     d * f + down_bias,
                     d * f,
                     down_bias,
                     y,
                     {}};
  if (weights != nullptr) {
    gate.workings = product_workings("g", 1, std::get<ConstMatrix>(weights->gate), trace.x,
                                     weights->gate_bias, seen.pre);
    up.workings = product_workings("u", 1, std::get<ConstMatrix>(weights->up), trace.x,
                                   weights->up_bias, seen.up);
    act.workings = activation_workings("a", ffn.activation(), seen.pre, activated);
    for (std::size_t i = 0; i < f; ++i)
      product.workings.push_back(fmt::format("hidden{} = {} * {} = {:g}", i + 1,
                                             trace_number(activated[i]), trace_number(seen.up[i]),
                                             seen.hidden[i]));
    contract.workings = product_workings("y", 1, std::get<ConstMatrix>(weights->down), seen.hidden,
                                         weights->down_bias, y);
  }
  for (TraceStep* step : {&gate, &up, &act, &product, &contract}) {
    step->expert = expert;
    trace.steps.push_back(std::move(*step));
  }
  return y;
}

void trace_norm(const LayerNorm& norm, std::span<const float> y, bool small, TraceReport& trace,
                Workspace& workspace) {
  const std::vector<float>& x = trace.x;
  const std::size_t d = x.size();
  std::vector<float> sum(d), out(d);
  for (std::size_t i = 0; i < d; ++i) sum[i] = x[i] + y[i];
  norm.forward(ConstMatrix(sum.data(), 1, d), Matrix(out.data(), 1, d), workspace);
  TraceStep add{"add", "x + y", 0, 0, d, sum, {}};
  TraceStep normalise{"normalise", "LayerNorm(x + y)", 2 * d, 0, 0, out, {}};
  if (small) {
    double mean = 0, variance = 0;
    for (const float value : sum) mean += value / static_cast<double>(d);
    for (const float value : sum)
      variance += (value - mean) * (value - mean) / static_cast<double>(d);
    normalise.workings.push_back(fmt::format("mean = {:g}, variance = {:g}", mean, variance));
    for (std::size_t i = 0; i < d; ++i) {
      add.workings.push_back(fmt::format("{:g} + {} = {:g}", x[i], trace_number(y[i]), sum[i]));
      normalise.workings.push_back(fmt::format("({:g} - {}) / sqrt({:g}) = {:g}", sum[i],
                                               trace_number(static_cast<float>(mean)), variance,
                                               out[i]));
    }
  }
  trace.steps.push_back(std::move(add));
  trace.steps.push_back(std::move(normalise));
}

}  // namespace fourfold
