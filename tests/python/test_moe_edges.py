"""Mixtures at their edges: unused experts, one expert, no tokens, NaN, many rows."""

import time
from typing import Any

import numpy as np
import pytest

import fourfold as ff

Array = np.ndarray[Any, Any]
D_MODEL, D_FF, N_EXPERTS = 7, 11, 5
NAMES = ("gate", "up", "down", "gate_bias", "up_bias", "down_bias")


def arrays(seed: int, n_experts: int = N_EXPERTS, d_model: int = D_MODEL) -> dict[str, Any]:
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Array:
        return (rng.standard_normal(shape) * 0.5 + 0.05).astype(np.float32)

    return {
        "router": draw(n_experts, d_model),
        "gate": draw(n_experts, D_FF, d_model),
        "up": draw(n_experts, D_FF, d_model),
        "down": draw(n_experts, d_model, D_FF),
        "gate_bias": draw(n_experts, D_FF),
        "up_bias": draw(n_experts, D_FF),
        "down_bias": draw(n_experts, d_model),
    }


def tokens(count: int, seed: int = 21) -> Array:
    return np.random.default_rng(seed).standard_normal((count, D_MODEL)).astype(np.float32)


def one_expert(weights: dict[str, Array], e: int) -> Any:
    return ff.GatedFFN(**{name: weights[name][e] for name in NAMES})


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("count", [1, 13])
def test_experts_without_tokens_get_exactly_zero_gradients(threads: int, count: int) -> None:
    weights = arrays(1, n_experts=8)
    weights["router_bias"] = np.where(np.arange(8) == 3, 40, -40).astype(np.float32)
    ff.set_num_threads(threads)
    layer = ff.MoEFFN(**weights, top_k=1, renormalize=False)
    start = time.monotonic()
    y, saved = layer.forward(tokens(count), save=True)
    dx, grads = layer.backward(saved, tokens(count, 22))
    assert time.monotonic() - start < 1
    ff.set_num_threads(0)
    assert (saved.experts == 3).all()
    alone = one_expert(weights, 3)
    assert y == pytest.approx(alone(tokens(count)), rel=1e-5, abs=1e-6)
    for name in NAMES:
        grad = getattr(grads, name)
        assert grad[3].any(), name
        assert not np.delete(grad, 3, axis=0).any(), name


def test_one_expert_is_the_gated_layer() -> None:
    weights = arrays(2, n_experts=1)
    layer = ff.MoEFFN(**weights, top_k=1, renormalize=False)
    y, saved = layer.forward(tokens(3), save=True)
    assert (saved.weights == 1).all()
    dx, grads = layer.backward(saved, tokens(3, 23))
    alone = one_expert(weights, 0)
    expected, kept = alone.forward(tokens(3), save=True)
    expected_dx, expected_grads = alone.backward(kept, tokens(3, 23))
    assert y == pytest.approx(expected, rel=1e-6, abs=1e-7)
    assert dx == pytest.approx(expected_dx, rel=1e-6, abs=1e-6)
    for name in NAMES:
        grad = getattr(grads, name)[0]
        assert grad == pytest.approx(getattr(expected_grads, name), rel=1e-6, abs=1e-6), name


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
@pytest.mark.parametrize("capacity_factor", [None, 1.0])
def test_no_tokens(shape: tuple[int, ...], capacity_factor: float | None) -> None:
    weights = arrays(3)
    layer = ff.MoEFFN(**weights, capacity_factor=capacity_factor)
    x = np.zeros((*shape, D_MODEL), np.float32)
    y, saved = layer.forward(x, save=True)
    dx, grads = layer.backward(saved, x, load_balance=0.1, z_loss=0.1)
    assert y.shape == dx.shape == x.shape
    assert saved.experts.shape == (0, 2)
    assert saved.load.tolist() == [0] * N_EXPERTS
    assert saved.dropped_pairs == saved.non_finite_tokens == 0
    assert layer.router_losses(saved) == {"load_balance": 0, "z_loss": 0}
    for name in ("router", *NAMES):
        grad = getattr(grads, name)
        assert grad.shape == weights[name].shape
        assert not grad.any(), name


HUGE = 3e38


def bad_token(kind: str) -> Array:
    """x whose logits, with the router below, are NaN or infinite where `kind` says."""
    token = np.zeros(D_MODEL, np.float32)
    if kind == "all NaN":
        token[3] = np.nan
    elif kind == "one NaN":
        token[0] = token[1] = HUGE
    elif kind == "one +inf":
        token[0] = HUGE
    elif kind == "all +inf":
        token[2] = HUGE
    elif kind == "all -inf":
        token[2] = -HUGE
    return token


