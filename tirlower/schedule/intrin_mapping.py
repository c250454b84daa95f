"""How the description of an intrinsic lies on a block: which loops are its loops, which iterators are its iterators.

Only a guess by form, as TVM makes it, from which the tiles of a schedule are chosen; ``tensorize`` decides whether it is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.index_map import IndexMap
from tirlower.ir.query import mentions
from tirlower.ir.stmt import Block, BlockIter, BufferStore, For, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.schedule.handles import BlockRV
from tirlower.schedule.pairing import ways
from tirlower.schedule.schedule import Schedule
from tirlower.schedule.views import StmtSRef

__all__ = [
    "AutoTensorizeMappingInfo",
    "TensorizeInfo",
    "block_with_place",
    "get_auto_tensorize_mapping_info",
    "get_tensorize_loop_mapping",
]


@dataclass(frozen=True)
class TensorizeInfo:
    """``loop_map``: the loop of the description that each loop of the block stands for; ``desc_loop_indexer``: its number,
    the outermost is 0. ``block_iter_paddings``: of what number each iterator of the block has to run over a multiple; None
    where all do.
    """

    loop_map: Mapping[StmtSRef, For]
    desc_loop_indexer: Mapping[For, int]
    block_iter_paddings: list[int] | None = None


@dataclass(frozen=True)
class AutoTensorizeMappingInfo:
    """``mappings``: maps from the iterators of the block to those of the description, others in front.
    ``lhs_buffer_map``: the buffer of the description that each buffer of the block stands for; ``rhs_buffer_indices``:
    how the description indexes its buffers; ``lhs_iters`` and ``rhs_iters``: the iterators of the two blocks.
    """

    mappings: list[IndexMap]
    lhs_buffer_map: Mapping[Buffer, Buffer] = field(default_factory=dict)
    rhs_buffer_indices: Mapping[Buffer, tuple[Expr, ...]] = field(default_factory=dict)
    lhs_iters: tuple[BlockIter, ...] = ()
    rhs_iters: tuple[BlockIter, ...] = ()


def _described(desc_func: PrimFunc) -> tuple[list[For], Block]:
    """The loops of a description and its block."""
    stmt: Stmt = desc_func.body
    loops: list[For] = []
    if isinstance(stmt, Block) and not stmt.iters and isinstance(stmt.body, (For, Block)):
        stmt = stmt.body
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, Block):
        raise NotApplicable("the description is not loops around one block")
    return loops, stmt


def block_with_place(sch: Schedule, block: BlockRV | str) -> tuple[StmtSRef, Block]:
    """A block, given by its handle or name, and where it stands. Raises :class:`BadArgument` where there is none."""
    stmt = sch.get(sch.block(block) if isinstance(block, str) else block)
    if not isinstance(stmt, Block):
        raise BadArgument("the root of a function without blocks has no iterators")
    return sch.get_sref(stmt), stmt


def get_tensorize_loop_mapping(
    sch: Schedule, block: BlockRV | str, desc_func: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """Which loops around a block to split so that an intrinsic's loops come to stand innermost; None where there are none.

    The iterators of both are laid beside each other from the last one on, kinds alike; each loop of the block must run over a
    multiple of the description's, or may be padded to one. Raises :class:`NotApplicable` for a description of another form
    than loops around one block.

    >>> from tirlower.script import parse
    >>> text = '''
    ... def f(A: T.Buffer((SIZE, 4), "int32")):
    ...     for i, j in T.grid(SIZE, 4):
    ...         with T.block("A"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             A[vi, vj] = 7
    ... '''
    >>> sch = Schedule(parse(text.replace("SIZE", "32")))
    >>> found = get_tensorize_loop_mapping(sch, sch.block("A"), parse(text.replace("SIZE", "8")))
    >>> [(mine.stmt.extent.value, its.extent.value) for mine, its in found.loop_map.items()]
    [(4, 4), (32, 8)]
    """
    loops, described = _described(desc_func)
    sref, stmt = block_with_place(sch, block)
    around: list[StmtSRef] = []
    outer = sref.parent
    while outer is not None and isinstance(outer.stmt, For):
        around.append(outer)
        outer = outer.parent
    found: dict[StmtSRef, For] = {}
    paddings: dict[int, int] = {}
    left = [at for at, _ in enumerate(stmt.iters)]
    for it in reversed(described.iters):
        its = _only_loop(it.value, loops)
        while left and stmt.iters[left[-1]].kind is not it.kind:
            left.pop()
        if its is None or not isinstance(its.extent, IntImm) or not left:
            return None
        at = left.pop()
        mine = _only_loop(stmt.iters[at].value, [one.stmt for one in around if isinstance(one.stmt, For)])
        if mine is None or not isinstance(mine.extent, IntImm):
            return None
        if mine.extent.value % its.extent.value:
            paddings[at] = int(its.extent.value)
        found[next(one for one in around if one.stmt is mine)] = its
    if len(found) < len(described.iters) or (paddings and not allow_padding):
        return None
    multiples = [paddings.get(at, 1) for at, _ in enumerate(stmt.iters)] if paddings else None
    return TensorizeInfo(found, {loop: at for at, loop in enumerate(loops)}, multiples)


def _only_loop(value: Expr | None, loops: Sequence[For]) -> For | None:
    """The one loop that a binding is, but for what no loop has a part in."""
    if value is None:
        return None
    variables = {loop.loop_var for loop in loops}
    for loop in loops:
        if mentions(value, {loop.loop_var}):
            rest = Analyzer().simplify(build.sub(value, build.cast(value.dtype, loop.loop_var)))
            return None if mentions(rest, variables) else loop
    return None


def get_auto_tensorize_mapping_info(
    sch: Schedule, block: BlockRV | str, desc_func: PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """How the iterators of a block can be brought together so that it has those of a description; None where they cannot.

    Both must do the same with buffers of as many data types, whatever the indices. An iterator that takes part in the indices of the same
    buffers as one of the description becomes it, several are fused in their order; others stay in front.
    The maps are for ``transform_block_layout``.

    >>> from tirlower.script import parse
    >>> sch = Schedule(parse('''
    ... def f(A: T.Buffer((2, 4, 8), "int32"), B: T.Buffer((2, 4, 8), "int32")):
    ...     for i, j, k in T.grid(2, 4, 8):
    ...         with T.block("B"):
    ...             vi, vj, vk = T.axis.remap("SSS", [i, j, k])
    ...             B[vi, vj, vk] = A[vi, vj, vk] + 1
    ... '''))
    >>> desc = parse('''
    ... def desc(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32")):
    ...     for i in range(16):
    ...         with T.block("Y"):
    ...             vi = T.axis.spatial(16, i)
    ...             Y[vi] = X[vi] + 1
    ... ''')
    >>> print(get_auto_tensorize_mapping_info(sch, "B", desc).mappings[0])
    lambda vi, vj, vk: [vi * 32 + vj * 8 + vk]
    """
    _, described = _described(desc_func)
    _, stmt = block_with_place(sch, block)
    for pairs in _pairs(stmt.body, described.body):
        found = _mapped(stmt, described, pairs)
        if found is not None:
            return found
    return None


def _mapped(stmt: Block, described: Block, pairs: Sequence[Pair]) -> AutoTensorizeMappingInfo | None:
    """The map where these accesses stand for each other; None where there is none, or which one is meant is not said."""
    buffers: dict[Buffer, Buffer] = {}
    mine: dict[Buffer, tuple[Expr, ...]] = {}
    its: dict[Buffer, tuple[Expr, ...]] = {}
    for (buffer, indices), (other, places) in pairs:
        if buffers.setdefault(buffer, other) is not other or not _alike(mine.setdefault(other, indices), indices):
            return None
        if not _alike(its.setdefault(other, places), places):
            return None
    wanted = {it: _signature(it, its) for it in described.iters}
    parts: dict[BlockIter, Expr] = {}
    front: list[Expr] = []
    inputs: list[Var] = []
    for one in stmt.iters:
        signature = _signature(one, mine)
        matches = [it for it, sign in wanted.items() if sign == signature and it.kind is one.kind]
        if len(matches) > 1:
            return None
        variable = Var(one.var.name, one.var.dtype)
        inputs.append(variable)
        if not matches:
            front.append(variable)
        elif matches[0] in parts:
            scaled = build.mul(parts[matches[0]], build.cast(variable.dtype, one.domain.extent))
            parts[matches[0]] = build.add(scaled, variable)
        else:
            parts[matches[0]] = variable
    if len(parts) < len(described.iters):
        return None
    analyzer = Analyzer()
    finals = [*front, *(analyzer.simplify(parts[it]) for it in described.iters)]
    return AutoTensorizeMappingInfo([IndexMap(tuple(inputs), tuple(finals))], buffers, its, stmt.iters, described.iters)


def _signature(it: BlockIter, accesses: Mapping[Buffer, tuple[Expr, ...]]) -> frozenset[Buffer]:
    """The buffers of the description in whose indices an iterator takes part."""
    return frozenset(
        buffer for buffer, indices in accesses.items() if any(mentions(index, {it.var}) for index in indices)
    )


def _alike(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(map(structural_equal, a, b))


Access = tuple[Buffer, tuple[Expr, ...]]
Pair = tuple[Access, Access]


def _pairs(mine: Stmt, described: Stmt) -> Iterator[list[Pair]]:
    """The ways to lay two bodies on each other that are one store each, as the accesses that meet."""
    if not isinstance(mine, BufferStore) or not isinstance(described, BufferStore):
        return
    if mine.predicate is not None or described.predicate is not None or mine.buffer.dtype is not described.buffer.dtype:
        return
    for way in ways(mine.value, described.value):
        accesses = [_access(*pair) for pair in way]
        if all(found or structural_equal(*pair) for found, pair in zip(accesses, way, strict=True)):
            own = (mine.buffer, mine.indices), (described.buffer, described.indices)
            yield [own, *(found for found in accesses if found is not None)]


def _access(mine: Expr, described: Expr) -> Pair | None:
    """Two loads as accesses of buffers of one data type; None for what is none."""
    if isinstance(mine, BufferLoad) and isinstance(described, BufferLoad):
        if mine.buffer.dtype is described.buffer.dtype:
            return (mine.buffer, mine.indices), (described.buffer, described.indices)
    return None
