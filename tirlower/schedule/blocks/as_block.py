"""``as_block``: a statement or nest of plain loops becomes a block, with iterators and regions that are found."""

from __future__ import annotations

from tirlower.analysis.access_region import get_block_read_write_region
from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import IterKind, Range
from tirlower.ir.expr import Expr, Var, const
from tirlower.ir.functor import substitute
from tirlower.ir.path import Path, replace_at
from tirlower.ir.query import each, mentions
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import Block, BlockIter, For, ForKind, Stmt
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import loops_around
from tirlower.schedule.loops.bounds import may_change
from tirlower.schedule.regions import has_opaque_call
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["AS_BLOCK"]

WIDE = 1 << 30
"""A loop that may run longer is bounded by its type alone."""


def _rewrite(step: Step) -> Change:
    handle = step.handle("stmt")
    site, stmt = step.site(handle), step.stmt(handle)
    if not isinstance(stmt, Stmt) or isinstance(stmt, Block):
        step.refuse("it is a block already", stmt if isinstance(stmt, Stmt) else None)
    if any(each(Block, stmt)):
        step.refuse("there are blocks in it", stmt, "blockize makes a block of loops around one")
    if has_opaque_call(stmt):
        step.refuse("a call in it may touch anything, so that its regions are not known", stmt)
    analyzer = step.analyzer(site)
    iters: list[BlockIter] = []
    values: dict[Var, Expr] = {}
    for place in loops_around(step, site):
        loop = step.chain(place)[-1]
        assert isinstance(loop, For)
        if mentions(stmt, {loop.loop_var}):
            made = _iter(step, place, loop, analyzer)
            iters.append(made)
            values[loop.loop_var] = made.var
    body = substitute(stmt, values)
    written = [buffer.name for buffer in step.stage("stmt").writes]
    name = str(step["name"] or (written or [stmt.loop_var.name if isinstance(stmt, For) else "block"])[0])
    block = Block(name, tuple(iters), const(1, "bool"), (), (), None, (), {}, body)
    reads, writes = get_block_read_write_region(block)
    block = block.with_(reads=tuple(reads), writes=tuple(writes))
    forward = Forward()
    forward.like(stmt, body)
    func = step.func(site)
    if isinstance(func.body, Block) and not func.body.iters:
        return Change(Edit(site, block), forward, (block,), relabel={})
    # A function with blocks has a root.
    path = Path(site.steps)
    new = replace_at(func, path, block)
    for old, one in zip(path.chain(func)[1:-1], path.chain(new)[1:-1], strict=True):
        if isinstance(old, Stmt) and isinstance(one, Stmt):
            forward.keep(old, one)
    root = Block("root", (), const(1, "bool"), (), (), None, (), {}, new.body)
    return Change(Edit(Site(site.func, ("body",)), root), forward, (block,), relabel={})


def _iter(step: Step, place: Site, loop: For, analyzer: Analyzer) -> BlockIter:
    """The iterator of a block in a loop: all values that the loop ever takes."""
    var = copy_var(loop.loop_var, f"v{loop.loop_var.name}")
    if may_change(step, [loop], place, step.func(place).body):
        step.refuse(
            f"the function may change what the bounds of the loop `{loop.loop_var.name}` are read from, and a block "
            "says in each instance which values its iterators have",
            loop,
            "bind the extent to a name in front of the loop",
        )
    outer = [stmt.loop_var for stmt in step.chain(place)[:-1] if isinstance(stmt, For)]
    domain = Range(build.cast(var.dtype, loop.min), build.cast(var.dtype, loop.extent))
    if mentions(loop.min, outer) or mentions(loop.extent, outer):
        last = analyzer.simplify(build.sub(build.add(loop.min, loop.extent), const(1, var.dtype)))
        least, most = analyzer.const_int_bound(loop.min).min_value, analyzer.const_int_bound(last).max_value
        if most - least > WIDE:
            step.refuse(
                f"the bounds of the loop `{loop.loop_var.name}` depend on other loops, and no numbers bound it",
                loop,
                "state its bounds with sch.assume",
            )
        domain = Range(const(int(least), var.dtype), const(int(most - least) + 1, var.dtype))
    return BlockIter(var, domain, _kind(step, place, loop), loop.loop_var)


def _kind(step: Step, place: Site, loop: For) -> IterKind:
    """What the iterations of a loop are to each other: apart, updates of one sum, or neither.

    Sums of floats in another order are licensed by reduction iterators: only who asks for them has these.
    """
    func = step.func(place)
    if step.facts.concurrent(func, place.steps, loop, ForKind.PARALLEL).proved:
        return IterKind.SPATIAL
    if not step.facts.concurrent(func, place.steps, loop, ForKind.PARALLEL, reductions=True).proved:
        return IterKind.OPAQUE
    exact = step.facts.reorders(func, place.steps, loop)
    return IterKind.REDUCE if exact or step["reorderable"] or step.policy.reassociate is True else IterKind.OPAQUE


AS_BLOCK = Kind(
    "AsBlock",
    "as_block",
    (
        Slot("stmt", Takes.STAGE),
        Slot("name", Takes.STRING, default=None, attr=True),
        Slot("reorderable", Takes.FLAG, default=False, attr=True),
    ),
    _rewrite,
    """Make a block of a statement or nest of plain loops; always legal. Its name is that of the buffer that it writes, if none is given.
    Refused where the function writes what the bounds of a loop around are read from: bind these to names first.

    It has an iterator for each loop around (up to the next block) that it uses: spatial where the iterations are apart, a
    reduction where they are updates of one sum, opaque else. The iterations of a sum of floats are opaque too, unless
    ``reorderable=True`` says that they may be added in another order. Returns the block.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         for k in range(8):
    ...             C[i] += A[i, k]
    ... '''))
    >>> sch.as_block(sch.find("C[_] += _"), "sum")
    BlockRV('sum')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        for i, k in T.grid(4, 8):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(C[vi], A[vi, vk])
                T.writes(C[vi])
                C[vi] = C[vi] + A[vi, vk]
    """,
    returns="one",
    tvm=False,
)
