"""``prefetch``: what a later iteration of a loop reads is asked for in time, line by line."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const
from tirlower.ir.functor import substitute
from tirlower.ir.query import mentions
from tirlower.ir.stmt import Evaluate, For, ForKind, Stmt, seq
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.staging import Box, box_of, buffer_named, touched_under
from tirlower.schedule.places import loops_at
from tirlower.schedule.sites import Change, Insert, Steps
from tirlower.schedule.step import Step

__all__ = ["PREFETCH"]

_LINE_BYTES = 64
_FAR = 1 << 20
_UNROLLED = 16
"""As many lines are asked for in a row; more are in a loop."""


def _lines_ahead(step: Step) -> Stmt:
    """The prefetches."""
    at, of = step.handle("loop"), step.handle("of")
    inner, outer, site = step.loop(at), step.loop(of), step.site(at)
    func, path = step.func(site), (*site.steps, "body")
    ahead = step["ahead"]
    if not isinstance(ahead, int) or not 1 <= ahead <= _FAR:
        raise BadArgument(f"ahead={ahead!r} is not from 1 to {_FAR}")
    around = loops_at(func, path)
    if all(loop is not outer for _, loop in around):
        raise BadArgument(f"`{outer.loop_var.name}` is not a loop around `{inner.loop_var.name}`, nor that one itself")
    for _, loop in around:
        if loop.kind in (ForKind.VECTORIZED, ForKind.THREAD_BINDING):
            step.refuse(f"the loop `{loop.loop_var.name}` is {loop.kind.value}", loop)
    buffer = buffer_named(step, func, step["buffer"], path)
    box = _box(step, path, buffer)
    known = Analyzer()
    for _, loop in around:
        if mentions(loop.min, {outer.loop_var}) or mentions(loop.extent, {outer.loop_var}):
            step.refuse(f"how often `{loop.loop_var.name}` runs depends on `{outer.loop_var.name}`", loop)
        known.bind(loop.loop_var, Range(loop.min, loop.extent))
    _lies_inside(step, buffer, box, known)
    return _lines(buffer, box, {outer.loop_var: _later(outer, ahead)}, known)


def _lies_inside(step: Step, buffer: Buffer, box: Box, known: Analyzer) -> None:
    """Refuse what is not known to lie in the buffer in all iterations, of which the later one is one."""
    for low, extent, size in zip(box.mins, box.shape, buffer.shape, strict=True):
        if not known.can_prove(build.logical_and(build.ge(low, 0), build.le(build.add(low, extent), size))):
            step.refuse(f"it is not known that what comes later of {buffer.name} lies inside of it")


def _later(loop: For, ahead: int) -> Expr:
    """The iteration that comes so much later, or the last one, in a form that does not wrap."""
    last = build.sub(build.add(loop.min, loop.extent), 1)
    if isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm):
        if loop.min.value + loop.extent.value + ahead < 1 << 31:
            return build.min_(build.add(loop.loop_var, ahead), last)
    left = build.sub(build.sub(last, loop.loop_var), ahead)
    return build.sub(last, build.max_(left, const(0, left.dtype)))


def _check(step: Step) -> Verdict:
    step.plan = _lines_ahead(step)
    return PROVED


def _rewrite(step: Step) -> Change:
    lines = step.plan if isinstance(step.plan, Stmt) else _lines_ahead(step)
    return Change(Insert(step.site(step.handle("loop")) / ("body",), (lines,)))


def _box(step: Step, path: Steps, buffer: Buffer) -> Box:
    """The box of what an iteration reads of the buffer. Refused where that has no constant shape."""
    handle = step.handle("loop")
    func = step.func(step.site(handle))
    reads = [access for access in touched_under(step, func, buffer, path) if not access.is_write]
    if not reads:
        step.refuse(f"nothing there reads {buffer.name}", step.loop(handle))
    box = box_of(step, func, buffer, path, reads)
    if not all(isinstance(extent, IntImm) for extent in box.shape):
        step.refuse(f"how much of {buffer.name} an iteration reads is not a constant", step.loop(handle))
    return box


def _lines(buffer: Buffer, box: Box, later: Mapping[Var, Expr], known: Analyzer) -> Stmt:
    """A prefetch for each line of a box in a later iteration."""
    per_line = max(_LINE_BYTES // max(buffer.dtype.bytes, 1), 1)
    loops: list[tuple[Var, int]] = []
    indices: list[Expr] = []
    for dim, (low, extent) in enumerate(zip(box.mins, box.shape, strict=True)):
        assert isinstance(extent, IntImm)
        stride = per_line if dim == len(box.mins) - 1 else 1
        count = -(-extent.value // stride)
        first = known.simplify(substitute(low, later))
        if count > 1:
            var = Var(f"line{dim}", low.dtype)
            loops.append((var, count))
            first = build.add(first, build.mul(var, stride))
        indices.append(first)
    address = build.call("tir.address_of", BufferLoad(buffer, tuple(indices)))
    body: Stmt = seq([Evaluate(build.call("tir.prefetch", address, 0, 3, 1))])
    for var, count in reversed(loops):
        kind = ForKind.UNROLLED if count <= _UNROLLED else ForKind.SERIAL
        body = For(var, const(0, var.dtype), const(count, var.dtype), kind, None, {}, body)
    return body


PREFETCH = Kind(
    "Prefetch",
    "prefetch",
    (
        Slot("buffer", Takes.MEMORY, attr=True),
        Slot("loop", Takes.LOOP),
        Slot("of", Takes.LOOP),
        Slot("ahead", Takes.INTEGER, default=1, attr=True, extra=True),
    ),
    _rewrite,
    """Ask for what is read of a buffer before it is needed: each iteration of ``loop`` begins by fetching the lines that the
    same iteration reads when the loop ``of``, which stands around it (or is the same one), is ``ahead`` iterations further.

    In the last iterations what the last one reads is asked for. Always legal: nothing but time depends on it.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    ...     for i, j_0 in T.grid(4, 2):
    ...         for j_1 in T.vectorized(32):
    ...             B[i, j_0 * 32 + j_1] = A[i, j_0 * 32 + j_1] + T.float32(1)
    ... '''))
    >>> sch.prefetch("A", "j_0", "i")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
        for i, j_0 in T.grid(4, 2):
            for line1 in T.unroll(2):
                T.prefetch(T.address_of(A[T.min(i + 1, 3), j_0 * 32 + line1 * 16]), 0, 3, 1)
            for j_1 in T.vectorized(32):
                B[i, j_0 * 32 + j_1] = A[i, j_0 * 32 + j_1] + T.float32(1)
    """,
    check=_check,
    tvm=False,
)
