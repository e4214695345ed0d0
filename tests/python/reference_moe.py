"""Mixture of experts in float64, forward and hand-derived backward.

y = sum over the top_k experts e of weight_e * expert_e(x), plus a shared expert. Arrays as in the
Python package: router [n_experts, d_model], gate and up [n_experts, d_ff, d_model], down
[n_experts, d_model, d_ff]. Runs on float64 and on Bounded arrays; the choice of experts is made by
values alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from float32_bound import Array, Number, concatenate, scatter_add, value_of
from reference_activations import exponential, logarithm, sigmoid, softplus, square_root
from reference_ffn import Saved, Store, Weights, backward_rows, exact, forward_rows, linear, rows_of

EXPERT_ARRAYS = ("gate", "up", "down", "gate_bias", "up_bias", "down_bias")


@dataclass(frozen=True)
class Options:
    top_k: int = 2
    scoring: str = "softmax"
    renormalize: bool = True
    scaling: float = 1.0
    n_groups: int = 1
    top_groups: int = 1
    weight_input: bool = False
    capacity_factor: float | None = None
    activation: str = "silu"
    shared_activation: str = "silu"


@dataclass
class Routed:
    logits: Number  # [tokens, n_experts]
    scores: Number  # [tokens, n_experts], before renormalisation; softmax_topk: the logits
    experts: Array  # [tokens, top_k], by falling choice score
    raw: Number  # [tokens, top_k], scores of the chosen
    weights: Number  # [tokens, top_k]
    dropped: Array  # [tokens, top_k], bool
    choice: Array  # [tokens, n_experts], what the choice went by


@dataclass
class MoeSaved:
    routed: Routed
    rows: list[Array] = field(default_factory=list)  # tokens of each expert, ascending
    slots: list[Array] = field(default_factory=list)  # and which of their choices it is
    experts: list[Saved | None] = field(default_factory=list)
    shared: Saved | None = None
    shared_logits: Number = None


def softmax(logits: Number) -> Number:
    e = exponential(logits - value_of(logits).max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def scores_of(logits: Number, scoring: str) -> Number:
    if scoring == "softmax":
        return softmax(logits)
    if scoring == "sigmoid":
        return sigmoid(logits)
    if scoring == "sqrt_softplus":
        return square_root(softplus(logits))
    assert scoring == "softmax_topk"
    return logits


def _score_backward(logits: Number, scores: Number, scoring: str, dscores: Number) -> Number:
    """dscores: [tokens, n], to gradients of the logits of the same columns."""
    if scoring in ("softmax", "softmax_topk"):
        return scores * (dscores - (dscores * scores).sum(axis=1, keepdims=True))
    if scoring == "sigmoid":
        return dscores * scores * sigmoid(-logits)
    return dscores * sigmoid(logits) / (scores * 2.0)


def choose(choice: Array, options: Options) -> Array:
    """The top_k columns of every row, best first, the lowest index among equal ones."""
    tokens, n_experts = choice.shape
    if options.n_groups > 1:
        groups = choice.reshape(tokens, options.n_groups, n_experts // options.n_groups)
        best = 1 if options.scoring == "softmax" else 2
        group_score = np.sort(groups, axis=2)[:, :, ::-1][:, :, :best].sum(axis=2)
        kept = np.argsort(-group_score, axis=1, kind="stable")[:, : options.top_groups]
        masked = np.full_like(groups, -np.inf)
        for token in range(tokens):
            masked[token, kept[token]] = groups[token, kept[token]]
        choice = masked.reshape(tokens, n_experts)
    return np.argsort(-choice, axis=1, kind="stable")[:, : options.top_k]


def over_capacity(experts: Array, n_experts: int, factor: float | None) -> Array:
    """[tokens, top_k]: first choices of all tokens take their places before second ones."""
    tokens, top_k = experts.shape
    dropped = np.zeros(experts.shape, dtype=bool)
    if factor is None:
        return dropped
    capacity = math.ceil(factor * tokens * top_k / n_experts)
    taken = [0] * n_experts
    for slot in range(top_k):
        for token in range(tokens):
            e = int(experts[token, slot])
            dropped[token, slot] = taken[e] >= capacity
            taken[e] += 1
    return dropped


def _take(values: Number, experts: Array) -> Number:
    return values[np.arange(experts.shape[0])[:, None], experts]


def route(weights: Mapping[str, Number], options: Options, x: Number) -> Routed:
    logits = linear(x, weights["router"], weights.get("router_bias"))
    scores = scores_of(logits, options.scoring)
    choice = value_of(scores)
    if "selection_bias" in weights:
        choice = choice + value_of(weights["selection_bias"])
    experts = choose(choice, options)
    raw = _take(scores, experts)
    if options.scoring == "softmax_topk":
        raw = softmax(raw)
    weight = raw
    if options.renormalize and options.scoring != "softmax_topk":
        weight = raw / raw.sum(axis=1, keepdims=True)
    dropped = over_capacity(experts, logits.shape[1], options.capacity_factor)
    return Routed(logits, scores, experts, raw, weight * options.scaling, dropped, choice)


def route_backward(routed: Routed, options: Options, dweights: Number) -> Number:
    """Gradients of the weights, [tokens, top_k], to those of the logits, [tokens, n_experts]."""
    draw = dweights * options.scaling
    if options.renormalize and options.scoring != "softmax_topk":
        share = routed.weights / options.scaling
        inner = (draw * share).sum(axis=1, keepdims=True)
        draw = (draw - inner) / routed.raw.sum(axis=1, keepdims=True)
    if options.scoring == "softmax":
        wide = _spread(draw, routed)
        return _score_backward(routed.logits, routed.scores, "softmax", wide)
    chosen = _take(routed.logits, routed.experts)
    return _spread(_score_backward(chosen, routed.raw, options.scoring, draw), routed)


def _spread(values: Number, routed: Routed) -> Number:
    """[tokens, top_k] to [tokens, n_experts], 0 where an expert was not chosen."""
    tokens, n_experts = routed.logits.shape
    flat: Number = np.zeros(tokens * n_experts)
    place = np.arange(tokens)[:, None] * n_experts + routed.experts
    flat = scatter_add(flat, place.ravel(), values.reshape(values.shape[0] * values.shape[1]))
    return flat.reshape(tokens, n_experts)


def expert_weights(weights: Mapping[str, Number], e: int) -> Weights:
    return {name: weights[name][e] for name in EXPERT_ARRAYS if name in weights}


def shared_weights(weights: Mapping[str, Number]) -> Weights:
    return {name[7:]: weights[name] for name in weights if name.startswith("shared.")}


def moe_forward(
    weights: Mapping[str, Number], options: Options, x: Number, store: Store = exact
) -> tuple[Number, MoeSaved]:
    """weights also holds the shared expert's arrays as shared.up ..., and shared_gate [d_model]."""
    rows = rows_of(x)
    routed = route(weights, options, rows)
    saved = MoeSaved(routed)
    y: Number = rows * 0.0
    for e in range(routed.logits.shape[1]):
        tokens, slots = np.nonzero((routed.experts == e) & ~routed.dropped)
        saved.rows.append(tokens)
        saved.slots.append(slots)
        if len(tokens) == 0:
            saved.experts.append(None)
            continue
        scale = routed.weights[tokens, slots].reshape(len(tokens), 1)
        one = expert_weights(weights, e)
        if options.weight_input:
            part, inner = forward_rows(one, options.activation, rows[tokens] * scale, store)
        else:
            part, inner = forward_rows(one, options.activation, rows[tokens], store, scale)
        saved.experts.append(inner)
        y = scatter_add(y, tokens, part)
    shared = shared_weights(weights)
    if shared:
        opened = None
        if "shared_gate" in weights:
            saved.shared_logits = rows @ weights["shared_gate"].reshape(rows.shape[1], 1)
            opened = sigmoid(saved.shared_logits)
        part, saved.shared = forward_rows(shared, options.shared_activation, rows, store, opened)
        y = y + part
    return y.reshape(*x.shape), saved


