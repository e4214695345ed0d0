"""Checks of arguments that are not arrays. `where` names the layer or function in messages."""

import math
import operator
import struct
from typing import Any

import numpy as np

from fourfold.errors import ArgumentError


def shown(value: object) -> str:
    """`value` for a message: short, and whatever its repr does."""
    try:
        text = ascii(value)
    except Exception:  # of the caller's class, or an integer of too many digits
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def flag(where: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(f"[{where}] {name} is {shown(value)}, expected True or False")
    return bool(value)


def name(where: str, what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"[{where}] {what} is a {type(value).__name__}, expected a name")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            f"[{where}] unknown {what} {shown(value)}, expected a name", "unsupported"
        ) from None
    return str(value)


def whole_number(where: str, name: str, value: Any, least: int = 0) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise ArgumentError(
            f"[{where}] {name} is {shown(value)}, expected a whole number of {least} or more"
        )
    return number


def real(where: str, name: str, value: Any) -> float:
    """A number that is finite as float32, in which the layers compute, and 0 only when given so."""
    try:
        number = math.nan if isinstance(value, str | bytes | bytearray) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        rounded = math.inf
    if not math.isfinite(rounded) or (rounded == 0) != (number == 0):
        raise ArgumentError(
            f"[{where}] {name} is {shown(value)}, expected a finite number of float32's range"
        )
    return number
