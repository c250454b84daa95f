"""Assertions that say more than a text: the exception to raise, and the values to show.

The message of an ``Assert`` may be ``T.tvm_tuple(kind, template, values…)``: the assertion then raises the class that
``kind`` names, with ``template.format(*values)`` as its text.
"""

from __future__ import annotations

from tirlower.diagnostics import (
    AllocationError,
    BoundsError,
    DeviceError,
    DivisionByZeroError,
    RuntimeAssertError,
    TirError,
)
from tirlower.ir.dtype import HANDLE
from tirlower.ir.expr import Call, Expr, StringImm
from tirlower.ir.op import Op

__all__ = ["ERROR_KINDS", "failure", "failure_of"]

#: the exception classes that an assertion may name
ERROR_KINDS: dict[str, type[Exception]] = {
    "AssertionError": RuntimeAssertError,
    "RuntimeError": RuntimeAssertError,
    "IndexError": BoundsError,
    "ValueError": ValueError,
    "TypeError": TypeError,
    "ZeroDivisionError": DivisionByZeroError,
    "MemoryError": AllocationError,
    "OverflowError": OverflowError,
    "DeviceError": DeviceError,
}

_TUPLE = Op.get("tir.tvm_tuple")


def failure(kind: str, template: str, *values: Expr) -> Expr:
    """The message of an assertion that raises a class of :data:`ERROR_KINDS` with a formatted text.

    >>> print(failure("IndexError", "no element {0}", StringImm("x")))
    T.tvm_tuple("IndexError", "no element {0}", "x")

    Raises :class:`TirError` for a kind that is none.
    """
    if kind not in ERROR_KINDS:
        raise TirError(f"an assertion raises no {kind!r}", help=f"use one of {', '.join(ERROR_KINDS)}")
    return Call(_TUPLE, (StringImm(kind), StringImm(template), *values), HANDLE)


def failure_of(message: Expr) -> tuple[type[Exception], str, tuple[Expr, ...]] | None:
    """The class, template and values that a message states; None for a plain text."""
    if not isinstance(message, Call) or message.op is not _TUPLE or len(message.args) < 2:
        return None
    kind, template, *values = message.args
    if not (isinstance(kind, StringImm) and isinstance(template, StringImm) and kind.value in ERROR_KINDS):
        return None
    return ERROR_KINDS[kind.value], template.value, tuple(values)
