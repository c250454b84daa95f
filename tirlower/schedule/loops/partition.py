"""``loop_partition``: a loop becomes several loops behind each other, over ranges of its iterations."""

from __future__ import annotations

from tirlower.analysis.access_region import get_block_read_write_region
from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.expr import Expr, IntImm, const
from tirlower.ir.stmt import Block, For, ForKind, Seq, Stmt
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.bounds import bounds_stay
from tirlower.schedule.loops.copies import names_of_blocks, part_of, twinned
from tirlower.schedule.loops.split import factors_of
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["LOOP_PARTITION"]


def _sizes(step: Step, loop: For, analyzer: Analyzer) -> list[Expr]:
    """How many iterations each of the parts has. Raises BadArgument where they are more than there are."""
    given = factors_of(step, str(loop.loop_var.dtype))
    known = [size for size in given if size is not None]
    total: Expr = const(0, loop.loop_var.dtype)
    for size in known:
        total = build.add(total, size)
    rest = analyzer.simplify(build.sub(loop.extent, total))
    enough = analyzer.can_prove(build.gt(rest, const(0, rest.dtype)))
    if not enough and isinstance(rest, IntImm):
        raise BadArgument(
            f"The sum of the factors, {total}, is not less than the extent {loop.extent} of loop `{loop.loop_var.name}`",
            help="the last part takes what the others leave",
        )
    if not enough:
        step.refuse(
            f"the sum of the factors, {total}, is not known to be less than the extent {loop.extent}",
            loop,
            "state it with T.assume(…)",
        )
    for size in known:
        if not isinstance(size, IntImm) and not analyzer.can_prove(build.ge(size, const(0, size.dtype))):
            step.refuse(f"the factor {size} is not known to be positive", loop, "state it with T.assume(…)")
    sizes = [rest if size is None else size for size in given]
    return sizes if None in given else [*sizes, rest]


def _check(step: Step) -> Verdict:
    handle = step.handle("loop")
    loop = step.loop(handle)
    if loop.kind in (ForKind.THREAD_BINDING, ForKind.VECTORIZED):
        what = f"bound to {loop.thread_tag}" if loop.kind is ForKind.THREAD_BINDING else "vectorized"
        step.refuse(f"the loop is {what}: its iterations run in step", loop, "partition it before")
    if step.facts.leaves(loop):
        step.refuse("a statement leaves the loop early, which would leave one part alone", loop)
    bounds_stay(step, [loop])
    _sizes(step, loop, step.analyzer(step.site(handle)))
    return PROVED


def _rewrite(step: Step) -> Change:
    handle = step.handle("loop")
    loop, site = step.loop(handle), step.site(handle)
    analyzer, taken = step.analyzer(site), names_of_blocks(step, site.func)
    sizes = _sizes(step, loop, analyzer)
    most = _longest(sizes, analyzer)
    begin, parts = loop.min, list[For]()
    block = _only_block(loop.body)
    for at, size in enumerate(sizes):
        # In TVM's form all copies are renamed; elsewhere the longest part keeps the names.
        copied = None if at == most and block is None else (f"{loop.loop_var.name}{at}", taken)
        parts.append(part_of(loop, begin, size, f"{loop.loop_var.name}{at}", copied))
        begin = analyzer.simplify(build.add(begin, size))
    forward = Forward()
    twinned(forward, loop.body, parts[most].body, [part.body for at, part in enumerate(parts) if at != most])
    forward.end(loop, *parts)
    made: Stmt = Seq(tuple(parts)) if len(parts) > 1 else parts[0]
    if block is not None:
        made = _in_blocks(block.name, loop.loop_var.name, parts)
    return Change(Edit(site, made), forward, tuple(parts))


def _longest(sizes: list[Expr], analyzer: Analyzer) -> int:
    """The part that has most of the iterations; of those of unknown size, the last."""
    lengths = [analyzer.const_int_bound(size).max_value for size in sizes]
    return max(range(len(sizes)), key=lambda at: lengths[at])


def _only_block(body: Stmt) -> Block | None:
    """The block to which a chain of loops leads, as TVM asks for."""
    while isinstance(body, For):
        body = body.body
    return body if isinstance(body, Block) else None


def _in_blocks(name: str, loop: str, parts: list[For]) -> Stmt:
    """The parts in blocks of their own, in one block: TVM's form."""
    inner: list[Stmt] = []
    for at, part in enumerate(parts):
        inner.append(_block(f"{name}_{loop}{at}_partition", part))
    return _block(f"{name}_{loop}_common", Seq(tuple(inner)))


def _block(name: str, body: Stmt) -> Block:
    made = Block(name, (), const(1, "bool"), (), (), None, (), {}, body)
    reads, writes = get_block_read_write_region(made)
    return made.with_(reads=tuple(reads), writes=tuple(writes))


LOOP_PARTITION = Kind(
    "LoopPartition",
    "loop_partition",
    (
        Slot("loop", Takes.LOOP),
        Slot("factors", Takes.COUNT, many=True),
        Slot("preserve_unit_iters", Takes.FLAG, default=True, attr=True),
    ),
    _rewrite,
    """Cut the iterations of a loop into ranges, each with a loop of its own; always legal.

    ``factors``: how many iterations each range has, in their order; one may be None, and a last one takes what they leave.
    A factor may be the text of an expression over sizes and loops around: ``["k"]``. The loops are ``i0``, ``i1`` …; blocks
    get names with these. A nest around one block comes to stand in blocks ``B_i0_partition`` …, as in TVM. Returns the loops.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((10,), "int32")):
    ...     for i in range(10):
    ...         A[i] = i
    ... '''))
    >>> sch.loop_partition("i", [2])
    [LoopRV('i0'), LoopRV('i1')]
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((10,), "int32")):
        for i0 in range(2):
            A[i0] = i0
        for i1 in range(2, 10):
            A[i1] = i1
    """,
    check=_check,
    returns="many",
)
