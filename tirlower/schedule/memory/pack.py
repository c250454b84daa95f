"""``pack``: what reads touch of a buffer, copied and laid out in the order in which it is read."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.dtype import INT32
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, as_expr, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.index_map import IndexMap
from tirlower.ir.path import Path
from tirlower.ir.stmt import AllocBuffer, For, ForKind, Stmt
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.handles import LoopRV
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of
from tirlower.schedule.memory.staging import (
    box_of,
    buffer_named,
    copy_nest,
    no_pointers,
    redirect,
    touched_under,
)
from tirlower.schedule.places import common_place, loops_at, reading, statements_at
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["PACK", "index_map_of"]

MOST_LANES = 64


def index_map_of(given: object, dims: int, dtype: str = "int32") -> IndexMap:
    """An index map, or a function of so many indices as one. Raises :class:`BadArgument`."""
    if isinstance(given, IndexMap):
        if len(given.initial_indices) != dims:
            raise BadArgument(f"the map {given} takes {len(given.initial_indices)} indices, not {dims}")
        return given
    assert callable(given)
    try:
        return IndexMap.from_func(given, dims, index_dtype=dtype)
    except (TirError, TypeError) as error:
        raise BadArgument(f"the map is no function of {dims} indices: {error}") from error


def _place(step: Step) -> tuple[str, Steps]:
    """The function, and the statement around which the packed copy stands."""
    handle = step["at"]
    if isinstance(handle, LoopRV):
        site = step.site(handle)
        return site.func, (*site.steps, "body")
    name = function_of(step.state)
    func = step.state.mod[name]
    buffer = buffer_named(step, func, step["buffer"])
    readers = [path for path, _ in reading(step.facts, func, buffer)]
    if not readers:
        step.refuse(f"nothing reads {buffer.name}")
    around = common_place(readers)
    for path, stmt in statements_at(func, around):
        if isinstance(stmt, For):
            return name, path
    return name, around


def _make(step: Step) -> Made:
    name, path = _place(step)
    func = step.state.mod[name]
    buffer = buffer_named(step, func, step["buffer"], path)
    no_pointers(step, func, buffer, path)
    accesses = [access for access in touched_under(step, func, buffer, path) if not access.is_write]
    if not accesses:
        step.refuse(f"nothing there reads {buffer.name}")
    box = box_of(step, func, buffer, path, accesses)
    extents, dims = list(box.shape), len(box.shape)
    given = step["layout"]
    layout = index_map_of(given if given is not None else lambda *at: list(at), dims)
    try:
        shape = layout.map_shape(extents)
        inverse, padding = layout.non_surjective_inverse(extents)
    except TirError as error:
        step.refuse(f"{error.message}", help=error.help)
    wanted = str(step["name"]) if step["name"] is not None else f"{buffer.name}_packed"
    target = Buffer(wanted, tuple(shape), buffer.dtype, scope=str(step["scope"]))
    draft = Draft(step, name)
    known = _known(step, draft, path)

    def packed(indices: Sequence[Expr]) -> list[Expr]:
        inner = [build.sub(index, build.cast(index.dtype, low)) for index, low in zip(indices, box.mins, strict=True)]
        return [known.simplify(index) for index in layout.map_indices([known.simplify(one) for one in inner])]

    def source(axes: Sequence[Var]) -> list[Expr]:
        found = inverse.map_indices(list(axes))
        return [known.simplify(build.add(low, at)) for low, at in zip(box.mins, found, strict=True)]

    def value(axes: Sequence[Var], load: Expr) -> Expr:
        inside = box.inside(inverse.map_indices(list(axes)))
        if not is_const_int(padding, 0):
            outside = substitute(padding, dict(zip(inverse.initial_indices, axes, strict=True)))
            full = build.logical_not(outside)
            inside = full if inside is None else build.logical_and(full, inside)
        if inside is None:
            return load
        filler = build.cast(buffer.dtype, as_expr(step["pad"]))
        return build.if_then_else(known.simplify(inside), load, filler)

    redirect(draft, buffer, target, path, packed, stores=False)
    nest, store = copy_nest(target, buffer, shape, list, source, value=value)
    draft.copy(store)
    nest = _with_kinds(nest, isinstance(store.value, BufferLoad), bool(step["parallel"]))
    draft.before(path, AllocBuffer(target), nest)
    loops: list[Stmt] = []
    stmt = nest
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return Made(draft, tuple(loops))


def _known(step: Step, draft: Draft, path: Steps) -> Analyzer:
    """What is known of the names under a place."""
    known = Analyzer()
    for _, loop in loops_at(draft.old, path):
        known.bind(loop.loop_var, Range(loop.min, loop.extent))
    root = Path(path).chain(draft.old)[-1]
    assert isinstance(root, Stmt)
    for _, stmt in step.facts.inside(root):
        if isinstance(stmt, For):
            known.bind(stmt.loop_var, Range(stmt.min, stmt.extent))
        for it in getattr(stmt, "iters", ()):
            known.bind(it.var, it.domain)
    return known


def _with_kinds(nest: Stmt, whole: bool, parallel: bool) -> Stmt:
    """The copy's loops: the outermost parallel if that is asked for; the innermost vectorized where it reads in order."""
    loops: list[For] = []
    body = nest
    while isinstance(body, For):
        loops.append(body)
        body = body.body
    if not loops:
        return nest
    last = loops[-1]
    if whole and isinstance(last.extent, IntImm) and 1 < last.extent.value <= MOST_LANES and _in_order(body, last):
        loops[-1] = last.with_(kind=ForKind.VECTORIZED)
    if parallel and len(loops) > 1:
        loops[0] = loops[0].with_(kind=ForKind.PARALLEL)
    for loop in reversed(loops):
        body = loop.with_(body=body)
    return body


