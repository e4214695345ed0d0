#!/usr/bin/env python3
"""PyTorch, eager, as its users write it: layers of F.linear, the mixture as a loop over experts
with index_add_, the encoder through transformers with scaled_dot_product_attention."""

import os
from typing import Any

from peer import Array, Cannot, Case, Work, parse_arguments, pin_openmp, serve

ACTIVATIONS = {
    "identity": lambda F: lambda x: x,
    "relu": lambda F: F.relu,
    "relu2": lambda F: lambda x: F.relu(x).square(),
    "leaky_relu": lambda F: F.leaky_relu,
    "relu6": lambda F: F.relu6,
    "sigmoid": lambda F: F.sigmoid,
    "tanh": lambda F: F.tanh,
    "silu": lambda F: F.silu,
    "gelu": lambda F: F.gelu,
    "gelu_tanh": lambda F: lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda F: lambda x: x * F.sigmoid(1.702 * x),
    "mish": lambda F: F.mish,
}


class Layers:
    """Copies of one dense or gated layer, or of a mixture of gated experts."""

    def __init__(self, case: Case, torch: Any) -> None:
        self.torch, self.case = torch, case
        self.functional = torch.nn.functional
        if case.activation not in ACTIVATIONS:
            raise Cannot(f"{case.activation} is not an activation of torch")
        self.act = ACTIVATIONS[case.activation](self.functional)
        self.version = f"torch {torch.__version__} eager"
        self.dtype = torch.bfloat16 if case.bf16 else torch.float32
        self.backward = case.backward == "1"
        self.d, self.f = case.number("d_model"), case.number("d_ff")
        self.experts, self.top_k = case.number("n_experts"), case.number("top_k")
        self.copies = [self.parameters() for _ in range(case.number("copies"))]
        tokens = case.number("tokens")
        self.x = self.tensor("x", tokens, self.d).requires_grad_(self.backward)
        self.dy = self.tensor("dy", tokens, self.d) if self.backward else None
        self.y: Any = None

    def tensor(self, name: str, *shape: int) -> Any:
        bits = self.torch.from_numpy(self.case.bits(name, *shape))
        return bits.view(self.dtype) if self.case.bf16 else bits

    def parameters(self) -> dict[str, list[Any]]:
        """Matrices by name, one per expert."""
        d, f, experts = self.d, self.f, self.experts
        found = {
            "up": self.tensor("up", experts, f, d),
            "down": self.tensor("down", experts, d, f),
        }
        if self.case.gated:
            found["gate"] = self.tensor("gate", experts, f, d)
        lists = {name: [one.clone() for one in whole] for name, whole in found.items()}
        vectors = ["up_bias", "down_bias"] if not self.case.gated else []
        if self.case.kind == "moe":
            vectors = ["router"]
        for name in vectors:
            lists[name] = [self.torch.from_numpy(self.case.vector(name)).to(self.dtype)]
        if self.case.kind == "moe":
            lists["router"] = [lists["router"][0].reshape(experts, d)]
        for values in lists.values():
            for one in values:
                one.requires_grad_(self.backward)
        return lists

    def expert(self, weights: dict[str, list[Any]], index: int, x: Any) -> Any:
        linear = self.functional.linear
        if not self.case.gated:
            hidden = self.act(linear(x, weights["up"][0], weights["up_bias"][0]))
            return linear(hidden, weights["down"][0], weights["down_bias"][0])
        hidden = self.act(linear(x, weights["gate"][index])) * linear(x, weights["up"][index])
        return linear(hidden, weights["down"][index])

    def forward(self, weights: dict[str, list[Any]]) -> Any:
        if self.case.kind != "moe":
            return self.expert(weights, 0, self.x)
        logits = self.functional.linear(self.x, weights["router"][0])
        scores, chosen = logits.softmax(-1).topk(self.top_k)
        scores = scores / scores.sum(-1, keepdim=True)
        y = self.torch.zeros_like(self.x)
        for index in range(self.experts):
            token, place = (chosen == index).nonzero(as_tuple=True)
            if token.numel():
                part = self.expert(weights, index, self.x[token])
                y.index_add_(0, token, part * scores[token, place, None])
        return y

    def step(self, weights: dict[str, list[Any]]) -> None:
        if not self.backward:
            with self.torch.inference_mode():
                self.y = self.forward(weights)
            return
        self.x.grad = None
        for values in weights.values():
            for one in values:
                one.grad = None
        self.y = self.forward(weights)
        self.y.backward(self.dy)

    def run(self) -> None:
        for weights in self.copies:
            self.step(weights)

    def outputs(self) -> dict[str, Array]:
        weights = self.copies[0]
        self.step(weights)
        found = {"y": self.y.detach().float().numpy()}
        if self.backward:
            found["dx"] = self.x.grad.float().numpy()
            names = ["gate", "up", "down"] if self.case.gated else ["up", "down"]
            for name in names:
                shape = weights[name][0].shape
                grads = [
                    (one.grad if one.grad is not None else self.torch.zeros(shape)).float()
                    for one in weights[name]
                ]
                found["d" + name] = self.torch.stack(grads).numpy()
        return found


class Encoder:
    def __init__(self, case: Case, torch: Any) -> None:
        from transformers import AutoModel

        self.torch = torch
        dtype = torch.bfloat16 if case.bf16 else torch.float32
        self.model = AutoModel.from_pretrained(
            case.model(), attn_implementation="sdpa", dtype=dtype, local_files_only=True
        ).eval()
        self.ids = torch.from_numpy(case.ids())
        self.mask = torch.ones_like(self.ids)
        self.version = f"torch {torch.__version__}, transformers, sdpa"
        self.y: Any = None

    def run(self) -> None:
        with self.torch.inference_mode():
            self.y = self.model(input_ids=self.ids, attention_mask=self.mask).last_hidden_state

    def outputs(self) -> dict[str, Array]:
        self.run()
        return {"y": self.y.float().numpy()}


def main() -> None:
    threads, cpus = parse_arguments()
    pin_openmp(threads, cpus)
    os.environ["HF_HUB_OFFLINE"] = "1"

    def make(case: Case) -> Work:
        if case.isa == "avx2":
            os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")
            os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
        elif case.isa == "scalar":
            raise Cannot("torch cannot be held to scalar code")
        import torch

        torch.set_num_threads(threads)
        return Encoder(case, torch) if case.kind == "model" else Layers(case, torch)

    serve(make, threads, cpus)


if __name__ == "__main__":
    main()
