"""MoEFFN: a mixture of experts (Shazeer et al. 2017, arXiv 1701.06538; Fedus et al. 2021, arXiv
2101.03961).
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fourfold import _core, arguments, arrays
from fourfold.arrays import Bits, Float32
from fourfold.errors import ArgumentError
from fourfold.ffn import DenseFFN, DenseGrads, GatedFFN, GatedGrads
from fourfold.layer import Array, Layer, Saved, read_float32, read_weights

_WHERE = "moe_ffn"
Given = dict[str, Float32 | Bits]


class MoESaved(Saved):
    """What MoEFFN.forward(x, save=True) leaves for backward, and how the tokens were routed.

    The arrays are copies; tokens are the rows of x, its leading dimensions flattened.
    """

    @property
    def experts(self) -> npt.NDArray[np.int64]:
        """[tokens, top_k]: the chosen experts, best first."""
        return np.array(self._core.experts(), np.int64)

    @property
    def weights(self) -> Float32:
        """[tokens, top_k]: what each chosen expert counts."""
        return np.array(self._core.weights(), np.float32)

    @property
    def logits(self) -> Float32:
        """[tokens, n_experts]: the router's results."""
        return np.array(self._core.logits(), np.float32)

    @property
    def dropped(self) -> npt.NDArray[np.bool_]:
        """[tokens, top_k]: whether the choice was beyond its expert's capacity."""
        return np.array(self._core.dropped(), np.bool_)

    @property
    def load(self) -> npt.NDArray[np.int64]:
        """[n_experts]: (token, choice) pairs of each expert; their sum is tokens * top_k."""
        return self.load_of(None)

    def load_of(self, mask: Any) -> npt.NDArray[np.int64]:
        """As `load`, of the tokens where mask: [...] (x's leading dimensions) is not 0."""
        return np.array(self._core.load(self._counted(mask)), np.int64)

    @property
    def dropped_pairs(self) -> int:
        return int(self._core.dropped_pairs)

    @property
    def non_finite_tokens(self) -> int:
        """Tokens without a usable routing (NaN or +inf among their logits); their y is NaN."""
        return int(self._core.non_finite_tokens)

    def _counted(self, mask: Any) -> npt.NDArray[np.int8] | None:
        if mask is None:
            return None
        array = arrays.read_mask(mask, _WHERE)
        arrays.check_shape(_WHERE, "mask", array, *self._x.shape[:-1])
        return (array != 0).reshape(-1).view(np.int8)


@dataclass
class MoEGrads:
    """Gradients of a MoEFFN's arrays, float32; None where the layer has no such array, and for
    selection_bias, which only moves the choice.
    """

    router: Any
    up: Any
    down: Any
    gate: Any = None
    gate_bias: Any = None
    up_bias: Any = None
    down_bias: Any = None
    router_bias: Any = None
    selection_bias: None = None
    shared: DenseGrads | GatedGrads | None = None
    shared_gate: Any = None


