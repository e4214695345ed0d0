"""Choice and weights of experts: published values, ties, limits, and what is refused."""

import warnings
from typing import Any

import numpy as np
import pytest
from constant_experts import constant_ffn, constant_moe, route

import fourfold as ff


def logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


@pytest.mark.parametrize(
    ("scoring", "renormalize", "expected"),
    [
        ("softmax", False, [0.643914, 0.236883]),
        ("softmax", True, [0.731059, 0.268941]),
        ("softmax_topk", True, [0.731059, 0.268941]),
        ("softmax_topk", False, [0.731059, 0.268941]),
        ("sigmoid", False, [0.880797, 0.731059]),
        ("sigmoid", True, [0.546449, 0.453551]),
    ],
)
def test_weights_of_logits_2_1_0_minus_1(
    scoring: str, renormalize: bool, expected: list[float]
) -> None:
    saved = route([2, 1, 0, -1], scoring=scoring, renormalize=renormalize)
    assert saved.experts.tolist() == [[0, 1]]
    assert saved.weights[0] == pytest.approx(expected, abs=1e-6)
    assert saved.logits.tolist() == [[2, 1, 0, -1]]


def test_sqrt_softplus_weights() -> None:
    scores = np.sqrt(np.log1p(np.exp([2.0, 1.0, 0.0, -1.0])))
    saved = route([2, 1, 0, -1], scoring="sqrt_softplus", renormalize=False)
    assert saved.weights[0] == pytest.approx(scores[:2], abs=1e-6)
    saved = route([2, 1, 0, -1], scoring="sqrt_softplus")
    assert saved.weights[0] == pytest.approx(scores[:2] / scores[:2].sum(), abs=1e-6)


@pytest.mark.parametrize("renormalize", [False, True])
def test_selection_bias_moves_the_choice_alone(renormalize: bool) -> None:
    saved = route(
        [logit(0.9), logit(0.8), logit(0.1)],
        scoring="sigmoid",
        renormalize=renormalize,
        selection_bias=np.array([0, 0, 1], np.float32),
    )
    assert saved.experts.tolist() == [[2, 0]]
    assert saved.weights[0] == pytest.approx([0.1, 0.9], abs=1e-6)  # their sum is 1


def test_selection_bias_stays_float32_in_a_bf16_layer_and_gets_no_gradient() -> None:
    bias = np.array([1.0, 1.001, 0.5], np.float32)  # the first two are equal in bf16
    layer, x = constant_moe(
        [[0.0, 0.0, 0.0]], [1, 2, 3], top_k=1, selection_bias=bias, dtype="bfloat16",
        scoring="sigmoid", renormalize=False,
    )  # fmt: skip
    _, saved = layer.forward(x, save=True)
    assert saved.experts.tolist() == [[1]]
    _, grads = layer.backward(saved, np.ones_like(x))
    assert grads.selection_bias is None


def test_large_selection_bias_does_not_swallow_small_scores() -> None:
    bias = np.array([12, 12, 0], np.float32)
    saved = route([-18, -18.5, 0], scoring="sigmoid", selection_bias=bias)
    assert saved.experts.tolist() == [[0, 1]]
    assert saved.weights[0] == pytest.approx([0.62246, 0.37754], abs=1e-5)


@pytest.mark.parametrize(
    ("scoring", "expected"),
    [("softmax", 1 / (1 + np.exp(-1))), ("sigmoid", 1 / (1 + np.exp(-1))),
     ("sqrt_softplus", 1 / (1 + np.exp(-0.5)))],
)  # fmt: skip
def test_scores_that_underflow_still_give_weights(scoring: str, expected: float) -> None:
    saved = route([-500, -501, -700], scoring=scoring)
    assert saved.experts.tolist() == [[0, 1]]
    assert saved.weights[0] == pytest.approx([expected, 1 - expected], abs=1e-6)
    assert saved.non_finite_tokens == 0


def test_experts_of_masked_groups_lose_against_negative_scores() -> None:
    bias = np.array([-0.7, -0.8, -1.4, -1.3], np.float32)  # scores .5 + bias: -.2 -.3 | -.9 -.8
    saved = route([0, 0, 0, 0], scoring="sigmoid", selection_bias=bias, n_groups=2, top_groups=1)
    assert saved.experts.tolist() == [[0, 1]]


