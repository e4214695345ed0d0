"""Wrong gradients, and wrong values they come from, to plant: where, the exact text, what takes its
place, and what it is."""

from dataclasses import dataclass

PASS = "layers/ffn_pass.cpp"
FORWARD = "layers/moe_forward.cpp"
MOE = "layers/moe_ffn.cpp"
EXPAND = "ops/expand.cpp"
SUMS = "ops/gemm_grad.cpp"
WEIGHT = "ops/packed_weight.cpp"
ROWS = "ops/row_operand.cpp"
TILES = "ops/product_tiles.h"
ROUTER = "ops/expert_router.cpp"
LOSSES = "layers/router_losses.cpp"
LOOPS = "kernels/generic/activation_loops.inl.h"
SIGMOID = "kernels/generic/activation_sigmoid.inl.h"
PIECES = "kernels/generic/activation_piecewise.inl.h"
COMMON = "kernels/generic/activation.inl.h"
# The sources that are compiled for a changed header, one of kernels and another one; the tests run
# this instruction set.
SCALAR = "kernels/scalar/scalar.cpp"


@dataclass(frozen=True)
class Mutant:
    file: str  # below src/
    text: str  # occurs exactly once
    replacement: str
    what: str

    @property
    def source(self) -> str:
        if self.file.endswith(".cpp"):
            return self.file
        return SCALAR if self.file.startswith("kernels/") else PASS


