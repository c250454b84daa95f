"""``fission``: a loop over several statements becomes several loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.expr import BufferLoad, Call
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.query import has
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import DECLARATIONS, For, ForKind, IfThenElse, Seq, Stmt, seq
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.edits import Rebuilt
from tirlower.schedule.handles import GapRV
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.positions import still_concurrent
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["FISSION"]


@dataclass
class _Opened:
    """A loop whose iterations run where a condition holds, with each of its statements under the condition, and the function with
    it: what reads no memory holds behind a statement as it did before it. Any other loop is as it was."""

    func: PrimFunc
    loop: For
    ifs: list[IfThenElse] = field(default_factory=list)


def _opened(step: Step) -> _Opened:
    handle = step.handle("loop")
    loop, site = step.loop(handle), step.site(handle)
    ifs: list[IfThenElse] = []
    body = loop.body
    while isinstance(body, IfThenElse) and body.else_case is None and not has((BufferLoad, Call), body.condition):
        ifs.append(body)
        body = body.then_case
    if not ifs or not isinstance(body, Seq) or any(isinstance(one, DECLARATIONS) for one in body.stmts):
        return _Opened(step.func(site), loop)
    held = build.all_of(*(one.condition for one in ifs))
    loop = loop.with_(body=Seq(tuple(IfThenElse(held, stmt) for stmt in body.stmts)))
    return _Opened(Rebuilt(step.func(site), [Edit(site, loop)]).func, loop, ifs)


def _parts(step: Step, opened: _Opened) -> list[tuple[Stmt, ...]]:
    """The statements of each of the new loops."""
    loop, body = opened.loop, opened.loop.body
    stmts = body.stmts if isinstance(body, Seq) else (body,)
    at = step.number(step["at"])
    if isinstance(at, GapRV):
        at = _number_of(step, at, len(opened.ifs))
    if at is None:
        return [(stmt,) for stmt in stmts]
    if not isinstance(at, int) or not 0 < at < len(stmts):
        raise BadArgument(
            f"the body of `{loop.loop_var.name}` has {len(stmts)} statements: it cannot be cut at {at}",
            help="say in front of which statement, counted from 0",
        )
    return [stmts[:at], stmts[at:]]


def _number_of(step: Step, gap: GapRV, ifs: int) -> int:
    """In front of which statement of the loop's body, or of that of so many conditions in it, a gap is."""
    way = step.site(gap).steps
    body = (*step.site(step.handle("loop")).steps, "body", *["then_case"] * ifs, "stmts")
    number = way[-1] if way[:-1] == body else None
    if not isinstance(number, int):
        raise BadArgument(f"the gap `{gap.name}` is not directly in the body of the loop")
    return number + (gap.side == "after")


def _names(step: Step, loop: For, count: int) -> list[str]:
    names = step["names"]
    if names is None:
        return [loop.loop_var.name] * count
    assert isinstance(names, (list, tuple))
    if len(names) != count:
        raise BadArgument(f"{count} loops come of it, got {len(names)} names")
    return [str(name) for name in names]


def _made(loop: For, parts: Sequence[tuple[Stmt, ...]], names: Sequence[str], forward: Forward) -> list[For]:
    made: list[For] = []
    for stmts, name in zip(parts, names, strict=True):
        if not made and name == loop.loop_var.name:
            made.append(loop.with_(body=seq(stmts)))
            continue
        var = copy_var(loop.loop_var, name)
        new = [substitute(stmt, {loop.loop_var: var}) for stmt in stmts]
        for old, one in zip(stmts, new, strict=True):
            forward.like(old, one)
        made.append(loop.with_(loop_var=var, body=seq(new)))
    forward.keep(loop, made[0])
    return made


def _check(step: Step) -> Verdict:
    handle = step.handle("loop")
    site = step.site(handle)
    if step.loop(handle).kind is ForKind.THREAD_BINDING:
        step.refuse(
            f"the loop is bound to {step.loop(handle).thread_tag}", step.loop(handle), "cut it before it is bound"
        )
    opened = _opened(step)
    parts = _parts(step, opened)
    names = _names(step, opened.loop, len(parts))
    if len(parts) == 1:
        return PROVED
    found, step.exactness = step.facts.distributed(
        opened.func,
        site.steps,
        opened.loop,
        None if step["at"] is None else len(parts[0]),
        step.policy.reassociate,
    )
    if not found.proved:
        return found
    return still_concurrent(step, site, Seq(tuple(_made(opened.loop, parts, names, Forward()))))


def _rewrite(step: Step) -> Change:
    handle = step.handle("loop")
    opened, forward = _opened(step), Forward()
    parts = _parts(step, opened)
    made = _made(opened.loop, parts, _names(step, opened.loop, len(parts)), forward)
    forward.keep(step.loop(handle), made[0])
    for one in opened.ifs:
        forward.end(one, *made)
    return Change(Edit(step.site(handle), seq(made) if len(made) > 1 else made[0]), forward, tuple(made))


FISSION = Kind(
    "Fission",
    "fission",
    (
        Slot("loop", Takes.LOOP),
        Slot("at", Takes.GAP, default=None),
        Slot("names", Takes.NAMES, default=None, extra=True),
    ),
    _rewrite,
    """Give each statement of a loop's body a loop of its own; with ``at``, those in front of the statement of that number
    (or of a gap), and the rest. Legal where no iteration hands something on to an earlier statement of a later one. A condition
    around all statements, as a split leaves it, is one around each then, where it reads no memory.

    The first loop keeps the handle. Returns the loops.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         A[i] = i
    ...         B[i] = A[i] + 1
    ... '''))
    >>> first, second = sch.fission("i", names=["i", "k"])
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = i
        for k in range(8):
            B[k] = A[k] + 1
    """,
    check=_check,
    returns="many",
    tvm=False,
)
