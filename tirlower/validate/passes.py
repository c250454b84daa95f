"""Validation: each pass's input and output are checked and executed, and the first that differs is named.

Under ``PassContext(validate=True)`` the output of every pass must be well-formed, and must compute what its input
computes: both run in the reference interpreter on random arguments. Programs whose loops would take the interpreter
too long (:data:`WORK_LIMIT` statement instances) are only checked for well-formedness. What a wrong pass did is reduced
(:mod:`tirlower.validate.shrink`) and written as a file that shows it alone (:mod:`tirlower.validate.reproducer`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tirlower.diagnostics import TirError, TransformError, deep_recursion
from tirlower.interp import interpret
from tirlower.ir.dtype import Array
from tirlower.ir.expr import Expr, IntImm, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import post_order_visit, substitute
from tirlower.ir.node import Node
from tirlower.ir.stmt import For, While
from tirlower.ir.verify import verify_well_formed
from tirlower.validate.reproducer import DIRECTORY_KEY, Context, Rewriting, write_reproducer
from tirlower.validate.shrink import Case, reduce_case

__all__ = ["REDUCE_SECONDS", "WORK_LIMIT", "estimated_work", "random_arguments", "validate_pass"]

WORK_LIMIT = 200_000
"""Statement instances beyond which a program is not executed: the interpreter runs some 200,000 a second."""

REDUCE_SECONDS = 10.0
"""The time given to finding a smaller program on which a wrong pass is wrong."""

_EXTENTS = (3, 8, 5, 16, 2, 7)
"""Values of symbolic extents, in turn: small, odd and even."""


def _symbols(func: PrimFunc) -> dict[Var, int]:
    """A value for each symbolic dimension, stride and offset of the parameter buffers."""
    params = set(func.params)
    values: dict[Var, int] = {}

    def collect(op: Expr | None) -> None:
        if isinstance(op, Var) and not op.dtype.is_handle and op not in params and op not in values:
            values[op] = _EXTENTS[len(values) % len(_EXTENTS)]

    for buffer in func.buffers:
        for part in buffer.shape:
            post_order_visit(part, collect)
    return values


def _number(expr: Expr, values: Mapping[Var, int]) -> int | None:
    folded = substitute(expr, values) if values else expr
    return folded.value if isinstance(folded, IntImm) else None


def random_arguments(func: PrimFunc, seed: int = 0) -> list[object] | None:
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
    arguments: list[object] = []
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

    def work(stmt: Node) -> int:
        inner = sum(work(child) for child in stmt.children() if not isinstance(child, Expr)) + 1
        if isinstance(stmt, For):
            extent = _number(stmt.extent, values)
            return inner * max(16 if extent is None else extent, 0) + 1
        return WORK_LIMIT + 1 if isinstance(stmt, While) else inner

    with deep_recursion():
        return work(func.body)


def _run(mod: IRModule, name: str, arguments: list[object]) -> tuple[list[object], object, Exception | None]:
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    try:
        return copies, interpret(mod, *copies, name=name), None
    except TirError as error:
        return copies, None, error


def _same(a: Array, b: Array) -> Array:
    """Elementwise agreement: exact for integers, a few units in the last place for floats."""
    if a.dtype.kind in "biu":
        equal: Array = a == b
        return equal
    x, y = a.astype(np.float64), b.astype(np.float64)
    slack = 64 * {8: 2.0**-52, 4: 2.0**-23, 2: 2.0**-8}.get(a.dtype.itemsize, 0.25)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(x - y) <= slack * np.maximum(np.maximum(np.abs(x), np.abs(y)), 1e-30)
    agrees: Array = near | (x == y) | (np.isnan(x) & np.isnan(y))
    return agrees


@dataclass
class _Difference:
    """What is wrong with a pass's output."""

    kind: str
    """Two differences of one kind are the same failure."""
    message: str
    notes: list[str] = field(default_factory=list)
    cause: TirError | None = None


def _kind_of(error: Exception) -> str:
    """An error without its names and numbers."""
    text = error.message if isinstance(error, TirError) else str(error)
    plain = re.sub("'[^']*'|[0-9]+", "_", text)
    return f"{type(error).__name__} {plain}"


