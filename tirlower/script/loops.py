"""Loop forms: ``T.serial``, ``T.parallel``, ``T.vectorized``, ``T.unroll``, ``T.thread_binding``, ``T.grid``, ``range``.

A stepped loop becomes one of unit steps, its name standing for ``start + i * step``.
"""

from __future__ import annotations

from collections.abc import Callable

from tirlower.diagnostics import Span, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.cancel import linear_difference
from tirlower.ir.dtype import INT32, INT64
from tirlower.ir.expr import Expr, ExprLike, IntImm, Var, as_expr, const
from tirlower.ir.failure_message import failure
from tirlower.ir.stmt import Assert, For, ForKind, Stmt, seq
from tirlower.script.builder import Builder

__all__ = ["LoopFrame", "grid", "parallel", "serial", "thread_binding", "unroll", "vectorized"]


_WIDER = {"int8": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32", "uint32": "int64"}
"""The types in which loops over narrow integers count."""
_LEAST, _MOST = int(INT32.min_value), int(INT32.max_value)


class _Loop:
    """One loop of a frame: from ``start``, ``extent`` iterations, ``step`` apart."""

    __slots__ = ("counted", "extent", "start", "step", "stop")

    start: Expr
    stop: Expr
    extent: Expr
    step: Expr | None
    counted: Expr | None
    """The condition under which the extent is a number of its type; None where it certainly is."""

    def __init__(
        self, start: ExprLike | Range, stop: ExprLike | None, step: ExprLike | None = None, var: Var | None = None
    ) -> None:
        if isinstance(start, Range):
            # Stated as a Range, the extent is taken as it is; start and stop leave it to be simplified.
            if stop is not None or step is not None:
                raise TirError("a loop over a Range has neither a stop nor a step")
            self.start, self.extent, self.step = start.min, start.extent, None
            self.counted = None
            return
        if stop is None:
            start, stop = 0, start
        first, last = _integer(start), _integer(stop)
        first, last = build.match_types(*build.operands(*_literals(start, stop, first, last)))
        wider = None if isinstance(var, Var) else _counting_type(first, last)
        if wider is not None:
            # The difference of the bounds must be a number of the type.
            first, last = build.cast(wider, first), build.cast(wider, last)
        self.start, self.stop = first, last
        self.step = self.counted = None
        self.extent = linear_difference(last, first)
        if step is not None and not (isinstance(step, int) and step == 1):
            stride = build.cast(first.dtype, _integer(step))
            if isinstance(stride, IntImm) and stride.value == 0:
                raise TirError("the step of a loop is not 0")
            if isinstance(stride, IntImm) and stride.value == 1:
                return
            self.step = stride
            if isinstance(stride, IntImm) and stride.value < 0:
                self.extent = build.ceildiv(linear_difference(first, last), const(-stride.value, first.dtype))
            else:
                self.extent = build.ceildiv(self.extent, stride)

    def count_wide(self) -> None:
        """Count the iterations by a step in int64: between bounds that are data neither the difference of the two nor
        its quotient rounded up is a number of their type."""
        step = self.step
        if step is None or self.extent.dtype is not INT32 or isinstance(self.extent, IntImm):
            return
        low, high, by = (build.cast(INT64, part) for part in (self.start, self.stop, step))
        if isinstance(by, IntImm):
            size = const(abs(by.value), INT64)
            count = build.ceildiv(build.sub(high, low) if by.value > 0 else build.sub(low, high), size)
            ends = (self.stop, self.start) if by.value > 0 else (self.start, self.stop)
            reach = _value(ends[0], _MOST) - _value(ends[1], _LEAST)
            most, least = -(-reach // abs(by.value)), 0 if abs(by.value) > 1 else -1
        else:
            # Rounded up by a step of either sign.
            zero = const(0, INT64)
            count = build.sub(zero, build.floordiv(build.sub(low, high), by))
            most, least = _MOST + 1, -1
        if most > _MOST:
            self.counted = build.le(count, const(_MOST, INT64))
        if least < 0:
            count = build.max_(count, const(0, INT64))
        self.extent = build.cast(INT32, count)


def _value(expr: Expr, otherwise: int) -> int:
    return expr.value if isinstance(expr, IntImm) else otherwise


def _counting_type(first: Expr, last: Expr) -> str | None:
    """A type that holds the number of iterations between two bounds, where theirs may not."""
    dtype = first.dtype
    if isinstance(first, IntImm) and first.value == 0:
        return None
    if isinstance(first, IntImm) and isinstance(last, IntImm):
        return None if int(dtype.min_value) <= last.value - first.value <= int(dtype.max_value) else "int64"
    return _WIDER.get(str(dtype))


def _literals(start: ExprLike, stop: ExprLike, first: Expr, last: Expr) -> tuple[ExprLike, ExprLike]:
    """Python numbers stay literals, which take the other bound's dtype."""
    return (start if isinstance(start, int) else first, stop if isinstance(stop, int) else last)


def _integer(value: ExprLike) -> Expr:
    expr = as_expr(value)
    if not expr.dtype.is_integral or expr.dtype.is_vector:
        raise TirError(f"the bounds of a loop are integers, got {expr.dtype!s}: {expr}", span=expr.span)
    return build.cast("int32", expr) if expr.dtype.is_bool else expr


class LoopFrame:
    """What stands after ``in`` of a for statement: one loop, or the nest of ``T.grid``."""

    __slots__ = ("annotations", "kind", "loops", "tag", "var")

    def __init__(
        self,
        kind: ForKind,
        loops: list[_Loop],
        tag: str | None = None,
        annotations: dict[str, object] | None = None,
        var: Var | None = None,
    ) -> None:
        self.kind = kind
        self.loops = loops
        self.tag = tag
        self.annotations = annotations or {}
        self.var = var
        if var is not None and (not isinstance(var, Var) or any(var.dtype is not x.extent.dtype for x in loops)):
            raise TirError("var= of a loop is a variable of its bounds' type", help="declare it with i = T.int32()")

    def start(self, builder: Builder, names: list[str]) -> tuple[list[Expr], Callable[[Stmt, Span | None], Stmt]]:
        """Make the loop variables; returns what the names stand for, and what makes the loops around a body."""
        func = builder.need_function("a loop")
        for loop in self.loops:
            if loop.step is not None and any(map(func.may_be_data, (loop.start, loop.stop, loop.step))):
                loop.count_wide()
        made: list[tuple[Var, _Loop]] = []
        values: list[Expr] = []
        for name, loop in zip(names, self.loops, strict=True):
            dtype = loop.extent.dtype
            if self.var is not None:
                var = self.var
                if self.tag is not None:
                    builder.open_thread(self.tag, in_front=1)
            elif self.tag is not None:
                var = builder.thread_var(self.tag, dtype, name)
                builder.open_thread(self.tag, in_front=1)
            else:
                var = Var(name, dtype, span=builder.here())
            first = const(0, dtype) if loop.step is not None else loop.start
            func.loops[var] = Range(first, loop.extent)
            made.append((var, loop))
            values.append(var if loop.step is None else build.add(loop.start, build.mul(var, loop.step)))

        def finish(body: Stmt, span: Span | None) -> Stmt:
            for var, loop in reversed(made):
                first = const(0, var.dtype) if loop.step is not None else loop.start
                body = For(var, first, loop.extent, self.kind, self.tag, self.annotations, body, span=span)
                if loop.counted is not None and loop.step is not None:
                    text = f"the loop {var.name} runs more iterations than {var.dtype!s} counts, from {{0}} to {{1}} by {{2}}"
                    message = failure("IndexError", text, loop.start, loop.stop, loop.step)
                    body = seq(Assert(loop.counted, message, span=span), body)
                if self.tag is not None:
                    builder.close_thread(self.tag)
            return body

        return values, finish


def serial(
    start: ExprLike | Range,
    stop: ExprLike | None = None,
    *,
    annotations: dict[str, object] | None = None,
    step: ExprLike | None = None,
    var: Var | None = None,
) -> LoopFrame:
    """A loop in order, from ``start`` (0 where only the extent is given) up to, not including, ``stop``."""
    return LoopFrame(ForKind.SERIAL, [_Loop(start, stop, step, var)], None, annotations, var)


def parallel(
    start: ExprLike | Range,
    stop: ExprLike | None = None,
    *,
    annotations: dict[str, object] | None = None,
    step: ExprLike | None = None,
    var: Var | None = None,
) -> LoopFrame:
    """A loop whose iterations may run at the same time."""
    return LoopFrame(ForKind.PARALLEL, [_Loop(start, stop, step, var)], None, annotations, var)


def vectorized(
    start: ExprLike | Range,
    stop: ExprLike | None = None,
    *,
    annotations: dict[str, object] | None = None,
    step: ExprLike | None = None,
    var: Var | None = None,
) -> LoopFrame:
    """A loop whose iterations are the lanes of vectors."""
    return LoopFrame(ForKind.VECTORIZED, [_Loop(start, stop, step, var)], None, annotations, var)


def unroll(
    start: ExprLike | Range,
    stop: ExprLike | None = None,
    *,
    annotations: dict[str, object] | None = None,
    step: ExprLike | None = None,
    var: Var | None = None,
) -> LoopFrame:
    """A loop that is written out iteration by iteration."""
    return LoopFrame(ForKind.UNROLLED, [_Loop(start, stop, step, var)], None, annotations, var)


def thread_binding(
    start: ExprLike | Range,
    stop: ExprLike | None = None,
    thread: str | None = None,
    *,
    annotations: dict[str, object] | None = None,
    var: Var | None = None,
) -> LoopFrame:
    """A loop over the threads of an axis: ``T.thread_binding(128, thread="threadIdx.x")``."""
    if thread is None:
        if not isinstance(stop, str):
            raise TirError(
                "T.thread_binding needs the thread axis", help='write T.thread_binding(extent, thread="threadIdx.x")'
            )
        thread, stop = stop, None
    return LoopFrame(ForKind.THREAD_BINDING, [_Loop(start, stop, None, var)], str(thread), annotations, var)


def grid(
    *extents: ExprLike | Range | tuple[ExprLike, ExprLike], annotations: dict[str, object] | None = None
) -> LoopFrame:
    """A nest of serial loops; an extent may be a pair (start, stop)."""
    if not extents:
        raise TirError("T.grid takes at least one extent")
    loops = [_Loop(e[0], e[1]) if isinstance(e, tuple) and len(e) == 2 else _Loop(e, None) for e in extents]
    return LoopFrame(ForKind.SERIAL, loops, None, annotations)


def python_range(*args: ExprLike, annotations: dict[str, object] | None = None, **others: object) -> LoopFrame:
    """``range`` as a loop of a script, which may have annotations as ``T.serial`` has."""
    if not 1 <= len(args) <= 3:
        raise TirError(f"range takes 1 to 3 arguments, got {len(args)}")
    if others:
        raise TirError(f"range has no argument {next(iter(others))!r}; it takes start, stop, step and annotations")
    return serial(*args[:2], step=args[2] if len(args) == 3 else None, annotations=annotations)
