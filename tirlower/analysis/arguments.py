"""What analyses of functions are asked about, checked at the door."""

from __future__ import annotations

from tirlower.diagnostics import ArgumentTypeError
from tirlower.ir.func import IRModule, PrimFunc

__all__ = ["the_function"]


def the_function(value: object, asked: str) -> PrimFunc:
    """A function, as it is. Raises :class:`ArgumentTypeError` for anything else; ``asked`` is the analysis.

    >>> the_function(3, "verify_ssa")
    Traceback (most recent call last):
        ...
    tirlower.diagnostics.ArgumentTypeError: error: verify_ssa takes a PrimFunc, got int
    """
    if isinstance(value, PrimFunc):
        return value
    raise ArgumentTypeError(
        f"{asked} takes a PrimFunc, got {type(value).__name__}",
        help="ask for each of its functions: module['main']" if isinstance(value, IRModule) else None,
    )
