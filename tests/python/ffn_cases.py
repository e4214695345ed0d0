"""The layers that forward and backward are checked on, and what the library makes of them.

Sizes are distinct primes (3 x 5 tokens, d_model 7, d_ff 11, 5 experts, top_k 2; with groups 6
experts, shared expert 13 wide), values asymmetric. Pre-activations keep away from kinks, choices of
experts from ties. As a program: `python ffn_cases.py OUT.npz` computes every case with the library,
in a process of its own because FOURFOLD_ISA is read once.
"""

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import reference_activations as act
import reference_ffn as ffn
import reference_moe as moe
from float32_bound import Array, Bounded, Number, round_to_bf16, value_of

BATCH, SEQ, D_MODEL, D_FF, N_EXPERTS, SHARED_D_FF = 3, 5, 7, 11, 5, 13
ALL = (*act.ACTIVATIONS, *act.GATED_ONLY)


@dataclass(frozen=True)
class Case:
    name: str
    kind: str  # dense, gated, moe, moe_dense (experts without a gate)
    activation: str
    bias: bool
    router: dict[str, Any] = field(default_factory=dict)  # moe.Options
    router_bias: bool = False
    selection_bias: bool = False
    shared: str = ""  # "", dense or gated
    shared_gate: bool = False
    losses: dict[str, Any] = field(default_factory=dict)  # load_balance, z_loss, mask
    n_experts: int = N_EXPERTS
    dtype: str = "float32"
    d_model: int = D_MODEL
    d_ff: int = D_FF

    @property
    def is_moe(self) -> bool:
        return self.kind.startswith("moe")

    @property
    def options(self) -> moe.Options:
        return moe.Options(activation=self.activation, shared_activation="gelu", **self.router)


def _moe(name: str, activation: str = "silu", **fields: Any) -> Case:
    return Case(f"moe-{name}", fields.pop("kind", "moe"), activation, True, **fields)


def _mask() -> Array:
    mask = np.ones((BATCH, SEQ), dtype=bool)
    mask[[0, 0, 2], [2, 3, 1]] = False
    return mask


def moe_option_cases() -> list[Case]:
    """Every option of a mixture at least once, and those that meet in one formula together."""
    cases = []
    for scoring in ("softmax", "sigmoid", "softmax_topk", "sqrt_softplus"):
        for renormalize in (True, False):
            name = f"{scoring}-{'renormalized' if renormalize else 'raw'}"
            router = {"scoring": scoring, "renormalize": renormalize, "scaling": 2.5}
            cases.append(_moe(name, router=router))
        every: dict[str, Any] = {"router_bias": True, "selection_bias": True}
        losses = {"load_balance": 0.3, "z_loss": 0.2, "mask": _mask()}
        cases.append(_moe(f"{scoring}-biases", router={"scoring": scoring}, **every))
        cases.append(_moe(f"{scoring}-losses", router={"scoring": scoring}, losses=losses, **every))
        groups = {"scoring": scoring, "n_groups": 3, "top_groups": 2, "top_k": 3}
        cases.append(_moe(f"{scoring}-groups", router=groups, n_experts=6, selection_bias=True))
    single = {"top_k": 1, "renormalize": False}
    return [
        *cases,
        _moe("top-1-raw", router=single),
        _moe("top-1-renormalized", router={"top_k": 1}),
        _moe("top-all", router={"top_k": N_EXPERTS, "scaling": 0.7}),
        _moe("one-expert", router={**single, "scoring": "sigmoid"}, n_experts=1),
        _moe("balance-alone", losses={"load_balance": 0.7}),
        _moe("z-alone", losses={"z_loss": 0.6}, router_bias=True),
        _moe("shared-gated", shared="gated"),
        _moe("shared-dense-with-gate", shared="dense", shared_gate=True),
        _moe("shared-gated-with-gate", shared="gated", shared_gate=True, router={"scaling": 2.5}),
        _moe("weight-input", router={"weight_input": True}),
        _moe(
            "weight-input-sigmoid",
            router={
                "weight_input": True,
                "scoring": "sigmoid",
                "renormalize": False,
                "top_k": 1,
                "scaling": 1.5,
            },
            shared="gated",
        ),
        _moe("capacity", router={"capacity_factor": 0.7}),
        _moe("capacity-sigmoid", router={"capacity_factor": 0.6, "scoring": "sigmoid"}),
        _moe("capacity-ample", router={"capacity_factor": 8.0}),
        _moe(
            "everything",
            activation="swiglu_oai",
            router={
                "scoring": "sigmoid",
                "n_groups": 2,
                "top_groups": 1,
                "scaling": 2.5,
                "capacity_factor": 0.9,
            },
            n_experts=6,
            router_bias=True,
            selection_bias=True,
            shared="gated",
            shared_gate=True,
            losses={"load_balance": 0.5, "z_loss": 0.4, "mask": _mask()},
        ),
        _moe("dense-experts", kind="moe_dense", activation="gelu", shared="dense"),
        # More columns than one panel of 64 on every side.
        _moe("wide", d_model=67, d_ff=131, shared="gated", shared_gate=True),
    ]


