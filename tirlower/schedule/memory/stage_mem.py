"""``stage_mem``: what a statement touches of a buffer, in memory of its own while the statement runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tirlower.arith.analyzer import ConstIntBound
from tirlower.diagnostics import BadArgument
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import Expr, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.path import Path
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, BufferStore, For, Stmt
from tirlower.poly.footprint import Footprint
from tirlower.poly.scop import Access
from tirlower.schedule.draft import Made
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.masked_box import masked_box
from tirlower.schedule.memory.staging import (
    Box,
    Candidates,
    box_of,
    buffer_named,
    no_pointers,
    stage,
    touched_under,
    window_of,
)
from tirlower.schedule.places import comes_before, loads_in, loops_at, reading, writing
from tirlower.schedule.sites import Site, Steps, at_site
from tirlower.schedule.step import Step

__all__ = ["STAGE_MEM", "stages"]

_WAYS = ("auto", True, False)
Bounds: TypeAlias = list[ConstIntBound]


def stages(
    step: Step,
    func_name: str,
    path: Steps,
    buffer: Buffer,
    window: Sequence[Range],
    name: str,
    scope: str,
    load: object = "auto",
    store: object = "auto",
    unless: Expr | None = None,
) -> list[Callable[[], Made]]:
    """The drafts of a stage around a statement, from the one with the fewest copies on."""
    func: PrimFunc = step.state.mod[func_name]
    no_pointers(step, func, buffer, path)
    accesses = touched_under(step, func, buffer, path)
    if not accesses:
        step.refuse(f"nothing there accesses {buffer.name}")
    if window and len(window) != len(buffer.shape):
        raise BadArgument(f"the window has {len(window)} ranges, and {buffer.name} {len(buffer.shape)} dimensions")
    if window:
        box = Box.of(window)
    else:
        box = masked_box(step, func, buffer, path) or box_of(step, func, buffer, path, accesses)
    writes = any(access.is_write for access in accesses)
    filled = writes and not _reads_first(step, Site(func_name, path), accesses, unless)
    loads = [bool(load)] if load != "auto" else [False, True] if filled else [True]
    if store != "auto":
        stores = [bool(store)]
    else:
        stores = [False, True] if writes and not _is_the_result(step, func_name, path, buffer) else [writes]

    def drafted(with_load: bool, with_store: bool, guard: Expr | None) -> Made:
        made = stage(
            step,
            func_name,
            path,
            buffer,
            box,
            name=name,
            scope=scope,
            load=with_load,
            store=with_store,
            unless=guard,
        )
        made.draft.stated = bool(window)
        loops = [loop for nest in (made.load, made.store) if nest is not None for loop in each(For, nest)]
        return Made(made.draft, tuple(loops))

    ways: list[tuple[bool, bool, Expr | None]] = [(a, b, None) for a in loads for b in stores]
    if unless is not None and True in loads:
        guarded: list[tuple[bool, bool, Expr | None]] = [(True, b, unless) for b in stores]
        ways = [*(way for way in ways if not way[0]), *guarded, *(way for way in ways if way[0])]
    return [lambda a=a, b=b, guard=guard: drafted(a, b, guard) for a, b, guard in ways]  # type: ignore[misc]


def _reads_first(step: Step, site: Site, accesses: Sequence[Access], unless: Expr | None) -> bool:
    """Whether something is certainly read that nothing there has written: a stage that loads nothing needs no proof."""
    if unless is not None:
        return not step.analyzer(site).can_prove(unless)
    return not accesses[0].is_write


def _is_the_result(step: Step, func_name: str, path: Steps, buffer: Buffer) -> bool:
    """Whether what is written of a buffer at a place certainly stays there, and is looked at elsewhere or behind the function: a
    stage that stores nothing needs no proof."""
    func = step.state.mod[func_name]
    inside: list[Site] = []
    outside: list[Site] = []
    for way, _ in writing(step.facts, func, buffer):
        (inside if way[: len(path)] == path else outside).append(Site(func_name, way))
    later = [site for site in outside if not comes_before(func, site.steps, path)]
    given = buffer in func.buffers
    mine: list[Bounds] = [] if given and not later else [_bounds(step, one) for one in inside]
    if not _are_apart(mine, [_bounds(step, one) for one in later]):
        return given and _writes_more(step, func, buffer, inside, later)
    if given:
        return True
    reads = [Site(func_name, way) for way, _ in reading(step.facts, func, buffer) if way[: len(path)] != path]
    if not outside:
        return bool(reads)
    # Other parts of the buffer are written elsewhere, and may be all that is read there.
    seen = [bounds for site in reads for bounds in _bounds_of_loads(step, site, buffer)]
    return not _are_apart(mine, seen)


def _writes_more(step: Step, func: PrimFunc, buffer: Buffer, some: Sequence[Site], others: Sequence[Site]) -> bool:
    """Whether some stores certainly write an element that others do not, for some sizes at least."""
    scop = step.facts.scop(func)
    found: list[Footprint] = []
    for sites in (some, others):
        nodes = {id(at_site(step.state.mod, site)) for site in sites}
        accesses = [a for a in scop.accesses if a.is_write and id(a.node) in nodes]
        if not accesses or any(a.buffer is not buffer or a.indices is None for a in accesses):
            return False
        found.append(Footprint(scop, buffer, (), accesses))
    return found[0].exceeds(found[1])


def _are_apart(some: Sequence[Bounds], others: Sequence[Bounds]) -> bool:
    """Whether the bounds of subscripts say that none is of an element that one of the others is of."""
    return all(
        any(a.max_value < b.min_value or b.max_value < a.min_value for a, b in zip(mine, theirs, strict=True))
        for mine in some
        for theirs in others
    )


def _bounds(step: Step, site: Site) -> Bounds:
    """The bounds of the subscripts of a store."""
    store, analyzer = at_site(step.state.mod, site), step.analyzer(site)
    assert isinstance(store, BufferStore)
    return [analyzer.const_int_bound(index) for index in store.indices]


def _bounds_of_loads(step: Step, site: Site, buffer: Buffer) -> list[Bounds]:
    """The bounds of the subscripts of the loads of a buffer in a statement."""
    stmt, analyzer = at_site(step.state.mod, site), step.analyzer(site)
    assert isinstance(stmt, Stmt)
    return [[analyzer.const_int_bound(index) for index in load.indices] for load in loads_in(stmt, buffer)]


def _make(step: Step) -> list[Callable[[], Made]]:
    handle = step.handle("where")
    site = step.site(handle)
    func = step.func(site)
    path = (*site.steps, "body") if step["inside"] else site.steps
    for word in ("load", "store"):
        if step[word] not in _WAYS:
            raise BadArgument(f"{word}= is 'auto', True or False, got {step[word]!r}")
    given, window = step["window"], list[Range]()
    if isinstance(given, str):
        given, window = window_of(step, func, path, given)
    buffer = buffer_named(step, func, given, path)
    scope = str(step["scope"])
    name = str(step["name"]) if step["name"] is not None else f"{buffer.name}_{scope.replace('.', '_')}"
    unless = _begun(step, func, path, buffer)
    return stages(step, site.func, path, buffer, window, name, scope, step["load"], step["store"], unless)


def _begun(step: Step, func: PrimFunc, path: Steps, buffer: Buffer) -> Expr | None:
    """Where an init under a place writes all that is updated there, as a condition on the loops around: nothing is loaded."""
    root = Path(path).chain(func)[-1]
    assert isinstance(root, Stmt)
    around = {loop.loop_var for _, loop in loops_at(func, path)}
    for _, stmt in step.facts.inside(root):
        if isinstance(stmt, Block) and any(region.buffer is buffer for region in stmt.writes):
            if is_const_int(stmt.predicate, 1) or any(region.buffer is buffer for region in stmt.reads):
                return None
            free = set(each(Var, stmt.predicate))
            return stmt.predicate if free <= around else None
    return None


_STEP = Candidates(_make)
STAGE_MEM = Kind(
    "StageMem",
    "stage_mem",
    (
        Slot("where", Takes.PLACE),
        Slot("window", Takes.MEMORY, attr=True),
        Slot("name", Takes.STRING, default=None, attr=True, extra=True),
        Slot("scope", Takes.STRING, default="local", attr=True, extra=True),
        Slot("load", Takes.VALUE, default="auto", attr=True, extra=True),
        Slot("store", Takes.VALUE, default="auto", attr=True, extra=True),
        Slot("inside", Takes.FLAG, default=False, attr=True, extra=True),
    ),
    _STEP.rewrite,
    """Keep what a loop or block touches of a buffer in memory of its own while it runs: copied in before it and out after it.

    ``window``: a buffer (what is touched, as a box), or a part of one, ``"C[i0*8:+8, j0*32:+32]"``, which covers all that is
    touched. It is copied in where what was there before is read, and out where what is written is read later; ``load``
    and ``store`` say so instead. ``inside``: around the body of the loop, in each iteration. Returns the loops of the copies
    that there are, those of the copy in first.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    ...     for i, k in T.grid(4, 8):
    ...         C[i] = C[i] + A[i, k]
    ... '''))
    >>> len(sch.stage_mem("k", "C"))
    2
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            C_local = T.alloc_buffer((1,), "int32", scope="local")
            for ax0 in range(1):
                C_local[ax0] = C[i + ax0]
            for k in range(8):
                C_local[0] = C_local[0] + A[i, k]
            for ax0 in range(1):
                C[i + ax0] = C_local[ax0]
    """,
    check=_STEP.check,
    returns="many",
    tvm=False,
)
