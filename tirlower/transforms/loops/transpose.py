"""TransposeTiles: square tiles that are copied with rows and columns exchanged go through registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tirlower.analysis.aliasing import Aliases
from tirlower.ir import build
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Ramp, Shuffle, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.query import each
from tirlower.ir.stmt import Bind, BufferStore, For, ForKind, Seq, Stmt
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["TransposeTiles"]

#: rows of a tile: with more, the registers of no processor hold them
_MOST_ROWS: Final = 16
_SIZES: Final = (2, 4, 8, _MOST_ROWS)


class _Transposer(FactMutator):
    """Finds the loops over tiles."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self.aliases = Aliases(func)

    def visit_For(self, op: For) -> Stmt:
        made = super().visit_For(op)
        tile = _tile(made) if isinstance(made, For) else None
        if tile is None:
            return made
        rows, lanes, store, load = tile
        with self.in_loop(rows.loop_var, rows.min, rows.extent), self.in_loop(lanes.loop_var, lanes.min, lanes.extent):
            if not self._is_transposed(rows, lanes, store, load):
                return made
            # Rows are in a row where they are loaded, or where they are stored.
            by_rows = self._step(load.indices[0], lanes.loop_var, 1)
        size = _number(lanes)
        several = _number(rows) // size
        tiles = Var(f"{rows.loop_var.name}_tile", rows.loop_var.dtype)
        first = build.add(rows.min, build.mul(tiles, const(size, tiles.dtype))) if several > 1 else rows.min
        row, column = _Side(rows.loop_var, first), _Side(lanes.loop_var, lanes.min)
        body = _through_registers(*((row, column) if by_rows else (column, row)), size, store, load)
        if several == 1:
            return body
        return For(tiles, const(0, tiles.dtype), const(several, tiles.dtype), rows.kind, None, {}, body, span=rows.span)

    def _is_transposed(self, rows: For, lanes: For, store: BufferStore, load: BufferLoad) -> bool:
        """Whether the load goes along one loop and the store along the other, to elements that are apart."""
        to, come = store.indices[0], load.indices[0]
        if self.aliases.may_alias(store.buffer.data, load.buffer.data):
            return False
        if any(any(True for _ in each(BufferLoad, index)) or self.wrapping.wraps(index) for index in (to, come)):
            return False
        i, j = rows.loop_var, lanes.loop_var
        for along, across in ((i, j), (j, i)):
            if self._step(come, across, 1) and self._step(to, along, 1) and not self._step(to, across, 1):
                # Elements that two rows share would be written in another order.
                far = self.moves(to, across)
                bound = const(_MOST_ROWS, far.dtype)
                return any(self.analyzer.can_prove(build.ge(by, bound)) for by in (far, build.neg(far)))
        return False

    def _step(self, index: Expr, var: Var, step: int) -> bool:
        return is_const_int(self.moves(index, var), step)


def _number(loop: For) -> int:
    return loop.extent.value if isinstance(loop.extent, IntImm) else 0


def _tile(loop: For) -> tuple[For, For, BufferStore, BufferLoad] | None:
    """A loop over the rows of square tiles, that over the lanes of one, and the copy of an element."""
    if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED) or loop.annotations:
        return None
    lanes = loop.body
    if not isinstance(lanes, For) or lanes.kind is not ForKind.VECTORIZED or lanes.annotations:
        return None
    store = lanes.body
    if not isinstance(store, BufferStore) or store.predicate is not None or not isinstance(store.value, BufferLoad):
        return None
    load = store.value
    if load.predicate is not None or len(load.indices) != 1 or len(store.indices) != 1:
        return None
    if not load.dtype.is_scalar or load.dtype.bits % 8 or load.indices[0].dtype.is_vector:
        return None
    rows, count = _number(loop), _number(lanes)
    return (loop, lanes, store, load) if count in _SIZES and rows and rows % count == 0 else None


@dataclass(frozen=True)
class _Side:
    """A side of a tile: the variable that counts along it, and its first value."""

    var: Var
    first: Expr


def _through_registers(row: _Side, column: _Side, count: int, store: BufferStore, load: BufferLoad) -> Stmt:
    """Load each row, exchange halves of pairs of rows, quarters of pairs and so on, and store each column.

    Where the distance of a pair has a bit of a lane's number set, the two exchange that lane with its partner's lane of
    the same number without the bit: after all bits, row ``r`` has lane ``r`` of each row.
    """

    def at(access: BufferLoad | BufferStore, across: _Side, along: _Side, number: int) -> Expr:
        place = {across.var: build.add(across.first, const(number, across.var.dtype)), along.var: along.first}
        base = substitute(access.indices[0], place)
        return Ramp(base, const(1, base.dtype), count)

    stmts: list[Stmt] = []
    names: list[Var] = []
    kind = load.dtype.with_lanes(count)

    def named(value: Expr, name: str) -> Var:
        var = Var(name, kind)
        stmts.append(Bind(var, value))
        return var

    for number in range(count):
        names.append(named(load.with_(indices=(at(load, row, column, number),)), "row"))
    distance = count // 2
    while distance:
        for low in (number for number in range(count) if not number & distance):
            pair = (names[low], names[low + distance])
            for upper in (0, distance):
                # Lane l of the first: its own where the bit is not set, else the partner's lane without the bit.
                lanes = ((l & ~distance) + upper + (count if l & distance else 0) for l in range(count))
                names[low + upper] = named(Shuffle(pair, tuple(map(const, lanes))), "exchanged")
        distance //= 2
    for number in range(count):
        stmts.append(store.with_(indices=(at(store, column, row, number),), value=names[number]))
    return Seq(tuple(stmts))


class TransposeTiles(FuncPass):
    """Square tiles that are copied with rows and columns exchanged go through registers.

    A loop around a vectorized one of 2, 4, 8 or 16 lanes, of as many iterations or a multiple, which copies elements that are in a row
    along the one loop to places that are in a row along the other, would gather or scatter them one by one. It becomes
    loads of rows, exchanges between pairs of rows, and stores of columns: ``n log n`` shuffles for ``n * n`` elements.
    The two arrays must be apart, and the columns certainly at least 16 elements from each other.

    Needs FlattenBuffer, and stands before VectorizeLoop. Not one of TIR's passes.

    >>> from tirlower.script import parse
    >>> print(TransposeTiles()(parse('''
    ... @T.prim_func
    ... def transpose(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    ...     T.func_attr({"tir.noalias": True})
    ...     for i in range(2):
    ...         for j in T.vectorized(2):
    ...             B[j * 32 + i] = A[i * 32 + j]
    ... ''')).script())
    @T.prim_func
    def transpose(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tir.noalias": True})
        row: T.float32x2 = A[0:2]
        row_1: T.float32x2 = A[32:34]
        exchanged: T.float32x2 = T.Shuffle([row, row_1], [0, 2])
        exchanged_1: T.float32x2 = T.Shuffle([row, row_1], [1, 3])
        B[0:2] = exchanged
        B[32:34] = exchanged_1
    """

    name = "tir.TransposeTiles"
    stage = Stage.FLAT

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Transpose the tiles of a function."""
        return func.with_body(_Transposer(func).visit(func.body))
