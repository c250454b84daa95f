"""Nests as access relations: what each statement of a nest reads and writes along which loop, and at which strides.

A nest is an outermost loop of a function with all that stands in it. What is asked of it comes from the Scop, so that
blocks, plain loops and local accumulators look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tirlower.autoschedule.sizes import typical
from tirlower.ir.annotations import REDUCTION
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.node import Node
from tirlower.ir.query import each, statements
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Block, BufferStore, For, ForKind, IfThenElse, Seq, Stmt, While
from tirlower.poly import Access, AccessBounds, Loop, Scop, Statement, check_bounds, extract

__all__ = [
    "Nest",
    "elements_of",
    "extent_of",
    "nests_of",
    "perfect_loops",
    "roots_of",
    "same_for_all",
    "scheduled_by_hand",
    "selectors",
    "strides_of",
    "title_of",
]


Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Nest:
    """An outermost loop of a function, what stands in it, and why it is to be left alone, if it is.

    ``loops`` and ``statements`` are the Scop's, in the order of the text. ``any_order`` says that sums of floats may be added
    up in any order, whatever the program says. ``branch`` is the innermost choice that it stands in, by identity; ``open``
    are the accesses for which it is left alone because they are not proved inside their buffers.
    """

    func: PrimFunc
    scop: Scop
    root: For
    loops: tuple[Loop, ...]
    statements: tuple[Statement, ...]
    left: str = ""
    any_order: bool = False
    branch: int = 0
    open: tuple[AccessBounds, ...] = ()

    @property
    def title(self) -> str:
        """What it writes, and its loops: ``C over i, j, k``."""
        return title_of(self.root)

    @cached_property
    def local(self) -> frozenset[object]:
        """The data variables of what is allocated in the nest."""
        return frozenset(stmt.buffer.data for stmt in each(AllocBuffer, self.root))

    def accesses(self) -> Iterator[Access]:
        """The accesses of all statements, in the order of the text."""
        for statement in self.statements:
            yield from statement.accesses

    def block_of(self, statement: Statement) -> Block | None:
        """The innermost block around a statement of the nest."""
        return self._blocks.get(id(statement.node))

    @cached_property
    def _blocks(self) -> dict[int, Block]:
        found: dict[int, Block] = {}
        for stmt in statements(self.root):  # an outer one before those inside
            if isinstance(stmt, Block):
                for inner in statements(stmt):
                    found[id(inner)] = stmt
        return found

    def once(self, ask: Callable[[Nest], Answer]) -> Answer:
        """What a recipe asks of a nest alone, found out once."""
        if ask not in self._asked:
            self._asked[ask] = ask(self)
        return self._asked[ask]  # type: ignore[return-value]

    @cached_property
    def _asked(self) -> dict[object, object]:
        return {}

    @cached_property
    def row_loops(self) -> int:
        """How many loops, from the outermost one on, go along rows: all that is written moves with them."""
        count = 0
        written = [
            strides_of(access) for access in self.accesses() if access.is_write and access.data not in self.local
        ]
        for loop in perfect_loops(self):
            if not written or not all(strides.get(loop) for strides in written) or loop.start.terms:
                break
            count += 1
        return count

    @cached_property
    def sum_depth(self) -> int:
        """In how many loops the innermost one stands along which a statement updates one element again and again; 0 where none
        does."""
        found = 0
        for one in self.statements:
            if one.reduction is not None and not one.starts:
                for strides in [strides_of(access) for access in one.accesses if access.is_write]:
                    found = max([found, *(at for at, loop in enumerate(one.loops, 1) if loop not in strides)])
        return found

    @cached_property
    def points(self) -> float:
        """How often its innermost statements run, together; infinite where that is not known."""
        total = 0.0
        for statement in self.statements:
            count = 1.0
            for loop in statement.loops:
                extent = extent_of(loop)
                count *= float("inf") if extent is None else extent
            total += count
        return total


def selectors(func: PrimFunc) -> dict[int, str]:
    """By which a schedule of a function, before any step, finds each loop, by the identity of its node: its name, numbered where
    others have it too."""
    same: dict[str, list[For]] = {}
    for stmt in statements(func.body):
        if isinstance(stmt, For):
            same.setdefault(stmt.loop_var.name, []).append(stmt)
    return {
        id(loop): name if len(loops) == 1 else f"{name}#{at}"
        for name, loops in same.items()
        for at, loop in enumerate(loops)
    }


def roots_of(func: PrimFunc) -> list[For]:
    """The outermost loops of a function, in the order of the text."""
    return [root for root, _ in _outermost(func.body)]


def title_of(root: For) -> str:
    """What a nest writes, and its loops: ``C over i, j, k``."""
    inside = list(statements(root))
    local = {stmt.buffer.data for stmt in inside if isinstance(stmt, AllocBuffer)}
    names = dict.fromkeys(s.buffer.name for s in inside if isinstance(s, BufferStore) and s.buffer.data not in local)
    loops = [stmt.loop_var.name for stmt in inside if isinstance(stmt, For)]
    return f"{', '.join(names) or 'nothing'} over {', '.join(loops)}"


def extent_of(loop: Loop) -> int | None:
    """How often a loop runs, where that is a number."""
    node = loop.node
    return node.extent.value if isinstance(node, For) and isinstance(node.extent, IntImm) else None


def same_for_all(loop: Loop) -> bool:
    """Whether a loop runs as often in each iteration of those around it."""
    inside = {outer.var for outer in loop.outer}
    return isinstance(loop.node, For) and not any(var in inside for var in each(Var, loop.node.extent))


def elements_of(buffer: Buffer) -> tuple[int | None, ...]:
    """By how many elements each subscript of a buffer moves, sizes that the caller alone knows being what they are taken to
    be (:mod:`~tirlower.autoschedule.sizes`); None where that is no number."""
    if buffer.strides:
        return tuple(map(typical, buffer.strides))
    found: list[int | None] = []
    stride: int | None = 1
    for extent in reversed(buffer.shape):
        found.append(stride)
        size = typical(extent)
        stride = None if stride is None or size is None else stride * size
    return tuple(found[::-1])


def strides_of(access: Access) -> dict[Loop, int | None]:
    """By how many elements an access moves with each loop that it depends on; None for a loop along which that differs or
    is not known."""
    found: dict[Loop, int | None] = {}
    if access.indices is None or access.buffer is None:
        return dict.fromkeys(access.loops)
    by_var = {loop.var: loop for loop in access.loops}
    for form, stride in zip(access.indices, elements_of(access.buffer), strict=True):
        for dim, coefficient in form.terms.items():
            loop = by_var.get(dim) if not hasattr(dim, "deps") else None
            if loop is None:
                for var in getattr(dim, "deps", ()):
                    if var in by_var:
                        found[by_var[var]] = None
                continue
            before = found.get(loop, 0)
            found[loop] = None if stride is None or before is None else before + coefficient * stride
    return {loop: stride for loop, stride in found.items() if stride != 0}


def perfect_loops(nest: Nest) -> tuple[Loop, ...]:
    """The loops from the outermost one that hold nothing but the next one, or the block or the statement inside."""
    found: list[Loop] = []
    for loop in nest.loops:
        if loop.outer != tuple(found) or not all(loop in statement.loops for statement in nest.statements):
            break
        if found and isinstance(found[-1].node, For) and found[-1].node.body is not loop.node:
            break
        found.append(loop)
    return tuple(found)


def nests_of(func: PrimFunc, any_order: bool = False) -> list[Nest]:
    """The nests of a function, in the order of the text; ``any_order`` is that of each.

    >>> from tirlower.script import parse
    >>> nest, = nests_of(parse('''
    ... def f(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i, j in T.grid(8, 4):
    ...         B[i] = B[i] + A[i, j]
    ... '''))
    >>> nest.title, [str(strides_of(access)) for access in nest.accesses()]
    ('B over i, j', ['{<loop i>: 1}', '{<loop i>: 4, <loop j>: 1}', '{<loop i>: 1}'])
    """
    roots = list(_outermost(func.body))
    if not roots:
        return []
    scop = extract(func)
    loops: dict[int, list[Loop]] = {id(root): [] for root, _ in roots}
    found: dict[int, list[Statement]] = {id(root): [] for root, _ in roots}
    for loop in scop.loops:
        if id(loop.nest[0].node) in loops:
            loops[id(loop.nest[0].node)].append(loop)
    for statement in scop.statements:
        if statement.loops and id(statement.loops[0].node) in found:
            found[id(statement.loops[0].node)].append(statement)
    open_ = _open(scop)
    made: list[Nest] = []
    for root, branch in roots:
        around, inside = loops[id(root)], tuple(found[id(root)])
        left = _left(scop, root, around, inside)
        guarded = () if left else tuple(one for statement in inside for one in open_.get(id(statement), ()))
        if guarded:
            left = f"{guarded[0].access.text} is not proved to be inside its buffer, and is checked as it runs"
        made.append(Nest(func, scop, root, tuple(around), inside, left, any_order, branch, guarded))
    return made


def _outermost(stmt: Stmt, branch: int = 0) -> Iterator[tuple[For, int]]:
    """The outermost loops under a statement, each with the innermost choice around it."""
    if isinstance(stmt, For):
        yield stmt, branch
    elif isinstance(stmt, Seq):
        for one in stmt.stmts:
            yield from _outermost(one, branch)
    elif isinstance(stmt, IfThenElse):
        for case in (stmt.then_case, stmt.else_case):
            if case is not None:
                yield from _outermost(case, id(case))
    elif isinstance(stmt, (AttrStmt, Block)) and not (isinstance(stmt, Block) and stmt.iters):
        yield from _outermost(stmt.body, branch)


def _open(scop: Scop) -> dict[int, list[AccessBounds]]:
    """The accesses that are not proved to be inside their buffers, by their statements' identity."""
    made: dict[int, list[AccessBounds]] = {}
    for found in check_bounds(scop):
        if not (found.verdict.proved and found.inside_source):
            made.setdefault(id(found.access.statement), []).append(found)
    return made


