"""What stands before the recipes: a function whose nests are plain loops, as far as a few steps make them so.

Blocks with loops in them become these loops, and a scalar that lies outside of the loop that it serves becomes one of each of its
iterations. Nests are as fast with them as without, but no recipe knows them. What no recipe takes may be cut into nests that
one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, cast

from tirlower.autoschedule.classify import roots_of, scheduled_by_hand, selectors
from tirlower.autoschedule.verbs import Verbs
from tirlower.diagnostics import ScheduleError
from tirlower.ir.buffer import Buffer, IterKind
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Block, BufferStore, For, Seq, Stmt
from tirlower.schedule.handles import LoopRV
from tirlower.schedule.schedule import Schedule

__all__ = ["cut", "depth_of_cut", "prepared"]

P = ParamSpec("P")


def prepared(func: PrimFunc) -> Schedule | None:
    """A schedule of a function with the steps taken; None where there are none to take.

    >>> from tirlower.script import parse
    >>> made = prepared(parse('''
    ... def f(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8,), "int32")):
    ...     total = T.alloc_buffer((1,), "int32", scope="local")
    ...     for i in range(8):
    ...         total[0] = 0
    ...         for k in range(4):
    ...             total[0] += A[i, k]
    ...         B[i] = total[0]
    ... '''))
    >>> [str(step.instruction.kind.name) for step in made.steps if not step.instruction.kind.pure]
    ['Privatize']
    """
    roots = [root for root in roots_of(func) if not scheduled_by_hand(root)]
    blocks = [block.name for block in each(Block, *roots) if _is_of_loops(block)]
    if not blocks and not any(True for _ in _scalars(func)):
        return None
    sch = Schedule(func)
    verbs = cast("Verbs", sch)
    taken = sum(_is_taken(verbs.as_loops, name) for name in blocks)
    tried: set[Var] = set()
    while found := next((one for one in _scalars(sch.mod["main"]) if one[0].data not in tried), None):
        buffer, loop = found
        tried.add(buffer.data)
        taken += _is_taken(verbs.privatize, buffer.name, verbs.loop(selectors(sch.mod["main"])[id(loop)]))
    return sch if taken else None


def cut(verbs: Verbs, loops: Sequence[LoopRV]) -> list[LoopRV]:
    """Cut a nest with several statements in its innermost common loop into a nest of each: the handles of the outermost loops.

    Raises :class:`~tirlower.diagnostics.ScheduleError` where the order of what they do would change; nothing is changed then
    but by steps that were taken before.
    """
    made: list[LoopRV] = []
    for loop in reversed(loops):
        made = verbs.fission(loop)
    return made


def depth_of_cut(root: For) -> int:
    """How many loops stand directly in each other around several statements; 0 where there is memory of each iteration."""
    depth, stmt = 1, root.body
    while isinstance(stmt, For):
        depth, stmt = depth + 1, stmt.body
    several = isinstance(stmt, Seq) and not any(isinstance(one, AllocBuffer) for one in stmt.stmts)
    return depth if several else 0


def _is_taken(verb: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Whether a step is taken; one that is refused changes nothing."""
    try:
        verb(*args, **kwargs)
    except ScheduleError:
        return False
    return True


def _is_of_loops(block: Block) -> bool:
    """Whether a block holds loops, and says nothing of them that plain loops could not say."""
    spatial = all(it.kind is IterKind.SPATIAL for it in block.iters)
    return (
        spatial and bool(block.iters) and any(True for _ in each(For, block.body)) and not any(each(Block, block.body))
    )


def _scalars(func: PrimFunc) -> Iterator[tuple[Buffer, For]]:
    """The scalars that are allocated outside of the innermost loop around all their uses, with that loop."""
    free: set[int] | None = None
    for seq in each(Seq, func.body):
        for at, one in enumerate(seq.stmts):
            if isinstance(one, AllocBuffer) and all(isinstance(n, IntImm) and n.value == 1 for n in one.buffer.shape):
                loop = _only_loop(seq.stmts[at + 1 :], one.buffer.data)
                if loop is None:
                    continue
                if free is None:
                    roots = [root for root in roots_of(func) if not scheduled_by_hand(root)]
                    free = {id(inner) for inner in each(For, *roots)}
                if id(loop) in free:
                    yield one.buffer, loop


def _only_loop(stmts: Sequence[Stmt], data: Var) -> For | None:
    """The innermost loop around all uses of a scalar in some statements."""
    found: For | None = None
    while True:
        users = [one for one in stmts if _uses(one, data)]
        if len(users) != 1:
            return found
        [user] = users
        if isinstance(user, For):
            if _uses(user.min, data) or _uses(user.extent, data):
                return found
            found = user
        if not isinstance(user, (For, Seq, AttrStmt)):
            return found
        stmts = user.stmts if isinstance(user, Seq) else (user.body,)


def _uses(node: Stmt | Expr, data: Var) -> bool:
    return any(op.buffer.data is data for op in each((BufferLoad, BufferStore), node)) or mentions(node, (data,))
