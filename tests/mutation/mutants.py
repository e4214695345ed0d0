"""Wrong gradients to plant: where, the exact text, what takes its place, and what it is."""

from dataclasses import dataclass

CORE = "layers/ffn_core.cpp"
SUMS = "ops/gemm_grad.cpp"
MOE = "layers/moe_ffn.cpp"
ROUTER = "ops/expert_router.cpp"
LOSSES = "layers/router_losses.cpp"
LOOPS = "kernels/generic/activation_loops.inl.h"
SIGMOID = "kernels/generic/activation_sigmoid.inl.h"
PIECES = "kernels/generic/activation_piecewise.inl.h"
GELU = "kernels/generic/activation_gelu.inl.h"
COMMON = "kernels/generic/activation.inl.h"
# The source that is compiled for a changed header; the tests run its instruction set.
SCALAR = "kernels/scalar/scalar.cpp"


@dataclass(frozen=True)
class Mutant:
    file: str  # below src/
    text: str  # occurs exactly once
    replacement: str
    what: str

    @property
    def source(self) -> str:
        return self.file if self.file.endswith(".cpp") else SCALAR


MUTANTS = [
    Mutant(
        CORE,
        "bias_gradient(dup, {}, grads.up_bias, workspace);",
        "(void)dup;",
        "up_bias is not summed",
    ),
    Mutant(
        CORE,
        "bias_gradient(dgate, {}, grads.gate_bias, workspace);",
        "bias_gradient(dup, {}, grads.gate_bias, workspace);",
        "gate_bias from the gradient of up",
    ),
    Mutant(
        CORE,
        "bias_gradient(dy, weights, grads.down_bias, workspace);",
        "bias_gradient(dy, {}, grads.down_bias, workspace);",
        "down_bias without the routing weight",
    ),
    Mutant(
        CORE,
        "weight_gradient(dgate, x_in, grads.gate, workspace);",
        "weight_gradient(dup, x_in, grads.gate, workspace);",
        "gate from the gradient of up",
    ),
    Mutant(
        CORE,
        "weight_gradient(dy_in, hidden, grads.down, workspace);",
        "weight_gradient(dy_in, dup, grads.down, workspace);",
        "down from a buffer of another step",
    ),
    Mutant(
        CORE,
        "gemm_add(dgate, core.gate_back, dx, workspace);",
        "gemm_add(dgate, core.up_back, dx, workspace);",
        "dx through up where it is gate",
    ),
    Mutant(
        CORE,
        "gemm_add(dgate, core.gate_back, dx, workspace);",
        "(void)dgate;",
        "dx without the part of gate",
    ),
    Mutant(
        CORE,
        "for (float& value : dup.row(r)) value *= weights[r];",
        "",
        "routing weight missing behind down",
    ),
    Mutant(
        CORE,
        "for (float& value : hidden.row(r)) value *= weights[r];",
        "",
        "routing weight missing in the gradient of down",
    ),
    Mutant(
        CORE,
        "weight_grads[r] += dot(dy.row(r), core.down_bias);",
        "weight_grads[r] -= dot(dy.row(r), core.down_bias);",
        "sign of down_bias in the gradient of a routing weight",
    ),
    Mutant(
        CORE,
        "weight_grads[r] = dot(dup.row(r), hidden.row(r));",
        "weight_grads[r] = dot(hidden.row(r), hidden.row(r));",
        "gradient of a routing weight from the wrong buffer",
    ),
    Mutant(
        CORE,
        "if (bf16) round_rows_to_bf16(hidden, hidden, workspace);",
        "",
        "bf16: hidden not rounded again in backward",
    ),
    Mutant(
        SUMS,
        "to[n * from.rows + t] = from.row(t)[n];",
        "to[n * from.rows + t] = -from.row(t)[n];",
        "sign of all weight gradients",
    ),
    Mutant(
        SUMS,
        "for (std::size_t t = 0; t < dy.rows; ++t) {",
        "for (std::size_t t = 0; t + 1 < dy.rows; ++t) {",
        "bias gradients miss the last token",
    ),
    Mutant(
        SUMS,
        "for (std::size_t i = 0; i < width; ++i) sums[i] += factor * row[i];",
        "for (std::size_t i = 0; i < width; ++i) sums[i] = factor * row[i];",
        "bias gradients of one token only",
    ),
    Mutant(
        MOE,
        "weight_grads[r] = dot(dx_rows.row(r), x.row(piece.tokens[r]));",
        "weight_grads[r] = dot(dx_rows.row(r), piece.x.row(r));",
        "weight_input: the weight twice in its own gradient",
    ),
    Mutant(
        MOE,
        "scale_rows(dx_rows, piece.weights, workspace);",
        "",
        "weight_input: dx without the weight",
    ),
    Mutant(
        MOE,
        "dweights[piece.pairs[r]] = weight_grads[r];",
        "dweights[piece.tokens[r]] = weight_grads[r];",
        "gradients of routing weights scattered to wrong places",
    ),
    Mutant(
        MOE,
        "scatter_add_rows(dx_rows, piece.tokens, dx, workspace);",
        "",
        "dx without the experts",
    ),
    Mutant(
        MOE,
        "gather_rows(dy, piece.tokens, dy_rows, workspace);",
        "gather_rows(x, piece.tokens, dy_rows, workspace);",
        "x gathered for dy",
    ),
    Mutant(
        MOE,
        "bias_gradient(x, weight_grads, grads.shared_gate, workspace);",
        "(void)weight_grads;",
        "shared gate without a gradient",
    ),
    Mutant(
        MOE,
        "weight_grads[t] * weights[t] * sigmoid(-saved.shared_logits[t]);",
        "weight_grads[t] * weights[t];",
        "a factor of the sigmoid's derivative is missing",
    ),
    Mutant(
        MOE,
        "row[i] += slope * core.shared_gate[i];",
        "row[i] += 0 * slope;",
        "dx without the shared gate",
    ),
    Mutant(
        MOE,
        "gemm_add(dlogits, core_->router_back, dx, workspace);",
        "",
        "dx without the router",
    ),
    Mutant(
        MOE,
        "bias_gradient(dlogits, {}, grads.router_bias, workspace);",
        "(void)dlogits;",
        "router_bias is not summed",
    ),
    Mutant(
        ROUTER,
        "(static_cast<double>(dw[j]) * routing.scaling - mean)",
        "(static_cast<double>(dw[j]) * routing.scaling)",
        "derivative of the renormalisation left out",
    ),
    Mutant(
        ROUTER,
        "mean += share(experts[j]) * static_cast<double>(dw[j]) * routing.scaling;",
        "mean += share(experts[j]) * static_cast<double>(dw[j]);",
        "scaling missing in one term",
    ),
    Mutant(
        ROUTER,
        "static_cast<float>(-share(e) * mean)",
        "static_cast<float>(share(e) * mean)",
        "sign of the logits that were not chosen",
    ),
    Mutant(
        ROUTER,
        "own_score_slope(routing.scoring, logits.values[experts[j]])",
        "own_score(routing.scoring, logits.values[experts[j]])",
        "a score for its derivative",
    ),
    Mutant(
        ROUTER,
        "sigmoid(logit) / softplus(logit)",
        "1 / softplus(logit)",
        "sqrt_softplus: a factor is missing",
    ),
    Mutant(
        ROUTER,
        "case Scoring::sigmoid: return sigmoid(-logit);",
        "case Scoring::sigmoid: return sigmoid(logit);",
        "sigmoid: the wrong side",
    ),
    Mutant(
        LOSSES,
        "p[e] * (slope(e) - mean) *",
        "p[e] * slope(e) *",
        "load balance: softmax without its mean",
    ),
    Mutant(
        LOSSES,
        "scale.z * 2 * lse",
        "scale.z * lse",
        "z-loss: factor 2 is missing",
    ),
    Mutant(
        LOSSES,
        "if (!counts(scale.counted, t)) continue;",
        "",
        "padding tokens get the gradient of the losses",
    ),
    Mutant(
        LOOPS,
        "(d * F::enter(u)) * F::derivative(g)",
        "d * F::derivative(g)",
        "gate without the factor up",
    ),
    Mutant(
        LOOPS,
        "F::up_gradient(u, d * F::apply(g))",
        "F::up_gradient(u, d * F::derivative(g))",
        "up with a derivative for the value",
    ),
    Mutant(
        SIGMOID,
        "select(less(V::set(7.0F), abs(up)), V::set(0.0F), d)",
        "select(less(V::set(7.0F), abs(up)), d, d)",
        "the clamp of up is ignored",
    ),
    Mutant(
        SIGMOID,
        "select(less(V::set(7.0F), x), V::set(0.0F), QuickGelu::derivative(x))",
        "QuickGelu::derivative(x)",
        "the clamp of gate is ignored",
    ),
    Mutant(
        COMMON,
        "s.low - bend",
        "s.low + bend",
        "silu and its kin below 0",
    ),
    Mutant(
        PIECES,
        "const V below_6 = select(less(x, V::set(6.0F)), V::set(1.0F), V::set(0.0F));",
        "const V below_6 = V::set(1.0F);",
        "relu6 goes on above 6",
    ),
]
