"""What the three kinds of layers share: checks of arrays, forward, the shell of backward."""

from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np

from fourfold import arguments, arrays
from fourfold.arrays import Bits, Float32
from fourfold.errors import ArgumentError

# A NumPy array or a torch tensor: results are of the same kind as the input.
Array = TypeVar("Array")
SavedT = TypeVar("SavedT", bound="Saved")


class Saved:
    """What a forward pass leaves for backward; only the layer that made it takes it."""

    def __init__(self, layer: "Layer[Any]", version: int, x: Float32 | Bits, core: Any) -> None:
        self._layer = layer
        self._version = version
        self._x = x
        self._core = core

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of x {arrays.shape_text(self._x.shape)}>"


class Layer(Generic[SavedT]):
    """Base of DenseFFN, GatedFFN and MoEFFN."""

    _where: str
    _core: Any
    # Shapes of the arrays given to the constructor, by name; their gradients have the same.
    _array_names: tuple[str, ...]
    _shapes: dict[str, tuple[int, ...]]
    _saved_type: type[SavedT]
    _new_core_saved: Any
    _macs_per_token: int

    # So that a misspelt property is an error.
    __slots__ = (
        "_core",
        "_shapes",
        "_d_model",
        "_d_ff",
        "_skip_zeros",
        "_version",
        "_macs_per_token",
        "__weakref__",
    )

    def _start(
        self, core: Any, shapes: dict[str, tuple[int, ...]], d_model: int, d_ff: int
    ) -> None:
        self._core = core
        self._shapes = shapes
        self._d_model = d_model
        self._d_ff = d_ff
        self._skip_zeros = True
        self._version = 0

    def __call__(self, x: Array, out: Array | None = None) -> Array:
        """y: [..., d_model] of x: [..., d_model], in `out` when given.

        x is float32, or bfloat16 in a bfloat16 array; y has its kind and type. `out` must be
        C-contiguous, writable, of the shape and type of x, and must not overlap it.
        Raises ArgumentError.
        """
        return self._forward(x, out, None)[0]

    @overload
    def forward(self, x: Array, save: Literal[False] = ..., out: Array | None = ...) -> Array: ...
    @overload
    def forward(
        self, x: Array, save: Literal[True], out: Array | None = ...
    ) -> tuple[Array, SavedT]: ...
    def forward(self, x: Array, save: bool = False, out: Array | None = None) -> Any:
        """As layer(x, out); with save=True returns y and what backward needs.

        The first save=True packs the transposed weights, which doubles the layer's memory.
        """
        if arguments.flag(self._where, "save", save):
            return self._forward_saved(x, out)
        return self._forward(x, out, None)[0]

    def _set_core_weights(self, **given: Any) -> None:
        # Both before and after: a pass that runs meanwhile fits neither the old nor the new.
        self._version += 1
        try:
            self._core.set_weights(**given)
        finally:
            self._version += 1

    def _check_same_shape(self, name: str, shape: tuple[int, ...] | None) -> None:
        own = self._shapes.get(name)
        if shape != own:
            found, expected = (
                "missing" if s is None else arrays.shape_text(s) for s in (shape, own)
            )
            raise ArgumentError(
                f"[{self._where}] {name} is {found}, expected {expected}", "shape_mismatch"
            )

    def _forward(self, x: Any, out: Any, save: Any) -> tuple[Any, Float32 | Bits]:
        """The result and x as it was computed with."""
        given = self._read_rows(x, "x")
        if out is None:
            y = np.empty(given.shape, given.dtype)
        else:
            y = arrays.read_out(out, self._where, x, given.shape, arrays.is_bits(given))
        rows, result = self._rows(given), self._rows(y)
        if arrays.is_bits(given):
            self._core.forward_bf16(rows, result, save)
        else:
            self._core.forward(rows, result, save)
        return (arrays.like(x, y) if out is None else out), given

    def _forward_saved(self, x: Any, out: Any) -> tuple[Any, SavedT]:
        if not self._core.has_backward:
            self._core.pack_backward()
        core_saved, version = self._new_core_saved(), self._version
        y, given = self._forward(x, out, core_saved)
        # A copy: the caller may reuse x before backward.
        return y, self._saved_type(self, version, given.copy(), core_saved)

    def _check_saved(self, saved: Any) -> None:
        if not isinstance(saved, self._saved_type):
            raise ArgumentError(
                f"[{self._where}] saved is a {type(saved).__name__}, expected what"
                " layer.forward(x, save=True) returned"
            )
        if saved._layer is not self:
            raise ArgumentError(
                f"[{self._where}] saved was made by another layer; pass it to that layer's backward"
            )
        if saved._version != self._version:
            raise ArgumentError(
                f"[{self._where}] saved was made before set_weights; run forward again"
            )

    def _read_dy(self, saved: Saved, dy: Any) -> Float32:
        given = self._read_rows(dy, "dy")
        arrays.check_shape(self._where, "dy", given, *saved._x.shape)
        if given.dtype != saved._x.dtype:
            raise ArgumentError(
                f"[{self._where}] dy and x differ in type; expected both float32 or both bfloat16"
            )
        return arrays.to_float32(given)

    def _zero_gradients(self) -> dict[str, Float32]:
        return {name: np.zeros(shape, np.float32) for name, shape in self._shapes.items()}

    def _gradient_of_x(self, dy: Any, dx: Float32, saved: Saved) -> Any:
        return arrays.like(dy, arrays.to_bits(dx) if arrays.is_bits(saved._x) else dx)

    def _rows(self, array: Any) -> Any:
        return array.reshape(-1, self._d_model)

    def _read_rows(self, value: Any, name: str) -> Float32 | Bits:
        if arrays.records_grad(value):
            raise ArgumentError(
                f"[{self._where}] {name} requires grad, which this layer does not record;"
                f" pass {name}.detach()"
            )
        array = arrays.read(value, self._where, name, bf16=True, rows=True)
        if array.ndim == 0 or array.shape[-1] != self._d_model:
            raise ArgumentError(
                f"[{self._where}] {name} is {arrays.shape_text(array.shape)},"
                f" expected [..., {self._d_model}]",
                "shape_mismatch",
            )
        return array

    @property
    def d_model(self) -> int:
        """Length of a token's vector."""
        return self._d_model

    @property
    def d_ff(self) -> int:
        """Number of inner neurons (of one expert)."""
        return self._d_ff

    @property
    def activation(self) -> str:
        return str(self._core.activation)

    @property
    def dtype(self) -> str:
        """float32 or bfloat16: the type of the weights as computed with."""
        return str(self._core.dtype)

    @property
    def skip_zeros(self) -> bool:
        """Whether calls of few tokens skip neurons that are 0 in the product with down.

        On at first. Has an effect with relu, relu2 and relu6, where enough of them are 0; changes
        no bit of the result.
        """
        return self._skip_zeros

    @skip_zeros.setter
    def skip_zeros(self, on: bool) -> None:
        value = arguments.flag(self._where, "skip_zeros", on)
        self._core.set_skip_zeros(value)
        self._skip_zeros = value

    @property
    def parameters_total(self) -> int:
        """Weights and biases."""
        return int(self._core.parameters)

    @property
    def parameters_active(self) -> int:
        """Parameters that one token uses."""
        return self.parameters_total

    def flops(self, tokens: int) -> int:
        """Operations of the matrix products of a forward pass, 2 per multiply-add."""
        return 2 * self._macs_per_token * arguments.whole_number(self._where, "tokens", tokens)


