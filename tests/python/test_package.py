"""The Python package as users meet it: what arrays layers take, what comes back, and errors.

Expected values are float64 loops of NumPy; other layouts of the same values must give equal bits.
"""

import ast
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import fourfold as ff

D_MODEL, D_FF = 7, 13
Float32 = npt.NDArray[np.float32]
EPS = 2.0**-23


def values(seed: int, *shape: int) -> Float32:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


UP, DOWN, GATE = values(1, D_FF, D_MODEL), values(2, D_MODEL, D_FF), values(3, D_FF, D_MODEL)
UP_BIAS, DOWN_BIAS, GATE_BIAS = values(4, D_FF), values(5, D_MODEL), values(6, D_FF)
X = values(7, 3, 5, D_MODEL)


def relu_ffn(x: Float32) -> npt.NDArray[np.float64]:
    """The dense layer below in float64."""
    pre = x.astype(np.float64) @ UP.T.astype(np.float64) + UP_BIAS
    return np.maximum(pre, 0) @ DOWN.T.astype(np.float64) + DOWN_BIAS


def assert_close(y: Any, expected: npt.NDArray[np.float64]) -> None:
    # Two products of 7 and 13 terms; every sum of absolute values here is below 200.
    assert np.abs(np.asarray(y) - expected).max(initial=0) <= 20 * EPS * 200


@pytest.fixture
def dense() -> ff.DenseFFN:
    return ff.DenseFFN(UP, DOWN, UP_BIAS, DOWN_BIAS, activation="relu")


@pytest.fixture
def gated() -> ff.GatedFFN:
    return ff.GatedFFN(GATE, UP, DOWN, GATE_BIAS, UP_BIAS, DOWN_BIAS)


# Arrays in


@pytest.mark.parametrize("shape", [(7,), (1, 7), (5, 7), (2, 3, 7), (2, 1, 3, 7)])
def test_leading_dimensions_are_kept(dense: ff.DenseFFN, shape: tuple[int, ...]) -> None:
    x = values(11, *shape)
    y = dense(x)
    assert y.shape == shape and y.dtype == np.float32
    assert_close(y, relu_ffn(x))


@pytest.mark.parametrize("shape", [(0, 7), (2, 0, 7)])
def test_zero_rows(dense: ff.DenseFFN, shape: tuple[int, ...]) -> None:
    y, saved = dense.forward(np.zeros(shape, np.float32), save=True)
    dx, grads = dense.backward(saved, np.zeros(shape, np.float32))
    assert y.shape == dx.shape == shape
    for gradient in (grads.up, grads.down, grads.up_bias, grads.down_bias):
        assert not gradient.any()