def test_group_score_is_the_best_expert_with_softmax_and_the_two_best_with_sigmoid() -> None:
    logits = [3.0, -3.0, 2.0, 1.9]
    best = route(logits, scoring="softmax", n_groups=2, top_groups=1)
    assert best.experts.tolist() == [[0, 1]]
    pair = route(logits, scoring="sigmoid", n_groups=2, top_groups=1)
    assert pair.experts.tolist() == [[2, 3]]


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scaling_multiplies_routed_experts_once_and_never_the_shared_one(
    tokens: int, dtype: str
) -> None:
    d = tokens + 2
    layer, x = constant_moe(
        [[5.0, -5.0]] * tokens, [1, 7], d, top_k=1, scaling=2.5, shared=constant_ffn(10, d),
        dtype=dtype,
    )  # fmt: skip
    assert (layer(x) == 12.5).all()


def test_shared_gate_halves_at_logit_zero() -> None:
    layer, x = constant_moe(
        [[0.0, 0.0]], [0, 0], 5, top_k=1, shared=constant_ffn(4, 5),
        shared_gate=np.zeros(5, np.float32),
    )  # fmt: skip
    assert (layer(x) == 2).all()


def test_equal_logits_choose_the_lowest_indices() -> None:
    for threads in (1, 2, 7):
        ff.set_num_threads(threads)
        for tokens in (1, 3, 17):
            saved = route(np.full((tokens, 8), 0.25), top_k=3)
            assert saved.experts.tolist() == [[0, 1, 2]] * tokens
    ff.set_num_threads(0)


def test_minus_infinity_never_chooses_an_expert_twice() -> None:
    bias = np.full(8, -np.inf, np.float32)
    bias[2] = 0
    saved = route(np.zeros(8), top_k=3, selection_bias=bias)
    assert saved.experts.tolist() == [[2, 0, 1]]


@pytest.mark.filterwarnings("ignore:the router gets no gradient")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("first", [0, 1])
def test_router_tells_logits_apart_that_are_equal_in_bf16(dtype: str, first: int) -> None:
    logits = [10.0, 10.0]
    logits[first] = 10.001
    assert route(logits, top_k=1, dtype=dtype).experts.tolist() == [[first]]


@pytest.mark.filterwarnings("ignore:the router gets no gradient")
def test_one_expert_per_token_with_renormalisation_weighs_exactly_1() -> None:
    logits = np.linspace(-3, 4, 15).reshape(5, 3)
    saved = route(logits, top_k=1)
    assert saved.weights.shape == saved.experts.shape == (5, 1)
    assert (saved.weights == 1).all()


def test_router_without_task_gradient_is_said_once() -> None:
    layer, x = constant_moe([[1.0, 2.0, -1.0]], [3, 5, 2], top_k=1)
    with pytest.warns(UserWarning, match="router gets no gradient from the task"):
        _, saved = layer.forward(x, save=True)
    _, grads = layer.backward(saved, np.ones_like(x))
    assert not grads.router.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer.forward(x, save=True)


def test_one_expert_per_token_without_renormalisation_trains_the_router() -> None:
    layer, x = constant_moe([[1.0, 2.0, -1.0]], [3, 5, 2], top_k=1, renormalize=False)
    _, saved = layer.forward(x, save=True)
    _, grads = layer.backward(saved, np.ones_like(x))
    p = np.exp([1.0, 2.0, -1.0]) / np.exp([1.0, 2.0, -1.0]).sum()
    dweight = 5.0 * x.shape[1]
    expected = dweight * p[1] * (np.array([0, 1, 0]) - p)
    assert grads.router[:, 0] == pytest.approx(expected, rel=1e-5)
    assert not grads.router[:, 1:].any()


def test_gradients_reach_the_chosen_places_only() -> None:
    """Of logits 1 2 6 4 5 with top_k 2 and y = the sum of raw sigmoid weights."""
    logits = np.array([1, 2, 6, 4, 5], np.float64) / 4
    layer, x = constant_moe([logits], [1] * 5, 7, scoring="sigmoid", renormalize=False)
    _, saved = layer.forward(x, save=True)
    dy = np.zeros_like(x)
    dy[0, 3] = 1
    _, grads = layer.backward(saved, dy)
    slope = np.exp(-logits) / (1 + np.exp(-logits)) ** 2
    assert grads.router[:, 0] == pytest.approx(slope * [0, 0, 1, 0, 1], rel=1e-5)


