"""The Python package with several threads and processes: equal bits, no waiting, no hang."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import fourfold as ff


def values(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


D_MODEL, D_FF = 67, 131
GATE, UP, DOWN = values(1, D_FF, D_MODEL), values(2, D_FF, D_MODEL), values(3, D_MODEL, D_FF)
X = values(4, 37, D_MODEL)


@pytest.fixture(autouse=True)
def default_threads() -> Iterator[None]:
    yield
    ff.set_num_threads(0)


def train_step(layer: ff.GatedFFN, x: npt.NDArray[np.float32]) -> list[bytes]:
    y, saved = layer.forward(x, save=True)
    dx, grads = layer.backward(saved, y)
    return [a.tobytes() for a in (y, dx, grads.gate, grads.up, grads.down)]


def test_any_number_of_threads_gives_the_same_bits() -> None:
    layer = ff.GatedFFN(GATE, UP, DOWN)
    ff.set_num_threads(1)
    expected = train_step(layer, X)
    for count in (2, 3, 5):
        ff.set_num_threads(count)
        assert ff.info()["threads"] == count
        assert train_step(layer, X) == expected


@pytest.mark.parametrize("count", [-1, 5000, 1.5, "2", None, True])
def test_bad_numbers_of_threads_are_refused(count: Any) -> None:
    with pytest.raises(ff.ArgumentError, match="count is"):
        ff.set_num_threads(count)
    assert ff.DenseFFN(UP, DOWN)(X).shape == X.shape


def test_info_says_what_runs() -> None:
    ff.set_num_threads(2)
    info = ff.info()
    assert info["threads"] == 2 and info["threads_reason"]
    forced = os.environ.get("FOURFOLD_ISA")
    known = ("scalar", "avx2", "avx512", "avx512_bf16")
    assert info["isa"] == forced if forced else info["isa"] in known
    assert info["version"].count(".") == 2


def test_calls_from_many_threads_share_a_layer() -> None:
    shared = ff.GatedFFN(GATE, UP, DOWN)
    inputs = [values(10 + i, 1 + 7 * i, D_MODEL) for i in range(8)]
    expected = [train_step(ff.GatedFFN(GATE, UP, DOWN), x) for x in inputs]

    # Nobody has packed for backward yet, and the number of threads changes meanwhile.
    def work(i: int) -> bool:
        for turn in range(15):
            if i == 0:
                ff.set_num_threads(1 + turn % 3)
            if train_step(shared, inputs[i]) != expected[i]:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_set_weights_waits_for_running_calls() -> None:
    layer = ff.GatedFFN(GATE, UP, DOWN)
    versions = [(GATE, UP, DOWN), (-GATE, UP, DOWN), (GATE, 2 * UP, DOWN)]
    allowed = {ff.GatedFFN(*version)(X).tobytes() for version in versions}
    stop = threading.Event()

    def compute() -> bool:
        good = True
        while not stop.is_set():
            good = good and layer(X).tobytes() in allowed
        return good

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(compute) for _ in range(2)]
        for turn in range(60):
            layer.set_weights(*versions[turn % 3])
        stop.set()
        assert all(future.result() for future in running)


def test_other_python_threads_run_while_a_call_computes() -> None:
    ff.set_num_threads(1)
    layer = ff.DenseFFN(values(5, 1024, 512), values(6, 512, 1024))
    x = values(7, 4096, 512)
    done = threading.Event()

    def compute() -> float:
        start = time.monotonic()
        layer(x)
        took = time.monotonic() - start
        done.set()
        return took

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(compute)
        seen = 0
        while not done.is_set():
            time.sleep(0.001)
            seen += 1
        # With the GIL held this thread would wake once or twice in all that time.
        assert future.result() < 0.02 or seen >= 8


def in_child(expected: list[bytes], layer: ff.GatedFFN) -> bool:
    return train_step(layer, X) == expected


def test_a_forked_child_computes() -> None:
    ff.set_num_threads(4)
    layer = ff.GatedFFN(GATE, UP, DOWN)
    expected = train_step(layer, X)
    for _ in range(10):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(30)  # a hang ends the child, not the test run
                code = 0 if in_child(expected, layer) else 1
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    assert train_step(layer, X) == expected


def step_on_rows(index: int) -> list[bytes]:
    return train_step(ff.GatedFFN(GATE, UP, DOWN), X[: index + 1])


def test_a_pool_of_forked_processes_computes() -> None:
    expected = [step_on_rows(i) for i in range(8)]
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map_async(step_on_rows, range(8)).get(timeout=60) == expected


def forked_during_set_weights(layer: ff.DenseFFN, weights: Any, allowed: set[bytes]) -> int:
    """In the child: 0 when the layer was whole, 2 when it was refused and mended, else 1."""
    x = values(9, 3, layer.d_model)
    try:
        return 0 if layer(x).tobytes() in allowed else 1
    except ff.Error as error:
        if "forked while set_weights ran" not in str(error) or isinstance(error, ValueError):
            return 1
    for refused in (lambda: layer(x), lambda: layer.forward(x, save=True)):
        try:
            refused()
            return 1
        except ff.Error:
            pass
    layer.set_weights(*weights)
    return 2 if layer(x).tobytes() in allowed else 1


def test_a_half_written_layer_is_refused_in_a_forked_child() -> None:
    ff.set_num_threads(1)
    versions = [(values(i, 1024, 512), values(i + 2, 512, 1024)) for i in (5, 6)]
    x = values(9, 3, 512)
    allowed = {ff.DenseFFN(*version)(x).tobytes() for version in versions}
    layer = ff.DenseFFN(*versions[0])
    stop = threading.Event()

    def change() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            layer.set_weights(*versions[turn % 2])

    changing = threading.Thread(target=change)
    changing.start()
    found: list[int] = []
    try:
        while 2 not in found and len(found) < 100:
            time.sleep(0.001)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    signal.alarm(30)
                    code = forked_during_set_weights(layer, versions[0], allowed)
                finally:
                    os._exit(code)
            found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    finally:
        stop.set()
        changing.join()
    assert set(found) <= {0, 2} and 2 in found
    assert layer(x).tobytes() in allowed


EXIT_WHILE_COMPUTING = """
import threading, time
import numpy as np, fourfold as ff
w = np.ones((64, 64), np.float32)
layer = ff.DenseFFN(w, w)
def compute():
    while True:
        {call}
for _ in range(3):
    threading.Thread(target=compute, daemon=True).start()
time.sleep(0.1)
"""


@pytest.mark.parametrize(
    "call",
    ["layer(w)", "layer.set_weights(w, w)", "ff.functional.gelu(w)", "ff.DenseFFN(w, w)"],
)
def test_the_interpreter_ends_while_daemon_threads_compute(call: str) -> None:
    package = str(Path(ff.__file__).parents[1])
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", EXIT_WHILE_COMPUTING.format(call=call)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": package},
        )
        assert (done.returncode, done.stderr) == (0, "")
