"""The Python package with several threads and processes: equal bits, no waiting, no hang."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
    assert info["isa"] == forced if forced else info["isa"] in ("scalar", "avx2", "avx512")
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
