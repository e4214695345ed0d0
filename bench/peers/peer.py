"""The line protocol of `fourfold bench` for peers written in Python; bench/README.md describes it.

A peer calls `serve(make)`. `make(case)` returns an object with `run()` (one pass over all copies),
`outputs()` (arrays by name) and `version`, or raises `Cannot`.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Cannot(Exception):
    """The peer does not do this case; the text says why."""


class Work(Protocol):
    version: str

    def run(self) -> None: ...

    def outputs(self) -> dict[str, Array]: ...


@dataclass
class Case:
    """One row: sizes as the tool gives them, arrays from the files in the working folder."""

    fields: dict[str, str]
    threads: int
    cpus: list[int]

    def __getattr__(self, name: str) -> str:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None

    def number(self, name: str) -> int:
        return int(self.fields[name])

    @property
    def bf16(self) -> bool:
        return self.fields["dtype"] == "bf16"

    @property
    def gated(self) -> bool:
        return self.fields["kind"] != "dense"

    def bits(self, name: str, *shape: int) -> Array:
        """The array as stored; bf16 as 16-bit integers."""
        kind = np.uint16 if self.bf16 else np.float32
        return np.fromfile(name + ".bin", kind).reshape(shape)

    def f32(self, name: str, *shape: int) -> Array:
        stored = self.bits(name, *shape)
        return (stored.astype(np.uint32) << 16).view(np.float32) if self.bf16 else stored

    def vector(self, name: str) -> Array:
        """Biases and the router are float32 in every case."""
        return np.fromfile(name + ".bin", np.float32)

    def ids(self) -> Array:
        shape = self.number("batch"), self.number("seq_len")
        return np.fromfile("ids.bin", np.int32).reshape(shape).astype(np.int64)

    def model(self) -> str:
        return Path("model.txt").read_text(encoding="utf-8")

    def layer_weights(self, copy: int) -> dict[str, Array]:
        """gate, up, down, up_bias, down_bias of one copy as float32. Each copy has its neurons in
        another order, so that no two hold the same bytes and all compute the same."""
        d, f = self.number("d_model"), self.number("d_ff")
        found = {"up": self.f32("up", f, d), "down": self.f32("down", d, f)}
        if self.gated:
            found["gate"] = self.f32("gate", f, d)
        else:
            found["up_bias"] = self.vector("up_bias")
        turned = {
            name: np.roll(array, copy, axis=1 if name == "down" else 0)
            for name, array in found.items()
        }
        if not self.gated:
            turned["down_bias"] = self.vector("down_bias")
        return turned


def write_outputs(outputs: dict[str, Array]) -> None:
    for name, array in outputs.items():
        np.ascontiguousarray(array, np.float32).tofile(name + ".out")


def parse_arguments() -> tuple[int, list[int]]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpus", default="0")
    options = parser.parse_args()
    return options.threads, [int(cpu) for cpu in options.cpus.split(",")]


def pin_openmp(threads: int, cpus: list[int]) -> None:
    """Before libgomp is loaded."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if len(cpus) == threads:
        os.environ["GOMP_CPU_AFFINITY"] = " ".join(map(str, cpus))


def serve(make: Callable[[Case], Work], threads: int, cpus: list[int]) -> None:
    # What libraries print must not get between the answers.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(text: str) -> None:
        channel.write(" ".join(text.split()) + "\n")
        channel.flush()

    work: Work | None = None
    for line in sys.stdin:
        verb, *words = line.split()
        try:
            if verb == "case":
                work = None  # the last row's memory goes first
                work = make(Case(dict(word.split("=", 1) for word in words), threads, cpus))
                answer(f"ok {work.version}")
            elif work is None:
                answer("cannot answer before a case")
            elif verb == "go":
                if words[1] == "1":
                    work.run()
                begin = time.perf_counter()
                for _ in range(int(words[0])):
                    work.run()
                answer(f"ok {(time.perf_counter() - begin) * 1e3!r}")
            elif verb == "result":
                write_outputs(work.outputs())
                answer("ok")
            else:
                answer(f"cannot {verb}: no such question")
        except Cannot as reason:
            answer(f"cannot {reason}")
        except ImportError as missing:
            answer(f"cannot run: {missing}")
