"""Dense and gated FFN in float64, forward and hand-derived backward.

Formulas run on float64 arrays (finite differences) and on Bounded ones (bounds for float32). store
is what a layer does to the operands of its products: nothing, or rounding to bf16.
x, y: [..., d_model]; gate, up: [d_ff, d_model]; down: [d_model, d_ff].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from float32_bound import Array, Number, value_of
from reference_activations import ACTIVATIONS, glu, glu_backward

Weights = Mapping[str, Number]  # of one FFN: up, down, and gate and biases where it has them
Store = Callable[[Number], Number]


def exact(x: Number) -> Number:
    return x


@dataclass
class Saved:
    gate: Number | None  # pre-activations, [tokens, d_ff]
    up: Number
    hidden: Number  # before rounding and routing weight


def linear(x: Number, weight: Number, bias: Number | None) -> Number:
    y = x @ weight.T
    return y if bias is None else y + bias


def forward_rows(
    weights: Weights, activation: str, x: Number, store: Store, scale: Number | None = None
) -> tuple[Number, Saved]:
    """x: [tokens, d_model]. scale: [tokens, 1] multiplies what enters down, and down_bias."""
    rounded = store(x)
    up = linear(rounded, weights["up"], weights.get("up_bias"))
    gate = None
    if "gate" in weights:
        gate = linear(rounded, weights["gate"], weights.get("gate_bias"))
        hidden = glu(activation, gate, up)
    else:
        hidden = ACTIVATIONS[activation].value(up)
    bias = weights.get("down_bias")
    if scale is None:
        y = linear(store(hidden), weights["down"], bias)
    else:
        y = store(hidden * scale) @ weights["down"].T
        if bias is not None:
            y = y + scale * bias
    return y, Saved(gate, up, hidden)


def backward_rows(
    weights: Weights,
    activation: str,
    x: Number,
    saved: Saved,
    dy: Number,
    store: Store,
    scale: Number | None = None,
) -> tuple[Number, dict[str, Number], Number | None]:
    """dx, gradients by name, and the gradient of scale: [tokens]."""
    rounded, dy_rounded = store(x), store(dy)
    hidden, dhidden, dscale = saved.hidden, dy_rounded @ weights["down"], None
    dy_scaled = dy
    if scale is not None:
        dscale = (dhidden * hidden).sum(axis=1)
        if "down_bias" in weights:
            dscale = dscale + (dy * weights["down_bias"]).sum(axis=1)
        hidden, dhidden, dy_scaled = hidden * scale, dhidden * scale, dy * scale
    grads = {"down": dy_rounded.T @ store(hidden)}
    if saved.gate is not None:
        dgate, dup = glu_backward(activation, saved.gate, saved.up, dhidden)
        grads["gate"] = store(dgate).T @ rounded
        if "gate_bias" in weights:
            grads["gate_bias"] = dgate.sum(axis=0)
        dx = store(dup) @ weights["up"] + store(dgate) @ weights["gate"]
    else:
        dup = dhidden * ACTIVATIONS[activation].slope(saved.up)
        dx = store(dup) @ weights["up"]
    grads["up"] = store(dup).T @ rounded
    if "up_bias" in weights:
        grads["up_bias"] = dup.sum(axis=0)
    if "down_bias" in weights:
        grads["down_bias"] = dy_scaled.sum(axis=0)
    return dx, grads, dscale


def rows_of(x: Number) -> Number:
    """[..., d_model] as [tokens, d_model]."""
    shape = x.shape
    return x.reshape(int(np.prod(shape[:-1])), shape[-1])


def ffn_forward(
    weights: Weights, activation: str, x: Number, store: Store = exact
) -> tuple[Number, Saved]:
    y, saved = forward_rows(weights, activation, rows_of(x), store)
    return y.reshape(*x.shape), saved


def ffn_backward(
    weights: Weights,
    activation: str,
    x: Number,
    saved: Saved,
    dy: Number,
    store: Store = exact,
) -> tuple[Number, dict[str, Number]]:
    dx, grads, _ = backward_rows(weights, activation, rows_of(x), saved, rows_of(dy), store)
    return dx.reshape(*x.shape), grads


def pre_activation(saved: Saved) -> tuple[Array, Array | None]:
    """What enters the activation, and what a gated FFN multiplies it with."""
    if saved.gate is None:
        return value_of(saved.up), None
    return value_of(saved.gate), value_of(saved.up)
