"""DenseFFN and GatedFFN (Vaswani et al. 2017, arXiv 1706.03762; Shazeer 2020, arXiv 2002.05202)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fourfold import _core, arguments, arrays
from fourfold.arrays import Bits, Float32
from fourfold.layer import Array, Layer, Saved, SavedT, read_float32, read_weights

Given = dict[str, Float32 | Bits | None]


class DenseSaved(Saved):
    """What DenseFFN.forward(x, save=True) leaves for backward."""


class GatedSaved(Saved):
    """What GatedFFN.forward(x, save=True) leaves for backward."""


@dataclass
class DenseGrads:
    """Gradients of a DenseFFN's arrays, float32; None where the layer has no such array."""

    up: Any
    down: Any
    up_bias: Any = None
    down_bias: Any = None


@dataclass
class GatedGrads:
    """Gradients of a GatedFFN's arrays, float32; None where the layer has no such array."""

    gate: Any
    up: Any
    down: Any
    gate_bias: Any = None
    up_bias: Any = None
    down_bias: Any = None


class SimpleFFN(Layer[SavedT]):
    """A layer of one FFN: the base of DenseFFN and GatedFFN."""

    __slots__ = ()

    def _read(self, dtype: Any, matrices: dict[str, Any], biases: dict[str, Any]) -> Given:
        """All arrays by name, checked against the shape of up."""
        weights = read_weights(self._where, dtype, matrices)
        arrays.check_ndim(self._where, "up", weights["up"], 2, "[d_ff, d_model]")
        d_ff, d_model = weights["up"].shape
        for name, array in weights.items():
            expected = (d_model, d_ff) if name == "down" else (d_ff, d_model)
            arrays.check_shape(self._where, name, array, *expected)
        given: Given = {**weights}
        for name, bias in biases.items():
            length = d_model if name == "down_bias" else d_ff
            given[name] = None if bias is None else read_float32(self._where, name, bias, length)
        return given

    def _build(self, core_type: Any, given: Given, activation: str) -> None:
        activation = arguments.name(self._where, "activation", activation)
        shapes = {name: array.shape for name, array in given.items() if array is not None}
        d_ff, d_model = shapes["up"]
        self._start(core_type(**given, activation=activation), shapes, d_model, d_ff)
        matrices = sum(len(shape) == 2 for shape in shapes.values())
        self._macs_per_token = matrices * d_model * d_ff

    def _replace(self, given: Given) -> None:
        for name, array in given.items():
            self._check_same_shape(name, None if array is None else array.shape)
        self._set_core_weights(**given)

    def _copy_arrays(self, dtype: Any) -> dict[str, Float32 | Bits]:
        """What the layer computes with, by name; matrices in `dtype`, None: the layer's."""
        values = self._zero_gradients()
        matrices = {name: array for name, array in values.items() if array.ndim == 2}
        self._core.copy_weights(**matrices)
        biases = {name: values.get(name) for name in self._array_names if name.endswith("bias")}
        self._core.copy_biases(**biases)
        return {**values, **read_weights(self._where, dtype or self.dtype, matrices)}

    def _backward(self, saved: SavedT, dy: Any) -> tuple[Any, dict[str, Any]]:
        """dx and the gradients by name."""
        self._check_saved(saved)
        given = self._read_dy(saved, dy)
        dx = np.empty(given.shape, np.float32)
        grads = self._zero_gradients()
        all_names = {name: grads.get(name) for name in self._array_names}
        x = arrays.to_float32(saved._x)
        self._core.backward(
            self._rows(x), saved._core, self._rows(given), self._rows(dx), **all_names
        )
        return (
            self._gradient_of_x(dy, dx, saved),
            {name: arrays.like(dy, grad) for name, grad in grads.items()},
        )

    def __repr__(self) -> str:
        biases = ", biases" if any(name.endswith("bias") for name in self._shapes) else ""
        return (
            f'{type(self).__name__}(d_model={self.d_model}, d_ff={self.d_ff}, "{self.activation}",'
            f" {self.dtype}{biases})"
        )


