"""Fourfold: the transformer's feed-forward sublayer on CPUs.

layer = fourfold.GatedFFN(gate, up, down, activation="silu")
y = layer(x)                            # x, y: [..., d_model]
y, saved = layer.forward(x, save=True)
dx, grads = layer.backward(saved, dy)   # grads.gate, grads.up, grads.down
"""

from fourfold import functional
from fourfold.errors import ArgumentError, Error, FileError
from fourfold.ffn import DenseFFN, GatedFFN
from fourfold.moe import MoEFFN
from fourfold.runtime import info, set_num_threads

__all__ = [
    "ArgumentError",
    "DenseFFN",
    "Error",
    "FileError",
    "GatedFFN",
    "MoEFFN",
    "functional",
    "info",
    "set_num_threads",
]
