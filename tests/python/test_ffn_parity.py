"""Layers of the Python package against PyTorch: composed modules in float64 and float32, autograd
for the gradients. Bounds are those of the same formulas' running error analysis."""

from typing import Any

import ffn_cases
import numpy as np
import pytest
import reference_activations as reference
import torch
import torch_reference
from ffn_cases import CASES, Case, Inputs
from float32_bound import Bounded, assert_close, value_of

import fourfold as ff

WITH_TORCH = [case for case in CASES if not case.name.endswith("top-1-renormalized")]


def ids(case: Case) -> str:
    return case.name


def torch_results(
    case: Case, inputs: Inputs, dtype: torch.dtype
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """y and the gradients of all arrays and x."""
    leaves = {n: torch.from_numpy(w).to(dtype) for n, w in inputs.weights.items()}
    leaves["x"] = torch.from_numpy(inputs.x).to(dtype)
    for name, leaf in leaves.items():
        leaf.requires_grad_(name != "selection_bias")
    dy = torch.from_numpy(inputs.dy).to(dtype)
    weights = {n: t for n, t in leaves.items() if n != "x"}
    if case.is_moe:
        y, logits, chosen = torch_reference.moe_ffn(weights, case.options, leaves["x"])
        mask = case.losses.get("mask", np.ones(len(logits), dtype=bool))
        counted = torch.from_numpy(mask.reshape(-1))
        balance, z = torch_reference.router_losses(logits, chosen, case.options.scoring, counted)
        loss = (y * dy).sum()
        loss = loss + case.losses.get("load_balance", 0.0) * balance
        loss = loss + case.losses.get("z_loss", 0.0) * z
    else:
        y = torch_reference.ffn(weights, case.activation, leaves["x"])
        loss = (y * dy).sum()
    loss.backward()
    return y.detach(), {n: t.grad for n, t in leaves.items() if t.grad is not None}


@pytest.mark.parametrize("case", WITH_TORCH, ids=ids)
def test_forward_and_backward_against_autograd(case: Case) -> None:
    inputs = ffn_cases.make_inputs(case)
    y, grads = torch_results(case, inputs, torch.float64)
    want = ffn_cases.expected(case)
    found = ffn_cases.run_library(ff, case)
    np.testing.assert_allclose(value_of(want.y), y.numpy(), rtol=1e-11, atol=1e-12)
    assert_close("y", found["y"], Bounded(y.numpy(), want.y.error))
    assert grads.keys() == want.grads.keys()
    for name, grad in grads.items():
        expected = grad.numpy()
        size = np.abs(expected).max()
        np.testing.assert_allclose(
            value_of(want.grads[name]), expected, rtol=1e-10, atol=1e-11 * size, err_msg=name
        )
        bound = getattr(want.grads[name], "error", 0.0)
        assert_close(f"d.{name}", found[f"d.{name}"], Bounded(expected, bound))


@pytest.mark.parametrize("case", [c for c in WITH_TORCH if c.activation == "silu"], ids=ids)
def test_as_exact_as_pytorch_in_float32(case: Case) -> None:
    """Both are compared with float64: ours may lose 4 times what PyTorch loses, no more."""
    inputs = ffn_cases.make_inputs(case)
    exact_y, exact = torch_results(case, inputs, torch.float64)
    peer_y, peer = torch_results(case, inputs, torch.float32)
    found = ffn_cases.run_library(ff, case)

    def distance(a: Any, b: torch.Tensor) -> float:
        return float(np.linalg.norm(np.asarray(a, np.float64) - b.numpy()) / np.linalg.norm(b))

    assert distance(found["y"], exact_y) <= 4 * distance(peer_y, exact_y) + 1e-7
    for name, grad in exact.items():
        ours, theirs = distance(found[f"d.{name}"], grad), distance(peer[name], grad)
        assert ours <= 4 * theirs + 1e-7, name


def sample(seed: int, count: int = 1009) -> Bounded:
    """From -12 to 12, and no value where a derivative jumps."""
    values = np.random.default_rng(seed).uniform(-12, 12, count).astype(np.float32)
    return Bounded(values[np.abs(np.abs(values) % 1) > 1e-4])


@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_functional_activations(name: str) -> None:
    x, dy = sample(1), Bounded(np.float32(1.7))
    act = reference.ACTIVATIONS[name]
    given = x.value.astype(np.float32)
    assert_close(name, getattr(ff.functional, name)(given), act.value(x))
    dx = getattr(ff.functional, f"{name}_backward")(given, np.full_like(given, 1.7))
    assert_close(f"{name}_backward", dx, act.slope(x) * dy)


@pytest.mark.parametrize("name", ffn_cases.ALL)
def test_functional_gated_forms(name: str) -> None:
    gate, up, dh = (Bounded(sample(seed).value[:900]) for seed in (2, 3, 4))
    gate32, up32, dh32 = (v.value.astype(np.float32) for v in (gate, up, dh))
    h = reference.glu(name, gate, up)
    pair = reference.glu_backward(name, gate, up, dh)
    assert_close("h", ff.functional.glu(gate32, up32, name), h)
    if name in reference.GATED_ONLY:
        assert_close("h", getattr(ff.functional, name)(gate32, up32), h)
        found = getattr(ff.functional, f"{name}_backward")(gate32, up32, dh32)
    else:
        found = ff.functional.glu_backward(gate32, up32, dh32, name)
    for what, got, want in zip(("dgate", "dup"), found, pair, strict=True):
        assert_close(what, got, want)


def test_the_reference_knows_every_activation() -> None:
    names = {
        n for n in vars(ff.functional)["__all__"] if not n.endswith("_backward") and n != "glu"
    }
    assert names == set(ffn_cases.ALL)


@pytest.mark.parametrize("kind", ["dense", "gated", "moe"])
def test_bf16_layers_stay_close_to_float32_ones(kind: str) -> None:
    """Cosine at least 0.9999 and norm ratio 1 +- 0.01 for the result and every gradient, at a size
    where a wrong kernel could not hide; the layer says what it computes in."""
    d_model, d_ff, tokens, n_experts = 67, 131, 41, 5
    rng = np.random.default_rng(5)

    def draw(*shape: int) -> np.ndarray[Any, Any]:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    lead = (n_experts,) if kind == "moe" else ()
    arrays = {"up": draw(*lead, d_ff, d_model), "down": draw(*lead, d_model, d_ff)}
    if kind != "dense":
        arrays["gate"] = draw(*lead, d_ff, d_model)
    make = {"dense": ff.DenseFFN, "gated": ff.GatedFFN, "moe": ff.MoEFFN}[kind]
    if kind == "moe":
        arrays["router"] = 8 * draw(n_experts, d_model)
    x = rng.standard_normal((tokens, d_model)).astype(np.float32)
    dy = rng.standard_normal((tokens, d_model)).astype(np.float32)
    results = {}
    for dtype in ("float32", "bfloat16"):
        layer = make(**arrays, activation="silu", dtype=dtype)
        assert layer.dtype == dtype
        y, saved = layer.forward(x, save=True)
        dx, grads = layer.backward(saved, dy)
        named = ffn_cases.named_gradients(grads, arrays)
        results[dtype] = {"y": y, "x": dx, **named}
    for name, wide in results["float32"].items():
        a, b = wide.astype(np.float64).ravel(), results["bfloat16"][name].astype(np.float64).ravel()
        norms = np.linalg.norm(a), np.linalg.norm(b)
        assert a @ b >= 0.9999 * norms[0] * norms[1], name
        assert norms[1] / norms[0] == pytest.approx(1, abs=0.01), name
        assert not np.array_equal(a, b), f"{name}: bfloat16 was not computed in bfloat16"


def test_bf16_backward_takes_the_roundings_of_forward() -> None:
    """d_ff 1: hidden is one number, and its rounded value, not the exact one, must enter both down
    in forward and the gradient of down."""
    gate = up = np.array([[1.0]], np.float32)
    down = np.array([[1.0]], np.float32)
    layer = ff.GatedFFN(gate, up, down, activation="silu", dtype="bfloat16")
    x = np.array([[1.703125]], np.float32)  # exact in bf16
    y, saved = layer.forward(x, save=True)
    _, grads = layer.backward(saved, np.array([[1.0]], np.float32))
    hidden = float(x[0, 0] ** 2 / (1 + np.exp(-np.float64(x[0, 0]))))
    rounded = float(torch.tensor(hidden, dtype=torch.float64).to(torch.bfloat16))
    assert rounded != hidden
    assert y[0, 0] == rounded
    assert grads.down[0, 0] == rounded
