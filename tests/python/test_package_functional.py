"""fourfold.functional: every activation by name, with its gradient, for arrays of any shape."""

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch

import fourfold as ff

EPS = 2.0**-23


def values(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_functions_keep_the_shape() -> None:
    for shape in ((), (0,), (5,), (2, 3, 4), (2, 0, 3)):
        x = np.asarray(values(41, *shape))
        y = ff.functional.relu(x)
        assert y.shape == shape and np.array_equal(y, np.maximum(x, 0))
    strided = values(42, 4, 6)[::-2, ::3]
    assert np.array_equal(ff.functional.relu(strided), np.maximum(strided, 0))
    assert isinstance(ff.functional.silu(torch.ones(2)), torch.Tensor)
    with pytest.raises(ff.ArgumentError, match=r"\[gelu\] x is an array of float64"):
        ff.functional.gelu(np.ones(3))


def test_gelu_is_the_one_with_erf() -> None:
    x = values(43, 17)
    expected = np.array([v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()])
    assert np.all(np.abs(ff.functional.gelu(x) - expected) <= 2 * EPS * np.abs(expected))


GATED_ONLY = ("swiglu_oai", "glu")
NAMES = [n for n in vars(ff.functional)["__all__"] if not n.endswith("_backward")]


@pytest.mark.parametrize("name", [n for n in NAMES if n not in GATED_ONLY])
def test_an_activation_and_its_gradient_fit(name: str) -> None:
    function, backward = getattr(ff.functional, name), getattr(ff.functional, f"{name}_backward")
    # Steps of 1/16 about points between corners; float64 differences of float32 results.
    x, dy = np.linspace(-2.03125, 7.9, 18, dtype=np.float32).reshape(2, 9), values(44, 2, 9)
    step = np.float32(2**-4)
    slope = (function(x + step).astype(np.float64) - function(x - step)) / (2.0 * step)
    assert np.abs(backward(x, dy) - slope * dy).max() < 0.004 * np.abs(dy).max()
    gate, up = values(45, 2, 9), values(46, 2, 9)
    assert np.array_equal(ff.functional.glu(gate, up, name), function(gate) * up)
    dgate, dup = ff.functional.glu_backward(gate, up, dy, name)
    assert np.allclose(dgate, backward(gate, up * dy), rtol=8 * EPS, atol=EPS)
    assert np.allclose(dup, function(gate) * dy, rtol=4 * EPS, atol=0)
    assert function.__name__ == name and name in (function.__doc__ or "")


def test_swiglu_oai_takes_a_gate() -> None:
    gate, up, dh = np.array([[8, -1, 2], [9, 3, -8], [1, 2, 3]], np.float32)
    h = ff.functional.swiglu_oai(gate, up)
    g, u = np.minimum(gate, 7).astype(np.float64), np.clip(up, -7, 7).astype(np.float64)
    assert np.allclose(h, (u + 1) * g / (1 + np.exp(-1.702 * g)), rtol=8 * EPS, atol=0)
    dgate, dup = ff.functional.swiglu_oai_backward(gate, up, dh)
    assert dgate[0] == 0 and dgate[1] != 0 and dup[0] == dup[2] == 0 and dup[1] != 0
    with pytest.raises(ff.ArgumentError, match=r"\[swiglu_oai\] up is \[2\], expected \[3\]"):
        ff.functional.swiglu_oai(gate, up[:2])
    with pytest.raises(ff.ArgumentError, match="unknown activation"):
        ff.functional.glu(gate, up, "swish9")