def validate_pass(pass_: Rewriting, before: IRModule, after: IRModule, current: Context) -> None:
    """Check a pass's output against its input.

    Raises :class:`TransformError` that names the pass and what differs, shows the smallest program on which it does
    that could be found in :data:`REDUCE_SECONDS`, and says in which file it was written with its arguments.
    """
    try:
        verify_well_formed(after)
    except TirError as error:
        difference = _Difference(
            _kind_of(error), f"{pass_.info.name} made an ill-formed module: {error.message}", list(error.notes), error
        )
        _guilty(pass_, Case(before, next(iter(before), ""), ()), after, difference, current)
    for key in before:
        if key not in after:
            continue
        old, new = before[key], after[key]
        if old is new or not _comparable(old, new):
            continue  # the calling convention changed: there is nothing to pass to both
        if estimated_work(old) > WORK_LIMIT or estimated_work(new) > WORK_LIMIT:
            continue
        arguments = random_arguments(old)
        if arguments is None:
            continue
        case = Case(before, key, tuple(arguments))
        found = _difference(pass_.info.name, case, after)
        if found is not None:
            _guilty(pass_, case, after, found, current)


def _comparable(old: PrimFunc, new: PrimFunc) -> bool:
    return len(old.params) == len(new.params) and set(old.buffer_map) == set(new.buffer_map)


def _difference(name: str, case: Case, after: IRModule) -> _Difference | None:
    """How a pass's output differs from its input on a case; None when it does not, or the input itself fails."""
    key, func, arguments = case.name, case.func, list(case.arguments)
    x, x_result, x_error = _run(case.mod, key, arguments)
    if x_error is not None:
        return None  # a program without meaning on these arguments says nothing about the pass
    y, y_result, y_error = _run(after, key, arguments)
    if y_error is not None:
        message = f"{name} broke {key!r}: its output fails where its input runs: {y_error}"
        return _Difference(type(y_error).__name__, message, cause=y_error if isinstance(y_error, TirError) else None)
    for param, a, b in zip(func.params, x, y, strict=True):
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            continue
        wrong = np.argwhere(np.logical_not(np.atleast_1d(_same(a, b))))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            where = f"{func.buffer_map[param].name}[{', '.join(map(str, at))}]"
            was, now = np.atleast_1d(a)[at], np.atleast_1d(b)[at]
            return _Difference(
                "differs",
                f"{name} changes what {key!r} computes: {where} was {was} and is now {now}",
                [f"{len(wrong)} of {a.size} elements of {func.buffer_map[param].name} differ"],
            )
    if x_result != y_result and not (x_result != x_result and y_result != y_result):
        return _Difference("returns", f"{name} changes what {key!r} returns: {x_result} before, {y_result} after")
    return None


def _again(pass_: Rewriting, case: Case, ctx: Context) -> tuple[IRModule, _Difference] | None:
    """Run a pass on a case: what it made, and what is wrong with that. None when nothing is."""
    try:
        after = pass_.transform_module(case.mod, ctx)
    except Exception:  # a pass that is wrong may raise anything: another failure than the one looked for
        return None
    if after is case.mod:
        return None
    try:
        verify_well_formed(after)
    except TirError as error:
        return after, _Difference(_kind_of(error), f"{pass_.info.name} made an ill-formed module: {error.message}")
    if case.name not in after or not _comparable(case.func, after[case.name]):
        return None
    if estimated_work(case.func) > WORK_LIMIT or estimated_work(after[case.name]) > WORK_LIMIT:
        return None
    found = _difference(pass_.info.name, case, after)
    return None if found is None else (after, found)


def _guilty(pass_: Rewriting, case: Case, after: IRModule, difference: _Difference, current: Context) -> None:
    """Reduce the case, write the file that shows it, and raise the error."""
    ctx = current.quiet()
    if case.arguments == () and case.name:
        # The module is ill-formed: what is run does not matter, only what the pass is given.
        case = case._replace(arguments=tuple(random_arguments(case.func) or ()))

    def fails(candidate: Case) -> bool:
        again = _again(pass_, candidate, ctx)
        return again is not None and again[1].kind == difference.kind

    notes = list(difference.notes)
    if case.name and len(case.arguments) == len(case.func.params):
        if fails(case):
            case = reduce_case(case, fails, REDUCE_SECONDS)
            again = _again(pass_, case, ctx)
            if again is not None:
                after = again[0]
                notes.append(again[1].message.replace(f"{pass_.info.name} ", "reduced: it ", 1).splitlines()[0])
        shown = ", ".join(repr(a.tolist()) if isinstance(a, np.ndarray) else repr(a) for a in case.arguments)
        notes.append(f"the smallest program found, with the arguments {shown}:\n{case.mod.script()}")
        try:
            path = write_reproducer(case, pass_, after, difference.message.splitlines()[0], current)
            notes.append(f"python {path} shows it alone ({DIRECTORY_KEY} of the context says where it is written)")
        except OSError as error:
            notes.append(f"the file that shows it alone could not be written: {error}")
    raise TransformError(
        difference.message,
        origin=pass_.info.name,
        labels=difference.cause.labels if difference.cause is not None else [],
        notes=notes,
        help="run the pass alone on this function to see what it did: PassContext(trace=True) shows each step",
    ) from difference.cause
