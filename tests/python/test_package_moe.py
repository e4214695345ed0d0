"""MoEFFN of the Python package: arrays, routing of a pass, losses, refusals.

Expected values are float64 loops of NumPy.
"""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import fourfold as ff

N, D_FF, D_MODEL, SHARED_FF = 5, 13, 7, 11
EPS = 2.0**-23


def values(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


ROUTER = values(1, N, D_MODEL)
GATE, UP, DOWN = (
    values(2, N, D_FF, D_MODEL),
    values(3, N, D_FF, D_MODEL),
    values(4, N, D_MODEL, D_FF),
)
BIASES: Any = {
    "gate_bias": values(5, N, D_FF),
    "up_bias": values(6, N, D_FF),
    "down_bias": values(7, N, D_MODEL),
    "router_bias": values(8, N),
    "selection_bias": values(9, N),
}
SHARED: Any = [
    values(10, SHARED_FF, D_MODEL),
    values(11, D_MODEL, SHARED_FF),
    values(12, SHARED_FF),
]
SHARED_GATE = values(13, D_MODEL)
X = values(14, 3, 2, D_MODEL)


def full_layer(**options: Any) -> ff.MoEFFN:
    shared = ff.DenseFFN(SHARED[0], SHARED[1], SHARED[2], None, "relu")
    given = {**BIASES, "shared": shared, "shared_gate": SHARED_GATE, **options}
    return ff.MoEFFN(ROUTER, GATE, UP, DOWN, **given)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def reference(x: npt.NDArray[np.float32]) -> tuple[Any, Any, Any]:
    """y, chosen experts and logits of full_layer() in float64, for x: [tokens, d_model]."""
    wide = {name: bias.astype(np.float64) for name, bias in BIASES.items()}
    rows = x.astype(np.float64)
    logits = rows @ ROUTER.T + wide["router_bias"]
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    chosen = np.argsort(-(p + wide["selection_bias"]), axis=1)[:, :2]
    y = np.zeros_like(rows)
    for t, row in enumerate(rows):
        weights = p[t, chosen[t]] / p[t, chosen[t]].sum()
        for weight, e in zip(weights, chosen[t], strict=True):
            gate = GATE[e] @ row + wide["gate_bias"][e]
            hidden = gate * sigmoid(gate) * (UP[e] @ row + wide["up_bias"][e])
            y[t] += weight * (DOWN[e] @ hidden + wide["down_bias"][e])
        own = SHARED[1] @ np.maximum(SHARED[0] @ row + SHARED[2], 0)
        y[t] += sigmoid(SHARED_GATE @ row) * own
    return y, chosen, logits


def test_a_full_layer_in_float64() -> None:
    layer = full_layer()
    y, saved = layer.forward(X, save=True)
    expected, chosen, logits = reference(X.reshape(-1, D_MODEL))
    assert y.shape == X.shape and np.array_equal(y, layer(X))
    # The largest sum of absolute terms of a value is below 400, of a logit below 40.
    assert np.abs(y.reshape(-1, D_MODEL) - expected).max() <= 40 * EPS * 400
    assert np.array_equal(saved.experts, chosen)
    assert np.abs(saved.logits - logits).max() <= 8 * EPS * 40
    assert saved.weights.shape == (6, 2) and np.allclose(saved.weights.sum(1), 1, atol=4 * EPS)
    assert np.array_equal(saved.load, np.bincount(chosen.ravel(), minlength=N))
    assert np.array_equal(saved.load_of(np.zeros((3, 2), bool)), np.zeros(N))
    mask = np.array([[1, 0], [0, 0], [1, 1]])
    counted = chosen[mask.ravel() != 0]
    assert np.array_equal(saved.load_of(mask), np.bincount(counted.ravel(), minlength=N))
    assert not saved.dropped.any() and saved.dropped.dtype == np.bool_
    assert (saved.dropped_pairs, saved.non_finite_tokens) == (0, 0)


def test_gradients_have_the_names_and_shapes_of_the_arrays() -> None:
    layer = full_layer()
    y, saved = layer.forward(X, save=True)
    dx, grads = layer.backward(saved, y)
    assert dx.shape == X.shape
    given = {"router": ROUTER, "gate": GATE, "up": UP, "down": DOWN, "shared_gate": SHARED_GATE}
    given |= {name: bias for name, bias in BIASES.items() if name != "selection_bias"}
    for name, array in given.items():
        assert getattr(grads, name).shape == array.shape and getattr(grads, name).any(), name
    assert grads.selection_bias is None
    assert isinstance(grads.shared, ff.ffn.DenseGrads)
    for name, array in zip(("up", "down", "up_bias"), SHARED, strict=True):
        assert getattr(grads.shared, name).shape == array.shape
    assert grads.shared.down_bias is None
    assert grads.shared.up.any()


def test_dense_experts_and_few_arrays() -> None:
    layer = ff.MoEFFN(ROUTER, None, UP, DOWN, activation="relu", top_k=3, scoring="sigmoid")
    y, saved = layer.forward(X[0, 0], save=True)
    assert y.shape == (D_MODEL,) and saved.experts.shape == (1, 3)
    _, grads = layer.backward(saved, y)
    assert grads.gate is None and grads.shared is None and grads.up.shape == UP.shape
    assert layer(np.zeros((2, 0, D_MODEL), np.float32)).shape == (2, 0, D_MODEL)
    assert repr(layer) == (
        'MoEFFN(d_model=7, d_ff=13, n_experts=5, top_k=3, dense, "relu", float32)'
    )


def test_facts_about_layers() -> None:
    layer = full_layer()
    expert = 3 * 7 * 13 + 2 * 13 + 7
    common = 5 * 7 + 5 + 5 + 2 * 7 * 11 + 11 + 7
    assert layer.parameters_total == 5 * expert + common
    assert layer.parameters_active == 2 * expert + common
    assert layer.flops(10) == 10 * 2 * (5 * 7 + 2 * 3 * 7 * 13 + 2 * 7 * 11 + 7)
    assert (layer.n_experts, layer.top_k, layer.d_ff, layer.d_model) == (5, 2, 13, 7)


def test_the_shared_expert_is_a_copy() -> None:
    shared = ff.DenseFFN(SHARED[0], SHARED[1], SHARED[2], None, "relu")
    layer = full_layer(shared=shared)
    y = layer(X)
    shared.set_weights(SHARED[0], 0 * SHARED[1], SHARED[2])
    assert np.array_equal(layer(X), y)
    bf16 = ff.GatedFFN(GATE[0], UP[0], DOWN[0], dtype="bfloat16")
    mixed = ff.MoEFFN(ROUTER, None, UP, DOWN, shared=bf16)
    alone = ff.MoEFFN(ROUTER, None, UP, DOWN)
    assert np.array_equal(mixed(X), alone(X) + bf16(X))


def test_losses_of_the_router_in_float64() -> None:
    layer = ff.MoEFFN(ROUTER, None, UP, DOWN)
    _, saved = layer.forward(X, save=True)
    mask = np.array([[1, 1], [0, 1], [1, 0]])
    for rows, given in ((mask.ravel() != 0, mask), (np.ones(6, bool), None)):
        logits = saved.logits[rows].astype(np.float64)
        lse = np.log(np.exp(logits).sum(1))
        share = np.bincount(saved.experts[rows].ravel(), minlength=N) / (2 * rows.sum())
        mean = np.exp(logits - lse[:, None]).mean(0)
        losses = layer.router_losses(saved, mask=given)
        assert losses.keys() == {"load_balance", "z_loss"}
        assert losses["load_balance"] == pytest.approx(N * (share * mean).sum(), rel=1e-12)
        assert losses["z_loss"] == pytest.approx((lse**2).mean(), rel=1e-12)
    zero = np.zeros_like(X)
    plain = layer.backward(saved, zero)[1]
    with_losses = layer.backward(saved, zero, load_balance=0.1, z_loss=0.01, mask=mask)[1]
    assert not plain.router.any() and with_losses.router.any()


def test_capacity_drops_choices() -> None:
    layer = ff.MoEFFN(ROUTER, None, UP, DOWN, capacity_factor=0.5)
    saved = layer.forward(X, save=True)[1]
    assert saved.dropped.sum() == saved.dropped_pairs > 0
    assert saved.load.sum() == 12


def test_a_token_without_routing_is_nan_and_counted() -> None:
    x = X.copy()
    x[1, 0] = np.nan
    layer = full_layer()
    y, saved = layer.forward(x, save=True)
    assert saved.non_finite_tokens == 1 and np.isnan(y[1, 0]).all()
    others = np.array([[True, True], [False, True], [True, True]])
    assert np.array_equal(y[others], layer(X)[others])


def test_one_warning_when_the_router_cannot_learn() -> None:
    layer = ff.MoEFFN(ROUTER, None, UP, DOWN, top_k=1)
    with pytest.warns(UserWarning, match="router gets no gradient from the task") as caught:
        layer.forward(X, save=True)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer.forward(X, save=True)
        ff.MoEFFN(ROUTER, None, UP, DOWN, top_k=1, renormalize=False).forward(X, save=True)
        ff.MoEFFN(ROUTER, None, UP, DOWN, top_k=1)(X)


def test_set_weights_computes_with_the_new_values() -> None:
    layer = full_layer()
    shared = ff.DenseFFN(2 * SHARED[0], SHARED[1], SHARED[2], None, "relu")
    new = {**BIASES, "shared": shared, "shared_gate": -SHARED_GATE}
    layer.set_weights(-ROUTER, UP, GATE, -DOWN, **new)
    assert np.array_equal(layer(X), ff.MoEFFN(-ROUTER, UP, GATE, -DOWN, **new)(X))
    with pytest.raises(ff.ArgumentError, match=r"gate_bias is missing, expected \[5, 13\]"):
        layer.set_weights(ROUTER, GATE, UP, DOWN)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 6}, "top_k is 6"),
        ({"top_k": 1.5}, "top_k is 1.5"),
        ({"top_k": 2**40}, "top_k is 1099511627776"),
        ({"scoring": "topk"}, 'unknown scoring "topk"; known: softmax'),
        ({"n_groups": 2}, "n_groups is 2, expected a divisor of 5"),
        ({"scaling": float("nan")}, "scaling is nan"),
        ({"capacity_factor": 0}, "capacity_factor is 0"),
        ({"router": ROUTER.T}, r"router is \[7, 5\], expected \[5, 7\]"),
        ({"down": UP}, r"down is \[5, 13, 7\], expected \[5, 7, 13\]"),
        ({"up": UP[0]}, r"up is \[13, 7\], expected \[n_experts, d_ff, d_model\]"),
        ({"up_bias": values(1, D_FF)}, r"up_bias is \[13\], expected \[5, 13\]"),
        ({"gate": None, "gate_bias": values(1, N, D_FF)}, "gate is None"),
        ({"shared_gate": SHARED_GATE}, "no shared expert"),
        ({"shared": UP[0]}, "shared is a ndarray, expected a DenseFFN or GatedFFN"),
        ({"shared": ff.DenseFFN(UP[0][:, :5], DOWN[0][:5])}, "shared has d_model 5, expected 7"),
    ],
)
def test_unfit_arguments_are_refused(options: Any, message: str) -> None:
    given = {"router": ROUTER, "gate": GATE, "up": UP, "down": DOWN, **options}
    with pytest.raises(ff.ArgumentError, match=message):
        ff.MoEFFN(**given)


def test_unfit_masks_and_factors_are_refused() -> None:
    layer = full_layer()
    y, saved = layer.forward(X, save=True)
    with pytest.raises(ff.ArgumentError, match=r"mask is \[6\], expected \[3, 2\]"):
        layer.router_losses(saved, mask=np.ones(6, bool))
    with pytest.raises(ff.ArgumentError, match="expected bool or integers"):
        layer.router_losses(saved, mask=np.ones((3, 2)))
    with pytest.raises(ff.ArgumentError, match="z_loss is inf"):
        layer.backward(saved, y, z_loss=float("inf"))
    with pytest.raises(ff.ArgumentError, match="another layer"):
        full_layer().router_losses(saved)
