"""What stands before the recipes: a function whose nests are plain loops, as far as a few steps make them so.

Blocks with loops in them become these loops, loops of one iteration inside of others go, arrays that the program flattened by
sizes of the call are seen in their dimensions, and a scalar that lies outside of the loop that it serves becomes one of each of
its iterations. Nests are as fast with them as without, but no recipe knows them. What no recipe takes may be cut into nests that
one does.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, ParamSpec, cast

from tirlower.autoschedule.classify import Nest, roots_of, scheduled_by_hand, selectors
from tirlower.autoschedule.once import asked_once, take_out
from tirlower.autoschedule.verbs import Verbs
from tirlower.diagnostics import ScheduleError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Mul, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import each, has, mentions
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Bind, Block, BufferStore, For, ForKind, Seq, Stmt, While
from tirlower.poly import where_inside
from tirlower.schedule.handles import LoopRV
from tirlower.schedule.loops.count import counter_of
from tirlower.schedule.schedule import Schedule

__all__ = ["cut", "depth_of_cut", "prepared", "where_all_is_inside"]

P = ParamSpec("P")

ACCESSES: Final = 256
"""Accesses of flat arrays, each of which takes some proofs, that a function may have for their dimensions to be looked for."""

DIMS: Final = 4
"""Sizes of which the extent of a flat array may be the product for its dimensions to be looked for."""

OWN: Final = 1 << 16
"""Elements of an array that takes the place of a scalar of each iteration."""

SCALARS: Final = 32
"""Scalars that a function may have for them to be looked for."""

UNKNOWN: Final = 1 << 12
"""What a loop that the caller alone knows is taken to run."""


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
    begun = _sized(func, _counted(func))
    func = func if begun is None else begun.mod["main"]
    roots = [root for root in roots_of(func) if not scheduled_by_hand(root)]
    blocks = [block.name for block in each(Block, *roots) if _is_of_loops(block)]
    named = [loop for loop in each(For, *roots) if _names_operands(loop)]
    once = [(one, root) for root in roots for one in asked_once(root)]
    single = [loop for root in roots for loop in each(For, root.body) if _is_of_one_iteration(loop)]
    flat = _flat(func) if roots else {}
    if not blocks and not named and not once and not single and not flat and not any(True for _ in _scalars(func)):
        return begun
    sch = begun or Schedule(func)
    verbs = cast("Verbs", sch)
    selected = selectors(func)
    handles = [verbs.loop(selected[id(loop)]) for loop in named]
    ends = [(one, verbs.loop(selected[id(one.loop)]), verbs.loop(selected[id(root)])) for one, root in once]
    alone = [verbs.loop(selected[id(loop)]) for loop in single]
    taken = sum(_is_taken(verbs.as_loops, name) for name in blocks)
    for handle in handles:
        for bind in [one for one in _body(verbs, handle) if isinstance(one, Bind)]:
            taken += _is_taken(verbs.inline_bind, bind.var.name, at=handle)
    for one, loop, root in ends:
        earlier = sch.branch()
        if _is_taken(take_out, verbs, one, loop, root):
            taken += 1
        else:
            sch.become(earlier)
    taken += sum(_is_taken(verbs.simplify, loop) for loop in alone)
    taken += sum(any(_is_taken(verbs.unflatten, name, shape) for shape in shapes) for name, shapes in flat.items())
    now = sch.mod["main"]
    selected, found = selectors(now), list(_scalars(now))
    places = [verbs.loop(selected[id(loop)]) for _, loop in found]
    for (buffer, _), place in zip(found, places, strict=True):
        taken += _is_taken(verbs.privatize, buffer.name, place)
    return sch if taken or begun is not None else None


def _counted(func: PrimFunc) -> Schedule | None:
    """A schedule of a function in which each ``while`` that counts is a loop over its numbers; None where there is none."""
    counters = [(loop, one.name) for loop in each(While, func.body) if (one := counter_of(loop)) is not None]
    if not 0 < len(counters) <= SCALARS:
        return None
    by_hand = {loop for root in roots_of(func) if scheduled_by_hand(root) for loop in each(While, root)}
    sch, taken = Schedule(func), 0
    verbs, left = cast("Verbs", sch), Counter[str]()
    for loop, name in counters:
        if loop not in by_hand and _is_taken(verbs.count, f"{name}#{left[name]}"):
            taken += 1
        else:
            left[name] += 1  # it is a ``while`` still, and the next one of the name stands behind it
    return sch if taken else None


def _sized(func: PrimFunc, begun: Schedule | None) -> Schedule | None:
    """A schedule of a function (``begun``, where steps were taken) in which the names of sizes, ``n = A.shape[0]``, are the sizes
    themselves; that schedule where there are none."""
    func = func if begun is None else begun.mod["main"]
    named = [one.var.name for one in _in_front(func) if one.var.dtype.is_int]
    counts = Counter(one.var.name for one in each(Bind, func.body))
    sizes = [name for name in named if counts[name] == 1][:SCALARS] if roots_of(func) else []
    if not sizes:
        return begun
    sch = begun or Schedule(func)
    taken = sum(_is_taken(cast("Verbs", sch).inline_bind, name) for name in sizes)
    return sch if taken else begun


def _in_front(func: PrimFunc) -> Iterator[Bind]:
    """What is bound to names outside of all loops."""
    left = [func.body]
    while left:
        stmt = left.pop()
        if isinstance(stmt, Bind):
            yield stmt
        elif not isinstance(stmt, (For, While)):
            left += reversed([one for one in stmt.children() if isinstance(one, Stmt)])


def where_all_is_inside(func: PrimFunc, nests: Sequence[Nest], begun: Schedule | None) -> Schedule | None:
    """A schedule of a function (``begun``, where steps were taken) with a version for the sizes of which all accesses of its nests
    are inside their buffers, beside the one that checks them as it runs; None where there are no such sizes to be told.

    >>> from tirlower.autoschedule.classify import nests_of
    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(n: T.int32, m: T.int32, A: T.Buffer((n,), "int32"), B: T.Buffer((m,), "int32")):
    ...     for i in range(m):
    ...         B[i] = A[i]
    ... ''')
    >>> made = where_all_is_inside(func, nests_of(func), None)
    >>> print(made.mod["main"].body.condition)
    T.Cast("int64", n) >= T.Cast("int64", m)
    """
    told = [one for one in nests if one.open]
    conditions = [where_inside(one.scop, one.open) for one in told]
    known = [(one, condition) for one, condition in zip(told, conditions, strict=True) if condition is not None]
    if not known:
        return None
    sch = begun or Schedule(func)
    verbs, selected = cast("Verbs", sch), selectors(func)
    handles = [verbs.loop(selected[id(one.root)]) for one in (nests[0], *(one for one, _ in known), nests[-1])]
    both = functools.reduce(build.logical_and, [condition for _, condition in known])
    if not _is_taken(verbs.specialize, handles[0], str(both), upto=handles[-1]):
        for handle, (_, condition) in zip(handles[1:-1], known, strict=True):
            _is_taken(verbs.specialize, handle, str(condition))
    return sch


def cut(verbs: Verbs, loops: Sequence[LoopRV]) -> set[int]:
    """Cut a nest with several statements in its innermost common loop into a nest of each; no outermost loop stays as it was.
    What an iteration has of its own, scalars and names, becomes an array of the iterations.

    Raises :class:`~tirlower.diagnostics.ScheduleError` where the order of what they do would change; nothing is changed then
    but by steps that were taken before.
    """
    for loop in reversed(loops):
        for name in [one.var.name for one in _body(verbs, loop) if isinstance(one, Bind)]:
            verbs.materialize(name, at=loop)
        for name in [one.buffer.name for one in _body(verbs, loop) if isinstance(one, AllocBuffer)]:
            verbs.expand(name, loop)
        verbs.fission(loop)
    return set()


def _body(verbs: Verbs, loop: LoopRV) -> tuple[Stmt, ...]:
    """The statements in a loop."""
    node = verbs.get(loop)
    assert isinstance(node, For)
    return node.body.stmts if isinstance(node.body, Seq) else (node.body,)


def depth_of_cut(root: For) -> int:
    """How many loops stand directly in each other around several statements, which have no memory but of an element each, of
    which arrays are no larger than :data:`OWN` elements; 0 where it is otherwise."""
    depth, count, loop = 1, _count(root.extent), root
    while isinstance(loop.body, For):
        loop = loop.body
        depth, count = depth + 1, count * _count(loop.extent)
    stmt = loop.body
    if not isinstance(stmt, Seq):
        return 0
    own = [one.buffer for one in stmt.stmts if isinstance(one, AllocBuffer)]
    if not all(_is_scalar(buffer) for buffer in own):
        return 0
    named = any(isinstance(one, Bind) for one in stmt.stmts)
    return depth if count <= OWN or not (own or named) else 0


def _count(extent: Expr) -> int:
    return extent.value if isinstance(extent, IntImm) else UNKNOWN


def _is_taken(verb: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Whether a step is taken; one that is refused changes nothing."""
    try:
        verb(*args, **kwargs)
    except ScheduleError:
        return False
    return True


def _names_operands(loop: For) -> bool:
    """Whether a loop holds one update, of which some operands have names."""
    body = loop.body.stmts if isinstance(loop.body, Seq) else ()
    *names, last = body or (loop,)
    if not names or not all(isinstance(one, Bind) and not has(Call, one.value) for one in names):
        return False
    return isinstance(last, BufferStore) and any(load.buffer is last.buffer for load in each(BufferLoad, last.value))


def _flat(func: PrimFunc) -> dict[str, list[str]]:
    """The arrays of a function that it may have flattened, with the shapes that they may have been."""
    shapes = {buffer: _shapes_of(buffer) for buffer in func.buffers}
    accesses = [one for one in each((BufferLoad, BufferStore), func.body) if shapes.get(one.buffer)]
    return {one.name: found for one, found in shapes.items() if found} if len(accesses) <= ACCESSES else {}


def _shapes_of(buffer: Buffer) -> list[str]:
    """The shapes that a flat array may have been, where its extent is a product of sizes: ``m * n`` elements are m rows, or n."""
    factors = [*_factors(buffer.shape[0])] if len(buffer.shape) == 1 else []
    if not 1 < len(factors) <= DIMS or all(isinstance(one, IntImm) for one in factors[1:]):
        return []
    return [", ".join(map(str, order)) for order in dict.fromkeys(itertools.permutations(factors))]


def _factors(extent: Expr) -> Iterator[Expr]:
    if isinstance(extent, Mul):
        yield from _factors(extent.a)
        yield from _factors(extent.b)
    else:
        yield extent


def _is_of_one_iteration(loop: For) -> bool:
    """Whether a loop only gives its variable a value: columns of an array that has one, say, which make no product of matrices."""
    return (
        loop.kind is ForKind.SERIAL
        and not loop.annotations
        and isinstance(loop.extent, IntImm)
        and loop.extent.value == 1
    )


def _is_of_loops(block: Block) -> bool:
    """Whether a block holds loops, and says nothing of them that plain loops could not say."""
    spatial = all(it.kind is IterKind.SPATIAL for it in block.iters)
    return (
        spatial and bool(block.iters) and any(True for _ in each(For, block.body)) and not any(each(Block, block.body))
    )


def _scalars(func: PrimFunc) -> Iterator[tuple[Buffer, For]]:
    """The scalars that are allocated outside of the innermost loop around all their uses, with that loop; none of a function
    with more than :data:`SCALARS`, each of which would be looked for in all of it."""
    allocated = [
        (seq.stmts[at + 1 :], one.buffer)
        for seq in each(Seq, func.body)
        for at, one in enumerate(seq.stmts)
        if isinstance(one, AllocBuffer) and _is_scalar(one.buffer)
    ]
    if not 0 < len(allocated) <= SCALARS:
        return
    roots = [root for root in roots_of(func) if not scheduled_by_hand(root)]
    free = {id(inner) for inner in each(For, *roots)}
    for behind, buffer in allocated:
        loop = _only_loop(behind, buffer.data)
        if loop is not None and id(loop) in free:
            yield buffer, loop


def _is_scalar(buffer: Buffer) -> bool:
    """Whether a buffer is one element."""
    return all(isinstance(extent, IntImm) and extent.value == 1 for extent in buffer.shape)


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
