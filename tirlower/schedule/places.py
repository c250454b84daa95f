"""Where things stand in a function: the statements that access a buffer, the loops around a place, common places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Expr, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.path import Path
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import AllocBuffer, AllocConst, Bind, Block, BufferStore, DeclBuffer, For, Seq, Stmt, While
from tirlower.schedule.facts import Facts
from tirlower.schedule.sites import Steps

__all__ = [
    "allocation_of",
    "blocks_at",
    "comes_before",
    "common_place",
    "declares_for",
    "headers",
    "home_of_new",
    "loads_in",
    "loops_at",
    "lost_at",
    "own_name",
    "parent",
    "reading",
    "statements_at",
    "using",
    "writing",
]


def statements_at(func: PrimFunc, path: Steps) -> list[tuple[Steps, Stmt]]:
    """The statements from the function's body down to a place, each with its path."""
    values = Path(path).chain(func)
    return [(path[:at], value) for at, value in enumerate(values) if isinstance(value, Stmt)]


def loops_at(func: PrimFunc, path: Steps) -> list[tuple[Steps, For]]:
    """The loops around a place in the function, outermost first; a loop at the place is none of them."""
    return [(way, stmt) for way, stmt in statements_at(func, path)[:-1] if isinstance(stmt, For)]


def blocks_at(func: PrimFunc, path: Steps) -> list[tuple[Steps, Block]]:
    """The blocks around a place, outermost first."""
    return [(way, stmt) for way, stmt in statements_at(func, path)[:-1] if isinstance(stmt, Block)]


def declares_for(facts: Facts, declaration: Stmt, stmt: Stmt) -> bool:
    """Whether a statement uses what one in front of it declares: memory, a view of it, a name."""
    if isinstance(declaration, Bind):
        return mentions(stmt, {declaration.var})
    if not isinstance(declaration, (AllocBuffer, AllocConst, DeclBuffer)):
        return False
    uses, buffer = facts.uses(stmt), declaration.buffer
    own = not isinstance(declaration, DeclBuffer) and buffer.data in uses.named
    return own or buffer in uses.reads or buffer in uses.writes


def lost_at(facts: Facts, func: PrimFunc, path: Steps, other: Steps, stmt: Stmt) -> Stmt | None:
    """What declares something that a statement at a place uses, and is not in scope at another place."""
    for way, around in statements_at(func, path)[:-1]:
        if isinstance(around, Block) and other[: len(way)] != way:
            uses, views = facts.uses(stmt), {match.buffer for match in around.match_buffers}
            if mentions(stmt, {it.var for it in around.iters}) or views & {*uses.reads, *uses.writes}:
                return around
        if not isinstance(around, Seq):
            continue
        number, shared = path[len(way) + 1], other[: len(way) + 1] == path[: len(way) + 1]
        there = other[len(way) + 1] if shared else 0
        assert isinstance(number, int) and isinstance(there, int)
        for declaration in around.stmts[there:number]:
            if declares_for(facts, declaration, stmt):
                return declaration
    return None


def headers(stmt: Stmt) -> Iterator[Expr]:
    """The expressions of a statement that are not inside of a statement in it."""
    if isinstance(stmt, Block):
        for it in stmt.iters:
            if it.value is not None:
                yield it.value
        yield stmt.predicate
        return
    for child in stmt.children():
        if isinstance(child, Expr):
            yield child


def loads_in(stmt: Stmt, buffer: Buffer) -> list[BufferLoad]:
    """The loads of a buffer in a statement itself."""
    return [load for root in headers(stmt) for load in each(BufferLoad, root) if load.buffer is buffer]