def misaligned(array: Float32) -> Float32:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    raw[1:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.frombuffer(raw.data, np.float32, array.size, 1).reshape(array.shape)


def read_only(array: Float32) -> Float32:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def field(array: Float32) -> Float32:
    table = np.zeros(array.shape, [("label", "u1"), ("value", "f4")])
    table["value"] = array
    return table["value"]


LAYOUTS: dict[str, Callable[[Float32], Float32]] = {
    "every second column": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "every third row": lambda a: np.repeat(a, 3, axis=0)[::3],
    "backward": lambda a: a[::-1, ..., ::-1].copy()[::-1, ..., ::-1],
    "Fortran": np.asfortranarray,
    "read-only": read_only,
    "misaligned": misaligned,
    "field of a table": field,
    "broadcast view": lambda a: np.lib.stride_tricks.as_strided(a, a.shape, a.strides),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_bits(dense: ff.DenseFFN, layout: str) -> None:
    change = LAYOUTS[layout]
    assert np.array_equal(dense(change(X)), dense(X))
    assert_close(dense(change(X)), relu_ffn(X))
    biases = (np.repeat(UP_BIAS, 2)[::2], np.repeat(DOWN_BIAS, 2)[::2])
    same = ff.DenseFFN(change(UP), change(DOWN), *biases, activation="relu")
    assert np.array_equal(same(X), dense(X))


def test_a_broadcast_row_is_repeated(dense: ff.DenseFFN) -> None:
    x = np.broadcast_to(X[0, 0], (4, D_MODEL))
    assert np.array_equal(dense(x), np.stack([dense(X[0, 0])] * 4))


@pytest.mark.parametrize(
    ("x", "found"),
    [
        (X.astype(np.float64), "float64"),
        (X.astype(np.float16), "float16"),
        (X.astype(np.int32), "int32"),
        (X.astype(">f4"), ">f4"),
        (X.astype(object), "object"),
        (X.tolist(), "list"),
        (None, "NoneType"),
        (np.ma.masked_array(X, X > 0), "masked"),
        (torch.from_numpy(X).double(), "float64"),
        (torch.empty(2, D_MODEL, device="meta"), "cannot be read"),
        (torch.from_numpy(X.copy()).requires_grad_(), "requires grad"),
    ],
)
def test_other_types_are_refused_by_name(dense: ff.DenseFFN, x: Any, found: str) -> None:
    with pytest.raises(ff.ArgumentError, match=r"\[dense_ffn\] x ") as caught:
        dense(x)
    assert found in str(caught.value)


@pytest.mark.parametrize("shape", [(), (5,), (7, 5), (2, 7, 1)])
def test_a_wrong_width_names_both_shapes(gated: ff.GatedFFN, shape: tuple[int, ...]) -> None:
    with pytest.raises(ff.ArgumentError, match=r"\[gated_ffn\] x is \[.*expected \[..., 7\]") as e:
        gated(np.zeros(shape, np.float32))
    assert e.value.code == "shape_mismatch"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gate": GATE.T}, "gate is [7, 13], expected [13, 7]"),
        ({"down": UP}, "down is [13, 7], expected [7, 13]"),
        ({"up": UP[0]}, "up is [7], expected [d_ff, d_model]"),
        ({"up_bias": UP_BIAS[:5]}, "up_bias is [5], expected [13]"),
        ({"gate_bias": np.zeros(0, np.float32)}, "gate_bias is [0], expected [13]"),
        ({"down_bias": DOWN_BIAS[None]}, "down_bias is [1, 7], expected [7]"),
    ],
)
def test_shapes_of_weights_are_checked(changed: dict[str, Any], message: str) -> None:
    given = {"gate": GATE, "up": UP, "down": DOWN} | changed
    with pytest.raises(ff.ArgumentError) as caught:
        ff.GatedFFN(**given)
    assert str(caught.value) == f"[gated_ffn] {message}"
    assert caught.value.code == "shape_mismatch"


def test_weights_without_elements_are_refused() -> None:
    with pytest.raises(ff.ArgumentError):
        ff.DenseFFN(np.zeros((0, 7), np.float32), np.zeros((7, 0), np.float32))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ff.ArgumentError, match='unknown activation "gelu9"') as caught:
        ff.DenseFFN(UP, DOWN, activation="gelu9")
    assert caught.value.code == "unsupported"
    with pytest.raises(ff.ArgumentError, match='dtype is "int8"'):
        ff.DenseFFN(UP, DOWN, dtype="int8")
    with pytest.raises(ff.ArgumentError, match="activation is a int"):
        ff.DenseFFN(UP, DOWN, activation=3)  # type: ignore[arg-type]


# Results out


def test_out_is_filled_and_returned(dense: ff.DenseFFN) -> None:
    out = np.full(X.shape, np.nan, np.float32)
    assert dense(X, out=out) is out
    assert np.array_equal(out, dense(X))
    tensor = torch.empty(X.shape)
    assert dense(torch.from_numpy(X), out=tensor) is tensor
    assert np.array_equal(tensor.numpy(), out)