def activation_cases() -> list[Case]:
    cases = []
    for activation in ALL:
        for kind in ("dense", "gated", "moe", "moe_dense"):
            if activation in act.GATED_ONLY and kind in ("dense", "moe_dense"):
                continue
            for bias in (True, False):
                name = f"{kind}-{activation}-{'bias' if bias else 'plain'}"
                cases.append(Case(name, kind, activation, bias))
    return cases


CASES = [*activation_cases(), *moe_option_cases()]
BF16_CASES = [
    replace(case, name="bf16-" + case.name, dtype="bfloat16")
    for case in CASES
    if case.activation in ("gelu", "silu", "swiglu_oai", "relu2")
]


def _values(rng: np.random.Generator, *shape: int, scale: float, shift: float = 0.0) -> Array:
    return (rng.standard_normal(shape) * scale + shift).astype(np.float32)


def _ffn_arrays(
    rng: np.random.Generator, case: Case, gated: bool, d_ff: int, wide: float, *lead: int
) -> dict[str, Array]:
    d = case.d_model
    arrays = {"up": _values(rng, *lead, d_ff, d, scale=0.4 * wide, shift=0.05)}
    if gated:
        arrays["gate"] = _values(rng, *lead, d_ff, d, scale=0.45 * wide, shift=-0.03)
    arrays["down"] = _values(rng, *lead, d, d_ff, scale=0.3, shift=0.02)
    if case.bias:
        arrays["up_bias"] = _values(rng, *lead, d_ff, scale=0.5, shift=0.1)
        if gated:
            arrays["gate_bias"] = _values(rng, *lead, d_ff, scale=0.5, shift=0.2)
        arrays["down_bias"] = _values(rng, *lead, d, scale=0.5, shift=-0.1)
    return arrays


@dataclass
class Inputs:
    weights: dict[str, Array]
    x: Array  # [BATCH, SEQ, d_model]
    dy: Array


def _draw(case: Case, seed: int) -> Inputs:
    rng = np.random.default_rng(seed)
    # Clamps must be reached: wider pre-activations.
    wide = 4.0 if case.activation in ("relu6", "swiglu_oai") else 1.0
    gated = case.kind in ("gated", "moe")
    lead = (case.n_experts,) if case.is_moe else ()
    weights = _ffn_arrays(rng, case, gated, case.d_ff, wide, *lead)
    if case.is_moe:
        weights["router"] = _values(rng, case.n_experts, case.d_model, scale=0.5, shift=0.03)
        if case.router_bias:
            weights["router_bias"] = _values(rng, case.n_experts, scale=0.4)
        if case.selection_bias:
            weights["selection_bias"] = _values(rng, case.n_experts, scale=0.2)
        if case.shared:
            arrays = _ffn_arrays(rng, case, case.shared == "gated", SHARED_D_FF, 1.0)
            weights.update({"shared." + name: value for name, value in arrays.items()})
        if case.shared_gate:
            weights["shared_gate"] = _values(rng, case.d_model, scale=0.6)
    if case.dtype == "bfloat16":
        for name in weights:
            if name.split(".")[-1] in ("gate", "up", "down"):
                weights[name] = round_to_bf16(weights[name]).astype(np.float32)
    x = _values(rng, BATCH, SEQ, case.d_model, scale=1.0, shift=0.1)
    dy = _values(rng, BATCH, SEQ, case.d_model, scale=0.8, shift=-0.05)
    return Inputs(weights, x, dy)


def make_inputs(case: Case) -> Inputs:
    """The first draw that keeps away from kinks and ties and, where there is a capacity below the
    need, drops something."""
    first = zlib.crc32(case.name.encode())
    for seed in range(first, first + 1000):
        inputs = _draw(case, seed)
        if _is_safe(case, inputs):
            return inputs
    raise AssertionError(f"no safe inputs for {case.name}")


def _is_safe(case: Case, inputs: Inputs) -> bool:
    near = 1e-3 if case.dtype == "float32" else 2e-3
    _, saved = reference_forward(case, float64_weights(inputs), inputs.x.astype(np.float64))
    if not case.is_moe:
        return act.kink_distance(case.activation, *ffn.pre_activation(saved)) > near
    if case.n_experts > 1 and moe.choice_margin(saved.routed, case.options) < 1e-4:
        return False
    factor = case.options.capacity_factor
    if factor is not None and factor < 1 and not saved.routed.dropped.any():
        return False
    visited = [one for one in saved.experts if one is not None]
    return all(
        act.kink_distance(case.activation, *ffn.pre_activation(one)) > near for one in visited
    )


def float64_weights(inputs: Inputs) -> dict[str, Number]:
    return {name: value.astype(np.float64) for name, value in inputs.weights.items()}