@pytest.mark.parametrize("kind", ["all NaN", "one NaN", "one +inf", "all +inf", "all -inf"])
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid", "softmax_topk", "sqrt_softplus"])
@pytest.mark.parametrize("renormalize", [True, False])
def test_unusable_logits_make_their_token_nan_and_leave_the_others(
    kind: str, scoring: str, renormalize: bool
) -> None:
    weights = arrays(4)
    router = weights["router"]
    router[:, :3] = 0
    router[1, 0], router[1, 1] = 2, -2
    router[:, 2] = 2
    bad = bad_token(kind)
    with np.errstate(over="ignore", invalid="ignore"):
        logits = np.array([np.float32(np.dot(row, bad)) for row in router])
    assert not np.isfinite(logits).all()
    layer = ff.MoEFFN(**weights, top_k=3, scoring=scoring, renormalize=renormalize)
    good = tokens(5)
    x = np.insert(good, 2, bad, axis=0)
    y, saved = layer.forward(x, save=True)
    for ids in saved.experts:
        assert len(set(ids.tolist())) == 3
        assert all(0 <= e < N_EXPERTS for e in ids)
    assert saved.non_finite_tokens == 1
    assert np.isnan(y[2]).all()
    assert np.isnan(saved.weights[2]).all()
    others = np.delete(np.arange(6), 2)
    clean, kept = layer.forward(good, save=True)
    assert kept.non_finite_tokens == 0
    assert np.array_equal(y[others], clean)
    dx, _ = layer.backward(saved, np.ones_like(x))
    expected, _ = layer.backward(kept, np.ones_like(good))
    assert np.array_equal(dx[others], expected)


def test_nan_tokens_do_not_vanish_beyond_the_capacity() -> None:
    """A token whose choices are all dropped adds nothing, but NaN must not become a silent 0."""
    weights = arrays(5)
    layer = ff.MoEFFN(**weights, top_k=1, renormalize=False, capacity_factor=0.2)
    x = np.full((10, D_MODEL), np.nan, np.float32)
    y, saved = layer.forward(x, save=True)
    assert saved.non_finite_tokens == 10
    assert np.isnan(y).all()


def expected_moe(weights: dict[str, Array], x: Array, ids: Array, scale: Array) -> Array:
    """float64, one expert after the other."""
    y = np.zeros(x.shape)
    wide = {name: value.astype(np.float64) for name, value in weights.items()}
    for e in range(len(weights["router"])):
        rows, slots = np.nonzero(ids == e)
        given = x[rows].astype(np.float64)
        gate = given @ wide["gate"][e].T + wide["gate_bias"][e]
        up = given @ wide["up"][e].T + wide["up_bias"][e]
        hidden = gate / (1 + np.exp(-gate)) * up
        out = hidden @ wide["down"][e].T + wide["down_bias"][e]
        y[rows] += scale[rows, slots, None].astype(np.float64) * out
    return y


@pytest.mark.parametrize("d_model", [33, 96, 100])
def test_rows_per_expert_that_no_tile_divides(d_model: int) -> None:
    """0, 1, 63, 64 and 65 rows for the experts in turn."""
    weights = arrays(6, d_model=d_model)
    counts = [0, 1, 63, 64, 65]
    weights["router"][:] = 0
    weights["router"][:, :5] = 30 * np.eye(5)
    x = np.random.default_rng(7).standard_normal((sum(counts), d_model)).astype(np.float32) * 0.3
    chosen = np.random.default_rng(8).permutation(np.repeat(np.arange(5), counts))
    x[:, :5] = np.eye(5)[chosen]
    layer = ff.MoEFFN(**weights, top_k=1, renormalize=False)
    y, saved = layer.forward(x, save=True)
    assert saved.load.tolist() == counts
    want = expected_moe(weights, x, saved.experts, saved.weights)
    size = np.abs(want).max()
    assert np.abs(y - want).max() <= 1e-5 * size


@pytest.mark.parametrize("d_model", [33, 96, 100])
def test_many_rows(d_model: int) -> None:
    weights = arrays(9, d_model=d_model)
    weights["router"] *= 0.2
    x = np.random.default_rng(10).standard_normal((16401, d_model)).astype(np.float32) * 0.3
    layer = ff.MoEFFN(**weights)
    y, saved = layer.forward(x, save=True)
    assert saved.load.sum() == 32802
    assert (saved.load % 64 != 0).any()
    want = expected_moe(weights, x, saved.experts, saved.weights)
    assert np.abs(y - want).max() <= 1e-5 * np.abs(want).max()
