"""Dense, gated and mixture FFN composed from PyTorch operations; autograd derives them.

weights: tensors under the names of the Python package, a shared expert's as shared.up and so on.
"""

import math
from collections.abc import Callable

import reference_moe as moe
import torch
import torch.nn.functional as F

Weights = dict[str, torch.Tensor]

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01),
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "mish": F.mish,
    "identity": lambda x: x,
}


def _glu(activation: str, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    if activation == "swiglu_oai":
        gate, up = gate.clamp(max=7.0), up.clamp(-7.0, 7.0)
        return (up + 1) * gate * torch.sigmoid(gate * 1.702)
    return ACTIVATIONS[activation](gate) * up


def ffn(weights: Weights, activation: str, x: torch.Tensor) -> torch.Tensor:
    up = F.linear(x, weights["up"], weights.get("up_bias"))
    if "gate" in weights:
        hidden = _glu(activation, F.linear(x, weights["gate"], weights.get("gate_bias")), up)
    else:
        hidden = ACTIVATIONS[activation](up)
    return F.linear(hidden, weights["down"], weights.get("down_bias"))


def _scores(logits: torch.Tensor, scoring: str) -> torch.Tensor:
    if scoring == "softmax":
        return logits.softmax(dim=-1)
    if scoring == "sigmoid":
        return logits.sigmoid()
    if scoring == "sqrt_softplus":
        return F.softplus(logits).sqrt()
    return logits


def route(
    weights: Weights, options: moe.Options, logits: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and weights of the chosen experts, [tokens, top_k]."""
    scores = _scores(logits, options.scoring)
    choice = scores.detach()
    if "selection_bias" in weights:
        choice = choice + weights["selection_bias"]
    if options.n_groups > 1:
        groups = choice.unflatten(1, (options.n_groups, -1))
        best = groups.topk(1 if options.scoring == "softmax" else 2, dim=-1).values.sum(-1)
        kept = torch.zeros_like(best).scatter(1, best.topk(options.top_groups).indices, 1.0)
        choice = groups.masked_fill(kept.unsqueeze(-1) == 0, -math.inf).flatten(1)
    ids = choice.topk(options.top_k, dim=-1).indices
    chosen = scores.gather(1, ids)
    if options.scoring == "softmax_topk":
        chosen = chosen.softmax(dim=-1)
    elif options.renormalize:
        chosen = chosen / chosen.sum(dim=-1, keepdim=True)
    return ids, chosen * options.scaling


def moe_ffn(
    weights: Weights, options: moe.Options, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """y, logits and ids. Every expert runs on all tokens; a mask leaves out the others."""
    rows = x.reshape(-1, x.shape[-1])
    logits = F.linear(rows, weights["router"], weights.get("router_bias"))
    ids, scale = route(weights, options, logits)
    n_experts = logits.shape[1]
    kept = torch.ones_like(ids, dtype=torch.bool)
    if options.capacity_factor is not None:
        capacity = math.ceil(options.capacity_factor * ids.numel() / n_experts)
        # [top_k, tokens] in one line: all first choices come before the second ones.
        order = F.one_hot(ids.T.reshape(-1), n_experts).cumsum(0)
        place = order.gather(1, ids.T.reshape(-1, 1)).reshape(ids.shape[1], -1).T
        kept = place <= capacity
    y = torch.zeros_like(rows)
    for e in range(n_experts):
        one = {n: weights[n][e] for n in moe.EXPERT_ARRAYS if n in weights}
        share = (scale * ((ids == e) & kept)).sum(dim=-1, keepdim=True)
        if options.weight_input:
            chosen = ((ids == e) & kept).any(dim=-1, keepdim=True)
            y = y + ffn(one, options.activation, rows * share) * chosen
        else:
            y = y + ffn(one, options.activation, rows) * share
    shared = {n[7:]: w for n, w in weights.items() if n.startswith("shared.")}
    if shared:
        out = ffn(shared, options.shared_activation, rows)
        if "shared_gate" in weights:
            out = out * torch.sigmoid(rows @ weights["shared_gate"]).unsqueeze(-1)
        y = y + out
    return y.reshape(x.shape), logits, ids


def router_losses(
    logits: torch.Tensor, ids: torch.Tensor, scoring: str, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(load balance, z) of one layer over the tokens of mask: [tokens], bool."""
    logits, ids = logits[mask], ids[mask]
    if scoring in ("softmax", "softmax_topk"):
        p = logits.softmax(dim=-1)
    else:
        p = _scores(logits, scoring)
        p = p / p.sum(dim=-1, keepdim=True)
    share = F.one_hot(ids, logits.shape[1]).to(p.dtype).mean(dim=(0, 1))
    balance = logits.shape[1] * (share * p.mean(dim=0)).sum()
    return balance, logits.logsumexp(dim=-1).square().mean()
