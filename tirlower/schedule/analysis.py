"""Questions to schedules and accesses, by TVM's names: which layout an access asks for, how an intrinsic lies on a block."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tirlower.arith import Analyzer
from tirlower.diagnostics import NotApplicable
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import Call, Expr, ExprLike, Select, Var, as_expr, const
from tirlower.ir.index_map import IndexMap
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, For, IfThenElse
from tirlower.schedule.digits import digits_of, number
from tirlower.schedule.handles import BlockRV
from tirlower.schedule.intrin_mapping import (
    AutoTensorizeMappingInfo,
    TensorizeInfo,
    block_with_place,
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
)
from tirlower.schedule.schedule import Schedule
from tirlower.schedule.scopes import scope_of

__all__ = [
    "AutoTensorizeMappingInfo",
    "TensorizeInfo",
    "get_auto_tensorize_mapping_info",
    "get_tensorize_loop_mapping",
    "has_block",
    "has_if_then_else",
    "is_output_block",
    "is_trivial_binding",
    "suggest_index_map",
]


_CHOICE = Op.get("tir.if_then_else")


def has_block(sch: Schedule, block_name: str) -> bool:
    """Whether a block of this name stands in the module.

    >>> from tirlower.script import parse
    >>> sch = Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         with T.block("A"):
    ...             vi = T.axis.spatial(4, i)
    ...             A[vi] = 1
    ... '''))
    >>> has_block(sch, "A"), has_block(sch, "B")
    (True, False)
    """
    return any(block.name == block_name for func in sch.mod.functions.values() for block in each(Block, func.body))


def is_output_block(sch: Schedule, block: BlockRV | str) -> bool:
    """Whether a block declares to write a buffer that its scope does not allocate. No scope is around a root block: it is none.

    >>> from tirlower.script import parse
    >>> sch = Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         with T.block("A"):
    ...             vi = T.axis.spatial(4, i)
    ...             A[vi] = 1
    ... '''))
    >>> is_output_block(sch, "A")
    True
    """
    sref, _ = block_with_place(sch, block)
    scope = scope_of(sch.mod[sref.func], sref.way)
    return any(scope.is_output(one) for one in scope.children if one.way == sref.way)


def is_trivial_binding(sch: Schedule, block: BlockRV | str) -> bool:
    """Whether the iterators of a block are, in their order, the loops around it, and no others are there.

    >>> from tirlower.script import parse
    >>> sch = Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         with T.block("A"):
    ...             vi = T.axis.spatial(4, i)
    ...             A[vi] = 1
    ... '''))
    >>> is_trivial_binding(sch, "A")
    True
    >>> _ = sch.split("i", [2, 2])
    >>> is_trivial_binding(sch, "A")
    False
    """
    sref, stmt = block_with_place(sch, block)
    loops: list[Var] = []
    around = sref.parent
    while around is not None and isinstance(around.stmt, For):
        loops.append(around.stmt.loop_var)
        around = around.parent
    return [it.value for it in stmt.iters] == loops[::-1]


def has_if_then_else(stmt: Node) -> bool:
    """Whether something branches inside a statement or expression: an ``if``, ``T.if_then_else``, ``T.Select``.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         if i > 2:
    ...             A[i] = 1
    ... ''')
    >>> has_if_then_else(func.body)
    True
    """
    return any(not isinstance(op, Call) or op.op is _CHOICE for op in each((IfThenElse, Select, Call), stmt))


def suggest_index_map(
    buffer: Buffer, indices: Sequence[ExprLike], loops: Sequence[For], predicate: ExprLike = True
) -> IndexMap | None:
    """The layout of a buffer in which an access goes through memory in the order of the loops around it.

    ``loops`` stand outermost first, ``predicate`` is the one of the block. The address of the element (row after row) is cut
    into the digits that single loops run over; the map gives these in the order of the loops. Nothing where the address has no
    such digits, or some element is not reached. Raises :class:`NotApplicable` for a wrong number of indices.

    >>> from tirlower.ir import Var, decl_buffer
    >>> i, j, k = (Var(name, "int32") for name in ("i", "j", "k"))
    >>> nest = [For(k, 0, 2, "serial", None, {}, None), For(i, 0, 8, "serial", None, {}, None)]
    >>> print(suggest_index_map(decl_buffer((8, 2), "float32"), [i, k], nest))
    lambda i0, i1: [i1, i0]
    """
    if len(indices) != len(buffer.shape):
        raise NotApplicable(f"{buffer.name} has {len(buffer.shape)} dimensions, got {len(indices)} indices")
    analyzer = Analyzer()
    ranges = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
    address = _flat(buffer.shape, [as_expr(index) for index in indices])
    size = _flat(buffer.shape, [build.sub(extent, const(1, extent.dtype)) for extent in buffer.shape])
    digits = digits_of(address, ranges, predicate)
    if digits is None:
        return None
    extents = [number(split.extent) or 0 for split in digits]
    total = math.prod(extents)
    if not analyzer.can_prove_equal(build.add(size, const(1, size.dtype)), const(total, size.dtype)):
        return None
    place = {loop.loop_var: at for at, loop in enumerate(loops)}

    def outer_first(at: int) -> tuple[int, int]:
        split = digits[at]
        assert split.source.var is not None
        return place[split.source.var], -(number(split.lower_factor) or 0)

    order = sorted(range(len(digits)), key=outer_first)
    return _map(buffer, extents, order)


def _flat(shape: Sequence[Expr], indices: Sequence[Expr]) -> Expr:
    """The number of an element, counted row after row."""
    made: Expr = const(0, "int32")
    for extent, index in zip(shape, indices, strict=True):
        made = build.add(build.mul(made, extent), index)
    return made


def _map(buffer: Buffer, extents: Sequence[int], order: Sequence[int]) -> IndexMap:
    indices = [Var(f"i{at}", extent.dtype) for at, extent in enumerate(buffer.shape)]
    analyzer = Analyzer()
    for index, extent in zip(indices, buffer.shape, strict=True):
        analyzer.bind(index, Range(const(0, index.dtype), extent))
    left, made = analyzer.simplify(_flat(buffer.shape, indices)), [const(0, "int32")] * len(extents)
    for at in range(len(extents) - 1, -1, -1):
        base = const(extents[at], left.dtype)
        made[at] = analyzer.simplify(build.floormod(left, base))
        left = analyzer.simplify(build.floordiv(left, base))
    return IndexMap(tuple(indices), tuple(made[at] for at in order))