def _in_order(store: Stmt, loop: For) -> bool:
    """Whether neighbouring iterations read neighbouring elements."""
    load = getattr(store, "value", None)
    if not isinstance(load, BufferLoad):
        return False
    known = Analyzer()
    known.bind(loop.loop_var, Range(loop.min, loop.extent))
    one = const(1, INT32)
    steps = [
        known.simplify(build.sub(substitute(at, {loop.loop_var: build.add(loop.loop_var, one)}), at))
        for at in load.indices
    ]
    return all(is_const_int(step, 0) for step in steps[:-1]) and is_const_int(steps[-1], 1)


_STEP = ValueStep(_make)
PACK = Kind(
    "Pack",
    "pack",
    (
        Slot("buffer", Takes.MEMORY, attr=True),
        Slot("at", Takes.LOOP, default=None),
        Slot("layout", Takes.LAYOUT, default=None, attr=True, of="buffer"),
        Slot("pad", Takes.VALUE, default=0, attr=True, extra=True),
        Slot("name", Takes.STRING, default=None, attr=True, extra=True),
        Slot("scope", Takes.STRING, default="global", attr=True, extra=True),
        Slot("parallel", Takes.FLAG, default=False, attr=True, extra=True),
    ),
    _STEP.rewrite,
    """Copy what is read of a buffer in an iteration of a loop, at the head of its body, laid out by a map of the indices
    (which count from the first element that is copied). Without ``at``, in front of all loops that read it.

    Legal where nothing writes what is read in between, and the map puts no two elements in one place. What the map leaves
    empty holds ``pad``. Returns the loops of the copy.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((16, 8), "int32"), C: T.Buffer((16,), "int32")):
    ...     for i, k in T.grid(16, 8):
    ...         C[i] = C[i] + A[i, k]
    ... '''))
    >>> loops = sch.pack("A", layout=lambda i, k: [i // 4, k, i % 4])
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((16, 8), "int32"), C: T.Buffer((16,), "int32")):
        A_packed = T.alloc_buffer((4, 8, 4), "int32")
        for ax0, ax1, ax2 in T.grid(4, 8, 4):
            A_packed[ax0, ax1, ax2] = A[ax0 * 4 + ax2, ax1]
        for i, k in T.grid(16, 8):
            C[i] = C[i] + A_packed[i // 4, k, i % 4]
    """,
    check=_STEP.check,
    returns="many",
    tvm=False,
)
