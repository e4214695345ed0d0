"""A float64 array that knows how far a float32 computation of it may be off.

Running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, section 3.3): every
operation adds its own rounding to the errors it inherits. A product of K terms adds
K * eps * sum|terms| to what the errors of both factors become in it, so the bound of a gradient
holds the errors of all inner products too, first-order terms and products of errors alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

EPS = 2.0**-23
Array = np.ndarray[Any, np.dtype[Any]]
# Plain float64 for finite differences, Bounded for comparisons with the library.
Number = Any


class Bounded:
    """value: float64; error: bound on |float32 result - value|, of the same shape."""

    # ndarray operators leave expressions with a Bounded to the methods below.
    __array_ufunc__ = None

    def __init__(self, value: Any, error: Any = 0.0) -> None:
        self.value: Array = np.asarray(value, dtype=np.float64)
        self.error: Array = np.broadcast_to(np.asarray(error, np.float64), self.value.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def T(self) -> Bounded:
        return Bounded(self.value.T, self.error.T)

    def __getitem__(self, index: Any) -> Bounded:
        return Bounded(self.value[index], self.error[index])

    def reshape(self, *shape: int) -> Bounded:
        return Bounded(self.value.reshape(*shape), self.error.reshape(*shape))

    def __add__(self, other: Any) -> Bounded:
        o = bounded(other)
        size = np.abs(self.value) + np.abs(o.value)
        return Bounded(self.value + o.value, self.error + o.error + EPS * size)

    __radd__ = __add__

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.error)

    def __sub__(self, other: Any) -> Bounded:
        return self + (-bounded(other))

    def __rsub__(self, other: Any) -> Bounded:
        return bounded(other) + (-self)

    def __mul__(self, other: Any) -> Bounded:
        o = bounded(other)
        value = self.value * o.value
        inherited = np.abs(self.value) * o.error + self.error * (np.abs(o.value) + o.error)
        return Bounded(value, inherited + EPS * np.abs(value))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Bounded:
        o = bounded(other)
        value = self.value / o.value
        inherited = (self.error + np.abs(value) * o.error) / (np.abs(o.value) - o.error)
        return Bounded(value, inherited + EPS * np.abs(value))

    def __rtruediv__(self, other: Any) -> Bounded:
        return bounded(other) / self

    def __matmul__(self, other: Any) -> Bounded:
        o = bounded(other)
        a, b = np.abs(self.value), np.abs(o.value)
        inherited = self.error @ (b + o.error) + a @ o.error
        return Bounded(self.value @ o.value, inherited + a.shape[-1] * EPS * (a @ b))

    def __rmatmul__(self, other: Any) -> Bounded:
        return bounded(other) @ self

    def sum(self, axis: int, keepdims: bool = False) -> Bounded:
        value = self.value.sum(axis=axis, keepdims=keepdims)
        terms = np.abs(self.value).sum(axis=axis, keepdims=keepdims)
        error = self.error.sum(axis=axis, keepdims=keepdims)
        return Bounded(value, error + self.value.shape[axis] * EPS * terms)


def bounded(x: Number) -> Bounded:
    return x if isinstance(x, Bounded) else Bounded(x)


def value_of(x: Number) -> Array:
    return x.value if isinstance(x, Bounded) else np.asarray(x, dtype=np.float64)


def apply(
    x: Number,
    function: Callable[[Array], Array],
    slope: Callable[[Array], Array],
    curvature: Callable[[Array], Array] | float,
    ulps: float,
    least: float = 0.0,
) -> Number:
    """function(x) element by element, off by ulps * eps * max(|function(x)|, least) besides what
    the error of x makes of it. curvature: a bound on |second derivative| near x."""
    if not isinstance(x, Bounded):
        return function(np.asarray(x, dtype=np.float64))
    value = function(x.value)
    bend = curvature(x.value) if callable(curvature) else curvature
    inherited = np.abs(slope(x.value)) * x.error + bend * x.error**2
    return Bounded(value, inherited + ulps * EPS * np.maximum(np.abs(value), least))


def scatter_add(target: Number, rows: Array, part: Number) -> Number:
    """target with part[i] added to row rows[i]; rows are distinct."""
    if isinstance(target, Bounded) or isinstance(part, Bounded):
        whole, added = bounded(target), bounded(part)
        total = whole[rows] + added
        value, error = whole.value.copy(), whole.error.copy()
        value[rows], error[rows] = total.value, total.error
        return Bounded(value, error)
    result = target.copy()
    result[rows] += part
    return result


def concatenate(parts: list[Number], axis: int = 0) -> Number:
    if any(isinstance(part, Bounded) for part in parts):
        both = [bounded(part) for part in parts]
        return Bounded(
            np.concatenate([part.value for part in both], axis),
            np.concatenate([part.error for part in both], axis),
        )
    return np.concatenate(parts, axis)


def bf16(values: Any) -> Array:
    """The nearest bf16 value, ties to even. float64 is not narrowed to float32 on the way."""
    x = np.asarray(values, dtype=np.float64)
    # frexp: |mantissa| in [0.5, 1), so 8 significant bits are mantissa * 2^8; below 2^-126 the
    # spacing stays 2^-133.
    exponent = np.maximum(np.frexp(x)[1] - 8, -133)
    return np.ldexp(np.rint(np.ldexp(x, -exponent)), exponent)


def round_to_bf16(x: Number) -> Number:
    """Rounding as a layer of bf16 weights does it. Where the error reaches a rounding boundary, the
    two neighbours are both possible."""
    if not isinstance(x, Bounded):
        return bf16(x)
    value = bf16(x.value)
    low, high = bf16(x.value - x.error), bf16(x.value + x.error)
    return Bounded(value, np.maximum(high - value, value - low))


def assert_close(name: str, got: Any, want: Number, norm: float | None = 1e-5) -> None:
    """Every element within its bound, and the whole tensor within norm * ||want||."""
    wanted = bounded(want)
    got64 = np.asarray(got, dtype=np.float64)
    assert got64.shape == wanted.shape, f"{name} is {got64.shape}, expected {wanted.shape}"
    assert np.isfinite(got64).all(), f"{name} has values that are not finite"
    if got64.size == 0:
        return
    difference = np.abs(got64 - wanted.value)
    # Below 2^-126 float32 has a fixed spacing.
    excess = difference - (wanted.error + 2.0**-140)
    worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
    assert excess[worst] <= 0, (
        f"{name}{list(map(int, worst))} is {got64[worst]:.9g}, expected {wanted.value[worst]:.9g} "
        f"within {wanted.error[worst]:.3g}; {int((excess > 0).sum())} of {excess.size} are off"
    )
    if norm is not None:
        size = float(np.linalg.norm(wanted.value))
        assert np.linalg.norm(difference) <= norm * size + 1e-30, (
            f"{name} is off by {np.linalg.norm(difference):.3g}, norm {size:.3g}"
        )
