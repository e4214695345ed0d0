"""Threads of the process and what the package runs on."""

from typing import Any

from fourfold import _core, arguments
from fourfold.errors import ArgumentError


def set_num_threads(count: int) -> None:
    """Later calls compute with `count` threads; 0: FOURFOLD_NUM_THREADS, else the CPUs this
    process may use. Results do not depend on it. Raises ArgumentError.
    """
    number = arguments.whole_number("set_num_threads", "count", count)
    if number > 1024:
        raise ArgumentError(
            f"[set_num_threads] count is {arguments.shown(count)}, expected 0 to 1024"
        )
    _core.set_num_threads(number)


def info() -> dict[str, Any]:
    """version, isa (the instruction set in use), threads and threads_reason."""
    return dict(_core.info())
