"""Scalar arguments: checked, and brought into the range and the precision of the parameter."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tirlower.diagnostics import ArgumentError, ArgumentTypeError, ArgumentValueError
from tirlower.gpu.launch.signature import ScalarParam

__all__ = ["scalar_taker"]


def scalar_taker(func: str, param: ScalarParam) -> Callable[[Any], Any]:
    """What turns an argument into the value of a scalar parameter: an int, a bool, or a float rounded to the dtype.

    Python and NumPy numbers and 0-d arrays of the host are taken. The result raises :class:`ArgumentTypeError` for
    anything else, and :class:`ArgumentValueError` for a value out of range.
    """
    kind = param.dtype

    def wrong(cls: type[ArgumentError], expected: str, value: Any, help: str) -> ArgumentError:
        shown = f"{value!r:.60}"
        got = shown if type(value).__name__ in shown else f"{type(value).__name__} {shown}"
        return cls(f"argument `{param.name}` of `{func}`: expected {expected}, got {got}", origin="call", help=help)

    def integer(value: Any) -> int:
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            value = value.item()
        try:
            number = operator.index(value)
        except TypeError:
            raise wrong(ArgumentTypeError, kind, value, "pass int(x)") from None
        low, high = int(kind.min_value), int(kind.max_value)
        if not low <= number <= high:
            help = f"pass a value that fits {kind!s}"
            raise wrong(ArgumentValueError, f"{kind!s} from {low} to {high}", value, help)
        return number

    def truth(value: Any) -> bool:
        return bool(value) if isinstance(value, np.bool_) else bool(integer(value))

    def address(value: Any) -> int:
        try:
            number = 0 if value is None else operator.index(value)
        except TypeError:
            raise wrong(ArgumentTypeError, "an address", value, "pass None or an address as an int") from None
        if not 0 <= number < 1 << 64:
            raise wrong(ArgumentValueError, "an address", value, "pass None or an address as an int")
        return number

    def real(value: Any) -> float:
        if isinstance(value, (np.ndarray, np.generic)) and value.shape == ():
            value = value.item() if value.dtype.kind in "fiub" else float(value)
        if not isinstance(value, float):
            if isinstance(value, np.ndarray) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
                raise wrong(ArgumentTypeError, kind, value, "pass float(x)")
            try:
                value = float(value)
            except (TypeError, ValueError):
                raise wrong(ArgumentTypeError, kind, value, "pass float(x)") from None
            except OverflowError:
                raise too_large(value) from None
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            rounded = float(np.asarray(value, np.float64).astype(kind.numpy))
        if not math.isfinite(rounded) and math.isfinite(value):
            raise too_large(value)
        return rounded

    def too_large(value: Any) -> ArgumentError:
        return wrong(ArgumentValueError, f"a number in the range of {kind!s}", value, "pass math.inf for infinity")

    if kind.is_handle:
        return address
    if kind.is_float:
        return real
    return truth if kind.is_bool else integer
