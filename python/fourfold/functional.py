"""Activations and gated products of float32 arrays of any shape; results have the same shape.

For every activation that the library knows, `<name>(x)` and `<name>_backward(x, dy)`, the gradient
of x; for those that need a gate `<name>(gate, up)` and `<name>_backward(gate, up, dh)`, the
gradients of both. `glu` and `glu_backward` gate with any activation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fourfold import _core, arguments, arrays
from fourfold.arrays import Float32
from fourfold.errors import ArgumentError
from fourfold.layer import Array


def glu(gate: Array, up: Array, activation: str = "silu") -> Array:
    """act(gate) * up (Shazeer 2020, arXiv 2002.05202), both of one shape. Raises ArgumentError."""
    return _glu("glu", gate, up, activation)


def glu_backward(
    gate: Array, up: Array, dh: Array, activation: str = "silu"
) -> tuple[Array, Array]:
    """The gradients of gate and up for dh, that of glu(gate, up). Raises ArgumentError."""
    return _glu_backward("glu_backward", gate, up, dh, activation)


def _read(where: str, values: dict[str, Any]) -> list[Float32]:
    given: list[Float32] = []
    for name, value in values.items():
        if arrays.records_grad(value):
            raise ArgumentError(
                f"[{where}] {name} requires grad, which this function does not record;"
                f" pass {name}.detach()"
            )
        array = arrays.to_float32(arrays.read(value, where, name))
        if given:
            arrays.check_shape(where, name, array, *given[0].shape)
        given.append(array)
    return given


def _glu(where: str, gate: Any, up: Any, activation: str) -> Any:
    given = _read(where, {"gate": gate, "up": up})
    h = np.empty(given[0].shape, np.float32)
    _core.gated_activate(
        arguments.name(where, "activation", activation), *map(np.ravel, given), h.reshape(-1)
    )
    return arrays.like(gate, h)


def _glu_backward(where: str, gate: Any, up: Any, dh: Any, activation: str) -> Any:
    given = _read(where, {"gate": gate, "up": up, "dh": dh})
    dgate, dup = (np.empty(given[0].shape, np.float32) for _ in range(2))
    _core.gated_activate_backward(
        arguments.name(where, "activation", activation),
        *map(np.ravel, given),
        dgate.reshape(-1),
        dup.reshape(-1),
    )
    return arrays.like(gate, dgate), arrays.like(gate, dup)


def _activate(where: str, x: Any) -> Any:
    (given,) = _read(where, {"x": x})
    y = np.empty(given.shape, np.float32)
    _core.activate(where, given.ravel(), y.reshape(-1))
    return arrays.like(x, y)


def _activate_backward(where: str, activation: str, x: Any, dy: Any) -> Any:
    given = _read(where, {"x": x, "dy": dy})
    dx = np.empty(given[0].shape, np.float32)
    _core.activate_backward(activation, *map(np.ravel, given), dx.reshape(-1))
    return arrays.like(x, dx)


def _functions(name: str, needs_gate: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The activation of that name and its backward."""
    back = f"{name}_backward"

    def gated(gate: Any, up: Any) -> Any:
        return _glu(name, gate, up, name)

    def gated_backward(gate: Any, up: Any, dh: Any) -> Any:
        return _glu_backward(back, gate, up, dh, name)

    def plain(x: Any) -> Any:
        return _activate(name, x)

    def plain_backward(x: Any, dy: Any) -> Any:
        return _activate_backward(back, name, x, dy)

    pair = (gated, gated_backward) if needs_gate else (plain, plain_backward)
    arguments = "gate and up" if needs_gate else "x"
    pair[0].__doc__ = f"{name} of {arguments}, element by element. Raises ArgumentError."
    pair[1].__doc__ = f"Gradient of {arguments} through {name}. Raises ArgumentError."
    for function, its_name in zip(pair, (name, back), strict=True):
        function.__name__ = function.__qualname__ = its_name
    return pair


__all__ = ["glu", "glu_backward"]
for _activation, _needs_gate in _core.activations():
    _pair = _functions(_activation, _needs_gate)
    globals().update({function.__name__: function for function in _pair})
    __all__ += [function.__name__ for function in _pair]
