"""``hoist``: a statement that does the same in all iterations of a loop comes in front of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tirlower.ir import build
from tirlower.ir.query import each, mentions
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import (
    DECLARATIONS,
    AllocBuffer,
    AllocConst,
    Bind,
    Block,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
)
from tirlower.poly.conflicts import Conflicts, Relation
from tirlower.poly.digit_test import Sign
from tirlower.poly.execution_order import common_loops, ways_before
from tirlower.poly.forms import single
from tirlower.poly.left_out import is_quiet
from tirlower.poly.scop import Access, Loop
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.statements import Placed, placed
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["HOIST"]


def _parts(step: Step) -> tuple[Placed, For, Site]:
    one = placed(step, step.handle("stmt"))
    loop, site = step.loop(step.handle("out_of")), step.site(step.handle("out_of"))
    if one.site != site / ("body",):
        step.refuse(
            f"the statement does not stand in the body of `{loop.loop_var.name}`", one.stmt, "hoist it loop by loop"
        )
    return one, loop, site


def _form(step: Step, one: Placed, loop: For) -> None:
    """Refuse what cannot be the same in all iterations by its form."""
    stmt = one.stmt
    if isinstance(stmt, DECLARATIONS) or not is_quiet(stmt, Block):
        step.refuse("the statement declares something, or does more than access memory", stmt)
    if mentions(stmt, {loop.loop_var}):
        step.refuse(f"the statement depends on the loop `{loop.loop_var.name}`", stmt)
    names = {op.var for op in each(Bind, loop.body)} | {op.buffer for op in each(DeclBuffer, loop.body)}
    if mentions(stmt, names):
        step.refuse("the statement uses a name that the body binds", stmt)
    allocated = {s.buffer for s in one.node.stmts if isinstance(s, (AllocBuffer, AllocConst, DeclBuffer))}
    uses = step.facts.uses(stmt)
    if allocated & {*uses.reads, *uses.writes}:
        step.refuse("the statement uses what each iteration allocates", stmt, "allocate it in front of the loop")
    if loop.kind in (ForKind.THREAD_BINDING, ForKind.VECTORIZED):
        step.refuse(f"the loop is {loop.kind.value}", loop, "hoist it before")


def _check(step: Step) -> Verdict:
    one, loop, site = _parts(step)
    _form(step, one, loop)
    scop = step.facts.part(step.func(site), site.steps)
    known = scop.loop(loop)
    if known.leaves or known.continues:
        step.refuse("a statement ends iterations early, or leaves the loop", loop)
    inside = {id(stmt) for stmt in each(Stmt, one.stmt)}
    own = [a for a in scop.inside(known) if id(a.statement.node) in inside]
    rest = [a for a in scop.inside(known) if id(a.statement.node) not in inside]
    conflicts = Conflicts(scop)
    unknown: Verdict | None = None
    with conflicts.solver.verdict():
        for earlier, late, signs, relations, reason in _cases(known, own, rest):
            if conflicts.forms(earlier, late) is None:
                continue
            found = conflicts.ask(earlier, late, signs, relations)
            if found.status == "empty":
                continue
            if found.status == "found" and found.exact and late.statement is not earlier.statement and earlier in rest:
                witness = conflicts.witness(earlier, late, signs, relations, found)
                return Verdict("refuted", reason, witness)
            unknown = unknown or Verdict("unknown", f"it is not known that this does no harm: {reason}")
    return PROVED if unknown is None else unknown


Case = tuple[Access, Access, Mapping[Loop, Sign], Sequence[Relation], str]


def _cases(loop: Loop, own: list[Access], rest: list[Access]) -> Iterator[Case]:
    """What must not come before what: writes of the rest before the statement; its reads before the first of the
    statement's writes; in the statement itself, a write before a read of a later iteration."""
    outer: dict[Loop, Sign] = dict.fromkeys(loop.outer, "=")
    first: Relation = (single(loop.var), loop.start, "=")
    for a in own:
        for b in rest:
            shared = common_loops(b, a)[len(loop.outer) :]
            if b.is_write:
                reason = f"the loop writes {b.text}, which meets {a.text} of the statement behind it"
                for signs in ways_before(b, a, shared):
                    yield b, a, {**outer, **signs}, (), reason
            elif a.is_write and b.order < a.order:
                reason = f"the loop reads {b.text} before the statement writes it"
                yield b, a, {**outer, loop: "="}, (first,), reason
        for b in own:
            if b.is_write and not a.is_write:
                yield b, a, {**outer, loop: "<"}, (), f"the statement reads {a.text}, which it writes itself"


def _rewrite(step: Step) -> Change:
    one, loop, site = _parts(step)
    stmt, forward = one.stmt, Forward()
    runs = build.gt(loop.extent, 0)
    made: Stmt = stmt
    if not step.analyzer(site).can_prove(runs):
        made = IfThenElse(runs, as_scope(stmt))
    left = tuple(s for at, s in enumerate(one.node.stmts) if at != one.number)
    body: Stmt = left[0] if len(left) == 1 and not isinstance(left[0], DECLARATIONS) else Seq(left)
    new = loop.with_(body=body)
    forward.keep(loop, new)
    return Change(Edit(site, Seq((made, new))), forward)


HOIST = Kind(
    "Hoist",
    "hoist",
    (Slot("stmt", Takes.STAGE), Slot("out_of", Takes.LOOP)),
    _rewrite,
    """Move a statement that does the same in all iterations of a loop in front of it. Legal where nothing in the loop writes
    what it reads or writes, or reads what it writes before it.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         A[0] = 7
    ...         B[i] = A[0]
    ... '''))
    >>> sch.hoist("A", "i")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        A[0] = 7
        for i in range(4):
            B[i] = A[0]
    """,
    check=_check,
    tvm=False,
)