class MoEFFN(Layer[MoESaved]):
    """y = sum over the top_k chosen experts e of weight_e * expert_e(x), plus the shared expert.

    router: [n_experts, d_model]; gate, up: [n_experts, d_ff, d_model], down: [n_experts, d_model,
    d_ff]; gate=None makes the experts dense. gate_bias, up_bias: [n_experts, d_ff], down_bias:
    [n_experts, d_model]; router_bias, selection_bias: [n_experts]. All are copied. dtype "float32"
    or "bfloat16" converts the experts' matrices, None keeps their type; the router computes in
    float32.

    scoring: "softmax", "sigmoid", "softmax_topk" (over the chosen experts) or "sqrt_softplus".
    renormalize: the weights of the chosen experts sum to 1, before scaling. selection_bias: added
    to the scores for the choice alone (DeepSeek-V3). n_groups, top_groups: experts are chosen from
    the best top_groups of n_groups groups. shared: a DenseFFN or GatedFFN that every token visits,
    copied; shared_gate: [d_model] multiplies its result by sigmoid(shared_gate . x) (Qwen2-MoE).
    weight_input: the weight multiplies the expert's input (Llama 4). capacity_factor: an expert
    takes at most ceil(capacity_factor * tokens * top_k / n_experts) choices of a call.
    Raises ArgumentError.
    """

    __slots__ = ("_shared_activation", "_shared_dtype", "_n_experts", "_top_k", "_warned")
    _where = _WHERE
    _saved_type = MoESaved
    _new_core_saved = _core.MoeSaved

    def __init__(
        self,
        router: Any,
        gate: Any,
        up: Any,
        down: Any,
        gate_bias: Any = None,
        up_bias: Any = None,
        down_bias: Any = None,
        activation: str = "silu",
        dtype: Any = None,
        top_k: int = 2,
        scoring: str = "softmax",
        renormalize: bool = True,
        router_bias: Any = None,
        selection_bias: Any = None,
        scaling: float = 1.0,
        n_groups: int = 1,
        top_groups: int = 1,
        shared: DenseFFN | GatedFFN | None = None,
        shared_gate: Any = None,
        weight_input: bool = False,
        capacity_factor: float | None = None,
    ) -> None:
        matrices = {"gate": gate, "up": up, "down": down}
        biases = {"gate_bias": gate_bias, "up_bias": up_bias, "down_bias": down_bias}
        given = _read(router, matrices, biases, router_bias, selection_bias, dtype)
        given |= _read_shared(shared, shared_gate, given["router"].shape[1], dtype)
        capacity = None if capacity_factor is None else _real("capacity_factor", capacity_factor)
        self._shared_activation = "" if shared is None else shared.activation
        self._shared_dtype = None if shared is None else (dtype or shared.dtype)
        core = _core.MoeFfn(
            given,
            activation=arguments.name(_WHERE, "activation", activation),
            shared_activation=self._shared_activation,
            top_k=_integer("top_k", top_k),
            scoring=arguments.name(_WHERE, "scoring", scoring),
            renormalize=arguments.flag(_WHERE, "renormalize", renormalize),
            scaling=_real("scaling", scaling),
            n_groups=_integer("n_groups", n_groups),
            top_groups=_integer("top_groups", top_groups),
            weight_input=arguments.flag(_WHERE, "weight_input", weight_input),
            capacity_factor=capacity,
        )
        n_experts, d_ff, d_model = given["up"].shape
        shapes = {name: array.shape for name, array in given.items()}
        self._start(core, shapes, d_model, d_ff)
        self._n_experts = n_experts
        self._top_k = int(top_k)
        self._warned = False
        expert = (2 if gate is None else 3) * d_model * d_ff
        common = sum(
            math.prod(array.shape)
            for name, array in given.items()
            if (name.startswith("shared.") and array.ndim == 2) or name == "shared_gate"
        )
        self._macs_per_token = n_experts * d_model + self._top_k * expert + common

    def set_weights(
        self,
        router: Any,
        gate: Any,
        up: Any,
        down: Any,
        gate_bias: Any = None,
        up_bias: Any = None,
        down_bias: Any = None,
        router_bias: Any = None,
        selection_bias: Any = None,
        shared: DenseFFN | GatedFFN | None = None,
        shared_gate: Any = None,
    ) -> None:
        """New values for every array of the constructor, in the layer's dtype, of the same shapes.

        Waits for running calls. Raises ArgumentError.
        """
        matrices = {"gate": gate, "up": up, "down": down}
        biases = {"gate_bias": gate_bias, "up_bias": up_bias, "down_bias": down_bias}
        given = _read(router, matrices, biases, router_bias, selection_bias, self.dtype)
        given |= _read_shared(shared, shared_gate, self.d_model, self._shared_dtype)
        for name in self._shapes | given:
            self._check_same_shape(name, given[name].shape if name in given else None)
        if shared is not None and shared.activation != self._shared_activation:
            raise ArgumentError(
                f"[{_WHERE}] shared has the activation {shared.activation},"
                f" expected {self._shared_activation}"
            )
        self._set_core_weights(arrays=given, shared_activation=self._shared_activation)

    def backward(
        self,
        saved: MoESaved,
        dy: Array,
        load_balance: float = 0.0,
        z_loss: float = 0.0,
        mask: Any = None,
    ) -> tuple[Array, MoEGrads]:
        """dx: [..., d_model] and the gradients of all arrays, for dy: [..., d_model].

        saved comes from this layer's forward(x, save=True); dy has the shape and type of x.
        load_balance, z_loss: factors of the router's losses (see router_losses), whose gradients
        are added; mask: [...] as there. Raises ArgumentError.
        """
        self._check_saved(saved)
        given = self._read_dy(saved, dy)
        dx = np.empty(given.shape, np.float32)
        grads = self._zero_gradients()
        grads.pop("selection_bias", None)
        self._core.backward(
            self._rows(arrays.to_float32(saved._x)),
            saved._core,
            self._rows(given),
            self._rows(dx),
            grads,
            _real("load_balance", load_balance),
            _real("z_loss", z_loss),
            saved._counted(mask),
        )
        own = {name: arrays.like(dy, grad) for name, grad in grads.items()}
        inner = {
            name.removeprefix("shared."): own.pop(name)
            for name in grads
            if name.startswith("shared.")
        }
        shared: DenseGrads | GatedGrads | None = None
        if inner:
            shared = GatedGrads(**inner) if "gate" in inner else DenseGrads(**inner)
        return self._gradient_of_x(dy, dx, saved), MoEGrads(**own, shared=shared)

    def router_losses(self, saved: MoESaved, mask: Any = None) -> dict[str, float]:
        """load_balance and z_loss of a pass, over the tokens where mask is not 0.

        load_balance: n_experts * sum over e of f_e P_e, f_e the share of choices and P_e the mean
        probability of expert e (Fedus et al. 2021, equations 4 to 6); 1 when balanced. z_loss: the
        mean of logsumexp(logits)^2 (Zoph et al. 2022, arXiv 2202.08906, equation 5).
        mask: [...], the leading dimensions of x. Raises ArgumentError.
        """
        self._check_saved(saved)
        load_balance, z_loss = self._core.router_losses(saved._core, saved._counted(mask))
        return {"load_balance": load_balance, "z_loss": z_loss}

    def _forward_saved(self, x: Any, out: Any) -> tuple[Any, MoESaved]:
        result = super()._forward_saved(x, out)
        if not self._warned and not self._core.router_has_task_gradient:
            self._warned = True
            warnings.warn(
                "the router gets no gradient from the task: with top_k=1 and renormalize=True every"
                " weight is 1; use renormalize=False",
                stacklevel=3,
            )
        return result

    @property
    def n_experts(self) -> int:
        return self._n_experts

    @property
    def top_k(self) -> int:
        """Experts that one token visits."""
        return self._top_k

    @property
    def parameters_active(self) -> int:
        return int(self._core.active_parameters)

    def __repr__(self) -> str:
        kind = "gated" if "gate" in self._shapes else "dense"
        shared = ", shared" if "shared.up" in self._shapes else ""
        return (
            f"MoEFFN(d_model={self.d_model}, d_ff={self.d_ff}, n_experts={self.n_experts},"
            f' top_k={self.top_k}, {kind}, "{self.activation}", {self.dtype}{shared})'
        )


