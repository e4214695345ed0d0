"""What goes in and out of layers: float32 arrays, or the bits of bfloat16 ones as uint16.

Arrays come from NumPy or, by DLPack, from any package whose array is in the CPU's memory. They are
used where they are when contiguous, else copied.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from fourfold import _core
from fourfold.errors import ArgumentError

Float32 = npt.NDArray[np.float32]
# Bits of bfloat16 numbers, the upper half of float32 ones.
Bits = npt.NDArray[np.uint16]


def shape_text(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def is_torch(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _dtype_name(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def _describe(value: object) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"an array of {_dtype_name(value)}"
    return f"a {type(value).__name__}"


def _import(value: Any, where: str, name: str) -> npt.NDArray[Any]:
    """`value` as a NumPy array that shares its memory."""
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise ArgumentError(f"[{where}] {name} is a masked array; fill it first: .filled(0)")
        return np.asarray(value)
    if not hasattr(value, "__dlpack__"):
        raise ArgumentError(
            f"[{where}] {name} is {_describe(value)}, expected a float32 array"
            f" (numpy.asarray({name}, numpy.float32) makes one)"
        )
    try:
        if _dtype_name(value) == "bfloat16":
            return _core.bf16_bits(value, value)
        return value.numpy() if is_torch(value) else np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"[{where}] {name} cannot be read: {error}; expected an array in the CPU's memory"
        ) from None


def read(value: Any, where: str, name: str, bf16: bool = False) -> Float32 | Bits:
    """A C-contiguous float32 array; with `bf16` bfloat16 is taken too and comes as uint16."""
    array = _import(value, where, name)
    is_bf16 = _dtype_name(value) == "bfloat16"
    if is_bf16 and bf16:
        array = array.view(np.uint16)
    elif array.dtype != np.float32 or is_bf16:
        wanted = "float32 or bfloat16" if bf16 else "float32"
        how = ".float()" if is_torch(value) else ".astype(numpy.float32)"
        raise ArgumentError(
            f"[{where}] {name} is {_describe(value)}, expected {wanted}; convert it: {name}{how}",
            "unsupported",
        )
    return np.require(array, requirements=["C", "A"])


def is_bits(array: Float32 | Bits) -> bool:
    return array.dtype == np.uint16


def to_float32(array: Float32 | Bits) -> Float32:
    """Exact."""
    if not is_bits(array):
        return array.view(np.float32)
    return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bits(array: Float32 | Bits) -> Bits:
    """Rounds to the nearest bfloat16, ties to even."""
    if is_bits(array):
        return array.view(np.uint16)
    bits = np.empty(array.shape, np.uint16)
    _core.round_to_bf16(array.view(np.float32).reshape(-1), bits.reshape(-1))
    return bits


def check_shape(where: str, name: str, array: npt.NDArray[Any], *expected: int) -> None:
    if array.shape != expected:
        raise ArgumentError(
            f"[{where}] {name} is {shape_text(array.shape)}, expected {shape_text(expected)}",
            "shape_mismatch",
        )


def check_ndim(where: str, name: str, array: npt.NDArray[Any], ndim: int, form: str) -> None:
    if array.ndim != ndim:
        raise ArgumentError(
            f"[{where}] {name} is {shape_text(array.shape)}, expected {form}", "shape_mismatch"
        )


def like(value: Any, array: Float32 | Bits) -> Any:
    """`array` as the kind of array that `value` is."""
    if not is_torch(value):
        return array
    torch = sys.modules["torch"]
    if is_bits(array):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def read_out(value: Any, where: str, dtype: npt.DTypeLike) -> Float32 | Bits:
    """The caller's memory for a result; never a copy."""
    array = _import(value, where, "out")
    if _dtype_name(value) == "bfloat16":
        array = array.view(np.uint16)
        if is_torch(value):
            array = value.detach().view(sys.modules["torch"].int16).numpy().view(np.uint16)
    if array.dtype != dtype or is_bits(array) != (_dtype_name(value) == "bfloat16"):
        raise ArgumentError(
            f"[{where}] out is {_describe(value)}, expected the type of x", "unsupported"
        )
    if not (array.flags.c_contiguous and array.flags.aligned and array.flags.writeable):
        raise ArgumentError(f"[{where}] out must be C-contiguous and writable")
    return array


def read_mask(value: Any, where: str) -> npt.NDArray[Any]:
    """An array of truth values or whole numbers; 0 leaves a token out."""
    array = _import(value, where, "mask")
    if array.dtype.kind not in "bui":
        raise ArgumentError(
            f"[{where}] mask is {_describe(value)}, expected bool or integers", "unsupported"
        )
    return array
