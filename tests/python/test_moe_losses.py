"""Load, load-balance loss and z-loss of a router: known values, and who counts."""

from typing import Any

import numpy as np
import pytest
from constant_experts import constant_moe

SURE = 60.0  # a logit that leaves the others no probability in float32


def one_hot_logits(experts: list[int], n_experts: int) -> np.ndarray:
    logits = np.zeros((len(experts), n_experts), np.float32)
    logits[np.arange(len(experts)), experts] = SURE
    return logits


def losses(logits: np.ndarray, mask: np.ndarray | None = None, **options: Any) -> dict[str, float]:
    layer, x = constant_moe(logits, np.ones(logits.shape[1]), **{"top_k": 1, **options})
    return layer.router_losses(layer.forward(x, save=True)[1], mask)


pytestmark = pytest.mark.filterwarnings("ignore:the router gets no gradient")


def test_layers_do_not_cancel_each_other() -> None:
    """Layer A sends all to expert 0, layer B all to expert 1: each is as unbalanced as can be."""
    assert losses(one_hot_logits([0] * 5, 2))["load_balance"] == pytest.approx(2, rel=1e-6)
    assert losses(one_hot_logits([1] * 5, 2))["load_balance"] == pytest.approx(2, rel=1e-6)


def test_known_values() -> None:
    spread = losses(one_hot_logits([0, 1, 2, 3] * 2, 4))
    assert spread["load_balance"] == pytest.approx(1, rel=1e-6)
    collapsed = losses(one_hot_logits([2] * 7, 4))
    assert collapsed["load_balance"] == pytest.approx(4, rel=1e-6)
    flat = losses(np.zeros((3, 4), np.float32), top_k=2)
    assert flat["load_balance"] == pytest.approx(1, rel=1e-6)  # shares of pairs sum to 1, not top_k
    assert flat["z_loss"] == pytest.approx(np.log(4) ** 2, rel=1e-6)
    assert flat["z_loss"] == pytest.approx(1.9218, abs=1e-4)


@pytest.mark.parametrize("scoring", ["sigmoid", "sqrt_softplus"])
def test_probabilities_of_single_scores_are_shares_of_their_sum(scoring: str) -> None:
    logits = np.array([[1.0, -0.5, 0.25], [0.5, 2.0, -1.0]], np.float32)
    wide = logits.astype(np.float64)
    score = 1 / (1 + np.exp(-wide)) if scoring == "sigmoid" else np.sqrt(np.log1p(np.exp(wide)))
    p = (score / score.sum(axis=1, keepdims=True)).mean(axis=0)
    got = losses(logits, scoring=scoring)["load_balance"]
    assert got == pytest.approx(3 * (0.5 * p[0] + 0.5 * p[1]), rel=1e-6)


def test_padding_counts_neither_in_losses_nor_in_load() -> None:
    rng = np.random.default_rng(4)
    real = rng.standard_normal((4, 3)).astype(np.float32)
    padded = np.concatenate([real, one_hot_logits([0] * 4, 3)])[[4, 0, 5, 1, 2, 6, 7, 3]]
    mask = np.array([0, 1, 0, 1, 1, 0, 0, 1])
    alone = losses(real, top_k=2)
    assert losses(padded, mask, top_k=2) == pytest.approx(alone, rel=1e-6)
    assert losses(padded, top_k=2) != pytest.approx(alone, rel=1e-3)
    layer, x = constant_moe(padded, np.ones(3), 13)
    saved = layer.forward(x, save=True)[1]
    few, at = constant_moe(real, np.ones(3), 13)
    expected = few.forward(at, save=True)[1].load
    assert saved.load_of(mask).tolist() == expected.tolist()
    assert saved.load.sum() == 16


def test_nothing_counts() -> None:
    logits = one_hot_logits([0, 1, 1], 2)
    assert losses(logits, np.zeros(3, bool)) == {"load_balance": 0, "z_loss": 0}
    layer, x = constant_moe(logits, [3, 5], 7, top_k=1, renormalize=False)
    _, saved = layer.forward(x, save=True)
    none = layer.backward(saved, np.zeros_like(x), 0.5, 0.5, np.zeros(3, bool))[1]
    assert not none.router.any()


def test_the_loss_is_part_of_the_router_gradient() -> None:
    """With dy = 0 only the losses are left, and a factor of 0 leaves nothing."""
    rng = np.random.default_rng(8)
    logits = rng.standard_normal((5, 3)).astype(np.float32)
    layer, x = constant_moe(logits, [1, 2, 3], 7)
    _, saved = layer.forward(x, save=True)
    zero = np.zeros_like(x)
    assert not layer.backward(saved, zero)[1].router.any()
    balance = layer.backward(saved, zero, load_balance=0.3)[1].router
    z = layer.backward(saved, zero, z_loss=0.2)[1].router
    both = layer.backward(saved, zero, load_balance=0.3, z_loss=0.2)[1].router
    assert balance.any() and z.any()
    assert both == pytest.approx(balance + z, rel=1e-5, abs=1e-7)