MUTANTS = [
    Mutant(
        PASS,
        "dx.row(first).data() + p * kPanel, dx.stride, rows,",
        "dx.row(first).data() + p * kPanel, dx.stride, rows - 1,",
        "dx of the last row of a tile is not written",
    ),
    Mutant(
        PASS,
        "up_bias = zeros(!grads.up_bias.empty());",
        "",
        "up_bias is not summed",
    ),
    Mutant(
        PASS,
        "keep(tile(dgate_tile), p, first, dgate, dgate_turned, gate_bias, turned);",
        "keep(tile(dh), p, first, dgate, dgate_turned, gate_bias, turned);",
        "everything of gate from the gradient of up",
    ),
    Mutant(
        PASS,
        "keep(tile(dh), p, first, dup, dup_turned, up_bias, turned);",
        "keep(tile(hidden), p, first, dup, dup_turned, up_bias, turned);",
        "the gradient of up from a buffer of another step",
    ),
    Mutant(
        PASS,
        "add_sums(piece.gate_bias, grads.gate_bias, region);",
        "add_sums(piece.up_bias, grads.gate_bias, region);",
        "gate_bias from the gradient of up",
    ),
    Mutant(
        PASS,
        "add_bias_gradient(region, dy, weights, grads.down_bias);",
        "add_bias_gradient(region, dy, {}, grads.down_bias);",
        "down_bias without the routing weight",
    ),
    Mutant(
        PASS,
        "region, piece.dgate_turned.operand(), piece.x_panels, tiles, grads.gate);",
        "region, piece.dup_turned.operand(), piece.x_panels, tiles, grads.gate);",
        "gate from the gradient of up",
    ),
    Mutant(
        PASS,
        "if (!hidden_panels.empty()) hidden_panels.store(p, first, tile(hidden));",
        "if (!hidden_panels.empty()) hidden_panels.store(p, first, tile(dh));",
        "down from a buffer of another step",
    ),
    Mutant(
        PASS,
        "{piece.dgate.operand(), &core.gate_back}",
        "{piece.dgate.operand(), &core.up_back}",
        "dx through up where it is gate",
    ),
    Mutant(
        PASS,
        "product_tiles(region, {terms, core.gated() ? 2U : 1U}, tiles,",
        "product_tiles(region, {terms, 1U}, tiles,",
        "dx without the part of gate",
    ),
    Mutant(
        PASS,
        "for (std::size_t i = 0; i < n; ++i) dh[at + i] *= weight;",
        "",
        "routing weight missing behind down",
    ),
    Mutant(
        PASS,
        "for (std::size_t i = 0; i < n; ++i) hidden[at + i] *= weight;",
        "",
        "routing weight missing in the gradient of down",
    ),
    Mutant(
        PASS,
        "weight_grads[r] += dot(dy.row(r), core.down_bias);",
        "weight_grads[r] -= dot(dy.row(r), core.down_bias);",
        "sign of down_bias in the gradient of a routing weight",
    ),
    Mutant(
        PASS,
        "dots.row(first + r)[p] = dot({dh + at, n}, {hidden + at, n});",
        "dots.row(first + r)[p] = dot({hidden + at, n}, {hidden + at, n});",
        "gradient of a routing weight from the wrong buffer",
    ),
    Mutant(
        PASS,
        "for (const float part : piece.dots.row(r)) weight_grads[r] += part;",
        "weight_grads[r] += piece.dots.row(r)[0];",
        "gradient of a routing weight from the first panel alone",
    ),
    Mutant(
        PASS,
        "act.backward[kind](up, dh + at, dh + at, n);",
        "act.backward[kind](up, hidden + at, dh + at, n);",
        "dense: hidden for its gradient",
    ),
    Mutant(
        PASS,
        "hidden_panels = TokenPanels(n, d_ff, dtype, workspace);",
        "hidden_panels = TokenPanels(n, d_ff, Dtype::f32, workspace);",
        "bf16: hidden not rounded again in backward",
    ),
    Mutant(
        PASS,
        "row[i] += to.weights[first + r] * bias[i];",
        "row[i] += bias[i];",
        "forward: the bias of down without the routing weight",
    ),
    Mutant(
        PASS,
        "const std::size_t token = to.tokens.empty() ? first + r : to.tokens[first + r];",
        "const std::size_t token = first + r;",
        "forward: an expert's rows added to other tokens",
    ),
    Mutant(
        LOOPS,
        "gate.store_part(t.gate_pre + r * t.gate_stride + i, n);",
        "up.store_part(t.gate_pre + r * t.gate_stride + i, n);",
        "forward: up saved for gate",
    ),
    Mutant(
        EXPAND,
        "for (float& value : values.row(r)) value *= weights[row + r];",
        "{}",
        "forward: hidden without the routing weight",
    ),
    Mutant(
        EXPAND,
        "panel_product(x, up.panel(p), gate.panel(p + 1), second_sums, false);",
        "panel_product(x, up.panel(p), gate.panel(p + 1), second_sums, true);",
        "forward: up goes on from the sums of the tile before",
    ),
    Mutant(
        ROWS,
        "if (weight_ == Dtype::bf16)\n"
        "    gemm.round_rows(values.data, values.stride, to, stride, values.rows, n);\n"
        "  else",
        "",
        "bf16: left operands are not rounded",
    ),
    Mutant(
        ROWS,
        "r + 1 < values.rows ? values.row(r + 1).data() : kZeros,",
        "values.row(r).data(),",
        "bf16: every odd token replaced by the one before it",
    ),
    Mutant(
        TILES,
        "i > 0);",
        "false);",
        "a sum of two terms forgets the first",
    ),
    Mutant(
        WEIGHT,
        "result.set_block_of_transpose(n, k, block, units);",
        "result.set_block(k, n, block, units);",
        "panels of backward hold turned blocks",
    ),
    Mutant(
        SUMS,
        "{turned, values.cols, values.rows, stride}",
        "{turned, values.cols, values.rows, 0}",
        "weight gradients: the first column of a panel for all",
    ),
    Mutant(
        SUMS,
        "add(sums + r * kPanel, dw.row(first + r).data() + p * kPanel, width);",
        "add(sums + r * kPanel, dw.row(first + r).data(), width);",
        "weight gradients: all panels in the place of the first",
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
        FORWARD,
        "row[c] = from[c] * weights[i];",
        "row[c] = from[c];",
        "weight_input: forward without the weight",
    ),
    Mutant(
        FORWARD,
        "rows.contract.weights = weights;\n    rows.contract.add = true;",
        "rows.contract.add = true;",
        "forward: the bias of the shared expert without its gate",
    ),
    Mutant(
        FORWARD,
        "const std::size_t first = std::max(plan.offsets[e], begin);",
        "const std::size_t first = std::max(plan.offsets[0], begin);",
        "forward: an expert gets the rows of those before it, too",
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
        "weight_grads[t] * weights[t] * exact_sigmoid(-saved.shared_logits[t]);",
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
        "store((d * F::enter(u)) * F::derivative(g), dgate);\n"
        "    store(F::up_gradient(u, d * F::apply(g)), dup);",
        "store(d * F::derivative(g), dgate);\n    store(F::up_gradient(u, d * F::apply(g)), dup);",
        "gate without the factor up, behind a routing weight",
    ),
    Mutant(
        LOOPS,
        "store((d * F::enter(u)) * F::derivative(g), dgate);\n"
        "    store(F::up_gradient(u, d * act), dup);",
        "store(d * F::derivative(g), dgate);\n    store(F::up_gradient(u, d * act), dup);",
        "gate without the factor up",
    ),
    Mutant(
        LOOPS,
        "store(act * F::enter(u), h);",
        "store(act, h);",
        "backward: hidden without up",
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
