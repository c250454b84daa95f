"""Loops split, fused and bound to thread axes: the rewrites alone, for passes and whatever else transforms loops.

Nothing here asks whether a program still means the same. Splitting and fusing keep the order of iterations, so that
they always may be done, but to a loop that is left by ``break``; whether iterations may run in threads is poly's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate

from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.dtype import INT32, INT64, DataType
from tirlower.ir.expr import BufferLoad, Expr, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.op import Purity
from tirlower.ir.query import has, mentions
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import Bind, Block, For, ForKind, IfThenElse, Stmt

__all__ = ["bind", "bounds_once", "fuse", "guarded", "nest", "nested", "split", "strips"]


def nest(loops: Sequence[For], body: Stmt) -> Stmt:
    """Loops around a body, the first one outermost."""
    for loop in reversed(loops):
        body = loop.with_(body=body)
    return body


def nested(stmt: Stmt, goes_on: Callable[[For], bool] = lambda loop: True) -> tuple[list[For], Stmt]:
    """The loops that stand directly in each other from a statement on, but for those from one on that does not go on,
    and what is inside of them.
    """
    loops: list[For] = []
    while isinstance(stmt, For) and goes_on(stmt):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def guarded(body: Stmt, condition: Expr) -> Stmt:
    """A body where a condition holds: in the predicate of a block that is all of it, inside the loops around the block."""
    loops, inner = nested(body, lambda loop: not has(BufferLoad, loop.min, loop.extent))
    if not isinstance(inner, Block):
        return IfThenElse(condition, as_scope(body))
    both = condition if is_const_int(inner.predicate, 1) else build.logical_and(inner.predicate, condition)
    return nest(loops, inner.with_(predicate=both))


def split(
    loop: For,
    factors: Sequence[int | Expr | None],
    analyzer: Analyzer,
    names: Sequence[str | Var] = (),
    guard: Callable[[Stmt, Expr], Stmt] = guarded,
    wraps: bool = False,
) -> Stmt:
    """A loop as a nest of loops of so many iterations, the first one outermost; the body is guarded where it must be.

    One factor may be None: as many iterations as it takes; the extent plus the other factors then fits the variable's
    type, or their sum ``wraps``, and is not made. Else the product of the factors is at least the extent. Factors are positive. The outermost loop is parallel
    if the loop was, and has its annotations; the innermost one is vectorized or unrolled. The variables are ``i_0``,
    ``i_1`` … unless they or their names are given; the analyzer learns their ranges. Raises :class:`TransformError` for
    a loop that is bound to a thread axis.

    >>> from tirlower.ir import Buffer, BufferStore
    >>> i, A = Var("i"), Buffer("A", (10,), "int32")
    >>> print(split(For(i, 0, 10, "serial", None, {}, BufferStore(A, 1, (i,))), (None, 4), Analyzer()))
    for i_0, i_1 in T.grid(3, 4):
        if i_0 * 4 + i_1 < 10:
            A[i_0 * 4 + i_1] = 1
    """
    var, kind = loop.loop_var, loop.loop_var.dtype
    if loop.kind is ForKind.THREAD_BINDING:
        raise TransformError(
            f"cannot split loop {var.name!r}, which is bound to {loop.thread_tag}",
            span=loop.span,
            help="split the loop first, and bind what it became",
        )
    zero, one, extent = const(0, kind), const(1, kind), build.cast(kind, loop.extent)
    sizes = [one if factor is None else build.cast(kind, factor) for factor in factors]
    product = reduce(build.mul, sizes)
    if None in factors:
        if wraps:
            rest = build.min_(build.floormod(extent, product), one)
            sizes[factors.index(None)] = build.add(build.floordiv(extent, product), rest)
        else:
            rounds = build.floordiv(build.add(extent, build.sub(product, one)), product)
            sizes[factors.index(None)] = analyzer.simplify(rounds)
    strides = list(accumulate(reversed(sizes[1:]), build.mul, initial=one))[::-1]
    loops: list[For] = []
    # The number of an iteration, as the one that is compared and as a sum of each variable times its stride.
    number, index = zero, zero
    for name, size, stride in zip(
        names or [f"{var.name}_{at}" for at in range(len(sizes))], sizes, strides, strict=True
    ):
        part = name if isinstance(name, Var) else copy_var(var, name)
        analyzer.bind(part, Range(zero, size), allow_override=True)
        made = For(part, zero, size, ForKind.SERIAL, None, {} if loops else loop.annotations, loop.body, span=loop.span)
        loops.append(made)
        number, index = build.add(build.mul(number, size), part), build.add(index, build.mul(part, stride))
    kept = 0 if loop.kind is ForKind.PARALLEL else -1
    loops[kept] = loops[kept].with_(kind=loop.kind)
    body = substitute(loop.body, {var: build.add(loop.min, index)})
    inside = build.lt(number, extent)
    return nest(loops, body if analyzer.can_prove(inside) else guard(body, inside))


def bounds_once(loop: For) -> tuple[list[Stmt], For]:
    """A loop with names for those of its bounds that read memory, and what binds them in front of it: a loop takes its bounds once, and
    what is made of it takes them again."""
    bound: list[Stmt] = []
    changed: dict[str, Expr] = {}
    for field, value in (("min", loop.min), ("extent", loop.extent)):
        if side_effect(value) is not Purity.PURE:
            changed[field] = name = Var(f"{loop.loop_var.name}_{field}", value.dtype, span=loop.span)
            bound.append(Bind(name, value, span=loop.span))
    return bound, loop.with_(**changed) if changed else loop


def strips(
    loop: For,
    width: int,
    names: Sequence[str],
    simplify: Callable[[Expr], Expr] = lambda value: value,
    nonneg: bool = False,
) -> tuple[For, For, For]:
    """A loop in strips of ``width`` iterations, without guards: over whole strips, over one of them, over what is left.

    The second, of the kind of the loop, is the body of the first. ``names`` are those of the strips, of the iterations
    in one, and of those left. ``nonneg`` says that the extent is known not to be negative.

    >>> from tirlower.ir import Buffer, BufferStore
    >>> i, A = Var("i"), Buffer("A", (10,), "int32")
    >>> whole, strip, rest = strips(For(i, 0, 10, "vectorized", None, {}, BufferStore(A, 1, (i,))), 4, ("o", "l", "t"))
    >>> print(whole, rest, sep="\\n")
    for o in range(2):
        for l in T.vectorized(4):
            A[o * 4 + l] = 1
    for t in range(2):
        A[8 + t] = 1
    """
    var, kind = loop.loop_var, loop.loop_var.dtype
    zero, size, extent = const(0, kind), const(width, kind), build.cast(kind, loop.extent)
    if not nonneg:
        extent = build.max_(extent, zero)  # else the rest of a negative one would run
    count, left = simplify(build.floordiv(extent, size)), simplify(build.floormod(extent, size))
    strip, lane, last = (copy_var(var, name) for name in names)
    inner, rest = (
        substitute(loop.body, {var: build.add(loop.min, build.add(build.mul(group, size), at))})
        for group, at in ((strip, lane), (count, last))
    )
    one = loop.with_(loop_var=lane, min=zero, extent=size, annotations={}, body=inner)
    return (
        For(strip, zero, count, ForKind.SERIAL, None, loop.annotations, one, span=loop.span),
        one,
        For(last, zero, left, ForKind.SERIAL, None, {}, refresh_binders(rest), span=loop.span),
    )


def fuse(loops: Sequence[For], body: Stmt, analyzer: Analyzer, dtype: DataType | None = None) -> For:
    """Loops around a body, the first one outermost, as one loop over all their iterations in the same order.

    Its variable is ``i_j_fused``, of 64 bits (or of ``dtype``) where 32 might not count them; the analyzer learns its
    range. It is of the kind of the first loop. Raises :class:`TransformError` where the bounds of one loop depend on
    another.

    >>> from tirlower.ir import Buffer, BufferStore
    >>> i, j, A = Var("i"), Var("j"), Buffer("A", (3, 8), "int32")
    >>> inner = For(j, 0, 8, "serial", None, {}, BufferStore(A, 1, (i, j)))
    >>> print(fuse([For(i, 0, 3, "serial", None, {}, inner), inner], inner.body, Analyzer()))
    for i_j_fused in range(24):
        A[i_j_fused // 8, i_j_fused % 8] = 1
    """
    variables = [loop.loop_var for loop in loops]
    for loop in loops:
        if mentions(loop.min, variables) or mentions(loop.extent, variables):
            raise TransformError(
                f"cannot fuse loop {loop.loop_var.name!r}: its bounds {loop.min} and {loop.extent} depend on another one",
                span=loop.span,
                help="fuse loops whose bounds are the same in all iterations",
            )
    if dtype is None:
        count = analyzer.const_int_bound(reduce(build.mul, [build.cast(INT64, loop.extent) for loop in loops]))
        dtype = INT64 if count.max_value >> 31 or any(var.dtype.bits > 32 for var in variables) else INT32
    zero = const(0, dtype)
    extents = [build.cast(dtype, loop.extent) for loop in loops]
    if len(extents) > 1:
        # Two negative extents would make a positive product of loops that never run.
        extents = [one if analyzer.can_prove(build.ge(one, zero)) else build.max_(one, zero) for one in extents]
    total = analyzer.simplify(reduce(build.mul, extents))
    fused = Var("_".join(var.name for var in variables) + "_fused", dtype)
    analyzer.bind(fused, Range(zero, total))
    values: dict[Var, Expr] = {}
    lower: Expr = const(1, dtype)
    # Where an extent is 0 nothing runs: nothing is divided by it.
    counts = [lower if is_const_int(extent, 0) else extent for extent in extents]
    for loop, extent in zip(reversed(loops), reversed(counts), strict=True):
        size = build.mul(lower, extent)
        number = fused if loop is loops[0] else build.floormod(fused, size)
        value = zero if is_const_int(extent, 1) else analyzer.simplify(build.floordiv(number, lower))
        values[loop.loop_var] = build.add(build.cast(loop.loop_var.dtype, value), loop.min)
        lower = size
    return loops[0].with_(loop_var=fused, min=zero, extent=total, body=substitute(body, values))


def bind(loop: For, tag: str, var: Var | None = None) -> For:
    """A loop whose iterations are the threads along an axis, from 0 on, by a variable (of its own, or a given one).

    >>> from tirlower.ir import Buffer, BufferStore
    >>> i, A = Var("i"), Buffer("A", (10,), "int32")
    >>> print(bind(For(i, 2, 8, "serial", None, {}, BufferStore(A, 1, (i,))), "threadIdx.x"))
    for i in T.thread_binding(8, thread="threadIdx.x"):
        A[2 + i] = 1
    """
    old = loop.loop_var
    if var is None:
        var = old if is_const_int(loop.min, 0) else copy_var(old)
    body = loop.body if var is old else substitute(loop.body, {old: build.add(loop.min, build.cast(old.dtype, var))})
    extent = build.cast(var.dtype, loop.extent)
    return loop.with_(
        loop_var=var, min=const(0, var.dtype), extent=extent, kind=ForKind.THREAD_BINDING, thread_tag=tag, body=body
    )
