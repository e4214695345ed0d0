"""Gradients: the reference against difference quotients, the library against the reference.

Bounds come from running error analysis (float32_bound.py): the last product's K * eps * sum|terms|
plus what the errors of the inner gradients and pre-activations become in it.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ffn_cases
import numpy as np
import pytest
import reference_activations as act
from ffn_cases import BF16_CASES, CASES, Case
from float32_bound import assert_close, bounded, value_of

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parents[1] / "tools"))
from ctest_suites import detected_isas  # noqa: E402

DIRECTIONS = 20
STEP = 1e-5


def ids(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_reference_agrees_with_difference_quotients(case: Case) -> None:
    """(loss(p + h v) - loss(p - h v)) / 2h = <gradient, v> to 1e-6, in directions v over x and all
    weights at once."""
    inputs = ffn_cases.make_inputs(case)
    weights = ffn_cases.float64_weights(inputs)
    x, dy = inputs.x.astype(np.float64), inputs.dy.astype(np.float64)
    y, saved = ffn_cases.reference_forward(case, weights, x)
    grads = ffn_cases.reference_backward(case, weights, x, saved, dy)
    moving = {"x": x, **{n: w for n, w in weights.items() if n != "selection_bias"}}
    assert grads.keys() == moving.keys()
    _, chosen = ffn_cases.reference_loss(case, weights, x, dy)
    rng = np.random.default_rng(11)
    for _ in range(DIRECTIONS):
        v = {name: rng.standard_normal(value.shape) for name, value in moving.items()}
        losses = []
        for sign in (1, -1):
            moved = {name: value + sign * STEP * v[name] for name, value in moving.items()}
            fixed = {n: w for n, w in weights.items() if n == "selection_bias"}
            at_x = moved.pop("x")
            loss, experts = ffn_cases.reference_loss(case, {**moved, **fixed}, at_x, dy)
            assert chosen is None or np.array_equal(experts, chosen)
            losses.append(loss)
        quotient = (losses[0] - losses[1]) / (2 * STEP)
        slope = sum(float((grads[name] * v[name]).sum()) for name in moving)
        assert quotient == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("name", act.ACTIVATIONS)
def test_reference_derivatives_and_their_bounds(name: str) -> None:
    """f' by difference quotients; |f''| stays below the curvature that the bounds use, and |f'''|
    below the 4 that those of slopes use."""
    one = act.ACTIVATIONS[name]
    x = np.linspace(-9, 9, 3001) + 1e-4  # no kink within a step
    h = 1e-5
    quotient = (one.function(x + h) - one.function(x - h)) / (2 * h)
    assert np.abs(quotient - one.derivative(x)).max() < 1e-8
    if one.kinks:
        return
    bend = (one.derivative(x + h) - one.derivative(x - h)) / (2 * h)
    assert np.abs(bend).max() <= one.curvature + 1e-8
    x = x[np.abs(x) > 1e-2]  # where relu2' bends
    third = (one.derivative(x + 1e-3) - 2 * one.derivative(x) + one.derivative(x - 1e-3)) / 1e-6
    assert np.abs(third).max() <= 4


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_inputs_reach_what_they_are_meant_to(case: Case) -> None:
    """Clamps, drops and unequal experts: a case that misses them would prove nothing."""
    want = ffn_cases.expected(case)
    for name, grad in want.grads.items():
        zero = case.name in ("moe-top-1-renormalized",) and name.startswith("router")
        assert zero or np.abs(value_of(grad)).max() > 1e-3, f"d.{name} is next to nothing"
    if want.routed is not None and case.n_experts > 1:
        counts = np.bincount(want.routed.experts.ravel(), minlength=case.n_experts)
        assert case.options.top_k == case.n_experts or len(set(counts)) > 1
    if case.activation == "swiglu_oai" and case.kind == "gated":
        inputs = ffn_cases.make_inputs(case)
        _, saved = ffn_cases.reference_forward(case, ffn_cases.float64_weights(inputs), inputs.x)
        assert (saved.gate > 7).any() and (np.abs(saved.up) > 7).any()


def wanted_isas() -> list[str]:
    """Every instruction set of this CPU; FOURFOLD_TEST_ISAS (a,b) narrows it."""
    if "FOURFOLD_TEST_ISAS" in os.environ:
        return os.environ["FOURFOLD_TEST_ISAS"].split(",")
    return detected_isas(Path(os.environ["FOURFOLD_BIN"]))


@pytest.fixture(scope="session", params=wanted_isas())
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the library computes for all cases under one instruction set."""
    out = tmp_path_factory.mktemp("library") / f"{request.param}.npz"
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, str(FOLDER / "ffn_cases.py"), str(out)],
        env={**os.environ, "FOURFOLD_ISA": request.param, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    with np.load(out) as results:
        found = dict(results)
    assert str(found["isa"]) == request.param
    return found


def check_case(library: Any, case: Case, norm: float | None) -> None:
    want = ffn_cases.expected(case)
    if want.routed is not None:
        assert np.array_equal(library[f"{case.name}/experts"], want.routed.experts)
        assert np.array_equal(library[f"{case.name}/dropped"].astype(bool), want.routed.dropped)
        assert library[f"{case.name}/dropped_pairs"] == want.routed.dropped.sum()
        assert_close("weights", library[f"{case.name}/weights"], want.routed.weights, norm)
    assert_close("y", library[f"{case.name}/y"], want.y, norm)
    for name, grad in want.grads.items():
        got = library[f"{case.name}/d.{name}"]
        # A router of top_k 1 that renormalises: every term cancels exactly.
        nothing = case.name == "moe-top-1-renormalized" and name == "router"
        assert_close(f"d.{name}", got, bounded(grad), None if nothing else norm)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_library_gradients(library: Any, case: Case) -> None:
    check_case(library, case, norm=1e-5)


@pytest.mark.parametrize("case", BF16_CASES, ids=ids)
def test_library_gradients_bf16(library: Any, case: Case) -> None:
    """With the rounding points of docs/numerics.md in the reference. A value next to a rounding
    boundary may go either way; the norm says that few do."""
    check_case(library, case, norm=2e-3)
