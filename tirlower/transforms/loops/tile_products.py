"""TileProducts: products of small matrices that are added to a third one go to tile registers (AMX)."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from operator import is_
from typing import Final

from tirlower.analysis.aliasing import Aliases
from tirlower.analysis.short_factors import short_factors
from tirlower.ir import build
from tirlower.ir.annotations import TILE_PRODUCT
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    BufferLoad,
    Call,
    Expr,
    FloatImm,
    IntImm,
    StringImm,
    Var,
    const,
    is_const_int,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, substitute
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each, has, mentions, statements
from tirlower.ir.stmt import AllocBuffer, Assert, AttrStmt, BufferStore, Evaluate, For, ForKind, Seq, Stmt, While, seq
from tirlower.machine.tiles import SIDE
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["TileProducts"]

_ONE_BY_ONE: Final = (ForKind.SERIAL, ForKind.UNROLLED, ForKind.VECTORIZED)
_CALL: Final = Op.get("tir.call_llvm_intrin")
_HARMLESS: Final = ("prefetch",)
"""Calls that change something, and no tiles."""

_SHAPES: Final = "tir.tile_shapes"
"""Around statements of this pass's own, as long as it runs: what the tiles' configuration has to say."""


@dataclass(frozen=True)
class _Matrix:
    """A matrix in memory: the element where it begins, and by how many elements its rows are apart."""

    buffer: Buffer
    first: Expr
    pitch: Expr

    def at(self, row: int, column: int) -> Expr:
        """The index of an element."""
        down = build.mul(self.pitch, const(row, self.pitch.dtype)) if row else const(0, self.first.dtype)
        return build.add(build.add(self.first, down), const(column, self.first.dtype))


@dataclass(frozen=True)
class _Product:
    """``sums[r, c] += a[r, k] * b[k, c]``; a row of ``b`` holds ``group`` steps of the sum for each column, beside each other.

    The sums begin with what stands in ``begin``, or with zeros, and are left in ``end``.
    """

    sums: _Matrix
    begin: _Matrix | None
    end: _Matrix
    a: _Matrix
    b: _Matrix
    rows: int
    columns: int
    steps: int
    group: int

    @property
    def heights(self) -> list[int]:
        """The rows of the tiles that lie below each other."""
        return _parts(self.rows)

    @property
    def widths(self) -> list[int]:
        """The columns of the tiles that lie beside each other."""
        return _parts(self.columns)

    @property
    def name(self) -> str:
        """The instruction."""
        if self.a.buffer.dtype.is_bfloat16:
            return "tdpbf16ps"
        return f"tdpb{''.join('s' if one.buffer.dtype == 'int8' else 'u' for one in (self.a, self.b))}d"

    @property
    def configuration(self) -> bytes:
        """What LDTILECFG loads: the bytes of a row and the rows of the sums' tiles, those of ``a``, and those of ``b``."""
        tiles = [(height, width * 4) for height in self.heights for width in self.widths]
        tiles += [(height, self.steps * 4) for height in self.heights]
        tiles += [(self.steps, width * 4) for width in self.widths]
        tiles += [(0, 0)] * (16 - len(tiles))
        return struct.pack("<16B16H16B", 1, *[0] * 15, *(size for _, size in tiles), *(rows for rows, _ in tiles))


def _parts(extent: int) -> list[int]:
    return [min(SIDE, extent - at) for at in range(0, extent, SIDE)]


