"""Validation: each pass's input and output are checked and executed, and the first that differs is named.

Under ``PassContext(validate=True)`` the output of every pass must be well-formed, and must compute what its input
computes: both run in the reference interpreter on random arguments. Programs whose loops would take the interpreter
too long (:data:`WORK_LIMIT` statement instances) are only checked for well-formedness.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tirlower.diagnostics import InterpreterError, RuntimeAssertError, TirError, TransformError, deep_recursion
from tirlower.interp import interpret
from tirlower.ir.expr import Expr, IntImm, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import post_order_visit, substitute
from tirlower.ir.stmt import For, While
from tirlower.ir.verify import verify_well_formed
from tirlower.transforms.base import VALIDATORS, Pass

__all__ = ["WORK_LIMIT", "estimated_work", "random_arguments", "validate_pass"]

WORK_LIMIT = 200_000
"""Statement instances beyond which a program is not executed: the interpreter runs some 200,000 a second."""

_EXTENTS = (3, 8, 5, 16, 2, 7)
"""Values of symbolic extents, in turn: small, odd and even."""


def _symbols(func: PrimFunc) -> dict[Var, int]:
    """A value for each symbolic dimension, stride and offset of the parameter buffers."""
    params = set(func.params)
    values: dict[Var, int] = {}

    def collect(op: Any) -> None:
        if isinstance(op, Var) and not op.dtype.is_handle and op not in params and op not in values:
            values[op] = _EXTENTS[len(values) % len(_EXTENTS)]

    for buffer in func.buffers:
        for part in buffer.shape:
            post_order_visit(part, collect)
    return values


def _number(expr: Expr, values: Mapping[Var, int]) -> int | None:
    folded = substitute(expr, values) if values else expr
    return folded.value if isinstance(folded, IntImm) else None


def random_arguments(func: PrimFunc, seed: int = 0) -> list[Any] | None:
    """Random arguments that fit a function's parameters; None where that takes more than shapes.

    Integers are small and not negative (they may be indices), floats of both signs.
    """
    rng = np.random.default_rng(seed)
    symbols = _symbols(func)
    scalars: dict[Var, int] = {}
    for param in func.params:
        if param not in func.buffer_map:
            if param.dtype.is_handle or param.dtype.is_vector or param.dtype.is_custom:
                return None
            scalars[param] = 1 if param.dtype.is_bool else 4
    values = {**symbols, **{v: n for v, n in scalars.items() if v.dtype.is_integral}}
    arguments: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            arguments.append(1.5 if param.dtype.is_float else scalars[param])
            continue
        shape = [_number(extent, values) for extent in buffer.shape]
        if None in shape or not buffer.is_compact or buffer.dtype.is_vector or buffer.dtype.is_custom:
            return None
        extents = tuple(int(n) for n in shape if n is not None)
        if buffer.dtype.is_float:
            arguments.append(rng.standard_normal(extents).astype(buffer.dtype.numpy))
        else:
            arguments.append(rng.integers(0, 2 if buffer.dtype.is_bool else 4, extents).astype(buffer.dtype.numpy))
    return arguments


def estimated_work(func: PrimFunc) -> int:
    """Statement instances of a run, loops of unknown length counted as 16; nested extents multiply.

    A while loop may never end on random values: it counts as more than any limit.
    """
    values = _symbols(func)

    def work(stmt: Any) -> int:
        inner = sum(work(child) for child in stmt.children() if not isinstance(child, Expr)) + 1
        if isinstance(stmt, For):
            extent = _number(stmt.extent, values)
            return inner * max(16 if extent is None else extent, 0) + 1
        return WORK_LIMIT + 1 if isinstance(stmt, While) else inner

    with deep_recursion():
        return work(func.body)


def _run(mod: IRModule, name: str, arguments: list[Any]) -> tuple[list[Any], Any, Exception | None]:
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    try:
        return copies, interpret(mod, *copies, name=name), None
    except (InterpreterError, RuntimeAssertError, IndexError) as error:
        return copies, None, error


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Elementwise agreement: exact for integers, a few units in the last place for floats."""
    if a.dtype.kind in "biu":
        return a == b
    x, y = a.astype(np.float64), b.astype(np.float64)
    slack = 64 * {8: 2.0**-52, 4: 2.0**-23, 2: 2.0**-8}.get(a.dtype.itemsize, 0.25)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(x - y) <= slack * np.maximum(np.maximum(np.abs(x), np.abs(y)), 1e-30)
    return near | (x == y) | (np.isnan(x) & np.isnan(y))


def validate_pass(one: Pass, before: IRModule, after: IRModule) -> None:
    """Check a pass's output against its input. Raises :class:`TransformError` that names the pass and what differs."""
    name = one.info.name
    try:
        verify_well_formed(after)
    except TirError as error:
        raise TransformError(
            f"{name} made an ill-formed module: {error.message}", origin=name, labels=error.labels, notes=error.notes
        ) from error
    for key in before:
        if key not in after:
            continue
        old, new = before[key], after[key]
        if old is new or len(old.params) != len(new.params) or set(old.buffer_map) != set(new.buffer_map):
            continue  # the calling convention changed: there is nothing to pass to both
        if estimated_work(old) > WORK_LIMIT or estimated_work(new) > WORK_LIMIT:
            continue
        arguments = random_arguments(old)
        if arguments is None:
            continue
        _compare(name, key, old, (before, after), arguments)


def _compare(name: str, key: str, func: PrimFunc, mods: tuple[IRModule, IRModule], arguments: list[Any]) -> None:
    (x, x_result, x_error), (y, y_result, y_error) = (_run(mod, key, arguments) for mod in mods)
    help = "run the pass alone on this function to see what it did: PassContext(trace=True) shows each step"
    if x_error is not None:
        return  # a program without meaning on these arguments says nothing about the pass
    if y_error is not None:
        raise TransformError(
            f"{name} broke {key!r}: its output fails where its input runs: {y_error}", origin=name, help=help
        ) from y_error
    for param, a, b in zip(func.params, x, y, strict=True):
        if not isinstance(a, np.ndarray):
            continue
        wrong = np.argwhere(~np.atleast_1d(_same(a, b)))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            where = f"{func.buffer_map[param].name}[{', '.join(map(str, at))}]"
            was, now = np.atleast_1d(a)[at], np.atleast_1d(b)[at]
            raise TransformError(
                f"{name} changes what {key!r} computes: {where} was {was} and is now {now}",
                origin=name,
                notes=[
                    f"{len(wrong)} of {a.size} elements of {func.buffer_map[param].name} differ",
                    f"the arguments are tirlower.transforms.validate.random_arguments({key}, seed=0)",
                ],
                help=help,
            )
    if x_result != y_result and not (x_result != x_result and y_result != y_result):
        raise TransformError(
            f"{name} changes what {key!r} returns: {x_result} before, {y_result} after", origin=name, help=help
        )


VALIDATORS.append(validate_pass)
