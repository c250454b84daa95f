"""A nest of loops that change places, with what stands beside them: how it reads in a new order.

Three programs may come of it: the nest alone, where nothing stands beside; what stands beside in loops of its own in front
and behind (distributed); or inside, in the first or last iteration of the loops that it was outside of (sunk).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.expr import BufferLoad, Call, Expr, Var
from tirlower.ir.functor import substitute
from tirlower.ir.query import has, mentions
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import DECLARATIONS, For, ForKind, IfThenElse, Seq, Stmt, seq
from tirlower.poly import Scop
from tirlower.poly.order_kept import Coordinate
from tirlower.poly.rebound import rebound
from tirlower.rewrite import loop_nests
from tirlower.schedule.bindings import forward_predicated, predicated
from tirlower.schedule.loops.bounds import bounds_divide
from tirlower.schedule.sites import Forward, Site
from tirlower.schedule.step import Step

__all__ = ["Made", "Nest", "nest_of"]


@dataclass
class Made:
    """A nest in its new order: the statement, when its parts run (None: as the loops say), what became of the old ones."""

    stmt: Stmt
    loops: list[For]
    positions: dict[Stmt, list[Coordinate]]
    forward: Forward = field(default_factory=Forward)


@dataclass
class Nest:
    """Loops that stand in each other, outermost first, and the order that they shall have.

    ``before`` and ``after`` are what stands beside the next loop in the body of each but the innermost; ``conditions``
    those under which the innermost body runs, of ``ifs`` that are no more then; the first ``held`` are around what stands beside
    each loop.
    """

    site: Site
    loops: list[For]
    order: list[For]
    before: list[tuple[Stmt, ...]]
    after: list[tuple[Stmt, ...]]
    conditions: list[Expr]
    held: dict[int, int] = field(default_factory=dict)
    ifs: list[IfThenElse] = field(default_factory=list)

    @property
    def body(self) -> Stmt:
        """What the innermost loop does."""
        return self.loops[-1].body

    @property
    def perfect(self) -> bool:
        """Whether nothing stands beside the loops."""
        return not any(self.before) and not any(self.after)

    @property
    def plain(self) -> bool:
        """Whether the loops can be put in the order as they are."""
        return self.perfect and not self.conditions and not self.reaches_in

    @property
    def reaches_in(self) -> bool:
        """Whether the bounds of a loop depend on one that will be inside of it."""
        for at, loop in enumerate(self.order):
            inside = {one.loop_var for one in self.order[at + 1 :]}
            if mentions(loop.min, inside) or mentions(loop.extent, inside):
                return True
        return False

    def alone(self, scop: Scop) -> Made:
        """The nest without what stands beside it."""
        loops, condition = self._ordered(scop)
        body = self.body if condition is None else predicated(self.body, condition)
        stmt, made = _around(loops, body)
        forward = Forward()
        if condition is not None:
            forward_predicated(forward, self.body, body)
        self._keep(forward, made)
        return Made(stmt, made, {self.body: [*self.order]}, forward)

    def _keep(self, forward: Forward, made: Sequence[For]) -> None:
        """The loops go on as those of the new nest; an ``if`` between them ends."""
        for old, new in zip(self.order, made, strict=True):
            forward.keep(old, new)
        for one in self.ifs:
            forward.end(one, made[-1])

    def _around_beside(self, at: int) -> Expr | None:
        """The condition around what stands beside the next loop in the body of one."""
        held = self.conditions[: self.held.get(at, 0)]
        return build.all_of(*held) if held else None

    def _ordered(self, scop: Scop) -> tuple[list[For], Expr | None]:
        """The loops with bounds for their new order, and the condition under which the body runs then."""
        conditions, loops = list(self.conditions), list(self.order)
        if self.reaches_in:
            found = rebound(scop, self.loops, self.order)
            for at, (loop, bounds) in enumerate(zip(self.order, found.ranges, strict=True)):
                loops[at] = loop.with_(min=bounds.min, extent=bounds.extent)
            for one in found.tested:
                loop = next(loop for loop in self.loops if loop.loop_var is one.var)
                stop = build.add(loop.min, loop.extent)
                conditions += [build.ge(loop.loop_var, loop.min), build.lt(loop.loop_var, stop)]
        return loops, build.all_of(*conditions) if conditions else None

    def distributed(self, scop: Scop) -> Made:
        """What stands beside in loops of its own, in front and behind."""
        made = self.alone(scop)
        front: list[Stmt] = []
        behind: list[Stmt] = []
        positions = made.positions
        middle = len(self.before)
        for at in range(len(self.before)):
            around = self.loops[: at + 1]
            for stmts, rank, into in ((self.before[at], at, front), (self.after[at], 2 * middle - at, behind)):
                if not stmts:
                    continue
                for number, stmt in enumerate(stmts):
                    positions[stmt] = [rank, *around, number]
                into.append(_copied(around, stmts, self._around_beside(at), made.forward))
        positions[self.body] = [middle, *self.order]
        made.stmt = seq([*front, made.stmt, *behind[::-1]])
        return made

    def sunk(self, scop: Scop, analyzer: Analyzer) -> Made | None:
        """What stands beside inside, where the loops that it was outside of begin or end; None where one of these may not
        run at all, or begins somewhere that is not known outside."""
        loops, condition = self._ordered(scop)
        forward, positions = Forward(), dict[Stmt, list[Coordinate]]()
        front: list[Stmt] = []
        behind: list[Stmt] = []
        count = len(self.before)
        for at in range(count):
            for stmts, first, rank, into in (
                (self.before[at], True, at, front),
                (self.after[at], False, 2 * count - at, behind),
            ):
                if not stmts:
                    continue
                ends = self._ends(at, first, analyzer)
                if ends is None:
                    return None
                outer = self._around_beside(at)
                here = () if outer is None else (outer,)
                held = build.all_of(*here, *(build.eq(var, value) for var, value in ends.items()))
                for number, stmt in enumerate(stmts):
                    positions[stmt] = [*(ends.get(one.loop_var, one) for one in self.order), rank, number]
                    guarded = predicated(stmt, held)
                    forward_predicated(forward, stmt, guarded)
                    into.append(guarded)
        positions[self.body] = [*self.order, count, 0]
        body = self.body
        if condition is not None:
            body = predicated(body, condition)
            forward_predicated(forward, self.body, body)
        last = [stmt for at in reversed(range(count)) for stmt in _own(behind, self.after, at)]
        stmt, made = _around(loops, seq([*front, body, *last]))
        self._keep(forward, made)
        return Made(stmt, made, positions, forward)

    def _ends(self, at: int, first: bool, analyzer: Analyzer) -> dict[Var, Expr] | None:
        """The first (or last) numbers of the loops inside one, in terms of those outside."""
        ends: dict[Var, Expr] = {}
        for loop in self.loops[at + 1 :]:
            low, extent = (substitute(x, ends) for x in (loop.min, loop.extent))
            if not analyzer.can_prove(build.gt(extent, 0)):
                return None
            ends[loop.loop_var] = low if first else analyzer.simplify(build.sub(build.add(low, extent), 1))
        return ends


def _own(made: Sequence[Stmt], after: Sequence[tuple[Stmt, ...]], at: int) -> list[Stmt]:
    """The statements made of those that stood behind in the body of one loop."""
    skipped = sum(len(stmts) for stmts in after[:at])
    return list(made[skipped : skipped + len(after[at])])


def _around(loops: Sequence[For], body: Stmt) -> tuple[Stmt, list[For]]:
    made: list[For] = []
    for loop in reversed(loops):
        body = loop.with_(body=body)
        made.append(body)
    return body, made[::-1]


def _copied(loops: Sequence[For], stmts: Sequence[Stmt], condition: Expr | None, forward: Forward) -> Stmt:
    """Statements in loops of their own, where a condition holds."""
    names: dict[Var, Expr] = {loop.loop_var: copy_var(loop.loop_var) for loop in loops}
    guarded = stmts if condition is None else [predicated(stmt, condition) for stmt in stmts]
    parts = [substitute(stmt, names) for stmt in guarded]
    for old, new in zip(stmts, parts, strict=True):
        if condition is None:
            forward.like(old, new)
        else:
            forward_predicated(forward, old, new)
    copies: list[For] = []
    for loop in loops:
        var = names[loop.loop_var]
        assert isinstance(var, Var)
        copies.append(loop.with_(loop_var=var, min=substitute(loop.min, names), extent=substitute(loop.extent, names)))
    return loop_nests.nest(copies, seq(parts))


def nest_of(step: Step, name: str, swap: bool = False) -> Nest:
    """The nest that the loops of an argument are in, from the outermost of them to the innermost.

    ``swap``: two loops that change places. Refused where they do not stand in each other.
    """
    handles = step.handles(name)
    wanted = [step.loop(handle) for handle in handles]
    if not wanted:
        raise ValueError(f"{step.kind.method!r} requires at least 1 loop(s)")
    if len(set(wanted)) < len(wanted):
        raise BadArgument("a loop is named twice in the new order")
    sites = [step.site(handle) for handle in handles]
    top = min(sites, key=lambda site: len(site.steps))
    bottom = max(sites, key=lambda site: len(site.steps))
    for site, loop in zip(sites, wanted, strict=True):
        if site.func != bottom.func or bottom.steps[: len(site.steps)] != site.steps:
            step.refuse(f"the loop `{loop.loop_var.name}` is not around all the others", loop, "name nested loops")
    nest = Nest(top, [], [], [], [], [])
    inner = wanted[sites.index(bottom)]
    for stmt in step.chain(bottom)[len(step.chain(top)) - 1 :]:
        _descend(step, nest, stmt, inner)
    places = iter(sorted(wanted, key=nest.loops.index, reverse=True) if swap else wanted)
    nest.order = [next(places) if loop in wanted else loop for loop in nest.loops]
    if nest.order != nest.loops and not nest.plain:
        for loop in nest.loops:
            if has((BufferLoad, Call), loop.min, loop.extent):
                step.refuse(
                    f"the bounds of the loop `{loop.loop_var.name}` read memory", loop, "store them in scalars first"
                )
            if loop.kind is ForKind.THREAD_BINDING:
                step.refuse(f"the loop is bound to {loop.thread_tag}", loop, "bind after reordering")
    if nest.order != nest.loops:
        bounds_divide(step, top, nest.loops[1:])
    return nest


def _descend(step: Step, nest: Nest, stmt: Stmt, inner: For) -> None:
    """Take in one of the statements from the outermost loop to the innermost."""
    if isinstance(stmt, For):
        if nest.loops:
            nest.before += [()] * (len(nest.loops) - len(nest.before))
            nest.after += [()] * (len(nest.loops) - len(nest.after))
        nest.loops.append(stmt)
        return
    outer = nest.loops[-1]
    if isinstance(stmt, IfThenElse):
        free = not has(BufferLoad, stmt.condition) and not has(Call, stmt.condition)
        if stmt.else_case is None and free and not isinstance(stmt.then_case, Seq):
            nest.conditions.append(stmt.condition)
            nest.ifs.append(stmt)
            return
    elif isinstance(stmt, Seq) and len(nest.before) < len(nest.loops) and outer.body is stmt:
        at = next(
            (n for n, one in enumerate(stmt.stmts) if one is inner or (has(For, one) and _leads(one, inner))), None
        )
        if at is not None and not any(isinstance(one, DECLARATIONS) for one in stmt.stmts):
            nest.held[len(nest.before)] = len(nest.conditions)
            nest.before.append(stmt.stmts[:at])
            nest.after.append(stmt.stmts[at + 1 :])
            return
    step.refuse(
        f"the loop `{outer.loop_var.name}` has more in its body than what leads to the loop `{inner.loop_var.name}`",
        stmt,
        "distribute the loop over its statements first",
    )


def _leads(stmt: Stmt, inner: For) -> bool:
    """Whether a loop stands in a statement."""
    stack = [stmt]
    while stack:
        one = stack.pop()
        if one is inner:
            return True
        stack += [child for child in one.children() if isinstance(child, Stmt)]
    return False
