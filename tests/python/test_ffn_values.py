"""Layers on numbers worked out by hand, at the edges of shape and layout, and their promise that a
token's bits depend on nothing but the token."""

from collections.abc import Callable
from typing import Any

import ffn_cases
import numpy as np
import pytest
from constant_experts import Array

import fourfold as ff

D_MODEL, D_FF, N_EXPERTS = 7, 11, 5


def f32(*values: Any) -> Array:
    return np.array(values, np.float32)


def arrays(kind: str, seed: int = 1, bias: bool = True) -> dict[str, Any]:
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Array:
        return (rng.standard_normal(shape) * 0.5 + 0.05).astype(np.float32)

    lead = (N_EXPERTS,) if kind == "moe" else ()
    found: dict[str, Any] = {"up": draw(*lead, D_FF, D_MODEL), "down": draw(*lead, D_MODEL, D_FF)}
    if kind != "dense":
        found["gate"] = draw(*lead, D_FF, D_MODEL)
    if bias:
        found["up_bias"], found["down_bias"] = draw(*lead, D_FF), draw(*lead, D_MODEL)
        if kind != "dense":
            found["gate_bias"] = draw(*lead, D_FF)
    if kind == "moe":
        found["router"] = draw(N_EXPERTS, D_MODEL)
        found["router_bias"] = draw(N_EXPERTS)
    return found


MAKE: dict[str, Callable[..., Any]] = {
    "dense": ff.DenseFFN,
    "gated": ff.GatedFFN,
    "moe": ff.MoEFFN,
}
KINDS = tuple(MAKE)


def tokens(*shape: int, seed: int = 2) -> Array:
    return np.random.default_rng(seed).standard_normal((*shape, D_MODEL)).astype(np.float32)


def gradients(layer: Any, weights: dict[str, Array], x: Array, dy: Array) -> dict[str, Array]:
    y, saved = layer.forward(x, save=True)
    dx, grads = layer.backward(saved, dy)
    return {"y": y, "dx": dx, **ffn_cases.named_gradients(grads, weights)}


def hidden_of(gate: Any, up: Any, activation: str = "silu") -> Array:
    """The hidden vector of d_model 1 and x = 1, seen through down = identity rows."""
    gates, ups = f32(*gate), f32(*up)
    n = len(gates)
    x = np.zeros((1, n), np.float32)
    x[0, 0] = 1
    wide = np.zeros((2, n, n), np.float32)
    wide[0, :, 0], wide[1, :, 0] = gates, ups
    layer = ff.GatedFFN(wide[0], wide[1], np.eye(n, dtype=np.float32), activation=activation)
    return layer(x)[0]


def test_gate_is_what_the_activation_sees() -> None:
    assert hidden_of([2, 0], [1, 3]) == pytest.approx([1.761594, 0], abs=1e-6)
    assert hidden_of([1, 3], [2, 0]) == pytest.approx([1.462117, 0], abs=1e-6)  # swapped
    layer = ff.GatedFFN(f32([2], [0]), f32([1], [3]), f32([1, 1]))
    assert layer(f32([1]))[0, 0] == pytest.approx(1.761594, abs=1e-6)


def test_swiglu_oai_clamps_and_adds_one() -> None:
    found = hidden_of([2, 100, -50], [3, -100, 100], "swiglu_oai")
    assert found[:2] == pytest.approx([7.742634, -41.99972], rel=1e-6)
    assert found[2] == pytest.approx(8 * -50 / (1 + np.exp(85.1)), rel=1e-5)
    assert hidden_of([2], [3])[0] == pytest.approx(5.284782, rel=1e-6)


