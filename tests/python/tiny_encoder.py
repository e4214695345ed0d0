"""Writes small BERT checkpoints whose feed-forward layers compute in whole numbers.

Every word and position embedding holds as many +1 as -1, so each LayerNorm gives +1 and -1 back
exactly; attention adds nothing; integer weights then keep every number of both FFNs exact.
"""

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

N_LAYERS, N_HEADS, D_MODEL, D_FF, MAX_POSITIONS, N_TYPES = 2, 5, 10, 37, 67, 3
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty",
    "knoll", "larch", "marsh", "north", "ocean", "pearl", "quartz", "ridge", "shore", "thorn",
    "upland", "vale", "willow", "yarrow", "zephyr", "rare",
]  # fmt: skip
VOCAB = SPECIAL + WORDS
CLS, SEP, RARE = VOCAB.index("[CLS]"), VOCAB.index("[SEP]"), VOCAB.index("rare")
# Words fill the first columns of an embedding row, positions the others.
WORD_COLUMNS, PLACE_COLUMNS = 6, 4
# Two neurons with a known fate in layer 0: one whose bias kills it, one that fires for "rare" only.
DEAD, ONCE = 23, 31
# In layer 1: one whose values are multiples of 1000, and two that are equal.
LOUD, TWINS = 5, (3, 29)

Matrix = NDArray[np.int64]
Tensors = dict[str, NDArray[Any]]

CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "hidden_act": "relu",
    "num_hidden_layers": N_LAYERS,
    "num_attention_heads": N_HEADS,
    "hidden_size": D_MODEL,
    "intermediate_size": D_FF,
    "vocab_size": len(VOCAB),
    "max_position_embeddings": MAX_POSITIONS,
    "type_vocab_size": N_TYPES,
    "layer_norm_eps": 1e-12,
}