class _Tiler(FactMutator):
    """Finds the products, and the loops that go on with the same sums."""

    def __init__(self, func: PrimFunc, kinds: Collection[str]) -> None:
        super().__init__(func)
        self.aliases = Aliases(func)
        self.kinds = kinds

    def visit_For(self, op: For) -> Stmt:
        found = self._found(op)
        return super().visit_For(op) if found is None else _steps(*found)

    def visit_Seq(self, op: Seq) -> Stmt:
        stmts = list(op.stmts)
        for at in range(len(stmts)):
            found = self._found(stmts[at])
            if found is not None:
                self._between(stmts, at, *found)
        if all(map(is_, stmts, op.stmts)):
            return super().visit_Seq(op)
        made = seq(*stmts)
        return super().visit_Seq(made) if isinstance(made, Seq) else made

    def _between(self, stmts: list[Stmt], at: int, product: _Product, loop: For | None) -> None:
        """Put the tiles' steps in a list of statements. What brings the sums to their place right before, or brings them from
        there right after, is done by the tiles themselves.
        """
        begun = self._begun(stmts[at - 1], product) if at else None
        if begun is not None:
            product, stmts[at - 1] = begun, seq()
        ended = self._ended(stmts[at + 1], product) if at + 1 < len(stmts) else None
        if ended is not None:
            data = product.sums.buffer.data
            made = [one for one in stmts if isinstance(one, AllocBuffer) and one.buffer.data is data]
            others = [one for n, one in enumerate(stmts) if n not in (at, at + 1) and one not in made]
            if made and not any(mentions(one, {data}) or _names(one, product.sums.buffer) for one in others):
                product, stmts[at + 1] = ended, seq()
                if begun is not None:
                    for n, one in enumerate(stmts):
                        stmts[n] = seq() if one in made else one
        stmts[at] = _steps(product, loop)

    def _found(self, stmt: Stmt) -> tuple[_Product, For | None] | None:
        """The product that a statement is, or the loop that it is whose iterations add products to the same sums."""
        if not isinstance(stmt, For):
            return None
        product = self._product(stmt)
        if product is not None:
            return product, None
        if stmt.kind is not ForKind.SERIAL or stmt.annotations or not isinstance(stmt.body, For):
            return None
        with self.in_loop(stmt.loop_var, stmt.min, stmt.extent):
            product = self._product(stmt.body)
        moves = product is None or mentions(product.sums.first, {stmt.loop_var})
        return None if product is None or moves else (product, stmt)

    def _product(self, rows: For) -> _Product | None:
        """The product that an annotated loop is, with the loops in it."""
        if not rows.annotations.get(TILE_PRODUCT):
            return None
        loops, store = _nest(rows)
        operands = None if store is None else short_factors(store)
        if store is None or operands is None or len(loops) not in (3, 4) or any(len(x.indices) > 1 for x in operands):
            return None
        row, column, *step, inner = (loop.loop_var for loop in loops)
        rows_, columns, *count, group = map(_number, loops)
        steps = count[0] if count else 1
        if not 1 <= steps <= SIDE or not 1 <= rows_ <= 2 * SIDE or not 1 <= columns <= 2 * SIDE:
            return None
        with self._inside(loops):
            still = [(var, 0) for var in (*step, inner)]
            sums = self._matrix(store.buffer, store.indices[0], row, [(column, 1), *still])
            if sums is not None and not self._rows_apart(sums, rows_, columns):
                return None
            for a, b in (operands, operands[::-1]):
                kinds = {str(a.buffer.dtype), str(b.buffer.dtype)}
                if sums is None or group != (2 if kinds == {"bfloat16"} else 4) or not kinds <= set(self.kinds):
                    return None
                if any(self.aliases.may_alias(store.buffer.data, one.buffer.data) for one in (a, b)):
                    return None
                below = step[0] if step else None
                left = self._matrix(a.buffer, a.indices[0], row, [(column, 0), *((v, group) for v in step), (inner, 1)])
                right = self._matrix(b.buffer, b.indices[0], below, [(row, 0), (column, group), (inner, 1)])
                if left is not None and right is not None:
                    return _Product(sums, sums, sums, left, right, rows_, columns, steps, group)
        return None

    def _begun(self, stmt: Stmt, product: _Product) -> _Product | None:
        """The product with what a statement in front of it stores to the sums, if it stores each of them."""
        loops, store = _nest(stmt)
        if store is None or store.buffer is not product.sums.buffer:
            return None
        with self._inside(loops):
            row, column = self._all(loops, store.indices[0], product)
            if row is None or column is None:
                return None
            value = self.analyzer.simplify(store.value)
            if is_const_int(value, 0) or (isinstance(value, FloatImm) and _is_plus_zero(value)):
                return replace(product, begin=None)
            if not isinstance(store.value, BufferLoad) or store.value.dtype != store.buffer.dtype:
                return None
            found = self._other(store.value, row, column)
        return None if found is None else replace(product, begin=found)

    def _ended(self, stmt: Stmt, product: _Product) -> _Product | None:
        """The product that leaves its sums where a statement behind it brings each of them."""
        loops, store = _nest(stmt)
        load = None if store is None else store.value
        if store is None or not isinstance(load, BufferLoad) or load.buffer is not product.sums.buffer:
            return None
        if load.predicate is not None or load.dtype != store.buffer.dtype or len(load.indices) != 1:
            return None
        with self._inside(loops):
            row, column = self._all(loops, load.indices[0], product)
            found = None if row is None or column is None else self._other(store, row, column)
        if found is None or not self._rows_apart(found, product.rows, product.columns):
            return None
        return replace(product, end=found)

    def _all(self, loops: Sequence[For], index: Expr, product: _Product) -> tuple[Var, Var] | tuple[None, None]:
        """The loops over the rows and over the columns of the sums, if an index names each of these once."""
        sizes = sorted(map(_number, loops))
        if len(loops) != 2 or sizes != sorted((product.rows, product.columns)):
            return None, None
        for row, column in (loops, loops[::-1]):
            if (_number(row), _number(column)) != (product.rows, product.columns):
                continue
            found = self._matrix(product.sums.buffer, index, row.loop_var, [(column.loop_var, 1)])
            if found is not None and all(
                is_const_int(self.analyzer.simplify(build.sub(x, y)), 0)
                for x, y in ((found.first, product.sums.first), (found.pitch, product.sums.pitch))
            ):
                return row.loop_var, column.loop_var
        return None, None

    def _other(self, access: BufferLoad | BufferStore, row: Var, column: Var) -> _Matrix | None:
        """The matrix from which the sums come, or to which they go."""
        if access.predicate is not None or len(access.indices) != 1:
            return None
        return self._matrix(access.buffer, access.indices[0], row, [(column, 1)])

    @contextmanager
    def _inside(self, loops: Sequence[For]) -> Iterator[None]:
        with ExitStack() as inside:
            for loop in loops:
                inside.enter_context(self.in_loop(loop.loop_var, loop.min, loop.extent))
            yield

    def _matrix(
        self, buffer: Buffer, index: Expr, row: Var | None, others: Sequence[tuple[Var, int]]
    ) -> _Matrix | None:
        """Where a matrix lies, if an index moves with some loops by the elements that they say."""
        if index.dtype.is_vector or has(BufferLoad, index) or self.wrapping.wraps(index):
            return None
        if not all(is_const_int(self.moves(index, var), step) for var, step in others):
            return None
        mine = {var for var, _ in others} | ({row} if row is not None else set())
        pitch = const(0, index.dtype) if row is None else self.moves(index, row)
        if mentions(pitch, mine):
            return None
        return _Matrix(buffer, substitute(index, {var: const(0, var.dtype) for var in mine}), pitch)

    def _rows_apart(self, matrix: _Matrix, rows: int, columns: int) -> bool:
        """Whether no element is in two rows: each would be written twice, and a sum be two."""
        width = const(columns, matrix.pitch.dtype)
        either = (matrix.pitch, build.neg(matrix.pitch))
        return rows == 1 or any(self.analyzer.can_prove(build.ge(pitch, width)) for pitch in either)


