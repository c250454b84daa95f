"""``find`` and ``select``: statements by their form, and by what they read, write and allow."""

from __future__ import annotations

from collections.abc import Iterator

from tirlower.diagnostics import Ambiguous, BadArgument, Label, NotFound
from tirlower.ir.path import Path
from tirlower.ir.stmt import Block, For, ForKind, Stmt
from tirlower.schedule.facts import Facts
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of
from tirlower.schedule.patterns import Pattern
from tirlower.schedule.sites import Change, Site, Steps
from tirlower.schedule.step import Step

__all__ = ["FIND", "SELECT"]


def _root(step: Step, name: str) -> tuple[Site, Stmt]:
    """Where it is looked: at and under a handle, or in the function that is worked on."""
    handle = step[name]
    if handle is None:
        where = function_of(step.state)
        return Site(where, ("body",)), step.state.mod[where].body
    site = step.site(step.handle(name))
    stmt = Path(site.steps).chain(step.func(site))[-1]
    if not isinstance(stmt, Stmt):
        return site / ("body",), step.func(site).body
    return site, stmt


def _found(facts: Facts, root: Stmt, pattern: Pattern) -> Iterator[tuple[Steps, Stmt]]:
    placed = facts.named(root, pattern.name) if pattern.name else iter(facts.inside(root))
    return ((way, stmt) for way, stmt in placed if pattern.matches(stmt))


def _find(step: Step) -> Change:
    pattern = Pattern(str(step["pattern"]))
    site, root = _root(step, "within")
    found = list(_found(step.facts, root, pattern))
    if not found:
        raise NotFound(
            f"no statement is {pattern.text!r}", help="_ is anything, _name the same thing twice, ... any statements"
        )
    if len(found) > 1 and not step["many"]:
        raise Ambiguous(
            f"{len(found)} statements are {pattern.text!r}",
            labels=[
                Label(stmt.span, "one of them", primary=at == 0) for at, (_, stmt) in enumerate(found) if stmt.span
            ],
            help="say more of it, name where it is with within=, or take all with many=True",
        )
    return Change(outputs=tuple(site / way for way, _ in found))


FIND = Kind(
    "Find",
    "find",
    (
        Slot("pattern", Takes.STRING, attr=True),
        Slot("many", Takes.FLAG, default=False, attr=True),
        Slot("within", Takes.LOOP_OR_BLOCK, default=None),
    ),
    _find,
    """The statement of a form: a statement of the script with ``_`` for any expression, index list or name, ``_name`` for the
    same one twice, ``...`` for any statements. ``many=True``: all of them; ``within``: under a loop or block. Raises NotFound and Ambiguous.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         C[i] = 0
    ...         for k in range(4):
    ...             C[i] = A[i, k] + C[i]
    ... '''))
    >>> sch.find("for k in _: ..."), sch.find("C[_] += A[_]"), sch.find("C[_] = _", many=True)
    (LoopRV('k'), StmtRV('C'), [StmtRV('C'), StmtRV('C')])
    """,
    returns="asked",
    pure=True,
    tvm=False,
)

_KINDS: dict[str, type[Stmt] | tuple[type[Stmt], ...]] = {"loop": For, "block": Block, "statement": Stmt}


def _select(step: Step) -> Change:
    wanted = _KINDS.get(str(step["kind"]))
    if wanted is None:
        raise BadArgument(f"kind= is one of {', '.join(map(repr, _KINDS))}, got {step['kind']!r}")
    site, root = _root(step, "under")
    found: list[Site] = []
    for way, stmt in step.facts.inside(root):
        if not isinstance(stmt, wanted) or (step["under"] is not None and not way):
            continue
        if step["kind"] == "statement" and isinstance(stmt, (For, Block)):
            continue
        uses = step.facts.uses(stmt)
        if not _names(step["reads"], {buffer.name for buffer in uses.reads}):
            continue
        if not _names(step["writes"], {buffer.name for buffer in uses.writes}):
            continue
        here = site / way
        if _allows(step, here, stmt):
            found.append(here)
    return Change(outputs=tuple(found))


def _names(wanted: object, there: set[str]) -> bool:
    return wanted is None or wanted in there


def _allows(step: Step, site: Site, stmt: Stmt) -> bool:
    for name, kind in (("vectorizable", ForKind.VECTORIZED), ("parallel", ForKind.PARALLEL)):
        if step[name] is not None:
            if not isinstance(stmt, For):
                return False
            proved = step.facts.concurrent(step.func(site), site.steps, stmt, kind).proved
            if proved is not step[name]:
                return False
    return True


SELECT = Kind(
    "Select",
    "select",
    (
        Slot("kind", Takes.STRING, default="loop", attr=True),
        Slot("reads", Takes.STRING, default=None, attr=True),
        Slot("writes", Takes.STRING, default=None, attr=True),
        Slot("vectorizable", Takes.FLAG, default=None, attr=True),
        Slot("parallel", Takes.FLAG, default=None, attr=True),
        Slot("under", Takes.LOOP_OR_BLOCK, default=None),
    ),
    _select,
    """The loops (``kind="block"``, ``"statement"``: those) that read or write a buffer, stand under a loop or block, are
    proved to be vectorizable or parallel (False: are not); in the order of the text.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         C[i] = 0
    ...     for i, k in T.grid(4, 4):
    ...         C[i] += A[i, k]
    ... '''))
    >>> sch.select(reads="A"), sch.select(reads="A", parallel=True), sch.select("statement", writes="C")
    ([LoopRV('i'), LoopRV('k')], [LoopRV('i')], [StmtRV('C'), StmtRV('C')])
    """,
    returns="many",
    pure=True,
    tvm=False,
)