def test_many_experts_per_token() -> None:
    logits = np.random.default_rng(3).permutation(64) / 8.0
    for top_k in (17, 64):
        saved = route(logits, top_k=top_k)
        assert saved.experts[0].tolist() == np.argsort(-logits)[:top_k].tolist()
        assert saved.weights.sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 0},
        {"top_k": -1},
        {"top_k": 7},
        {"n_groups": 4},
        {"n_groups": 0},
        {"n_groups": 3, "top_groups": 4},
        {"n_groups": 3, "top_groups": 1, "top_k": 3},
        {"scaling": 0.0},
        {"scaling": float("nan")},
        {"capacity_factor": 0.0},
        {"capacity_factor": -1.0},
        {"capacity_factor": float("inf")},
        {"scoring": "argmax"},
    ],
)
def test_routing_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ff.ArgumentError) as caught:
        route(np.zeros(6), **options)
    assert "moe_ffn" in str(caught.value)


def test_no_experts_is_refused() -> None:
    with pytest.raises(ff.ArgumentError):
        ff.MoEFFN(
            np.zeros((0, 5), np.float32),
            None,
            np.zeros((0, 3, 5), np.float32),
            np.zeros((0, 5, 3), np.float32),
        )


def test_capacity_keeps_the_earliest_tokens() -> None:
    logits = np.tile([2.0, -2.0], (8, 1)).astype(np.float32)
    layer, x = constant_moe(
        logits, [3, 5], 11, top_k=1, renormalize=False, scoring="sigmoid", capacity_factor=0.75
    )  # ceil(0.75 * 8 * 1 / 2) = 3 places
    y, saved = layer.forward(x, save=True)
    assert saved.dropped[:, 0].tolist() == [False] * 3 + [True] * 5
    assert saved.dropped_pairs == 5
    assert (y[:3] > 2).all()
    assert not y[3:].any()
    assert np.array_equal(saved.logits, logits)


def test_capacity_beyond_the_need_drops_nothing() -> None:
    logits = np.array([[1, 2, 3, 0], [2, 1, 0, 3], [3, 2, 1, 0]], np.float32)
    saved = route(logits, capacity_factor=8.0)
    assert saved.dropped_pairs == 0
    # All-negative logits compete with no empty place: capacity equal to the load drops nothing.
    saved = route(-1 - logits, top_k=4, capacity_factor=1.0)
    assert saved.dropped_pairs == 0
    assert saved.load.tolist() == [3, 3, 3, 3]


def test_second_and_third_choices_come_after_all_first_ones() -> None:
    """Expert 0 has ceil(0.5 * 3 * 3 / 4) = 2 places: it is token 0's third choice, token 1's
    second and token 2's first one, so token 0 gets none."""
    logits = np.array([[1, 3, 2, 0], [2, 0, 3, 1], [3, 0, 1, 2]], np.float32)
    saved = route(logits, top_k=3, capacity_factor=0.5)
    assert saved.experts.tolist() == [[1, 2, 0], [2, 0, 3], [0, 3, 2]]
    # Expert 2: token 1's first and token 0's second choice, then token 2's third one has no place.
    assert saved.dropped.tolist() == [
        [False, False, True],
        [False, False, False],
        [False, False, True],
    ]


def test_dropped_choices_are_not_made_up_for() -> None:
    """The weights of what is kept stay what they were: y is short by the dropped part."""
    logits = np.array([[2.0, 1.0, 0.0]] * 3, np.float32)
    layer, x = constant_moe(logits, [1, 1, 1], capacity_factor=0.5)  # one place per expert
    y, saved = layer.forward(x, save=True)
    assert saved.dropped_pairs == 4
    assert y[0] == pytest.approx(np.ones(x.shape[1]), abs=1e-6)
    assert not y[1:].any()
    assert saved.weights[2] == pytest.approx([0.731059, 0.268941], abs=1e-6)


def test_experts_see_x_itself() -> None:
    """Identity experts with weights that sum to 1 return x; two runs agree in every bit."""
    rng = np.random.default_rng(9)
    n_experts, d = 3, 7
    eye = np.broadcast_to(np.eye(d, dtype=np.float32), (n_experts, d, d))
    router = rng.standard_normal((n_experts, d)).astype(np.float32)
    x = rng.standard_normal((5, d)).astype(np.float32)
    layer = ff.MoEFFN(router, None, eye, eye, activation="identity", top_k=1)
    assert np.array_equal(layer(x), x)
    layer = ff.MoEFFN(router, None, eye, eye, activation="identity", top_k=2)
    assert layer(x) == pytest.approx(x, rel=1e-6)
    assert np.array_equal(layer(x), layer(x))