def read_weights(where: str, dtype: Any, given: dict[str, Any]) -> dict[str, Float32 | Bits]:
    """Weight matrices, converted to `dtype` when it is not None."""
    wanted = dtype_name(where, dtype)
    result = {}
    for name, value in given.items():
        array = arrays.read(detached(value), where, name, bf16=True)
        if wanted == "float32":
            array = arrays.to_float32(array)
        elif wanted == "bfloat16":
            array = arrays.to_bits(array)
        result[name] = array
    kinds = {name: arrays.is_bits(array) for name, array in result.items()}
    if len(set(kinds.values())) > 1:
        parts = ", ".join(f"{n} {'bfloat16' if b else 'float32'}" for n, b in kinds.items())
        raise ArgumentError(
            f"[{where}] weights differ in type ({parts}); pass dtype= to convert them",
            "shape_mismatch",
        )
    return result


def read_float32(where: str, name: str, value: Any, *shape: int) -> Float32:
    """An array of that shape; bfloat16 is widened."""
    array = arrays.to_float32(arrays.read(detached(value), where, name, bf16=True))
    arrays.check_shape(where, name, array, *shape)
    return array


def detached(value: Any) -> Any:
    """Weights are copied, so a tensor that records gradients is as good as another."""
    return value.detach() if arrays.records_grad(value) else value


def dtype_name(where: str, dtype: Any) -> str | None:
    if dtype is None:
        return None
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    name = name.removeprefix("torch.")
    if name not in ("float32", "bfloat16"):
        raise ArgumentError(
            f'[{where}] dtype is "{name}", expected "float32", "bfloat16" or None', "unsupported"
        )
    return name
