"""Loops fused without a condition: the rows of a triangle or a trapezium counted, and found again by a square root.

Rows whose lengths are ``a * r + c``, with ``a`` positive and ``c`` not negative, hold ``a * r * (r - 1) / 2 + c * r`` elements in
front of the row ``r``; so the row of an element is a root of that, in float64, and one step of whole numbers to either side
makes it exact. Rows that become shorter are counted from their end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from tirlower.arith import Analyzer
from tirlower.arith.linear import detect_linear_equation
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.data import may_be_data, stop_of
from tirlower.ir.dtype import INT32, INT64
from tirlower.ir.expr import Add, Expr, IntImm, Mul, Sub, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.query import each, mentions, nodes
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import Bind, Evaluate, For, Stmt, seq
from tirlower.schedule.sites import Site
from tirlower.schedule.step import Step

__all__ = ["Tight", "tight"]

_REMEDY = 'fuse(…, bounds="guard") goes over the box around them, under a condition'

_ROOTS = 1 << 45
"""Below it ``2 * a * r + c`` gives a root in float64 that is off by less than half a row."""


@dataclass
class Tight:
    """Loops as one: the loop, what is bound at the head of its body, and the old variables in terms of both."""

    loop: For
    binds: list[Stmt] = field(default_factory=list)
    values: dict[Var, Expr] = field(default_factory=dict)

    def inside(self, body: Stmt) -> Stmt:
        """A body of the old loops as it is in the new one."""
        return substitute(body, self.values)

    def around(self, inner: Stmt) -> For:
        """The loop around such a body."""
        return self.loop.with_(body=seq([*self.binds, inner]))


def tight(step: Step, site: Site, loops: Sequence[For]) -> Tight:
    """Loops that stand in each other as one that runs as often as their body. Raises :class:`NotApplicable` where an extent
    is no affine form of one of the loops, or the iterations are not known to be fewer than 64 bits count."""
    return _Fusing(step, site, loops).all(loops)


class _Fusing:
    """``outside`` knows nothing of the loops, which may not run at all; ``inside`` knows of those that came of them;
    ``around`` knows of the loops that stand around the inner one of two, ``above`` of those around both."""

    def __init__(self, step: Step, site: Site, loops: Sequence[For]) -> None:
        self.step = step
        self.site = site
        self.func = step.func(site)
        self.outside = step.analyzer(site)
        self.inside = step.analyzer(site)
        self.above = self.around = self.outside
        indices = {*step.ranges(site), *(loop.loop_var for loop in loops)}
        self.indices = indices | {
            var for buffer in self.func.buffers for part in buffer.shape for var in each(Var, part)
        }

    def all(self, loops: Sequence[For]) -> Tight:
        *before, last = loops
        if not before:
            return Tight(last)
        if not any(mentions(last.min, [one.loop_var]) or mentions(last.extent, [one.loop_var]) for one in before):
            return self.two(self.all(before), Tight(last))
        made = Tight(last)
        for at in reversed(range(len(before))):
            self.above, self.around = self.knowing(before[:at]), self.knowing(before[: at + 1])
            made = self.two(Tight(before[at]), made)
        return made

    def knowing(self, loops: Sequence[For]) -> Analyzer:
        analyzer = self.step.analyzer(self.site)
        for loop in loops:
            analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
        return analyzer

    def two(self, outer: Tight, inner: Tight) -> Tight:
        p, q = outer.loop, inner.loop
        slope, base = self.row(p, q)
        if slope == 0:
            loop, row, column, head = self.box(p, q, base)
        else:
            loop, row, column, head = self.triangle(p, q, slope, base)
        values = {p.loop_var: row, q.loop_var: column}
        self.indices.add(loop.loop_var)
        return Tight(
            loop,
            [*head, *(substitute(one, values) for one in (*outer.binds, *inner.binds))],
            values | {var: substitute(value, values) for var, value in (outer.values | inner.values).items()},
        )

    def row(self, p: For, q: For) -> tuple[int, Expr]:
        """The length of a row ``p`` as ``slope * p + base``, in 64 bits."""
        if not mentions(q.extent, [p.loop_var]):
            return 0, q.extent
        wide = Var(p.loop_var.name, INT64)
        self.around.bind(wide, Range(self.wide(p.min), self.length(p)))
        found = detect_linear_equation(self.length(q, p.loop_var, wide), [wide], self.around)
        slope = found[0] if found else wide
        if not isinstance(slope, IntImm) or mentions(found[1], [p.loop_var]):
            self.refuse(q, f"the extent {q.extent} is no constant multiple of `{p.loop_var.name}` and a number besides")
        return int(slope.value), found[1]

    def length(self, loop: For, var: Var | None = None, wide: Var | None = None) -> Expr:
        """How often a loop runs where that is not negative, in 64 bits, with ``wide`` for ``var``."""
        stop = stop_of(loop)
        if stop is None:
            return self.wide(loop.extent, loop, var, wide)
        return build.sub(self.wide(stop, loop, var, wide), self.wide(loop.min, loop, var, wide))

    def wide(self, value: Expr, loop: For | None = None, var: Var | None = None, wide: Var | None = None) -> Expr:
        """An expression in 64 bits; what depends on ``var`` is to be computed there as it is in its own type."""
        if var is None or wide is None or not mentions(value, [var]):
            return build.cast(INT64, value)
        if value is var:
            return wide
        if not isinstance(value, (Add, Sub, Mul)):
            return build.cast(INT64, value)  # no affine form: refused for it
        a, b = (self.wide(each, loop, var, wide) for each in (value.a, value.b))
        made = {Add: build.add, Sub: build.sub, Mul: build.mul}[value.__class__](a, b)
        bound = [each for each in nodes(value) if isinstance(each, Var) and each not in self.indices]
        if may_be_data(value, self.func.params, self.func.buffers, bound):
            most = value.dtype.max_value
            inside = build.all_of(build.ge(made, -most - 1), build.le(made, most))
            if not self.around.can_prove(inside):
                assert loop is not None
                self.refuse(
                    loop, f"{value} may wrap, as what is computed from data does", "state its range with T.assume(…)"
                )
        return made

    def box(self, p: For, q: For, length: Expr) -> tuple[For, Expr, Expr, list[Stmt]]:
        """Rows of one length, wherever they begin."""
        counts = [p.extent, length]
        # Where those around do not run, they count nothing, whatever is counted here.
        known = zip(counts, (self.above, self.around), strict=True)
        ends = [analyzer.const_int_bound(build.cast(INT64, each)) for each, analyzer in known]
        most = max(ends[0].max_value, 0) * max(ends[1].max_value, 0)
        dtype = INT64 if most >> 31 or p.loop_var.dtype.bits > 32 or q.loop_var.dtype.bits > 32 else INT32
        counts = [
            build.cast(dtype, each) if end.min_value >= 0 else build.max_(build.cast(dtype, each), 0)
            for each, end in zip(counts, ends, strict=True)
        ]
        total = self.outside.simplify(build.mul(counts[0], counts[1]))
        loop = self.counting(p, q, total)
        size = const(1, dtype) if is_const_int(counts[1], 0) else counts[1]  # nothing runs then
        number = loop.loop_var
        row = build.add(p.min, build.cast(p.loop_var.dtype, self.inside.simplify(build.floordiv(number, size))))
        digit = build.cast(q.loop_var.dtype, self.inside.simplify(build.floormod(number, size)))
        return loop, row, build.add(substitute(q.min, {p.loop_var: row}), digit), []

    def counting(self, p: For, q: For, total: Expr) -> For:
        number = Var(
            f"{p.loop_var.name.removesuffix('_fused')}_{q.loop_var.name.removesuffix('_fused')}_fused", total.dtype
        )
        self.inside.bind(number, Range(const(0, total.dtype), total))
        return p.with_(loop_var=number, min=const(0, total.dtype), extent=total)

    def triangle(self, p: For, q: For, slope: int, base: Expr) -> tuple[For, Expr, Expr, list[Stmt]]:
        """Rows that become longer or shorter by ``slope``; the first or last of them may be empty."""
        simplify, a = self.outside.simplify, abs(slope)
        start, rows = self.wide(p.min), self.length(p)
        head_row = build.add(base, build.mul(slope, start))
        # Where rows become shorter the last one is the first.
        first = simplify(head_row if slope > 0 else build.sub(head_row, build.mul(a, build.sub(rows, 1))))
        # The rows that are not empty, counted from the first of them on.
        skipped = simplify(build.max_(build.floordiv(build.sub(a - 1, first), a), 0))
        shortest = simplify(build.add(first, build.mul(a, skipped)))
        count = simplify(build.max_(build.sub(rows, skipped), 0))
        most = self.counted(q, a, first, rows, None if slope > 0 else head_row)
        total = simplify(_elements(a, shortest, count))
        small = most < 1 << 31 and p.loop_var.dtype.bits <= 32 and q.loop_var.dtype.bits <= 32
        loop = self.counting(p, q, build.cast(INT32 if small else INT64, total))
        head: list[Stmt] = []

        def named(what: str, value: Expr) -> Expr:
            if isinstance(value, (Var, IntImm)):
                return value
            head.append(Bind(var := Var(f"{p.loop_var.name}_{what}", INT64), value))
            return var

        least, number = named("least", shortest), build.cast(INT64, loop.loop_var)
        number = named("number", number if slope > 0 else simplify(build.sub(build.sub(total, 1), number)))
        # The greatest row in front of which no more elements are, where there were parts of rows too.
        b = build.cast("float64", build.sub(build.mul(2, least), a))
        under = build.add(build.mul(b, b), build.mul(float(8 * a), build.cast("float64", number)))
        root = build.true_div(build.sub(build.call("tir.sqrt", under, dtype="float64"), b), float(2 * a))
        near = build.cast(INT64, build.call("tir.floor", root, dtype="float64"))
        guess = named("guess", build.max_(near, 0))
        late = build.gt(_elements(a, least, guess), number)
        early = build.le(_elements(a, least, build.add(guess, 1)), number)
        nth = named("nth", build.sub(build.add(guess, build.cast(INT64, early)), build.cast(INT64, late)))
        place: Expr = build.sub(number, _elements(a, least, nth))
        at: Expr = build.add(nth, skipped)
        if slope < 0:
            place = build.sub(build.sub(build.add(build.mul(a, nth), least), 1), place)
            at = build.sub(build.sub(rows, 1), at)
        row, column = copy_var(p.loop_var), copy_var(q.loop_var)
        own = {p.loop_var: row, q.loop_var: column}
        facts = [fact for each in (p, q) for fact in self.facts(each)]
        head += [
            Bind(row, build.cast(row.dtype, simplify(build.add(start, at)))),
            Bind(column, build.cast(column.dtype, build.add(build.cast(INT64, substitute(q.min, own)), place))),
            Evaluate(build.call("tir.assume", substitute(build.all_of(*facts), own))),
        ]
        return loop, row, column, head

    def facts(self, loop: For) -> list[Expr]:
        """The bounds of a loop's variable, which a root tells nobody."""
        stop = stop_of(loop)
        found = [build.ge(loop.loop_var, loop.min)]
        end = build.add(loop.min, loop.extent) if stop is None else stop
        bound = [each for each in nodes(end) if isinstance(each, Var) and each not in self.indices]
        if (
            stop is not None
            or is_const_int(loop.min, 0)
            or not may_be_data(end, self.func.params, self.func.buffers, bound)
        ):
            found.append(build.lt(loop.loop_var, end))
        return found

    def counted(self, q: For, a: int, first: Expr, rows: Expr, longest: Expr | None) -> int:
        """How many elements there are at most. Refused where a number on the way might not fit."""
        # Outside of the loops too, where an extent may be negative.
        wild = any(
            max(-bound.min_value, bound.max_value) >= 1 << 61
            for bound in map(self.outside.const_int_bound, (first, rows))
        )
        high, count = (max(self.around.const_int_bound(each).max_value, 0) for each in (first, rows))
        shortest = max(high, a)
        if longest is not None:
            # As far as there are rows at all, none is longer than the one that is written first.
            length = max(self.around.const_int_bound(longest).max_value, 0)
            shortest, count = max(min(high, length), a), min(count, length // a + 2)
        most = a * (count + 1) * count // 2 + shortest * (count + 1)
        if wild or most >> 63 or 2 * (a * (count + 1) + shortest) >= _ROOTS:
            self.refuse(q, "there may be more than can be counted exactly", "state the sizes with T.assume(…)")
        return a * count * (count - 1) // 2 + shortest * count

    def refuse(self, loop: For, reason: str, remedy: str = "") -> NoReturn:
        self.step.refuse(
            f"the iterations of the loop `{loop.loop_var.name}` are not counted: {reason}",
            loop,
            f"{remedy}, or {_REMEDY}" if remedy else _REMEDY,
        )


def _elements(a: int, shortest: Expr, rows: Expr) -> Expr:
    """The elements of so many rows."""
    pairs = build.floordiv(build.mul(rows, build.sub(rows, 1)), 2)
    return build.add(build.mul(a, pairs), build.mul(shortest, rows))