def using(facts: Facts, root: Stmt, buffer: Buffer) -> Iterator[tuple[Steps, Stmt]]:
    """The statements under (and including) one that may access a buffer, its memory or what it is allocated by, with the way to
    each, in the order of the text; statements that certainly do not are not looked into."""
    stack: list[tuple[Steps, Stmt]] = [((), root)]
    while stack:
        way, stmt = stack.pop()
        if not isinstance(stmt, Seq):
            yield way, stmt
        inside: list[tuple[Steps, Stmt]] = []
        for name in stmt.child_names:
            value = getattr(stmt, name)
            if value.__class__ is tuple:
                inside += [((*way, name, at), value[at]) for at in facts.uses.those_of(value, buffer)]
            elif isinstance(value, Stmt) and facts.uses.those_of((value,), buffer):
                inside.append(((*way, name), value))
        stack += inside[::-1]


def reading(facts: Facts, func: PrimFunc, buffer: Buffer) -> list[tuple[Steps, Stmt]]:
    """The statements that load elements of a buffer themselves, in the order of the text."""
    return [(("body", *way), stmt) for way, stmt in using(facts, func.body, buffer) if loads_in(stmt, buffer)]


def writing(facts: Facts, func: PrimFunc, buffer: Buffer) -> list[tuple[Steps, BufferStore]]:
    """The statements that store to a buffer, in the order of the text."""
    return [
        (("body", *way), stmt)
        for way, stmt in using(facts, func.body, buffer)
        if isinstance(stmt, BufferStore) and stmt.buffer is buffer
    ]


def allocation_of(facts: Facts, func: PrimFunc, buffer: Buffer) -> tuple[Steps, AllocBuffer] | None:
    """Where a buffer is allocated; None for one that the function is given."""
    for way, stmt in using(facts, func.body, buffer):
        if isinstance(stmt, AllocBuffer) and stmt.buffer is buffer:
            return ("body", *way), stmt
    return None


def own_name(facts: Facts, func: PrimFunc, name: str, but: Var) -> str:
    """A name for memory that nothing in a function has yet, ``but`` what the memory takes the place of: the name, or one with a
    number, as scripts print them."""
    used = {buffer.data for buffer in func.buffers} | facts.uses(func.body).named
    taken = {data.name for data in used if data is not but}
    numbered = (f"{name}_{number}" for number in itertools.count(1))
    return next(one for one in itertools.chain((name,), numbered) if one not in taken)


def comes_before(func: PrimFunc, one: Steps, other: Steps) -> bool:
    """Whether what stands at a place runs before what stands at another one, always: it is in front of it in a sequence, and the
    loops around both run once at most."""
    depth = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), -1)
    if depth < 0:
        return False
    around = (stmt for stmt in Path(one[:depth]).chain(func) if isinstance(stmt, (For, While)))
    if any(isinstance(stmt, While) or not is_const_int(stmt.extent, 1) for stmt in around):
        return False
    mine, theirs = one[depth], other[depth]
    return isinstance(mine, int) and isinstance(theirs, int) and mine < theirs


def common_place(paths: Sequence[Steps]) -> Steps:
    """The deepest statement around (or at) all of some places."""
    first = paths[0]
    depth = min(map(len, paths))
    while any(path[:depth] != first[:depth] for path in paths):
        depth -= 1
    while depth and (isinstance(first[depth - 1], str) and first[depth - 1] == "stmts"):
        depth -= 1
    return first[:depth]


def parent(path: Steps) -> Steps:
    """The place of the statement around one."""
    way = path[:-1]
    return way[:-1] if way and way[-1] == "stmts" else way


def home_of_new(func: PrimFunc, path: Steps) -> tuple[Steps, bool]:
    """Where memory for what happens at a place is allocated, and whether as the head of the body there: at the root block
    of a program of blocks, as TVM does it (lowering brings it to where it is used); else at the place itself.
    """
    blocks = blocks_at(func, path)
    if blocks:
        return blocks[0][0], True
    return path, False


def scope_head(stmt: Stmt) -> int:
    """How many allocations head a body."""
    stmts: Sequence[Stmt] = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    count = 0
    while count < len(stmts) and isinstance(stmts[count], AllocBuffer):
        count += 1
    return count