def test_swiglu_gradients() -> None:
    layer = ff.GatedFFN(f32([1]), f32([2]), f32([1]))
    found = gradients(
        layer, {"gate": f32([1]), "up": f32([2]), "down": f32([1])}, f32([1]), f32([1])
    )
    assert found["up"][0, 0] == pytest.approx(0.731059, abs=1e-6)
    assert found["gate"][0, 0] == pytest.approx(1.855341, abs=1e-6)
    assert found["down"][0, 0] == pytest.approx(2 * 0.731059, abs=2e-6)
    assert found["dx"][0, 0] == pytest.approx(1.855341 + 2 * 0.731059, abs=2e-6)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [("gelu", -0.158655), ("gelu_tanh", -0.158808), ("quick_gelu", -0.154204),
     ("silu", -0.268941)],
)  # fmt: skip
def test_activation_variants_differ(activation: str, expected: float) -> None:
    layer = ff.DenseFFN(f32([1]), f32([1]), activation=activation)
    assert layer(f32([-1]))[0, 0] == pytest.approx(expected, abs=1e-6)


def test_shards_with_biases_add_up() -> None:
    """Neurons split over two layers, down_bias in one of them: the sum is the whole layer."""
    weights = arrays("gated")
    first: dict[str, Any] = {
        n: w[:5] for n, w in weights.items() if n in ("gate", "up", "gate_bias", "up_bias")
    }
    second: dict[str, Any] = {
        n: w[5:] for n, w in weights.items() if n in ("gate", "up", "gate_bias", "up_bias")
    }
    first["down"], second["down"] = weights["down"][:, :5], weights["down"][:, 5:]
    first["down_bias"] = weights["down_bias"]
    x = tokens(3)
    sum_of_shards = ff.GatedFFN(**first)(x) + ff.GatedFFN(**second)(x)
    assert ff.GatedFFN(**weights)(x) == pytest.approx(sum_of_shards, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_every_bias_moves_the_result(kind: str) -> None:
    weights = arrays(kind)
    x = tokens(3)
    whole = MAKE[kind](**weights)(x)
    for name in (n for n in weights if n.endswith("bias")):
        without = MAKE[kind](**{n: w for n, w in weights.items() if n != name})
        assert not np.allclose(without(x), whole, rtol=1e-3), name


def test_biases_alone() -> None:
    """up = 0: y is down_bias + down act(up_bias), whatever x is."""
    weights = arrays("dense")
    weights["up"][:] = 0
    layer = ff.DenseFFN(**weights, activation="relu")
    wide = {name: value.astype(np.float64) for name, value in weights.items()}
    expected = wide["down_bias"] + wide["down"] @ np.maximum(wide["up_bias"], 0)
    y = layer(tokens(3))
    assert y[0] == pytest.approx(expected, rel=1e-6)
    assert np.array_equal(y, np.broadcast_to(y[0], y.shape))
    weights["down"][:] = 0
    assert np.array_equal(ff.DenseFFN(**weights)(tokens(1))[0], weights["down_bias"])


def test_sizes_of_the_cases_differ() -> None:
    """Equal or swapped dimensions would hide a transposed matrix."""
    sizes = [
        ffn_cases.BATCH * ffn_cases.SEQ,
        ffn_cases.D_MODEL,
        ffn_cases.D_FF,
        ffn_cases.N_EXPERTS,
        ffn_cases.SHARED_D_FF,
        2,  # top_k
    ]
    assert len(set(sizes)) == len(sizes)
    assert all(all(n % k for k in range(2, n)) for n in sizes[1:])
    for case in ffn_cases.CASES:
        weights = ffn_cases.make_inputs(case).weights
        for name, value in weights.items():
            assert len(set(value.shape)) == value.ndim, f"{case.name}: {name} {value.shape}"
            # Of many thousand draws a few are equal.
            assert case.n_experts == 1 or np.unique(value).size > value.size * 0.999


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_tokens(kind: str, shape: tuple[int, ...], dtype: str) -> None:
    weights = arrays(kind)
    layer = MAKE[kind](**weights, dtype=dtype)
    x = np.zeros((*shape, D_MODEL), np.float32)
    assert layer(x).shape == x.shape
    found = gradients(layer, weights, x, x)
    assert found.pop("y").shape == found.pop("dx").shape == x.shape
    for name, grad in found.items():
        assert grad.shape == weights[name].shape
        assert not grad.any(), name


def views(rows: Array) -> dict[str, Array]:
    """The same numbers in other layouts."""
    count, d = rows.shape
    wide = np.zeros((count, 2 * d), np.float32)
    wide[:, ::2] = rows
    buffer = np.zeros(rows.nbytes + 1, np.uint8)
    shifted = buffer[1:].view(np.float32).reshape(rows.shape)
    shifted[:] = rows
    locked = rows.copy()
    locked.flags.writeable = False
    tall = np.zeros((2 * count, d), np.float32)
    tall[::2] = rows
    return {
        "singleton axis": rows[:, None, :],
        "every second column": wide[:, ::2],
        "every second row": tall[::2],
        "transposed": np.ascontiguousarray(rows.T).T,
        "negative strides": rows[::-1, ::-1].copy()[::-1, ::-1],
        "Fortran order": np.asfortranarray(rows),
        "misaligned": shifted,
        "read only": locked,
        "broadcast": np.broadcast_to(rows, (1, 1, count, d)),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_layout_of_x_and_dy_changes_nothing(kind: str) -> None:
    weights = arrays(kind)
    layer = MAKE[kind](**weights)
    x, dy = tokens(3), tokens(3, seed=4)
    want = gradients(layer, weights, x, dy)
    other_dy = views(dy)
    for name, view in views(x).items():
        got = gradients(layer, weights, view, other_dy[name].reshape(view.shape))
        assert got["y"].shape == view.shape
        for key, value in want.items():
            assert np.array_equal(got[key].reshape(value.shape), value), f"{name}: {key}"
        dx, _ = layer.backward(layer.forward(view, save=True)[1], other_dy[name])
        assert np.array_equal(dx.reshape(x.shape), want["dx"]), name


@pytest.mark.parametrize("kind", KINDS)
def test_layout_of_weights_changes_nothing(kind: str) -> None:
    weights = arrays(kind)
    x = tokens(3)
    want = MAKE[kind](**weights)(x)
    for name in weights:
        flipped = np.flip(np.flip(weights[name]).copy())
        for other in (np.asfortranarray(weights[name]), flipped):
            assert np.array_equal(MAKE[kind](**{**weights, name: other})(x), want), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bits_of_a_token_depend_on_the_token_alone(kind: str, dtype: str) -> None:
    """For 1, 2, 7 threads and any batch around it, in y and dx, with and without save."""
    weights = arrays(kind)
    layer = MAKE[kind](**weights, dtype=dtype)
    x, dy = tokens(64), tokens(64, seed=5)
    first: dict[str, Array] = {}
    for threads in (1, 2, 7):
        ff.set_num_threads(threads)
        for count in (1, 2, 3, 17, 64):
            y, saved = layer.forward(x[:count], save=True)
            dx, grads = layer.backward(saved, dy[:count])
            assert np.array_equal(layer(x[:count]), y)
            first.setdefault("y", y[0].copy())
            first.setdefault("dx", dx[0].copy())
            assert np.array_equal(y[0], first["y"])
            assert np.array_equal(dx[0], first["dx"])
            backwards = layer(x[:count][::-1])[::-1]
            assert np.array_equal(backwards, y)
            for name, grad in ffn_cases.named_gradients(grads, weights).items():
                key = f"{name} of {count}"
                assert np.array_equal(grad, first.setdefault(key, grad)), key
    ff.set_num_threads(0)


@pytest.mark.parametrize("kind", KINDS)
def test_nan_stays_in_its_row(kind: str) -> None:
    layer = MAKE[kind](**arrays(kind))
    x = tokens(5)
    clean = layer(x)
    x[3, 2] = np.nan
    y = layer(x)
    assert np.isnan(y[3]).all()
    others = [0, 1, 2, 4]
    assert np.array_equal(y[others], clean[others])