class DenseFFN(SimpleFFN[DenseSaved]):
    """y = down(act(up(x) + up_bias)) + down_bias.

    up: [d_ff, d_model], down: [d_model, d_ff], up_bias: [d_ff], down_bias: [d_model], float32 or
    bfloat16; all are copied. dtype "float32" or "bfloat16" converts the matrices, None keeps their
    type. Raises ArgumentError.
    """

    __slots__ = ()
    _where = "dense_ffn"
    _array_names = ("up", "down", "up_bias", "down_bias")
    _saved_type = DenseSaved
    _new_core_saved = _core.DenseSaved

    def __init__(
        self,
        up: Any,
        down: Any,
        up_bias: Any = None,
        down_bias: Any = None,
        activation: str = "gelu",
        dtype: Any = None,
    ) -> None:
        biases = {"up_bias": up_bias, "down_bias": down_bias}
        given = self._read(dtype, {"up": up, "down": down}, biases)
        self._build(_core.DenseFfn, given, activation)

    def set_weights(self, up: Any, down: Any, up_bias: Any = None, down_bias: Any = None) -> None:
        """New values for every array of the constructor, in the layer's dtype, of the same shapes.

        Waits for running calls. Raises ArgumentError.
        """
        biases = {"up_bias": up_bias, "down_bias": down_bias}
        self._replace(self._read(self.dtype, {"up": up, "down": down}, biases))

    def backward(self, saved: DenseSaved, dy: Array) -> tuple[Array, DenseGrads]:
        """dx: [..., d_model] and the gradients of all arrays, for dy: [..., d_model].

        saved comes from this layer's forward(x, save=True); dy has the shape and type of x.
        Raises ArgumentError.
        """
        dx, grads = self._backward(saved, dy)
        return dx, DenseGrads(**grads)


class GatedFFN(SimpleFFN[GatedSaved]):
    """y = down(act(gate(x) + gate_bias) * (up(x) + up_bias)) + down_bias.

    gate, up: [d_ff, d_model], down: [d_model, d_ff], gate_bias, up_bias: [d_ff], down_bias:
    [d_model], float32 or bfloat16; all are copied. dtype "float32" or "bfloat16" converts the
    matrices, None keeps their type. Raises ArgumentError.
    """

    __slots__ = ()
    _where = "gated_ffn"
    _array_names = ("gate", "up", "down", "gate_bias", "up_bias", "down_bias")
    _saved_type = GatedSaved
    _new_core_saved = _core.GatedSaved

    def __init__(
        self,
        gate: Any,
        up: Any,
        down: Any,
        gate_bias: Any = None,
        up_bias: Any = None,
        down_bias: Any = None,
        activation: str = "silu",
        dtype: Any = None,
    ) -> None:
        biases = {"gate_bias": gate_bias, "up_bias": up_bias, "down_bias": down_bias}
        given = self._read(dtype, {"gate": gate, "up": up, "down": down}, biases)
        self._build(_core.GatedFfn, given, activation)

    def set_weights(
        self,
        gate: Any,
        up: Any,
        down: Any,
        gate_bias: Any = None,
        up_bias: Any = None,
        down_bias: Any = None,
    ) -> None:
        """New values for every array of the constructor, in the layer's dtype, of the same shapes.

        Waits for running calls. Raises ArgumentError.
        """
        biases = {"gate_bias": gate_bias, "up_bias": up_bias, "down_bias": down_bias}
        self._replace(self._read(self.dtype, {"gate": gate, "up": up, "down": down}, biases))

    def backward(self, saved: GatedSaved, dy: Array) -> tuple[Array, GatedGrads]:
        """dx: [..., d_model] and the gradients of all arrays, for dy: [..., d_model].

        saved comes from this layer's forward(x, save=True); dy has the shape and type of x.
        Raises ArgumentError.
        """
        dx, grads = self._backward(saved, dy)
        return dx, GatedGrads(**grads)
