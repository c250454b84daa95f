"""``unroll_jam``: several iterations of an outer loop at once, their inner loops put together."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.query import has, mentions
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import DECLARATIONS, For, ForKind, Seq, Stmt, seq
from tirlower.poly.order_kept import Coordinate
from tirlower.poly.verdict import Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.copies import copy_of, names_of_blocks, part_of, twinned
from tirlower.schedule.positions import order_verdict
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["UNROLL_JAM"]


class _Jam:
    """The loop whose iterations are put together, so many at once."""

    def __init__(self, step: Step) -> None:
        handle = step.handle("loop")
        self.step, self.site, self.loop = step, step.site(handle), step.loop(handle)
        factor = step.number(step["factor"])
        if not isinstance(factor, int) or not 1 <= factor <= 64:
            raise BadArgument(f"1 to 64 iterations are put together, got {factor!r}")
        self.factor = factor
        loop, analyzer = self.loop, step.analyzer(self.site)
        dtype = loop.loop_var.dtype
        extent = loop.extent
        if not analyzer.can_prove(build.ge(extent, const(0, dtype))):
            extent = build.max_(extent, const(0, dtype))
        size = const(factor, dtype)
        self.whole = analyzer.simplify(build.floordiv(extent, size))
        self.left = analyzer.simplify(build.floormod(extent, size))
        self.var = copy_var(loop.loop_var, f"{loop.loop_var.name}_0")
        self.taken = names_of_blocks(step, self.site.func)

    def enters(self, stmt: Stmt) -> bool:
        """Whether the copies of a statement are put together inside of it."""
        if isinstance(stmt, Seq):
            return not any(isinstance(one, DECLARATIONS) for one in stmt.stmts)
        if not isinstance(stmt, For) or stmt.kind is ForKind.THREAD_BINDING:
            return False
        bounds = (stmt.min, stmt.extent)
        return not has((BufferLoad, Call), *bounds) and not any(mentions(x, {self.loop.loop_var}) for x in bounds)

    def number(self, lane: int) -> Expr:
        """The iteration that a copy is."""
        dtype = self.loop.loop_var.dtype
        at = build.add(build.mul(self.var, const(self.factor, dtype)), const(lane, dtype))
        return build.add(self.loop.min, at)

    def made(self, stmt: Stmt, forward: Forward) -> Stmt:
        """The copies of a statement, put together."""
        if self.enters(stmt):
            if isinstance(stmt, Seq):
                return seq([self.made(one, forward) for one in stmt.stmts])
            assert isinstance(stmt, For)
            new = stmt.with_(body=self.made(stmt.body, forward))
            forward.keep(stmt, new)
            return new
        copies = []
        for lane in range(self.factor):
            copy = substitute(stmt, {self.loop.loop_var: self.number(lane)})
            copies.append(copy_of(copy, str(lane), self.taken) if lane else copy)
        twinned(forward, stmt, copies[0], copies[1:])
        return seq(copies)

    def positions(self, stmt: Stmt, head: list[Coordinate], inside: list[Coordinate]) -> dict[Stmt, list[Coordinate]]:
        """When the statements run: by groups, then as in the body, then by the iteration."""
        if self.enters(stmt):
            if isinstance(stmt, For):
                return self.positions(stmt.body, head, [*inside, stmt])
            assert isinstance(stmt, Seq)
            found: dict[Stmt, list[Coordinate]] = {}
            for number, one in enumerate(stmt.stmts):
                found |= self.positions(one, head, [*inside, number])
            return found
        return {stmt: [*head, *inside, self.loop]}

    def head(self) -> list[Coordinate]:
        """The group of an iteration; of those that are left, each by itself."""
        loop, dtype = self.loop, self.loop.loop_var.dtype
        number = build.sub(loop.loop_var, loop.min)
        group = build.floordiv(number, const(self.factor, dtype))
        if is_const_int(self.left, 0):
            return [group, 0]
        behind = build.ge(group, self.whole)
        return [build.min_(group, self.whole), build.select(behind, number, const(0, dtype))]


def _loop(jam: _Jam) -> tuple[Stmt, For, Forward]:
    """What the loop becomes, and the loop over whole groups."""
    loop, forward = jam.loop, Forward()
    dtype = loop.loop_var.dtype
    main = loop.with_(loop_var=jam.var, min=const(0, dtype), extent=jam.whole, body=jam.made(loop.body, forward))
    forward.end(loop, main)
    if is_const_int(jam.left, 0):
        return main, main, forward
    begin = build.add(loop.min, build.mul(jam.whole, const(jam.factor, dtype)))
    analyzer = jam.step.analyzer(jam.site)
    rest = part_of(loop, analyzer.simplify(begin), jam.left, f"{loop.loop_var.name}_rest", ("rest", jam.taken))
    return Seq((main, rest)), main, forward


def _check(step: Step) -> Verdict:
    jam = _Jam(step)
    loop = jam.loop
    if loop.kind in (ForKind.THREAD_BINDING, ForKind.VECTORIZED):
        step.refuse(f"the loop is {loop.kind.value}: its iterations run in step", loop, "jam it before")
    scop = step.facts.part(step.func(jam.site), jam.site.steps)
    for inner in scop.loops:
        if scop.loop(loop) in inner.nest and (inner.leaves or inner.continues):
            step.refuse(f"a statement ends iterations of `{inner.name}` early, or leaves it", inner.node)
    made, _, _ = _loop(jam)
    if isinstance(jam.whole, IntImm) and jam.whole.value <= 0:
        step.refuse(f"the loop runs fewer than {jam.factor} times", loop)
    return order_verdict(step, jam.site, jam.positions(loop.body, jam.head(), []), jam.site, made)


def _rewrite(step: Step) -> Change:
    jam = _Jam(step)
    made, main, forward = _loop(jam)
    return Change(Edit(jam.site, made), forward, (main,))


UNROLL_JAM = Kind(
    "UnrollJam",
    "unroll_jam",
    (Slot("loop", Takes.LOOP), Slot("factor", Takes.FACTOR)),
    _rewrite,
    """Do ``factor`` iterations of a loop at once: one copy of each statement for each of them, inside of the loops that they
    have in common. Legal where no dependence is turned round.

    Iterations that are left have a loop of their own. Returns the loop over the groups, ``i_0``.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 6), "int32")):
    ...     for i, j in T.grid(4, 6):
    ...         A[i, j] = j
    ... '''))
    >>> sch.unroll_jam("i", 2)
    LoopRV('i_0')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 6), "int32")):
        for i_0, j in T.grid(2, 6):
            A[i_0 * 2, j] = j
            A[i_0 * 2 + 1, j] = j
    """,
    check=_check,
    returns="one",
    tvm=False,
)