X_AND_ROOM = np.concatenate([X.reshape(-1), np.zeros(X.size, np.float32)])


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros((3, 5, 6), np.float32), r"out is \[3, 5, 6\], expected \[3, 5, 7\]"),
        (np.zeros((15, 7), np.float32), r"out is \[15, 7\]"),
        (np.zeros(X.shape), "float64"),
        (np.zeros((*X.shape, 2), np.float32)[..., 0], "C-contiguous"),
        (np.asfortranarray(X), "C-contiguous"),
        (read_only(X), "writable"),
        (X_AND_ROOM[7 : 7 + X.size].reshape(X.shape), "overlaps"),
        ([0.0], "list"),
    ],
)
def test_an_unfit_out_is_refused(dense: ff.DenseFFN, out: Any, message: str) -> None:
    with pytest.raises(ff.ArgumentError, match=message):
        dense(X_AND_ROOM[: X.size].reshape(X.shape), out=out)


def test_results_own_their_memory() -> None:
    layer = ff.DenseFFN(UP.copy(), DOWN.copy(), activation="relu")
    x = X.copy()
    y, saved = layer.forward(x, save=True)
    dx, grads = layer.backward(saved, y)
    before = [array.copy() for array in (y, dx, grads.up)]
    del layer, x, saved
    gc.collect()
    filler = [np.full(1 << 20, 7, np.float32) for _ in range(25)]
    for array, kept in zip((y, dx, grads.up), before, strict=True):
        assert np.array_equal(array, kept) and array.flags.owndata
    assert len(filler) == 25


def test_weights_are_copied(dense: ff.DenseFFN) -> None:
    up = UP.copy()
    layer = ff.DenseFFN(up, DOWN, UP_BIAS, DOWN_BIAS, activation="relu")
    up[:] = 0
    assert np.array_equal(layer(X), dense(X))


# torch and bfloat16


def test_torch_in_torch_out(gated: ff.GatedFFN) -> None:
    x = torch.from_numpy(X)
    y, saved = gated.forward(x, save=True)
    dx, grads = gated.backward(saved, y)
    assert all(isinstance(t, torch.Tensor) for t in (y, dx, grads.gate, grads.down_bias))
    assert np.array_equal(y.numpy(), gated(X))
    transposed = torch.from_numpy(np.ascontiguousarray(X.transpose(2, 0, 1))).permute(1, 2, 0)
    assert np.array_equal(gated(transposed).numpy(), gated(X))
    with torch.no_grad():
        parameters = [torch.nn.Parameter(torch.from_numpy(w.copy())) for w in (GATE, UP, DOWN)]
    assert np.array_equal(ff.GatedFFN(*parameters)(X), ff.GatedFFN(GATE, UP, DOWN)(X))


def test_bfloat16_weights_and_tokens() -> None:
    up, down = (torch.from_numpy(w).bfloat16() for w in (UP, DOWN))
    layer = ff.DenseFFN(up, down, activation="relu")
    converted = ff.DenseFFN(UP, DOWN, activation="relu", dtype="bfloat16")
    widened = ff.DenseFFN(up, down, activation="relu", dtype="float32")
    assert (layer.dtype, converted.dtype, widened.dtype) == ("bfloat16", "bfloat16", "float32")
    assert np.array_equal(layer(X), converted(X))
    exact = ff.DenseFFN(up.float(), down.float(), activation="relu")
    assert np.array_equal(widened(X), exact(X))
    x = torch.from_numpy(X).bfloat16()
    y, saved = layer.forward(x, save=True)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, layer(x.float()).bfloat16())
    out = torch.empty_like(x)
    assert layer(x, out=out) is out and torch.equal(out, y)
    dx, grads = layer.backward(saved, y)
    assert dx.dtype == torch.bfloat16 and grads.up.dtype == torch.float32
    with pytest.raises(ff.ArgumentError, match="both float32 or both bfloat16"):
        layer.backward(saved, y.float())
    with pytest.raises(ff.ArgumentError, match="differ in type"):
        ff.DenseFFN(up, DOWN)
    assert ff.DenseFFN(up, DOWN, dtype="float32").dtype == "float32"


