"""Selectors: loops by their names, their nests and what they compute, as questions that another program answers too.

``"i"`` is the only loop of that name, ``"i#1"`` the second one, ``"k_*"`` those whose names match, ``"C/i"`` a loop in whose
body the block C stands or the buffer C is written, ``"i/k"`` one inside a loop ``i``.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from tirlower.diagnostics import Ambiguous, BadArgument, Label, NotFound, nearest_name
from tirlower.ir.path import Path
from tirlower.ir.stmt import AllocBuffer, AllocConst, Block, BufferStore, For, Stmt
from tirlower.schedule.facts import Facts
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of, loops_around
from tirlower.schedule.sites import Change, Site, Steps
from tirlower.schedule.stages import nests_of
from tirlower.schedule.step import Step

__all__ = ["BUFFER", "LOOP", "LOOPS", "STAGE", "has_block"]

Placed = tuple[Steps, Stmt]


def _matches(stmt: Stmt, way: Steps, part: str, placed: Sequence[Placed]) -> bool:
    """Whether a loop stands in a loop that a name matches, or has a block of the name, or writes a buffer of it."""
    for other, there in placed:
        if isinstance(there, For):
            if there is not stmt and way[: len(other)] == other and fnmatch.fnmatchcase(there.loop_var.name, part):
                return True
        elif other[: len(way)] == way and _named(there, part):
            return True
    return False


def _named(stmt: Stmt, part: str) -> bool:
    """Whether a statement is a block of a name, or writes a buffer of it."""
    if isinstance(stmt, Block):
        return fnmatch.fnmatchcase(stmt.name, part)
    return isinstance(stmt, BufferStore) and fnmatch.fnmatchcase(stmt.buffer.name, part)


def _by_name(facts: Facts, body: Stmt, around: Sequence[str], name: str) -> list[tuple[Steps, For]]:
    """The loops of a name that stand in, or around, what is named by each of ``around``, in the order of the text."""
    if not around:
        return [(way, loop) for way, loop in facts.named(body, name) if isinstance(loop, For)]
    found: dict[Steps, For] = {}
    for way, stmt in facts.named(body, around[-1]):
        if isinstance(stmt, For):
            for inner, loop in facts.named(stmt.body, name):
                if isinstance(loop, For):
                    found[(*way, "body", *inner)] = loop
        elif isinstance(stmt, (Block, BufferStore)):
            found.update((here, loop) for here, loop in _loops_on(body, way) if loop.loop_var.name == name)
    rest = around[:-1]
    return [(way, loop) for way, loop in found.items() if all(_holds(facts, body, way, loop, part) for part in rest)]


def _loops_on(body: Stmt, way: Steps) -> list[tuple[Steps, For]]:
    """The loops on the way to a place, but for one that stands there, outermost first."""
    values = Path(way).chain(body)
    return [(way[:at], value) for at, value in enumerate(values[:-1]) if isinstance(value, For)]


def _holds(facts: Facts, body: Stmt, way: Steps, loop: For, part: str) -> bool:
    """Whether a loop stands in a loop of a name, or what has the name stands in it."""
    return any(other.loop_var.name == part for _, other in _loops_on(body, way)) or any(
        isinstance(stmt, (Block, BufferStore)) for _, stmt in facts.named(loop.body, part)
    )


def _loop(step: Step) -> Change:
    where, query = function_of(step.state), str(step["selector"])
    body = step.state.mod[where].body
    *around, last = query.split("/")
    name, _, number = last.partition("#")
    if not name or (number and not number.isdigit()):
        raise BadArgument(f"{query!r} is no selector of a loop", help='write "i", "i#1", "C/i", "i/k" or "k_*"')
    if any(sign in query for sign in "*?["):
        placed = step.facts.inside(body)
        found = [
            (way, loop)
            for way, loop in placed
            if isinstance(loop, For)
            and fnmatch.fnmatchcase(loop.loop_var.name, name)
            and all(_matches(loop, way, part, placed) for part in around)
        ]
    else:
        found = _by_name(step.facts, body, around, name)
    if number:
        found = found[int(number) : int(number) + 1]
    if not found:
        loops = [(way, stmt) for way, stmt in step.facts.inside(body) if isinstance(stmt, For)]
        names = dict.fromkeys(loop.loop_var.name for _, loop in loops)
        near = nearest_name(name, names)
        raise NotFound(
            f"no loop is {query!r}",
            help=f"did you mean {near!r}?" if near else f"the loops are: {', '.join(names) or 'none'}",
        )
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} loops are {query!r}",
            labels=[
                Label(loop.span, "one of them", primary=at == 0) for at, (_, loop) in enumerate(found) if loop.span
            ],
            help=f'write "{query}#0" for the first one, or say what it is around or inside of: "C/{last}", "i/{last}"',
        )
    return Change(outputs=(Site(where, ("body", *found[0][0])),))


LOOP = Kind(
    "Loop",
    "loop",
    (Slot("selector", Takes.STRING, attr=True),),
    _loop,
    """The loop that a selector means: ``"i"``, ``"i#1"`` (the second of the name), ``"k_*"``, ``"C/i"`` (around block or
    buffer C), ``"i/k"`` (inside ``i``). Raises NotFound and Ambiguous.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         A[i] = 1
    ...     for i in range(4):
    ...         B[i] = 2
    ... '''))
    >>> sch.loop("B/i"), sch.loop("i#1")
    (LoopRV('i'), LoopRV('i'))
    """,
    returns="one",
    pure=True,
    tvm=False,
)


def _loops(step: Step) -> Change:
    where, name = function_of(step.state), str(step["name"])
    func = step.state.mod[where]
    named: list[Placed] = list(step.facts.named(func.body, name))
    blocks: list[Placed] = [(way, stmt) for way, stmt in named if isinstance(stmt, Block)]
    found = blocks or [(way, stmt) for way, stmt in named if isinstance(stmt, BufferStore)]
    if not found:
        placed = step.facts.inside(func.body)
        known = dict.fromkeys(_name(stmt) for _, stmt in placed if isinstance(stmt, (Block, BufferStore)))
        near = nearest_name(name, known)
        raise NotFound(
            f"no block is named {name!r}, and no buffer of that name is written",
            help=f"did you mean {near!r}?" if near else f"there are: {', '.join(known) or 'none'}",
        )
    nests = sorted((loops_around(step, Site(where, ("body", *way))) for way, _ in found), key=len)
    if any(nest != nests[-1][: len(nest)] for nest in nests):
        raise Ambiguous(
            f"{len(found)} statements are {name!r}, in different loops",
            labels=[
                Label(stmt.span, "one of them", primary=at == 0) for at, (_, stmt) in enumerate(found) if stmt.span
            ],
            help=f'ask for one loop after the other: sch.loop("{name}/i#1")',
        )
    return Change(outputs=tuple(nests[-1]))


def _name(stmt: Stmt) -> str:
    return stmt.name if isinstance(stmt, Block) else stmt.buffer.name if isinstance(stmt, BufferStore) else ""


LOOPS = Kind(
    "Loops",
    "loops",
    (Slot("name", Takes.STRING, attr=True),),
    _loops,
    """The loops around a block, or around what writes a buffer, given by its name; the outermost first.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 4), "int32")):
    ...     for i, j in T.grid(4, 4):
    ...         A[i, j] = 1
    ... '''))
    >>> sch.loops("A")
    [LoopRV('i'), LoopRV('j')]
    """,
    returns="many",
    pure=True,
    tvm=False,
)


def has_block(root: Stmt, name: str, facts: Facts) -> bool:
    """Whether a block of a name stands under a statement."""
    return any(isinstance(stmt, Block) for _, stmt in facts.named(root, name))


def _stage(step: Step) -> Change:
    where, name = function_of(step.state), str(step["name"])
    body = step.state.mod[where].body
    found = nests_of(body, name, step.facts.uses)
    if not found:
        known = dict.fromkeys(
            _name(stmt) for _, stmt in step.facts.inside(body) if isinstance(stmt, (Block, BufferStore))
        )
        near = nearest_name(name, known)
        raise NotFound(
            f"no block is named {name!r}, and no buffer of that name is written outside of blocks",
            help=f"did you mean {near!r}?" if near else f"there are: {', '.join(known) or 'none'}",
        )
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} statements write {name!r}",
            labels=[
                Label(stmt.span, "one of them", primary=at == 0) for at, (_, stmt) in enumerate(found) if stmt.span
            ],
            help=f'give the loop of the one that is meant: sch.loop("{name}/i#0")',
        )
    return Change(outputs=(Site(where, ("body", *found[0][0])),))


STAGE = Kind(
    "Stage",
    "stage",
    (Slot("name", Takes.STRING, attr=True),),
    _stage,
    """The outermost statement or loop that writes a buffer, given by its name, and no other: what stands for a block where
    there are none. Raises NotFound and Ambiguous.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 4), "int32")):
    ...     for i, j in T.grid(4, 4):
    ...         A[i, j] = 1
    ... '''))
    >>> sch.stage("A")
    LoopRV('i')
    """,
    returns="one",
    pure=True,
    tvm=False,
)


def _buffer(step: Step) -> Change:
    where, name = function_of(step.state), str(step["name"])
    func = step.state.mod[where]
    named = (stmt for _, stmt in step.facts.named(func.body, name))
    found = [buffer for buffer in func.buffers if buffer.name == name]
    found += [stmt.buffer for stmt in named if isinstance(stmt, (AllocBuffer, AllocConst))]
    if not found:
        inside = (stmt for _, stmt in step.facts.inside(func.body))
        known = [*func.buffers, *(stmt.buffer for stmt in inside if isinstance(stmt, (AllocBuffer, AllocConst)))]
        names = dict.fromkeys(buffer.name for buffer in known)
        near = nearest_name(name, names)
        raise NotFound(
            f"no buffer is named {name!r}",
            help=f"did you mean {near!r}?" if near else f"the buffers are: {', '.join(names) or 'none'}",
        )
    if len(found) > 1:
        raise Ambiguous(f"{len(found)} buffers are named {name!r}", help="rename all but one")
    return Change(outputs=(found[0],))


BUFFER = Kind(
    "Buffer",
    "buffer",
    (Slot("name", Takes.STRING, attr=True),),
    _buffer,
    """The only parameter or allocation of a name. Raises NotFound and Ambiguous.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         A[i] = 1
    ... '''))
    >>> sch.buffer("A"), sch.get(sch.buffer("A")).name
    (BufferRV('A'), 'A')
    """,
    returns="one",
    pure=True,
    tvm=False,
)