def bounded_weights(inputs: Inputs) -> dict[str, Number]:
    return {name: Bounded(value) for name, value in inputs.weights.items()}


def store_of(case: Case) -> ffn.Store:
    return round_to_bf16 if case.dtype == "bfloat16" else ffn.exact


def reference_forward(case: Case, weights: dict[str, Number], x: Number) -> tuple[Number, Any]:
    if case.is_moe:
        return moe.moe_forward(weights, case.options, x, store_of(case))
    return ffn.ffn_forward(weights, case.activation, x, store_of(case))


def reference_backward(
    case: Case, weights: dict[str, Number], x: Number, saved: Any, dy: Number
) -> dict[str, Number]:
    """Gradients of every array of the layer by name, and of x."""
    if case.is_moe:
        dx, grads = moe.moe_backward(
            weights, case.options, x, saved, dy, store_of(case), **case.losses
        )
    else:
        dx, grads = ffn.ffn_backward(weights, case.activation, x, saved, dy, store_of(case))
    return {"x": dx, **grads}


def reference_loss(case: Case, weights: dict[str, Array], x: Array, dy: Array) -> tuple[float, Any]:
    """sum(dy * y) plus the router's own losses: what reference_backward differentiates. The second
    value is the choice of experts, which a difference quotient must not cross."""
    y, saved = reference_forward(case, weights, x)
    total = float((dy * y).sum())
    if not case.is_moe:
        return total, None
    routed, scoring, mask = saved.routed, case.options.scoring, case.losses.get("mask")
    if case.losses.get("load_balance"):
        balance = moe.load_balance_loss(routed, scoring, mask)
        total += case.losses["load_balance"] * balance
    if case.losses.get("z_loss"):
        total += case.losses["z_loss"] * moe.z_loss_value(routed, mask)
    return total, np.where(routed.dropped, -1, routed.experts)


def make_layer(ff: Any, case: Case, inputs: Inputs) -> Any:
    """The layer of the Python package with the case's arrays and options."""
    weights: dict[str, Any] = {n: w for n, w in inputs.weights.items() if "shared" not in n}
    common: dict[str, Any] = {"activation": case.activation, "dtype": case.dtype}
    if case.kind == "dense":
        return ff.DenseFFN(**weights, **common)
    if case.kind == "gated":
        return ff.GatedFFN(**weights, **common)
    weights.setdefault("gate", None)  # dense experts
    if case.shared:
        arrays = moe.shared_weights(inputs.weights)
        kind: Callable[..., Any] = ff.GatedFFN if case.shared == "gated" else ff.DenseFFN
        common["shared"] = kind(**arrays, activation="gelu", dtype=case.dtype)
        common["shared_gate"] = inputs.weights.get("shared_gate")
    return ff.MoEFFN(**weights, **common, **case.router)


def named_gradients(grads: Any, weights: dict[str, Array]) -> dict[str, Array]:
    """The package's gradients under the names of the arrays; selection_bias has none."""
    named = {}
    for name in weights:
        if name == "selection_bias":
            assert grads.selection_bias is None
        elif name.startswith("shared."):
            named[name] = getattr(grads.shared, name[7:])
        else:
            named[name] = getattr(grads, name)
    return named


def run_library(ff: Any, case: Case) -> dict[str, Array]:
    """y, every gradient as d.<name>, and for a mixture what the router decided."""
    inputs = make_inputs(case)
    layer = make_layer(ff, case, inputs)
    y, saved = layer.forward(inputs.x, save=True)
    dx, grads = layer.backward(saved, inputs.dy, **case.losses)
    found = {"y": y, "d.x": dx}
    for name, value in named_gradients(grads, inputs.weights).items():
        found["d." + name] = value
    if case.is_moe:
        found["experts"], found["weights"] = saved.experts, saved.weights
        found["dropped"] = saved.dropped
        found["dropped_pairs"] = np.asarray(saved.dropped_pairs)
    return found


def expected(case: Case) -> SimpleNamespace:
    """What the library must find: y, grads by name, and for a mixture the routing."""
    inputs = make_inputs(case)
    weights, x, dy = bounded_weights(inputs), Bounded(inputs.x), Bounded(inputs.dy)
    y, saved = reference_forward(case, weights, x)
    grads = reference_backward(case, weights, x, saved, dy)
    routed = saved.routed if case.is_moe else None
    return SimpleNamespace(y=y, grads=grads, routed=routed, value=value_of(y))


def main() -> None:
    import warnings

    import fourfold as ff

    # A router of top_k 1 that renormalises gets no gradient from the task, and says so.
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {}
    for case in [*CASES, *BF16_CASES]:
        for name, value in run_library(ff, case).items():
            results[f"{case.name}/{name}"] = np.asarray(value)
    results["isa"] = np.asarray(ff.info()["isa"])
    np.savez(sys.argv[1], **results)


if __name__ == "__main__":
    main()