def _left(scop: Scop, root: For, loops: Sequence[Loop], found: Sequence[Statement]) -> str:
    """Why a nest is to be left alone, whatever is proved of its accesses; nothing where it is not."""
    said = scheduled_by_hand(root)
    if said:
        return said
    if scop.irregular:
        return f"the function may end early: {scop.irregular}"
    for loop in loops:
        if loop.leaves or loop.continues or not loop.regular:
            return f"the loop `{loop.name}` may end early"
    for statement in found:
        if any(access.buffer is None or access.indices is None for access in statement.accesses):
            return "it reaches memory through a pointer"
    return "" if found else "it accesses no memory"


def scheduled_by_hand(root: For) -> str:
    """What a person has decided of a statement of a nest, if that is something."""
    return next(filter(None, map(_scheduled, statements(root))), "")


def _scheduled(stmt: Node) -> str:
    if isinstance(stmt, While):
        return "a while loop runs as often as its data says"
    if isinstance(stmt, For):
        if stmt.kind is not ForKind.SERIAL or stmt.thread_tag:
            return f"the loop `{stmt.loop_var.name}` is {stmt.kind.name.lower()} already"
        if stmt.annotations and set(stmt.annotations) != {REDUCTION}:
            return f"the loop `{stmt.loop_var.name}` is annotated: {', '.join(stmt.annotations)}"
    if isinstance(stmt, Block) and stmt.annotations:
        return f"the block `{stmt.name}` is annotated: {', '.join(stmt.annotations)}"
    if isinstance(stmt, AllocBuffer) and stmt.buffer.scope not in ("global", ""):
        if any(not isinstance(extent, IntImm) or extent.value != 1 for extent in stmt.buffer.shape):
            return f"`{stmt.buffer.name}` is in {stmt.buffer.scope} memory"
    return ""
