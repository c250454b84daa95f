"""``tensorize``: a block that means what an intrinsic's description says is done as the intrinsic says."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument, StricterThanLegal, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tirlower.ir.expr import Expr, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.stmt import Block, Stmt
from tirlower.ir.tensor_intrin import TensorIntrin
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.blocks.blockize import BLOCKIZE
from tirlower.schedule.blocks.intrin_runs import agreement
from tirlower.schedule.blocks.tensor_match import Matcher, Mismatch
from tirlower.schedule.blocks.tensor_unify import Unified, unified
from tirlower.schedule.blocks.tensor_views import misfit
from tirlower.schedule.handles import Handle, LoopRV
from tirlower.schedule.kind import Do, Kind, Slot, Takes
from tirlower.schedule.loops.tile import no_change
from tirlower.schedule.positions import order_verdict
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["TENSORIZE"]


def _intrin(step: Step) -> TensorIntrin:
    given = step["tensor_intrin"]
    if isinstance(given, TensorIntrin):
        return given
    try:
        found = TensorIntrin.get(str(given))
    except TirError as error:
        raise BadArgument(error.message, help=error.help) from error
    assert found is not None
    return found


def _nest(func: PrimFunc) -> tuple[Block | None, Stmt]:
    """The root block of a function, where it has one, and what it does."""
    body = func.body
    if isinstance(body, Block) and not body.iters:
        return body, body.body
    return None, body


def _at(step: Step, block: Block) -> Analyzer:
    """What is known inside the block."""
    analyzer = step.analyzer(step.site(step.handle("block")))
    for it in block.iters:
        analyzer.bind(it.var, it.domain, allow_override=True)
    return analyzer


def _matched(step: Step) -> tuple[Block, Matcher, Unified | None]:
    """The block, where the description's buffers are, and its iterations as those of the description where they run in another
    order."""
    block, intrin = step.stmt(step.handle("block")), _intrin(step)
    if not isinstance(block, Block):
        step.refuse("a function without blocks has no root block to be tensorized")
    if block.match_buffers or block.alloc_buffers:
        step.refuse("the block allocates, or has parts of buffers", block)
    analyzer = _at(step, block)
    matcher, described_body = Matcher(analyzer), _nest(intrin.desc)[1]
    other: Unified | None = None
    try:
        matcher.statements(block.body, described_body)
    except Mismatch as error:
        analyzer = _at(step, block)
        found = unified(analyzer, block.body, described_body)
        if not isinstance(found, Unified):
            error = found or error
            step.refuse(f"the block is not what the intrinsic describes: {error.message}", error.at)
        matcher, other = found.matcher, found
    for described, (buffer, base) in matcher.places.items():
        shape = (*(const(1, "int32") for _ in range(len(base) - len(described.shape))), *described.shape)
        for begin, extent, whole in zip(base, shape, buffer.shape, strict=True):
            stop = build.add(begin, build.cast(begin.dtype, extent))
            if not analyzer.can_prove(build.ge(begin, 0)) or not analyzer.can_prove(build.le(stop, whole)):
                step.refuse(
                    f"{begin} up to {stop} is not known to lie in {buffer.name}, whose extent is {whole}", block
                )
    missing = [buffer.name for buffer in intrin.desc.buffers if buffer not in matcher.places]
    if missing:
        step.refuse(f"the description names {', '.join(missing)} and does not use it", block)
    for described, wanted in zip(intrin.desc.buffers, intrin.impl.buffers, strict=True):
        if said := misfit(analyzer, wanted, *matcher.places[described]):
            step.refuse(f"the implementation cannot take a part of {matcher.places[described][0].name}: {said}", block)
    return block, matcher, other


def _check(step: Step) -> Verdict:
    block, matcher, other = _matched(step)
    if other is not None and other.loops:
        verdict = _in_order(step, other)
        if not verdict.proved:
            return verdict
    if step.policy.accept == "tvm" and (other is not None or matcher.swapped):
        what = "operands are the other way round" if other is None else "loops are others"
        raise StricterThanLegal(
            f"The block `{block.name}` does not match the description of the intrinsic structurally: its {what}",
            help="the step is legal: accept='legal' takes it",
        )
    given = step["tensor_intrin"]
    step.notes.append(agreement(_intrin(step), f"`{given}`" if isinstance(given, str) else "the intrinsic"))
    step.said = "trusted"
    return PROVED


def _in_order(step: Step, other: Unified) -> Verdict:
    """Whether the iterations may run in the order of the description."""
    block = step.site(step.handle("block"))
    inside = [
        Site(block.func, (*block.steps, "body", *way))
        for way, stmt in step.facts.inside(_body(step))
        if stmt is other.loops[0]
    ]
    return order_verdict(step, inside[0], {other.store: other.position}, inside[0])


def _body(step: Step) -> Stmt:
    block = step.stmt(step.handle("block"))
    assert isinstance(block, Block)
    return block.body


def _part(place: tuple[Buffer, tuple[Expr, ...]], region: Sequence[Range]) -> BufferRegion:
    """A region of a described buffer, in the buffer that it is a part of."""
    buffer, base = place
    lead = len(base) - len(region)
    ranges = [Range(begin, const(1, begin.dtype)) for begin in base[:lead]]
    for begin, part in zip(base[lead:], region, strict=True):
        ranges.append(Range(build.add(begin, build.cast(begin.dtype, part.min)), build.cast(begin.dtype, part.extent)))
    return BufferRegion(buffer, tuple(ranges))


def _rewrite(step: Step) -> Change:
    block, matcher, _ = _matched(step)
    intrin = _intrin(step)
    root, body = _nest(intrin.impl)
    matches: list[MatchBufferRegion] = []
    places: dict[Buffer, tuple[Buffer, tuple[Expr, ...]]] = {}
    for described, buffer in zip(intrin.desc.buffers, intrin.impl.buffers, strict=True):
        place = matcher.places[described]
        places[buffer] = place
        whole = [Range(const(0, extent.dtype), extent) for extent in described.shape]
        matches.append(MatchBufferRegion(buffer, _part(place, whole)))
    made = Block(block.name, (), const(1, "bool"), (), (), None, tuple(matches), {}, body)
    fresh = refresh_binders(made)
    assert isinstance(fresh, Block)
    reads, writes = block.reads, block.writes
    if root is not None:
        reads, writes = (
            tuple(_part(places[region.buffer], region.region) for region in side if region.buffer in places)
            for side in (root.reads, root.writes)
        )
    annotations = {**block.annotations, **(root.annotations if root is not None else {})}
    new = block.with_(
        reads=reads, writes=writes, match_buffers=fresh.match_buffers, body=fresh.body, annotations=annotations
    )
    forward = Forward()
    forward.keep(block, new)
    for _, stmt in step.facts.inside(block.body):
        forward.end(stmt, new)
    return Change(Edit(step.site(step.handle("block")), new), forward)


_BLOCK = Kind(
    "TensorizeBlock",
    "tensorize_block",
    (Slot("block", Takes.BLOCK), Slot("tensor_intrin", Takes.INTRIN, attr=True)),
    _rewrite,
    "The part of `tensorize` that is about a block.",
    check=_check,
    tvm=False,
)


def _compose(step: Step, do: Do) -> Sequence[Handle]:
    handle = step.handle("block_or_loop")
    _intrin(step)
    if isinstance(handle, LoopRV):
        (handle,) = do(BLOCKIZE, target=handle, preserve_unit_iters=step["preserve_unit_iters"])
    do(_BLOCK, block=handle, tensor_intrin=step["tensor_intrin"])
    return []


TENSORIZE = Kind(
    "Tensorize",
    "tensorize",
    (
        Slot("block_or_loop", Takes.LOOP_OR_BLOCK),
        Slot("tensor_intrin", Takes.INTRIN, attr=True),
        Slot("preserve_unit_iters", Takes.FLAG, default=True, attr=True),
    ),
    no_change,
    """Do a block (or a loop, of which a block is made first) as a tensor intrinsic does it: by name, or a TensorIntrin.

    The block must mean what the description says: the same operations on parts of its buffers, which the
    implementation then gets as its buffers, in the same iterations. Of a single store these may be counted by other loops, and run in
    another order where that is legal. What is first found to differ is named. That the implementation does what is
    described is trusted: both are run on random arrays, where they can be, and the step says what came of it.

    >>> import tirlower as tl
    >>> from tirlower.ir import TensorIntrin
    >>> from tirlower.script import parse
    >>> intrin = TensorIntrin(*(parse(text) for text in ('''
    ... def desc(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         with T.block("A"):
    ...             vi = T.axis.spatial(4, i)
    ...             A[vi] = 7
    ... ''', '''
    ... def impl(A: T.Buffer((4,), "int32")):
    ...     A[0:4] = T.broadcast(7, 4)
    ... ''')))
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 4), "int32")):
    ...     for i, j in T.grid(8, 4):
    ...         with T.block("A"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             A[vi, vj] = 7
    ... '''))
    >>> sch.tensorize(sch.get_loops("A")[1], intrin)
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8, 4), "int32")):
        for i in range(8):
            with T.block("A_o"):
                vi_o = T.axis.spatial(8, i)
                vj_o = T.axis.spatial(1, 0)
                T.reads()
                T.writes(A[vi_o, 0:4])
                A_1 = T.match_buffer(A[vi_o, 0:4], (4,))
                A_1[0:4] = T.Broadcast(7, 4)
    """,
    compose=_compose,
)
