"""What goes in and out of layers: float32 arrays, or the bits of bfloat16 ones as uint16.

Arrays come from NumPy or, by DLPack, from any package whose array is in the CPU's memory. They are
used where they are when contiguous, else copied.
"""

import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fourfold import _core
from fourfold.errors import ArgumentError

Float32 = npt.NDArray[np.float32]
# Bits of bfloat16 numbers, the upper half of float32 ones.
Bits = npt.NDArray[np.uint16]


class Imported(NamedTuple):
    """A caller's array as a NumPy one that shares its memory; of bfloat16 the bits, as uint16."""

    array: npt.NDArray[Any]
    dtype: str


def shape_text(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def is_torch(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def records_grad(value: object) -> bool:
    return is_torch(value) and getattr(value, "requires_grad", False) is True


def _import(value: Any, where: str, name: str, wanted: str, how: str = "") -> Imported:
    """`wanted` is what the error expects, `how` the function that makes it of a list."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(f"[{where}] {name} is a masked array; fill it first: .filled(0)")
    if isinstance(value, np.ndarray):
        array = np.asarray(value)
        is_bf16 = str(array.dtype) == "bfloat16"
        return Imported(array.view(np.uint16) if is_bf16 else array, str(array.dtype))
    if not is_torch(value) and not hasattr(value, "__dlpack__"):
        makes_one = f" ({how} makes one)" if how and isinstance(value, list | tuple) else ""
        kind = "single number" if isinstance(value, np.generic) else type(value).__name__
        raise ArgumentError(f"[{where}] {name} is a {kind}, expected {wanted}{makes_one}")
    try:
        return _import_tensor(value) if is_torch(value) else _import_dlpack(value)
    except MemoryError:
        raise
    except Exception as error:
        raise ArgumentError(
            f"[{where}] {name} cannot be read: {error}; expected an array in the CPU's memory"
        ) from error


def _import_tensor(value: Any) -> Imported:
    torch = sys.modules["torch"]
    if value.is_neg():
        raise ValueError("its negative bit is set, .resolve_neg() gives a plain tensor")
    dtype = str(value.dtype).removeprefix("torch.")
    if value.dtype != torch.bfloat16:
        return Imported(value.numpy(), dtype)
    return Imported(value.view(torch.int16).numpy().view(np.uint16), dtype)


def _import_dlpack(value: Any) -> Imported:
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:  # of a package from before versions
        capsule = value.__dlpack__()
    array, is_bf16 = _core.array_of(capsule)
    return Imported(array, "bfloat16" if is_bf16 else str(array.dtype))


def read(
    value: Any, where: str, name: str, bf16: bool = False, rows: bool = False
) -> Float32 | Bits:
    """A C-contiguous float32 array; with `bf16` bfloat16 is taken too and comes as uint16.

    Bfloat16 `rows` must be a tensor: other packages' arrays have no way back for the result.
    """
    how = f"numpy.asarray({name}, numpy.float32)"
    given = _import(value, where, name, "a float32 array", how)
    is_bf16 = given.dtype == "bfloat16"
    if is_bf16 and rows and not is_torch(value):
        raise ArgumentError(
            f"[{where}] {name} is a bfloat16 array of type {type(value).__name__}, expected float32"
            " or a torch tensor of bfloat16",
            "unsupported",
        )
    if given.dtype != "float32" and not (is_bf16 and bf16):
        wanted = "float32 or bfloat16" if bf16 else "float32"
        raise ArgumentError(
            f"[{where}] {name} is an array of {given.dtype}, expected {wanted}"
            + _conversion(value, name, given),
            "unsupported",
        )
    return np.require(given.array, requirements=["C", "A"])


def _conversion(value: Any, name: str, given: Imported) -> str:
    if given.array.dtype.kind not in "biuf":
        return ""
    if is_torch(value):
        return f"; convert it: {name}.float()"
    return f"; convert it: {name}.astype(numpy.float32)" if isinstance(value, np.ndarray) else ""


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


def read_out(value: Any, where: str, x: Any, shape: tuple[int, ...], bf16: bool) -> Float32 | Bits:
    """The caller's memory for the result of x, which it must not overlap; never a copy."""
    wanted = "a NumPy array or a torch tensor"
    if records_grad(value):
        raise ArgumentError(
            f"[{where}] out requires grad, which this layer does not record; pass out.detach()"
        )
    if not is_torch(value) and not isinstance(value, np.ndarray):
        raise ArgumentError(f"[{where}] out is a {type(value).__name__}, expected {wanted}")
    array, dtype = _import(value, where, "out", wanted)
    expected = "bfloat16" if bf16 else "float32"
    if dtype != expected:
        raise ArgumentError(
            f"[{where}] out is an array of {dtype}, expected {expected}, the type of x",
            "unsupported",
        )
    check_shape(where, "out", array, *shape)
    for fits, condition in (
        (array.flags.c_contiguous, "C-contiguous"),
        (array.flags.writeable, "writable"),
        (array.flags.aligned, "aligned to its elements"),
    ):
        if not fits:
            raise ArgumentError(f"[{where}] out is not {condition}; pass an array that is")
    # x as given: what is computed with may be a copy of it. Beyond the effort it counts as shared.
    effort: Any = 10_000  # NumPy's stub knows but 0 and -1
    if np.may_share_memory(array, _import(x, where, "x", "an array").array, max_work=effort):
        raise ArgumentError(f"[{where}] out overlaps x; expected an array of its own memory")
    return array


def read_mask(value: Any, where: str) -> npt.NDArray[Any]:
    """An array of truth values or whole numbers; 0 leaves a token out."""
    wanted = "an array of bool or integers"
    array, dtype = _import(value, where, "mask", wanted, "numpy.asarray(mask, bool)")
    if array.dtype.kind not in "bui" or dtype == "bfloat16":
        raise ArgumentError(
            f"[{where}] mask is an array of {dtype}, expected bool or integers", "unsupported"
        )
    return array