def moe_backward(
    weights: Mapping[str, Number],
    options: Options,
    x: Number,
    saved: MoeSaved,
    dy: Number,
    store: Store = exact,
    load_balance: float = 0.0,
    z_loss: float = 0.0,
    mask: Array | None = None,
) -> tuple[Number, dict[str, Number]]:
    rows, dout = rows_of(x), rows_of(dy)
    routed = saved.routed
    tokens, n_experts = routed.logits.shape
    dweights: Number = np.zeros(tokens * options.top_k)
    dx: Number = rows * 0.0
    per_expert: list[dict[str, Number]] = []
    for e in range(n_experts):
        one, inner = expert_weights(weights, e), saved.experts[e]
        if inner is None:
            per_expert.append({name: value * 0.0 for name, value in one.items()})
            continue
        chosen, slots = saved.rows[e], saved.slots[e]
        scale = routed.weights[chosen, slots].reshape(len(chosen), 1)
        if options.weight_input:
            scaled = rows[chosen] * scale
            part, grads, _ = backward_rows(
                one, options.activation, scaled, inner, dout[chosen], store
            )
            dscale: Number = (part * rows[chosen]).sum(axis=1)
            part = part * scale
        else:
            part, grads, dscale = backward_rows(
                one, options.activation, rows[chosen], inner, dout[chosen], store, scale
            )
        dx = scatter_add(dx, chosen, part)
        dweights = scatter_add(dweights, chosen * options.top_k + slots, dscale)
        per_expert.append(grads)
    grads = {}
    for name in per_expert[0]:
        parts = [g[name].reshape(1, *g[name].shape) for g in per_expert]
        grads[name] = concatenate(parts)
    if saved.shared is not None:
        dx = _shared_backward(weights, options, rows, saved, dout, store, dx, grads)
    dlogits = route_backward(routed, options, dweights.reshape(tokens, options.top_k))
    if load_balance:
        dlogits = dlogits + load_balance_backward(routed, options.scoring, mask) * load_balance
    if z_loss:
        dlogits = dlogits + z_backward(routed, mask) * z_loss
    grads["router"] = dlogits.T @ rows
    if "router_bias" in weights:
        grads["router_bias"] = dlogits.sum(axis=0)
    dx = dx + dlogits @ weights["router"]
    return dx.reshape(*x.shape), grads


