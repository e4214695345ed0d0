"""`trace`: the tiny example against NumPy, BERT-base's sizes, a layer against transformers."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Json = dict[str, Any]
Run = Callable[..., CompletedProcess[str]]

# The tiny example: 4 -> 8 -> 4 with ReLU.
X = np.array([1, 0, -1, 2])
UP = np.array(
    [
        [0.5, 0.2, -0.1, 0.3],
        [-0.3, 0.4, 0.6, -0.2],
        [0.1, -0.5, 0.3, 0.6],
        [0.7, 0.3, -0.2, -0.4],
        [-0.6, 0.8, 0.4, 0.1],
        [0.2, -0.7, 0.5, -0.5],
        [-0.4, 0.6, -0.8, 0.9],
        [0.3, -0.1, 0.7, 0.4],
    ]
)
UP_BIAS = np.array([0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8])
DOWN = np.array(
    [
        [0.2, 0.5, -0.3, 0.9, -0.1, 0.4, 0.1, 0.6],
        [-0.4, 0.3, 0.8, -0.6, 0.2, 0.5, -0.2, 0.7],
        [0.6, -0.2, 0.4, 0.1, 0.7, -0.9, 0.3, -0.8],
        [0.1, 0.7, -0.5, 0.2, 0.3, 0.6, 0.4, -0.3],
    ]
)
DOWN_BIAS = np.array([0.1, 0.2, -0.1, -0.2])


def trace(run: Run, *arguments: str | Path) -> Json:
    done = run("trace", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    report: Json = json.loads(done.stdout)
    assert report["schema"] == "fourfold.trace/1"
    return report


def values(report: Json) -> dict[str, NDArray[Any]]:
    return {step["name"]: np.array(step["values"]) for step in report["steps"]}


def counts(report: Json) -> list[tuple[int, int, int]]:
    names = ("parameters", "macs", "elementwise_flops")
    return [tuple(step[name] for name in names) for step in report["steps"]]


def layer_norm(x: NDArray[Any], eps: float) -> NDArray[Any]:
    return np.asarray((x - x.mean()) / np.sqrt(x.var() + eps))


def test_tiny_example(run_fourfold: Run) -> None:
    report = trace(run_fourfold)
    found = values(report)
    pre = UP @ X + UP_BIAS
    hidden = np.maximum(pre, 0)
    y = DOWN @ hidden + DOWN_BIAS
    expected = {
        "expand": pre,
        "activate": hidden,
        "contract": y,
        "add": X + y,
        "normalise": layer_norm(X + y, 0.0),
    }
    assert report["x"] == X.tolist()
    assert list(found) == list(expected)
    for name, numbers in expected.items():
        # Sums of at most nine float32 products below 3.
        np.testing.assert_allclose(found[name], numbers, rtol=0, atol=2e-6, err_msg=name)
    assert (report["d_model"], report["d_ff"], report["activation"]) == (4, 8, "relu")
    assert report["parameters"] == 2 * 4 * 8 + 8 + 4
    assert report["macs"] == 2 * 4 * 8
    assert counts(report) == [(40, 32, 8), (0, 0, 8), (36, 32, 4), (0, 0, 4), (8, 0, 0)]


def evaluate(working: str) -> tuple[float, float]:
    """Both sides of "name = sum of products = result"."""
    _, products, result = working.replace("\n", " ").split(" = ")
    total = 0.0
    for term in products.split(" + "):
        product = 1.0
        for factor in term.split(" * "):
            product *= float(factor.strip(" ()"))
        total += product
    return total, float(result)


def test_tiny_example_shows_every_multiplication(run_fourfold: Run) -> None:
    steps = {step["name"]: step for step in trace(run_fourfold)["steps"]}
    for name, lines, factors in (("expand", 8, 4), ("contract", 4, 8)):
        workings = steps[name]["workings"]
        assert len(workings) == lines
        for working, value in zip(workings, steps[name]["values"], strict=True):
            assert working.count(" * ") == factors
            left, right = evaluate(working)
            # Printed with six digits.
            assert left == pytest.approx(right, abs=1e-5)
            assert right == pytest.approx(value, abs=1e-5)
    assert len(steps["activate"]["workings"]) == 8
    assert len(steps["add"]["workings"]) == 4
    text = run_fourfold("trace").stdout
    # The first product of the example's vector and weights, and the first hidden value.
    assert "1 * 0.5" in text
    assert f"{0.5 + 0.1 + 0.6 + 0.1:g}" in text


def silu(x: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(x / (1 + np.exp(-x)))


# The tiny gated example: 3 -> 4 -> 3 with SiLU.
GATED_X = np.array([1, 2, -1])
GATED = {
    "gate": np.array([[0.9, 0.4, -0.3], [-0.5, -0.6, 0.2], [0.2, -0.1, 0], [0.4, 0.1, -0.6]]),
    "up": np.array([[0.5, -0.2, 0.3], [0.7, 0.1, -0.4], [0.1, 0.8, -0.2], [-0.6, 0.9, 0.2]]),
    "down": np.array([[0.6, -0.3, 0.8, 0.2], [-0.4, 0.5, 0.1, 0.7], [0.1, 0.9, -0.6, -0.5]]),
}


def gated_steps(weights: dict[str, NDArray[Any]], x: NDArray[Any]) -> dict[str, NDArray[Any]]:
    gate, up = weights["gate"] @ x, weights["up"] @ x
    hidden = silu(gate) * up
    return {
        "gate": gate,
        "up": up,
        "activate": silu(gate),
        "product": hidden,
        "contract": weights["down"] @ hidden,
    }


def test_tiny_gated(run_fourfold: Run) -> None:
    report = trace(run_fourfold, "--example", "tiny-gated")
    expected = gated_steps(GATED, GATED_X)
    expected["add"] = GATED_X + expected["contract"]
    expected["normalise"] = layer_norm(expected["add"], 0.0)
    found = values(report)
    assert report["x"] == GATED_X.tolist()
    assert list(found) == list(expected)
    for name, numbers in expected.items():
        np.testing.assert_allclose(found[name], numbers, rtol=0, atol=2e-6, err_msg=name)
    # By hand: silu(2) = 1.761594, times -0.2; the third gate is exactly shut.
    np.testing.assert_allclose(found["gate"], [2, -1.9, 0, 1.2], atol=1e-6)
    assert found["product"][0] == pytest.approx(-0.352319, abs=1e-6)
    assert found["product"][2] == 0
    assert (report["kind"], report["activation"]) == ("gated", "silu")
    assert report["parameters"] == report["active_parameters"] == report["macs"] == 3 * 3 * 4
    assert counts(report) == [
        (12, 12, 0), (12, 12, 0), (0, 0, 4), (0, 0, 4), (12, 12, 0), (0, 0, 3), (6, 0, 0)
    ]  # fmt: skip
    for step in report["steps"][:2] + report["steps"][4:5]:
        for working, value in zip(step["workings"], step["values"], strict=True):
            left, right = evaluate(working)
            assert left == pytest.approx(right, abs=1e-5)
            assert right == pytest.approx(value, abs=1e-5)


# The tiny mixture: 4 gated experts of 3 -> 2 -> 3, 2 per token.
MOE_X = np.array([1, -1, 2])
ROUTER = np.array([[0.5, 0, 0.5], [1, 0.5, 0], [0, 0.5, 0.5], [-1, 1, 0.5]])
EXPERTS = [
    {
        "gate": np.array([[0.4, -0.2, 0.3], [-0.5, 0.1, 0.2]]),
        "up": np.array([[0.2, 0.6, 0.5], [0.9, -0.3, 0.1]]),
        "down": np.array([[0.5, -0.4], [0.3, 0.8], [-0.7, 0.2]]),
    },
    {
        "gate": np.array([[-0.6, 0.3, 0.4], [0.8, -0.1, -0.2]]),
        "up": np.array([[0.7, -0.5, 0.2], [-0.3, 0.4, 0.6]]),
        "down": np.array([[-0.2, 0.9], [0.6, 0.1], [0.4, -0.5]]),
    },
]


def test_tiny_moe(run_fourfold: Run) -> None:
    report = trace(run_fourfold, "--example", "tiny-moe")
    logits = ROUTER @ MOE_X
    scores = np.exp(logits) / np.exp(logits).sum()
    # Experts 1 and 2 score the same: the lowest index wins.
    assert scores[1] == scores[2]
    weights = scores[:2] / scores[:2].sum()
    names = ["router", "score", "choose", "weigh"]
    steps: list[tuple[str, int | None, NDArray[Any]]] = [
        (name, None, numbers)
        for name, numbers in zip(names, [logits, scores, np.array([0, 1]), weights], strict=True)
    ]
    y = np.zeros(3)
    for index, expert in enumerate(EXPERTS):
        inner = gated_steps(expert, MOE_X)
        steps += [(name, index, numbers) for name, numbers in inner.items()]
        y += weights[index] * inner["contract"]
    steps += [("combine", None, y), ("add", None, MOE_X + y)]
    steps.append(("normalise", None, layer_norm(MOE_X + y, 0.0)))
    assert [(step["name"], step["expert"]) for step in report["steps"]] == [
        (name, expert) for name, expert, _ in steps
    ]
    for step, (name, _, numbers) in zip(report["steps"], steps, strict=True):
        np.testing.assert_allclose(step["values"], numbers, rtol=0, atol=2e-6, err_msg=name)
    assert weights[0] == pytest.approx(0.731059, abs=1e-6)  # sigmoid(1.5 - 0.5)
    assert (report["kind"], report["n_experts"], report["top_k"]) == ("moe", 4, 2)
    assert report["parameters"] == 4 * 3 + 4 * 3 * 3 * 2
    assert report["active_parameters"] == report["macs"] == 4 * 3 + 2 * 3 * 3 * 2
    assert sum(step["macs"] for step in report["steps"]) == report["macs"]
    text = run_fourfold("trace", "--example", "tiny-moe").stdout
    assert "of equal scores the" in text
    assert "0.731059 * 0.327088 + 0.268941 * 0.155254" in text
    assert max(len(line) for line in text.splitlines()) <= 100


def test_bert_base(run_fourfold: Run) -> None:
    report = trace(run_fourfold, "--example", "bert-base")
    found = values(report)
    d, f = 768, 3072
    assert report["parameters"] == 2 * d * f + f + d == 4_722_432
    assert report["macs"] == 2 * d * f
    assert report["activation"] == "gelu"
    assert counts(report) == [(d * f + f, d * f, f), (0, 0, f), (f * d + d, d * f, d), (0, 0, d),
                              (2 * d, 0, 0)]  # fmt: skip
    assert [len(one) for one in found.values()] == [f, f, d, d, d]
    np.testing.assert_allclose(found["add"], np.array(report["x"]) + found["contract"], atol=1e-6)
    np.testing.assert_allclose(found["normalise"], layer_norm(found["add"], 1e-12), atol=1e-5)
    assert "4,722,432" in run_fourfold("trace", "--example", "bert-base").stdout


@pytest.mark.parametrize(("layer", "token"), [(0, 0), (3, 2), (5, 11)])
def test_layer_of_a_model(
    run_fourfold: Run, model_dir: Path, tmp_path: Path, layer: int, token: int
) -> None:
    from reference_encoder import ReferenceEncoder

    path = tmp_path / "text.txt"
    path.write_text("Nine herons crossed the quiet estuary before the tide turned, and rested.")
    report = trace(
        run_fourfold, model_dir, "--layer", str(layer), "--token", str(token), "--text", path
    )
    reference = ReferenceEncoder(model_dir)
    with reference.watch_ffns(inputs=True) as seen:
        reference.last_hidden(reference.token_ids(path.read_text(), 512))
    found = values(report)
    ffn, row = seen[layer], token + 1  # behind [CLS]
    for ours, theirs in (
        (np.array(report["x"]), ffn.x),
        (found["expand"], ffn.pre),
        (found["activate"], ffn.hidden),
        (found["contract"], ffn.y),
    ):
        assert ours.shape == theirs[0][row].shape
        np.testing.assert_allclose(ours, theirs[0][row], rtol=0, atol=1e-4)
    assert (report["d_model"], report["d_ff"], report["activation"]) == (384, 1536, "gelu")
