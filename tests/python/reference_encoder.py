"""The independent side of the comparisons: transformers' BERT in float32, with eager attention."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

Array = NDArray[Any]


@dataclass
class FfnValues:
    """What one feed-forward layer saw and made, one row per token: x, pre, hidden, y."""

    x: list[Array] = field(default_factory=list)
    pre: list[Array] = field(default_factory=list)
    hidden: list[Array] = field(default_factory=list)
    y: list[Array] = field(default_factory=list)


class ReferenceEncoder:
    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(2)
        logging.disable_progress_bar()
        self.tokenizer = AutoTokenizer.from_pretrained(str(folder))
        self.model = AutoModel.from_pretrained(
            str(folder), dtype=torch.float32, attn_implementation="eager"
        ).eval()

    def token_ids(self, text: str, max_length: int) -> list[int]:
        return list(self.tokenizer(text, truncation=True, max_length=max_length)["input_ids"])

    def last_hidden(self, ids: list[int]) -> Array:
        """[tokens, d_model]; one text at a time, so no padding is involved."""
        with torch.inference_mode():
            batch = torch.tensor([ids])
            output = self.model(input_ids=batch, attention_mask=torch.ones_like(batch))
        return np.asarray(output.last_hidden_state[0].numpy())

    @contextmanager
    def watch_ffns(self, inputs: bool = False) -> Iterator[list[FfnValues]]:
        """Keeps the FFN values of every pass inside the block; x and y only with `inputs`."""
        layers = self.model.encoder.layer
        seen = [FfnValues() for _ in layers]
        hooks = []

        def keep(target: list[Array], value: torch.Tensor) -> None:
            target.append(value[0].detach().numpy().copy())

        for layer, values in zip(layers, seen, strict=True):
            up, act, down = layer.intermediate.dense, layer.intermediate, layer.output.dense
            hooks += [
                up.register_forward_hook(lambda _m, _i, out, v=values: keep(v.pre, out)),
                act.register_forward_hook(lambda _m, _i, out, v=values: keep(v.hidden, out)),
            ]
            if inputs:
                hooks += [
                    up.register_forward_hook(lambda _m, args, _o, v=values: keep(v.x, args[0])),
                    down.register_forward_hook(lambda _m, _i, out, v=values: keep(v.y, out)),
                ]
        try:
            yield seen
        finally:
            for hook in hooks:
                hook.remove()


def pool(tokens: Array, pooling: str = "mean", normalize: bool = True) -> Array:
    """tokens: [tokens, d_model] of one text, [CLS] and [SEP] included -> [d_model]."""
    values = tokens.astype(np.float64)
    vector = {"mean": values.mean(axis=0), "cls": values[0], "max": values.max(axis=0)}[pooling]
    if normalize:
        vector = vector / max(float(np.linalg.norm(vector)), 1e-12)
    return np.asarray(vector, dtype=np.float32)