def _shared_backward(
    weights: Mapping[str, Number],
    options: Options,
    rows: Number,
    saved: MoeSaved,
    dout: Number,
    store: Store,
    dx: Number,
    grads: dict[str, Number],
) -> Number:
    """dx with the shared expert's part; its gradients go to grads."""
    assert saved.shared is not None
    opened = None if saved.shared_logits is None else sigmoid(saved.shared_logits)
    part, inner, dopened = backward_rows(
        shared_weights(weights),
        options.shared_activation,
        rows,
        saved.shared,
        dout,
        store,
        opened,
    )
    if dopened is not None:
        dlogit = dopened.reshape(rows.shape[0], 1) * opened * sigmoid(-saved.shared_logits)
        grads["shared_gate"] = (dlogit.T @ rows).reshape(rows.shape[1])
        dx = dx + dlogit @ weights["shared_gate"].reshape(1, rows.shape[1])
    for name, value in inner.items():
        grads["shared." + name] = value
    return dx + part


def _counted(tokens: int, mask: Array | None) -> Array:
    return np.ones(tokens) if mask is None else np.asarray(mask).reshape(-1).astype(np.float64)


def _shares(routed: Routed, counted: Array) -> Array:
    """f: [n_experts], the share of the counted (token, choice) pairs that go to each expert."""
    n_experts = routed.logits.shape[1]
    load = np.zeros(n_experts)
    np.add.at(load, routed.experts, np.broadcast_to(counted[:, None], routed.experts.shape))
    return load / load.sum()


def _probabilities(routed: Routed, scoring: str) -> Number:
    if scoring in ("softmax", "softmax_topk"):
        return softmax(routed.logits)
    return routed.scores / routed.scores.sum(axis=1, keepdims=True)


def load_balance_loss(routed: Routed, scoring: str, mask: Array | None = None) -> float:
    """n_experts * sum_e f_e P_e (Fedus et al. 2021, equations 4 to 6) over the counted tokens."""
    counted = _counted(routed.logits.shape[0], mask)
    if counted.sum() == 0:
        return 0.0
    mean = counted @ value_of(_probabilities(routed, scoring)) / counted.sum()
    return float(routed.logits.shape[1] * (_shares(routed, counted) @ mean))


def load_balance_backward(routed: Routed, scoring: str, mask: Array | None) -> Number:
    """Through P alone: the shares f are counts."""
    counted = _counted(routed.logits.shape[0], mask)
    per_token = counted[:, None] / max(counted.sum(), 1.0)
    dmean = routed.logits.shape[1] * _shares(routed, counted)
    dp = per_token * dmean[None, :]
    p = _probabilities(routed, scoring)
    if scoring in ("softmax", "softmax_topk"):
        return _score_backward(routed.logits, p, "softmax", p * 0.0 + dp)
    inner = (p * dp).sum(axis=1, keepdims=True)
    dscores = (dp - inner) / routed.scores.sum(axis=1, keepdims=True)
    return _score_backward(routed.logits, routed.scores, scoring, dscores)


def _log_sum(routed: Routed) -> Number:
    top = value_of(routed.logits).max(axis=1, keepdims=True)
    return logarithm(exponential(routed.logits - top).sum(axis=1, keepdims=True)) + top


def z_loss_value(routed: Routed, mask: Array | None = None) -> float:
    """mean of logsumexp(logits)^2 (Zoph et al. 2022, equation 5) over the counted tokens."""
    counted = _counted(routed.logits.shape[0], mask)
    if counted.sum() == 0:
        return 0.0
    return float(counted @ value_of(_log_sum(routed))[:, 0] ** 2 / counted.sum())


def z_backward(routed: Routed, mask: Array | None) -> Number:
    counted = _counted(routed.logits.shape[0], mask)
    per_token = 2.0 * counted[:, None] / max(counted.sum(), 1.0)
    return softmax(routed.logits) * _log_sum(routed) * per_token


def choice_margin(routed: Routed, options: Options) -> float:
    """How far the choice of experts is from changing: the smallest gap between two neighbours among
    the ranked experts, and among the ranked groups."""
    gaps = [np.diff(np.sort(routed.choice, axis=1), axis=1).min()]
    if options.n_groups > 1:
        groups = routed.choice.reshape(routed.choice.shape[0], options.n_groups, -1)
        best = 1 if options.scoring == "softmax" else 2
        score = np.sort(groups, axis=2)[:, :, -best:].sum(axis=2)
        gaps.append(np.diff(np.sort(score, axis=1), axis=1).min())
    return float(min(gaps))
