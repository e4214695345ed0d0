"""Arguments that the Python package refuses in words that help, and memory it must not touch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import fourfold as ff


def values(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


D_MODEL, D_FF, N = 7, 13, 5
UP, DOWN = values(1, D_FF, D_MODEL), values(2, D_MODEL, D_FF)
ROUTER, UPS, DOWNS = values(3, N, D_MODEL), values(4, N, D_FF, D_MODEL), values(5, N, D_MODEL, D_FF)
X = values(6, 3, D_MODEL)
SURROGATE = "\ud800"


@pytest.fixture
def layer() -> ff.DenseFFN:
    return ff.DenseFFN(UP, DOWN, activation="relu")


@pytest.fixture
def moe() -> ff.MoEFFN:
    return ff.MoEFFN(ROUTER, None, UPS, DOWNS)


def refusal(call: Callable[..., Any], *given: Any, **named: Any) -> str:
    """The message of the error that the call must raise."""
    with pytest.raises(ff.ArgumentError) as caught:
        call(*given, **named)
    return str(caught.value)


class Foreign:
    """An array of another package, with nothing but DLPack."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


class OldForeign(Foreign):
    """Of before DLPack had versions."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.tensor.__dlpack__()


class Temporary(Foreign):
    """Exports a copy that nothing else keeps."""

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.clone().__dlpack__(**options)


class Failing(Foreign):
    def __dlpack__(self, **options: Any) -> Any:
        raise KeyError("lost")


# Arrays by DLPack


@pytest.mark.parametrize("kind", [Foreign, OldForeign, Temporary])
def test_dlpack_alone_is_enough(layer: ff.DenseFFN, kind: Any) -> None:
    assert np.array_equal(layer(kind(torch.from_numpy(X))), layer(X))
    strided = torch.from_numpy(np.repeat(X, 2, axis=1))[:, ::2]
    assert np.array_equal(layer(kind(strided)), layer(X))
    up, down = (torch.from_numpy(w).bfloat16() for w in (UP, DOWN))
    of_bf16 = ff.DenseFFN(kind(up), kind(down.T.contiguous().T), activation="relu")
    assert of_bf16.dtype == "bfloat16"
    assert np.array_equal(of_bf16(X), ff.DenseFFN(up, down, activation="relu")(X))


def test_read_only_arrays_come_by_dlpack(layer: ff.DenseFFN) -> None:
    x = X.copy()
    x.flags.writeable = False
    foreign: Any = Foreign(x)
    assert np.array_equal(layer(foreign), layer(X))


def test_unfit_dlpack_arrays_are_refused_by_name(layer: ff.DenseFFN) -> None:
    half: Any = Foreign(torch.from_numpy(X).half())
    assert "x is an array of float16, expected float32" in refusal(lambda: layer(half))
    double: Any = Foreign(torch.from_numpy(X).double())
    text = refusal(lambda: layer(double))
    assert "x is an array of float64" in text and "astype" not in text
    not_a_capsule: Any = type("Odd", (), {"__dlpack__": lambda self, **options: 3})()
    assert "x cannot be read" in refusal(lambda: layer(not_a_capsule))


def test_an_error_inside_dlpack_is_chained(layer: ff.DenseFFN) -> None:
    failing: Any = Failing(None)
    with pytest.raises(ff.ArgumentError, match="x cannot be read: 'lost'") as caught:
        layer(failing)
    assert isinstance(caught.value.__cause__, KeyError)


def test_bfloat16_tokens_are_tensors() -> None:
    layer = ff.DenseFFN(UP, DOWN, dtype="bfloat16")
    x = torch.from_numpy(X).bfloat16()
    foreign: Any = Foreign(x)
    assert "x is a bfloat16 array of type Foreign" in refusal(lambda: layer(foreign))
    y, saved = layer.forward(x, save=True)
    foreign = Foreign(y)
    assert "dy is a bfloat16 array of type Foreign" in refusal(
        lambda: layer.backward(saved, foreign)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_unfit_tensors_are_refused(layer: ff.DenseFFN, dtype: torch.dtype) -> None:
    x = torch.from_numpy(X).to(dtype)
    negative = torch._neg_view(x)
    assert "resolve_neg" in refusal(lambda: layer(negative))
    assert "resolve_neg" in refusal(lambda: layer(x, out=torch._neg_view(x.clone())))
    assert torch.equal(layer(negative.resolve_neg()), layer(-x))
    assert "x cannot be read" in refusal(lambda: layer(x.to("meta")))
    assert "x cannot be read" in refusal(lambda: layer(x.to_sparse()))


# Out


def test_out_is_a_numpy_array_or_a_tensor(layer: ff.DenseFFN) -> None:
    for out in (Foreign(torch.zeros(3, D_MODEL)), [1], "out", np.float32(1)):
        given: Any = out
        text = refusal(layer, X, out=given)
        assert "expected a NumPy array or a torch tensor" in text and "asarray" not in text


def test_the_condition_that_out_breaks_is_named(layer: ff.DenseFFN) -> None:
    read_only = np.zeros_like(X)
    read_only.flags.writeable = False
    raw = np.zeros(X.nbytes + 1, np.uint8)
    misaligned = np.frombuffer(raw.data, np.float32, X.size, 1).reshape(X.shape)
    for out, message in (
        (np.zeros(X.shape), "out is an array of float64, expected float32"),
        (np.zeros((2, D_MODEL), np.float32), "out is [2, 7], expected [3, 7]"),
        (np.asfortranarray(X), "out is not C-contiguous"),
        (read_only, "out is not writable"),
        (misaligned, "out is not aligned"),
        (torch.zeros(3, D_MODEL).bfloat16(), "out is an array of bfloat16, expected float32"),
    ):
        given: Any = out
        assert message in refusal(layer, X, out=given)


def test_out_must_not_overlap_x_as_given(layer: ff.DenseFFN) -> None:
    square = np.ascontiguousarray(np.vstack([X, X, X[:1]]))
    assert square.shape == (D_MODEL, D_MODEL)
    for x in (square[::-1], square.T, square[:, ::-1]):
        before = square.copy()
        assert "out overlaps x" in refusal(layer, x, out=square)
        assert np.array_equal(square, before)
    # Between the rows of x is room for a result.
    table = np.zeros((5, 1, D_MODEL), np.float32)
    x, out = table[::4], table[1:3]
    x[:] = X[:2, None]
    assert np.array_equal(layer(x, out=out)[:, 0], layer(X[:2]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_out_that_requires_grad_is_not_written(layer: ff.DenseFFN, dtype: torch.dtype) -> None:
    out = torch.zeros(3, D_MODEL, dtype=dtype, requires_grad=True)
    x = torch.from_numpy(X).to(dtype)
    assert "out requires grad" in refusal(lambda: layer(x, out=out))
    assert not out.detach().any()


# What messages advise


@pytest.mark.parametrize("x", [np.float32(1), 1.0, None, "x"])
def test_no_advice_where_none_helps(layer: ff.DenseFFN, x: Any) -> None:
    text = refusal(lambda: layer(x))
    assert "expected a float32 array" in text and "asarray" not in text
    assert "an array of float32, expected" not in text


def test_advice_leads_on(layer: ff.DenseFFN, moe: ff.MoEFFN) -> None:
    rows: Any = X.tolist()
    assert "numpy.asarray(x, numpy.float32) makes one" in refusal(lambda: layer(rows))
    assert layer(np.asarray(rows, np.float32)).shape == X.shape
    _, saved = moe.forward(X, save=True)
    text = refusal(lambda: moe.router_losses(saved, mask=[1] * 3))
    assert "expected an array of bool or integers (numpy.asarray(mask, bool) makes one)" in text
    assert moe.router_losses(saved, mask=np.asarray([1] * 3, bool)) == moe.router_losses(saved)
    complex_x: Any = X.astype(np.complex64)
    assert "convert" not in refusal(lambda: layer(complex_x))


def test_a_bfloat16_mask_is_refused(moe: ff.MoEFFN) -> None:
    _, saved = moe.forward(X, save=True)
    mask = torch.tensor([-0.0, 1.0, 0.0]).bfloat16()
    for given in (mask, Foreign(mask)):
        text = refusal(moe.router_losses, saved, mask=given)
        assert "mask is an array of bfloat16, expected bool or integers" in text


# Numbers, names and switches


BAD_REALS = [1e300, -1e300, 1e-300, 10**400, float("nan"), "1", None, 3.5e38]


@pytest.mark.parametrize("number", BAD_REALS)
def test_numbers_beyond_float32_are_refused_as_given(moe: ff.MoEFFN, number: Any) -> None:
    def build(**options: Any) -> ff.MoEFFN:
        return ff.MoEFFN(ROUTER, None, UPS, DOWNS, **options)

    y, saved = moe.forward(X, save=True)
    given = repr(number)[:50]
    assert f"scaling is {given}" in refusal(lambda: build(scaling=number))
    for name in ("load_balance", "z_loss"):
        options: Any = {name: number}
        text = refusal(moe.backward, saved, y, **options)
        assert f"{name} is {given}" in text
    if number is not None:
        text = refusal(lambda: build(capacity_factor=number))
        assert f"capacity_factor is {given}" in text


def test_numbers_without_decimal_text_are_refused(layer: ff.DenseFFN) -> None:
    huge = 10**5000
    assert "count is a int" in refusal(lambda: ff.set_num_threads(huge))
    assert "scaling is a int" in refusal(lambda: ff.MoEFFN(ROUTER, None, UPS, DOWNS, scaling=huge))
    assert "top_k is a int" in refusal(lambda: ff.MoEFFN(ROUTER, None, UPS, DOWNS, top_k=huge))


def test_names_that_are_no_text_are_refused() -> None:
    for call in (
        lambda: ff.DenseFFN(UP, DOWN, activation=SURROGATE),
        lambda: ff.GatedFFN(UP, UP, DOWN, activation=SURROGATE),
        lambda: ff.MoEFFN(ROUTER, None, UPS, DOWNS, activation=SURROGATE),
        lambda: ff.functional.glu(X, X, SURROGATE),
        lambda: ff.functional.glu_backward(X, X, X, SURROGATE),
    ):
        assert r"unknown activation '\ud800'" in refusal(call)
    text = refusal(lambda: ff.MoEFFN(ROUTER, None, UPS, DOWNS, scoring=SURROGATE))
    assert r"unknown scoring '\ud800'" in text
    assert "dtype is" in refusal(lambda: ff.DenseFFN(UP, DOWN, dtype=SURROGATE))


@pytest.mark.parametrize("tokens", ["3", None, float("nan"), 1.5, -1, True])
def test_tokens_of_flops_are_whole(layer: ff.DenseFFN, tokens: Any) -> None:
    assert "tokens is" in refusal(lambda: layer.flops(tokens))
    assert layer.flops(np.int64(3)) == 3 * layer.flops(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["off", "False", 0, 1, None, np.ones(2, bool)])
def test_switches_are_bools(layer: ff.DenseFFN, value: Any) -> None:
    def set_skip_zeros() -> None:
        layer.skip_zeros = value

    assert "skip_zeros is" in refusal(set_skip_zeros) and layer.skip_zeros is True
    for name in ("renormalize", "weight_input"):
        options: Any = {name: value}
        text = refusal(ff.MoEFFN, ROUTER, None, UPS, DOWNS, **options)
        assert f"{name} is" in text and "expected True or False" in text
    assert "save is" in refusal(lambda: layer.forward(X, save=value))
    layer.skip_zeros = np.False_  # type: ignore[assignment]
    assert layer.skip_zeros is False


def test_misspelt_properties_are_refused(layer: ff.DenseFFN, moe: ff.MoEFFN) -> None:
    for one in (layer, moe, ff.GatedFFN(UP, UP, DOWN)):
        with pytest.raises(AttributeError, match="skip_zero"):
            one.skip_zero = True  # type: ignore[union-attr]
        with pytest.raises(AttributeError):
            one.d_model = 3  # type: ignore[misc]