def _read(
    router: Any,
    matrices: dict[str, Any],
    biases: dict[str, Any],
    router_bias: Any,
    selection_bias: Any,
    dtype: Any,
) -> Given:
    """The arrays that are there, by name, checked against the shape of up."""
    present = {
        name: value for name, value in matrices.items() if value is not None or name != "gate"
    }
    given: Given = {**read_weights(_WHERE, dtype, present)}
    arrays.check_ndim(_WHERE, "up", given["up"], 3, "[n_experts, d_ff, d_model]")
    n_experts, d_ff, d_model = given["up"].shape
    for name, array in given.items():
        last = (d_model, d_ff) if name == "down" else (d_ff, d_model)
        arrays.check_shape(_WHERE, name, array, n_experts, *last)
    given["router"] = _vector("router", router, n_experts, d_model)
    for name, bias in biases.items():
        if bias is None:
            continue
        if name == "gate_bias" and "gate" not in given:
            raise ArgumentError(f"[{_WHERE}] gate_bias is given, but gate is None: dense experts")
        length = d_model if name == "down_bias" else d_ff
        given[name] = _vector(name, bias, n_experts, length)
    for name, bias in {"router_bias": router_bias, "selection_bias": selection_bias}.items():
        if bias is not None:
            given[name] = _vector(name, bias, n_experts)
    return given


def _read_shared(shared: Any, shared_gate: Any, d_model: int, dtype: Any) -> Given:
    if shared is None:
        if shared_gate is not None:
            raise ArgumentError(f"[{_WHERE}] shared_gate is given, but there is no shared expert")
        return {}
    if not isinstance(shared, DenseFFN | GatedFFN):
        raise ArgumentError(
            f"[{_WHERE}] shared is a {type(shared).__name__}, expected a DenseFFN or GatedFFN"
        )
    if shared.d_model != d_model:
        raise ArgumentError(
            f"[{_WHERE}] shared has d_model {shared.d_model}, expected {d_model}", "shape_mismatch"
        )
    given = {f"shared.{name}": array for name, array in shared._copy_arrays(dtype).items()}
    if shared_gate is not None:
        given["shared_gate"] = _vector("shared_gate", shared_gate, d_model)
    return given


def _vector(name: str, value: Any, *shape: int) -> Float32:
    return read_float32(_WHERE, name, value, *shape)


def _integer(name: str, value: Any) -> int:
    number = arguments.whole_number(_WHERE, name, value, least=1)
    if number >= 2**31:
        raise ArgumentError(f"[{_WHERE}] {name} is {arguments.shown(value)}, expected below 2**31")
    return number


def _real(name: str, value: Any) -> float:
    return arguments.real(_WHERE, name, value)