def balanced_rows(width: int) -> Matrix:
    """Every row of +1 and -1 in equal number, [rows, width]."""
    rows = []
    for plus in combinations(range(width), width // 2):
        row = -np.ones(width, dtype=np.int64)
        row[list(plus)] = 1
        rows.append(row)
    return np.array(rows)


def word_rows() -> Matrix:
    """[vocab, WORD_COLUMNS]; several words share a pattern, "rare" has the last one alone."""
    patterns = balanced_rows(WORD_COLUMNS)
    return np.array(
        [patterns[-1 if i == RARE else (7 * i) % (len(patterns) - 1)] for i in range(len(VOCAB))]
    )


def place_rows() -> Matrix:
    patterns = balanced_rows(PLACE_COLUMNS)
    return np.array([patterns[(5 * p + p // 4) % len(patterns)] for p in range(MAX_POSITIONS)])


def signs(ids: list[int]) -> Matrix:
    """The rows of +1 and -1 that leave the embedding's norm, [tokens, d_model]."""
    return np.hstack([word_rows()[ids], place_rows()[: len(ids)]])


class IntegerLayer:
    """gamma, beta of the norm in front of the FFN, and the FFN's weights, all whole numbers."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.gamma: Matrix = rng.choice([1, 2, 4, -1, -2, -4], size=D_MODEL)
        self.beta: Matrix = rng.integers(-3, 4, size=D_MODEL)
        self.up: Matrix = rng.integers(-3, 4, size=(D_FF, D_MODEL))
        self.up_bias: Matrix = rng.integers(-17, 12, size=D_FF)
        self.down: Matrix = rng.integers(-5, 6, size=(D_MODEL, D_FF))
        self.down_bias: Matrix = rng.integers(-7, 8, size=D_MODEL)

    def x(self, rows: Matrix) -> Matrix:
        return self.gamma * rows + self.beta

    def pre(self, rows: Matrix) -> Matrix:
        return self.x(rows) @ self.up.T + self.up_bias

    def y(self, hidden: Matrix) -> Matrix:
        return hidden @ self.down.T + self.down_bias


def restoring_layer(rng: np.random.Generator) -> IntegerLayer:
    """A layer after which x + y is 4 times the rows of signs plus the same number in each column.

    The first 2 d_model neurons are pairs relu(z), relu(-z) that carry an invertible integer map and
    its inverse; the down columns of the others are constant, and the next norm removes those.
    """
    layer = IntegerLayer(rng)
    lower = np.tril(rng.integers(-1, 2, size=(D_MODEL, D_MODEL)), -1) + np.eye(D_MODEL, dtype=int)
    inverse = np.rint(np.linalg.inv(lower)).astype(np.int64)
    assert (lower @ inverse == np.eye(D_MODEL)).all()
    layer.up[:D_MODEL], layer.up[D_MODEL : 2 * D_MODEL] = lower, -lower
    layer.up_bias[:D_MODEL] = -lower @ layer.beta
    layer.up_bias[D_MODEL : 2 * D_MODEL] = lower @ layer.beta
    # (1 + factor) * gamma = 4
    factor = 4 // layer.gamma - 1
    layer.down[:, :D_MODEL] = factor[:, None] * inverse
    layer.down[:, D_MODEL : 2 * D_MODEL] = -factor[:, None] * inverse
    layer.down[:, 2 * D_MODEL :] = rng.integers(-6, 7, size=D_FF - 2 * D_MODEL)
    layer.down_bias = -layer.beta
    layer.up_bias[DEAD] = -(10**9)
    # 4 times the agreement with the pattern of "rare": 24 for it, at most 8 for any other word.
    pattern = np.zeros(D_MODEL, dtype=np.int64)
    pattern[:WORD_COLUMNS] = word_rows()[RARE]
    layer.up[ONCE] = pattern * (4 // layer.gamma)
    layer.up_bias[ONCE] = -layer.up[ONCE] @ layer.beta - 20
    return layer


def varied_layer(rng: np.random.Generator) -> IntegerLayer:
    """A layer with a loud neuron that has no weight behind it, and two neurons that are twins."""
    layer = IntegerLayer(rng)
    layer.up[LOUD] *= 1000  # so that others are exactly a thousandth of it now and then
    layer.up_bias[LOUD] = 0
    layer.down[:, LOUD] = 0
    first, second = TWINS
    layer.up[first] *= 3
    layer.up_bias[first] = 13
    layer.up[second], layer.up_bias[second] = layer.up[first], layer.up_bias[first]
    layer.down[:, second] = layer.down[:, first]
    return layer


def integer_layers() -> list[IntegerLayer]:
    rng = np.random.default_rng(1913)
    return [restoring_layer(rng), varied_layer(rng)]


def tensors() -> Tensors:
    """The checkpoint, under the names that BERT uses."""
    rng = np.random.default_rng(1931)
    word = np.zeros((len(VOCAB), D_MODEL))
    word[:, :WORD_COLUMNS] = word_rows()
    place = np.zeros((MAX_POSITIONS, D_MODEL))
    place[:, WORD_COLUMNS:] = place_rows()
    types = np.full((N_TYPES, D_MODEL), 7.0)  # only type 0 may be read
    types[0] = 0
    result: dict[str, Any] = {
        "embeddings.word_embeddings.weight": word,
        "embeddings.position_embeddings.weight": place,
        "embeddings.token_type_embeddings.weight": types,
        "embeddings.LayerNorm.weight": np.ones(D_MODEL),
        "embeddings.LayerNorm.bias": np.zeros(D_MODEL),
    }
    for index, layer in enumerate(integer_layers()):
        name = f"encoder.layer.{index}."
        for part in ("query", "key", "value"):
            result[f"{name}attention.self.{part}.weight"] = rng.normal(size=(D_MODEL, D_MODEL))
            result[f"{name}attention.self.{part}.bias"] = rng.normal(size=D_MODEL)
        result[f"{name}attention.output.dense.weight"] = np.zeros((D_MODEL, D_MODEL))
        result[f"{name}attention.output.dense.bias"] = np.zeros(D_MODEL)
        result[f"{name}attention.output.LayerNorm.weight"] = layer.gamma
        result[f"{name}attention.output.LayerNorm.bias"] = layer.beta
        result[f"{name}intermediate.dense.weight"] = layer.up
        result[f"{name}intermediate.dense.bias"] = layer.up_bias
        result[f"{name}output.dense.weight"] = layer.down
        result[f"{name}output.dense.bias"] = layer.down_bias
        result[f"{name}output.LayerNorm.weight"] = np.ones(D_MODEL)
        result[f"{name}output.LayerNorm.bias"] = np.zeros(D_MODEL)
    return {key: np.ascontiguousarray(value, dtype=np.float32) for key, value in result.items()}


def write_tiny_encoder(
    folder: Path, config: Mapping[str, Any] | None = None, weights: Tensors | None = None
) -> Path:
    """A model folder; `config` replaces single fields, `weights` all tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}), encoding="ascii")
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="ascii")
    save_file(tensors() if weights is None else weights, folder / "model.safetensors")
    return folder


def random_words(seed: int, count: int) -> list[str]:
    """`count` words with "rare" among them once, not at the first place."""
    rng = np.random.default_rng(seed)
    words = [WORDS[i] for i in rng.integers(0, len(WORDS) - 1, size=count)]
    words[count // 3] = "rare"
    return words