class OnlyDlpack:
    """An array of some other package."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.dtype = str(tensor.dtype).removeprefix("torch.")
        self.shape = tuple(tensor.shape)

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


def test_arrays_of_any_package_come_by_dlpack(dense: ff.DenseFFN) -> None:
    x = torch.from_numpy(X.copy())
    foreign: Any = OnlyDlpack(x)
    assert np.array_equal(dense(foreign), dense(X))
    up, down = (torch.from_numpy(w).bfloat16() for w in (UP, DOWN))
    layer = ff.DenseFFN(OnlyDlpack(up), OnlyDlpack(down.T.contiguous().T))
    assert np.array_equal(layer(X), ff.DenseFFN(up, down)(X))


# Backward


def test_gradients_have_the_names_and_shapes_of_the_arrays(gated: ff.GatedFFN) -> None:
    y, saved = gated.forward(X, save=True)
    assert np.array_equal(y, gated(X)) and np.array_equal(y, gated.forward(X))
    dx, grads = gated.backward(saved, y)
    assert dx.shape == X.shape
    given = {"gate": GATE, "up": UP, "down": DOWN}
    given |= {"gate_bias": GATE_BIAS, "up_bias": UP_BIAS, "down_bias": DOWN_BIAS}
    for name, array in given.items():
        gradient = getattr(grads, name)
        assert gradient.shape == array.shape and gradient.dtype == np.float32 and gradient.any()
    bare = ff.DenseFFN(UP, DOWN)
    _, saved_by_bare = bare.forward(X, save=True)
    _, some = bare.backward(saved_by_bare, X)
    assert some.up_bias is None and some.down_bias is None


def test_gradients_of_relu_in_float64(dense: ff.DenseFFN) -> None:
    x, dy = X.reshape(-1, D_MODEL), values(21, 15, D_MODEL)
    _, saved = dense.forward(x, save=True)
    dx, grads = dense.backward(saved, dy)
    wide_x, wide_dy = x.astype(np.float64), dy.astype(np.float64)
    pre = wide_x @ UP.T + UP_BIAS
    dpre = (wide_dy @ DOWN) * (pre > 0)
    assert_close(dx, dpre @ UP)
    assert_close(grads.up, dpre.T @ wide_x)
    assert_close(grads.down, wide_dy.T @ np.maximum(pre, 0))
    assert_close(grads.up_bias, dpre.sum(0))
    assert_close(grads.down_bias, wide_dy.sum(0))


def test_x_may_change_before_backward(dense: ff.DenseFFN) -> None:
    x = X.copy()
    y, saved = dense.forward(x, save=True)
    expected = dense.backward(saved, y)[1].up
    x[:] = 0
    assert np.array_equal(dense.backward(saved, y)[1].up, expected)


def test_saved_belongs_to_its_layer_and_weights(dense: ff.DenseFFN) -> None:
    y, saved = dense.forward(X, save=True)
    with pytest.raises(ff.ArgumentError, match="another layer"):
        ff.DenseFFN(UP, DOWN).backward(saved, y)
    with pytest.raises(ff.ArgumentError, match="saved is a GatedSaved"):
        dense.backward(ff.GatedFFN(GATE, UP, DOWN).forward(X, save=True)[1], y)  # type: ignore[arg-type]
    with pytest.raises(ff.ArgumentError, match=r"dy is \[15, 7\], expected \[3, 5, 7\]"):
        dense.backward(saved, y.reshape(15, 7))
    dense.set_weights(UP, DOWN, UP_BIAS, DOWN_BIAS)
    with pytest.raises(ff.ArgumentError, match="before set_weights"):
        dense.backward(saved, y)


def test_set_weights_computes_with_the_new_values(gated: ff.GatedFFN) -> None:
    other: Any = [values(31 + i, *a.shape) for i, a in enumerate((GATE, UP, DOWN))]
    biases: Any = (GATE_BIAS, UP_BIAS, DOWN_BIAS)
    smaller: Any = (GATE[:5], UP[:5], DOWN[:, :5], *biases)
    gated.forward(X, save=True)
    gated.set_weights(*other, *biases)
    fresh = ff.GatedFFN(*other, *biases)
    (y, saved), (expected, fresh_saved) = (g.forward(X, save=True) for g in (gated, fresh))
    assert np.array_equal(y, expected)
    assert np.array_equal(gated.backward(saved, y)[0], fresh.backward(fresh_saved, y)[0])
    for wrong in ((GATE, UP, DOWN), smaller):
        with pytest.raises(ff.ArgumentError, match=r"\[gated_ffn\]"):
            gated.set_weights(*wrong)
    assert np.array_equal(gated(X), expected)


# Numbers about a layer


def test_facts_about_layers(dense: ff.DenseFFN, gated: ff.GatedFFN) -> None:
    assert dense.parameters_total == dense.parameters_active == 2 * 7 * 13 + 13 + 7
    assert gated.parameters_total == 3 * 7 * 13 + 2 * 13 + 7
    assert (dense.flops(1), gated.flops(10)) == (4 * 7 * 13, 10 * 6 * 7 * 13)
    assert (gated.d_model, gated.d_ff, gated.activation, gated.dtype) == (7, 13, "silu", "float32")
    assert repr(dense) == 'DenseFFN(d_model=7, d_ff=13, "relu", float32, biases)'
    with pytest.raises(ff.ArgumentError):
        dense.flops(-1)


def test_skipping_zeros_changes_no_bit(dense: ff.DenseFFN) -> None:
    y = dense(X)
    assert dense.skip_zeros is True
    dense.skip_zeros = False
    assert dense.skip_zeros is False and np.array_equal(dense(X), y)


# Errors


def test_classes_of_errors() -> None:
    assert issubclass(ff.Error, RuntimeError)
    assert issubclass(ff.ArgumentError, ff.Error) and issubclass(ff.ArgumentError, ValueError)
    assert issubclass(ff.FileError, ff.Error) and issubclass(ff.FileError, OSError)
    error = ff.FileError("x.safetensors is cut", "bad_file")
    assert str(error) == "x.safetensors is cut" and error.code == "bad_file"
    assert (error.path, error.offset, error.tensor, error.rule) == (None, None, None, None)
    error.offset = 8
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.offset) == (str(error), "bad_file", 8)


def run_python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    package = str(Path(ff.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": package, **env},
    )


def test_an_unknown_instruction_set_is_an_error() -> None:
    code = "import fourfold as ff\ntry: ff.info()\nexcept ff.Error as e: print(e.code, e)"
    done = run_python(code, FOURFOLD_ISA="sse1")
    assert done.stdout.startswith("unsupported FOURFOLD_ISA=sse1"), done.stderr


# The package itself


@pytest.mark.parametrize("order", ["fourfold numpy torch", "torch fourfold", "numpy fourfold"])
def test_imports_in_any_order(order: str) -> None:
    code = "\n".join(f"import {name}" for name in order.split())
    code += "\nimport numpy as n, sys; o = n.eye(3, dtype='f4')"
    code += "\nassert fourfold.DenseFFN(o, o, activation='relu')(o).tolist() == o.tolist()"
    code += "\nprint('torch' in sys.modules, 'omp' in open('/proc/self/maps').read())"
    done = run_python(code)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    if "torch" not in order:
        assert done.stdout == "False False\n"


def test_only_the_module_function_is_exported() -> None:
    library = Path(sys.modules["fourfold._core"].__file__ or "")
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[-1] for line in shown.splitlines()] == ["PyInit__core"]


def test_types_ship_and_name_every_function() -> None:
    folder = Path(ff.__file__).parent
    assert (folder / "py.typed").is_file()
    stub = ast.parse((folder / "functional.pyi").read_text(encoding="utf-8"))
    typed = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    assert typed == set(vars(ff.functional)["__all__"])
    for name in ff.__all__:
        assert getattr(ff, name).__doc__