def _number(loop: For) -> int:
    return loop.extent.value if isinstance(loop.extent, IntImm) else 0


def _is_plus_zero(value: FloatImm) -> bool:
    return value.value == 0 and math.copysign(1.0, value.value) > 0


def _names(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a statement reads or writes a buffer, or another one over its memory."""
    return any(access.buffer.data is buffer.data for access in each((BufferLoad, BufferStore), stmt))


def _nest(stmt: Stmt) -> tuple[list[For], BufferStore | None]:
    """Loops of a number of iterations in each other, and the store in the innermost one; None where there is more."""
    loops: list[For] = []
    while isinstance(stmt, For) and stmt.kind in _ONE_BY_ONE and isinstance(stmt.extent, IntImm):
        if stmt.annotations.keys() - {TILE_PRODUCT} or not is_const_int(stmt.min, 0):
            return loops, None
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, BufferStore) or stmt.predicate is not None or len(stmt.indices) != 1:
        return loops, None
    return loops, stmt


def _called(name: str, *args: Expr) -> Stmt:
    return Evaluate(build.call("tir.call_llvm_intrin", StringImm(f"llvm.x86.{name}"), *args, dtype="void"))


def _tile(number: int) -> Expr:
    return const(number, "int8")


def _moved(name: str, tile: int, matrix: _Matrix, row: int, column: int) -> Stmt:
    """A tile loaded from, or stored to, rows and columns of a matrix."""
    address = build.call("tir.address_of", BufferLoad(matrix.buffer, (matrix.at(row, column),)))
    size = const(matrix.buffer.dtype.bits // 8, "int64")
    return _called(name, _tile(tile), address, build.mul(build.cast("int64", matrix.pitch), size))


def _sums(product: _Product, name: str, matrix: _Matrix) -> Iterator[Stmt]:
    across = len(product.widths)
    for r in range(len(product.heights)):
        for c in range(across):
            yield _moved(name, r * across + c, matrix, r * SIDE, c * SIDE)


def _steps(product: _Product, loop: For | None) -> Stmt:
    """The sums in registers, what is added to them, once or in a loop, and the sums in memory again."""
    down, across = len(product.heights), len(product.widths)
    first_a, first_b = down * across, down * across + down
    body: list[Stmt] = []
    for r in range(down):
        body.append(_moved("tileloadd64", first_a + r, product.a, r * SIDE, 0))
        for c in range(across):
            if r == 0:
                body.append(_moved("tileloadd64", first_b + c, product.b, 0, c * SIDE * product.group))
            body.append(_called(product.name, _tile(r * across + c), _tile(first_a + r), _tile(first_b + c)))
    work: list[Stmt] = [loop.with_(body=Seq(tuple(body)))] if loop is not None else body
    begin: Iterable[Stmt]
    if product.begin is None:
        begin = (_called("tilezero", _tile(number)) for number in range(first_a))
    else:
        begin = _sums(product, "tileloadd64", product.begin)
    made = Seq((*begin, *work, *_sums(product, "tilestored64", product.end)))
    return AttrStmt(None, _SHAPES, StringImm(product.configuration.hex()), made)


class _Configured(StmtMutator):
    """Configures the tiles around the outermost loops in which they have the same shapes, and nothing else uses them."""

    def visit_For(self, op: For) -> Stmt:
        shapes = _shapes(op)
        if len(shapes) == 1 and _alone(op):
            return _configured(shapes.pop(), _Bare().visit(op))
        return self.generic(op) if shapes else op

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key != _SHAPES:
            return self.generic(op)
        assert isinstance(op.value, StringImm)
        return _configured(op.value.value, op.body)


class _Bare(StmtMutator):
    """Takes the marks off."""

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        return op.body if op.key == _SHAPES else self.generic(op)


def _shapes(stmt: Stmt) -> set[str]:
    return {one.value.value for one in each(AttrStmt, stmt) if one.key == _SHAPES and isinstance(one.value, StringImm)}


def _alone(loop: For) -> bool:
    """Whether a loop runs on one thread, to its end, and calls nothing that could use tiles itself."""
    for stmt in statements(loop):
        if isinstance(stmt, For) and stmt.kind not in _ONE_BY_ONE:
            return False
        if isinstance(stmt, (Assert, While)):
            return False
    for call in each(Call, loop):
        if not isinstance(call.op, Op):
            return False
        named = call.args[0] if call.op is _CALL else None
        tiles = isinstance(named, StringImm) and named.value.startswith(("llvm.x86.t", "llvm.prefetch"))
        if call.op.purity is Purity.OPAQUE and not tiles:
            return False
        if call.op.purity is Purity.WRITES and call.op.short not in _HARMLESS:
            return False
    return True


def _configured(shapes: str, body: Stmt) -> Stmt:
    """A statement with the tiles configured before, and free again after."""
    words = struct.unpack("<8q", bytes.fromhex(shapes))
    buffer = Buffer("tiles", (const(len(words), "int32"),), DataType("int64"), scope="local")
    stores = [BufferStore(buffer, const(word, "int64"), (const(at, "int32"),)) for at, word in enumerate(words)]
    address = build.call("tir.address_of", BufferLoad(buffer, (const(0, "int32"),)))
    return Seq((AllocBuffer(buffer), *stores, _called("ldtilecfg", address), body, _called("tilerelease")))


class TileProducts(FuncPass):
    """Products of small matrices that are added to a third one go to tile registers (AMX).

    A loop with the annotation ``tir.tile_product`` stands around three others, of a store: over up to 32 rows, up to 32 columns,
    up to 16 groups, and the 4 bytes (or 2 bfloat16) of a group, ``C[r, c] += A[r, k, g] * B[k, c, g]``. It becomes the instructions
    that multiply tiles of 16 rows of 64 bytes. Around it, a loop that goes on with the same sums keeps them in registers, and what
    clears them before, or copies them to another place behind, is done by the tiles themselves. Tiles are configured around
    the outermost loops that run on one thread and leave their shapes as they are.

    Sums of int32 wrap, so that each bit is the same. Those of bfloat16 are rounded otherwise, and subnormal numbers are
    zeros: ``bfloats`` is for those who permit that.

    Needs FlattenBuffer, and stands before VectorizeLoop. Not one of TIR's passes. Source: Intel 64 and IA-32 Architectures
    Software Developer's Manual, volume 2, TDPBSSD and TDPBF16PS.

    >>> from tirlower.script import parse
    >>> print(TileProducts(bytes=True)(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((512,), "uint8"), B: T.Buffer((512,), "int8"), C: T.Buffer((64,), "int32")):
    ...     T.func_attr({"tir.noalias": True})
    ...     for k in range(8):
    ...         for r in T.serial(8, annotations={"tir.tile_product": True}):
    ...             for c, h, g in T.grid(8, 2, 4):
    ...                 C[r * 8 + c] = C[r * 8 + c] + T.Cast("int32", A[r * 64 + k * 8 + h * 4 + g]) * T.Cast("int32", B[k * 64 + h * 32 + c * 4 + g])
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((512,), "uint8"), B: T.Buffer((512,), "int8"), C: T.Buffer((64,), "int32")):
        T.func_attr({"tir.noalias": True})
        tiles = T.alloc_buffer((8,), "int64", scope="local")
        tiles[0] = T.int64(1)
        tiles[1] = T.int64(0)
        tiles[2] = T.int64(137439477792)
        tiles[3] = T.int64(0)
        tiles[4] = T.int64(0)
        tiles[5] = T.int64(0)
        tiles[6] = T.int64(133128)
        tiles[7] = T.int64(0)
        T.call_llvm_intrin("void", "llvm.x86.ldtilecfg", T.address_of(tiles[0]))
        T.call_llvm_intrin("void", "llvm.x86.tileloadd64", T.int8(0), T.address_of(C[0]), T.int64(32))
        for k in range(8):
            T.call_llvm_intrin("void", "llvm.x86.tileloadd64", T.int8(1), T.address_of(A[k * 8]), T.int64(64))
            T.call_llvm_intrin("void", "llvm.x86.tileloadd64", T.int8(2), T.address_of(B[k * 64]), T.int64(32))
            T.call_llvm_intrin("void", "llvm.x86.tdpbusd", T.int8(0), T.int8(1), T.int8(2))
        T.call_llvm_intrin("void", "llvm.x86.tilestored64", T.int8(0), T.address_of(C[0]), T.int64(32))
        T.call_llvm_intrin("void", "llvm.x86.tilerelease")
    """

    name = "tir.TileProducts"
    stage = Stage.FLAT
    bytes: bool = False
    bfloats: bool = False

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the products of a function."""
        kinds = [*(("int8", "uint8") if self.bytes else ()), *(("bfloat16",) if self.bfloats else ())]
        if not kinds or not any(loop.annotations.get(TILE_PRODUCT) for loop in each(For, func.body)):
            return func
        made = _Tiler(func, kinds).visit(func.body)
        return func.with_body(_Configured().visit(made)) if _shapes(made) else func
