"""DotProducts: sums of a few products of short elements in lanes become instructions that add up whole groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tirlower.analysis.aliasing import Aliases
from tirlower.analysis.short_factors import short_factors
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import (
    Broadcast,
    BufferLoad,
    Expr,
    IntImm,
    Ramp,
    StringImm,
    Var,
    const,
    is_const_int,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import AllocBuffer, BufferStore, For, ForKind, Seq, Stmt
from tirlower.machine.dots import Dots
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["DotProducts"]

_SERIAL: Final = (ForKind.SERIAL, ForKind.UNROLLED)
_PAIRS: Final = {512: "avx512.pmaddw.d.512", 256: "avx2.pmadd.wd", 128: "sse2.pmadd.wd"}
"""Sums of pairs of products, added to nothing, by the bits of a vector."""
LEAST: Final = 4
"""Lanes of the narrowest instruction."""


_SIGNS: Final = 0x80808080 - (1 << 32)
"""The sign bits of four bytes, as an int32: with them exchanged a signed byte is 128 more, as an unsigned one."""


@dataclass(frozen=True)
class _Dot:
    """``sums[l] += one[g] * vector[l * group + g]`` for ``width`` lanes and the ``group`` products of each."""

    store: BufferStore
    lane: Var
    inner: Var
    width: int
    group: int
    one: BufferLoad
    vector: BufferLoad

    @property
    def shifted(self) -> bool:
        """Whether both are signed bytes, or both unsigned: instructions take one of each, so that the bytes of one are taken
        128 too large, or too small, and the sums have to be put right.
        """
        return self.group == 4 and self.one.buffer.dtype == self.vector.buffer.dtype


class _Finder(FactMutator):
    """Finds groups of products, and the loop over groups around them."""

    def __init__(self, func: PrimFunc, dots: Dots) -> None:
        super().__init__(func)
        self.aliases = Aliases(func)
        self.dots = dots

    def visit_For(self, op: For) -> Stmt:
        found = self._around(op)
        if found is not None:
            return found
        dot = self._dot(op)
        if dot is not None:
            return _sequence(_statements(dot, self.dots, op))
        return super().visit_For(op)

    def _around(self, loop: For) -> Stmt | None:
        """A loop over groups whose bytes are shifted: what the shift adds to the sums is summed up beside them, once for all
        rows, and taken off at the end.
        """
        if loop.kind is not ForKind.SERIAL or loop.annotations or _number(loop) < 1:
            return None
        rows: list[For] = []
        inside: Stmt = loop.body
        while isinstance(inside, For) and inside.kind in _SERIAL and not inside.annotations and _number(inside) > 0:
            rows.append(inside)
            inside = inside.body
        if not isinstance(inside, For):
            return None
        dot = self._in_loops([loop, *rows], inside)
        if dot is None or not dot.shifted or dot.width % LEAST:
            return None
        counted = {row.loop_var for row in rows}
        if mentions(dot.vector.indices[0], counted) or mentions(dot.store.indices[0], {loop.loop_var}):
            return None
        shifts = Buffer("shifts", (const(dot.width, "int32"),), dot.store.buffer.dtype, scope="local")
        mine = _ramp(const(0, "int32"), dot.width)
        cleared = BufferStore(shifts, Broadcast(const(0, "int32"), dot.width), (mine,))
        body = Seq(
            (
                *_shifts(dot, self.dots, inside, shifts),
                _nest(rows, _sequence(_statements(dot, self.dots, inside, False))),
            )
        )
        place = _ramp(substitute(dot.store.indices[0], {dot.lane: inside.min}), dot.width)
        value = build.sub(BufferLoad(dot.store.buffer, (place,)), BufferLoad(shifts, (mine,)))
        again = {row.loop_var: Var(row.loop_var.name, row.loop_var.dtype) for row in rows}
        right = substitute(BufferStore(dot.store.buffer, value, (place,)), again)
        behind = _nest([row.with_(loop_var=again[row.loop_var]) for row in rows], right)
        return Seq((AllocBuffer(shifts), cleared, loop.with_(body=body), behind))

    def _in_loops(self, loops: list[For], lanes: For) -> _Dot | None:
        if not loops:
            return self._dot(lanes)
        with self.in_loop(loops[0].loop_var, loops[0].min, loops[0].extent):
            return self._in_loops(loops[1:], lanes)

    def _dot(self, lanes: For) -> _Dot | None:
        """The group of products of each lane of a loop, where it is one that an instruction adds up."""
        inner = lanes.body
        if lanes.kind is not ForKind.VECTORIZED or lanes.annotations or not isinstance(inner, For):
            return None
        if inner.kind not in _SERIAL or inner.annotations or not is_const_int(inner.min, 0):
            return None
        store = inner.body
        if not isinstance(store, BufferStore) or store.predicate is not None:
            return None
        if len(store.indices) != 1 or store.indices[0].dtype.is_vector:
            return None
        width, group = _number(lanes), _number(inner)
        if width < LEAST or group not in (2, 4):
            return None
        loads = short_factors(store)
        if loads is None:
            return None
        with (
            self.in_loop(lanes.loop_var, lanes.min, lanes.extent),
            self.in_loop(inner.loop_var, inner.min, inner.extent),
        ):
            for one, vector in (loads, loads[::-1]):
                found = self._fits(store, lanes.loop_var, inner.loop_var, width, group, one, vector)
                if found is not None:
                    return found
        return None

    def _fits(
        self, store: BufferStore, lane: Var, inner: Var, width: int, group: int, one: BufferLoad, vector: BufferLoad
    ) -> _Dot | None:
        kinds = [str(one.buffer.dtype), str(vector.buffer.dtype)]
        if self.dots.group(*kinds) < group or any(
            self.aliases.may_alias(store.buffer.data, load.buffer.data) for load in (one, vector)
        ):
            return None
        to, a, b = store.indices[0], one.indices[0], vector.indices[0]
        if any(any(True for _ in each(BufferLoad, index)) or self.wrapping.wraps(index) for index in (to, a, b)):
            return None
        if not (self._moves(to, lane, 1) and self._moves(to, inner, 0) and self._moves(a, lane, 0)):
            return None
        if not (self._moves(a, inner, 1) and self._moves(b, lane, group) and self._moves(b, inner, 1)):
            return None
        return _Dot(store, lane, inner, width, group, one, vector)

    def _moves(self, index: Expr, var: Var, step: int) -> bool:
        return is_const_int(self.moves(index, var), step)


def _number(loop: For) -> int:
    return loop.extent.value if isinstance(loop.extent, IntImm) else 0


def _nest(loops: Iterable[For], body: Stmt) -> Stmt:
    for loop in reversed(list(loops)):
        body = loop.with_(body=body)
    return body


def _ramp(first: Expr, count: int) -> Expr:
    return Ramp(first, const(1, first.dtype), count)


def _sequence(stmts: Sequence[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


@dataclass(frozen=True)
class _Piece:
    """The operands of some lanes: where their sums stand, the group that all share, and the groups of the lanes."""

    at: int
    count: int
    place: Expr
    one: BufferLoad
    vector: BufferLoad


def _pieces(dot: _Dot, dots: Dots, lanes: For) -> Iterable[_Piece]:
    """The lanes in the widest vectors; the last few, which fill none, are left out."""
    widest = dots.bfloats if dot.one.buffer.dtype.is_bfloat16 else dots.fours if dot.group == 4 else dots.pairs
    most, at = widest // 32, 0
    while dot.width - at >= LEAST:
        count = min(most, 1 << (dot.width - at).bit_length() - 1)
        first = {dot.lane: build.add(lanes.min, const(at, dot.lane.dtype)), dot.inner: const(0, dot.inner.dtype)}
        place, one, vector = (substitute(x.indices[0], first) for x in (dot.store, dot.one, dot.vector))
        yield _Piece(
            at,
            count,
            _ramp(place, count),
            BufferLoad(dot.one.buffer, (_ramp(one, dot.group),)),
            BufferLoad(dot.vector.buffer, (_ramp(vector, count * dot.group),)),
        )
        at += count


def _shifts(dot: _Dot, dots: Dots, lanes: For, shifts: Buffer) -> Sequence[Stmt]:
    """What shifted bytes add to each lane, added to a buffer."""
    made = []
    for piece in _pieces(dot, dots, lanes):
        mine = _ramp(const(piece.at, "int32"), piece.count)
        made.append(BufferStore(shifts, _shift(piece, BufferLoad(shifts, (mine,))), (mine,)))
    return made


def _statements(dot: _Dot, dots: Dots, lanes: For, right: bool = True) -> Sequence[Stmt]:
    """The sums of all lanes. What shifted bytes add is taken off, if ``right``."""
    made: list[Stmt] = []
    end = 0
    add = _bfloats if dot.one.buffer.dtype.is_bfloat16 else _pairs if dot.group == 2 else _fours
    for piece in _pieces(dot, dots, lanes):
        value = add(piece, BufferLoad(dot.store.buffer, (piece.place,)), dots)
        if right and dot.shifted:
            value = build.sub(value, _shift(piece, Broadcast(const(0, "int32"), piece.count)))
        made.append(BufferStore(dot.store.buffer, value, (piece.place,)))
        end = piece.at + piece.count
    if end < dot.width:
        first = build.add(lanes.min, const(end, lanes.min.dtype))
        again = {var: Var(var.name, var.dtype) for var in (dot.lane, dot.inner)}
        inner = lanes.body
        assert isinstance(inner, For)
        inner = inner.with_(loop_var=again[dot.inner], body=substitute(dot.store, again))
        rest = const(dot.width - end, lanes.extent.dtype)
        made.append(lanes.with_(loop_var=again[dot.lane], min=first, extent=rest, body=inner))
    return made


def _called(name: str, count: int, *args: Expr) -> Expr:
    return build.call("tir.call_llvm_pure_intrin", StringImm(f"llvm.x86.{name}"), *args, dtype=f"int32x{count}")


def _fours(piece: _Piece, sums: Expr, dots: Dots) -> Expr:
    """Sums with fours of products."""
    bits = build.reinterpret("int32", piece.one)
    if piece.one.buffer.dtype == piece.vector.buffer.dtype:
        bits = build.bitwise_xor(bits, const(_SIGNS, "int32"))
    return _four(piece, sums, bits)


def _shift(piece: _Piece, sums: Expr) -> Expr:
    """Sums with what the shift of the shared bytes adds: 128, or -128, times each of the others."""
    return _four(piece, sums, const(_SIGNS, "int32"))


def _four(piece: _Piece, sums: Expr, bits: Expr) -> Expr:
    """The instruction wants unsigned bytes first, then signed ones."""
    one = build.reinterpret(f"int8x{4 * piece.count}", Broadcast(bits, piece.count))
    operands = (one, piece.vector) if piece.vector.buffer.dtype == "int8" else (piece.vector, one)
    return _called(f"avx512.vpdpbusd.{32 * piece.count}", piece.count, sums, *operands)


def _pairs(piece: _Piece, sums: Expr, dots: Dots) -> Expr:
    """Sums with pairs of products of 16 bits."""
    bits = 32 * piece.count
    pair = build.reinterpret("int32", build.cast("int16x2", piece.one))
    one = build.reinterpret(f"int16x{2 * piece.count}", Broadcast(pair, piece.count))
    vector = build.cast(f"int16x{2 * piece.count}", piece.vector)
    if bits <= dots.fours:
        return _called(f"avx512.vpdpwssd.{bits}", piece.count, sums, one, vector)
    return build.add(sums, _called(_PAIRS[bits], piece.count, one, vector))


def _bfloats(piece: _Piece, sums: Expr, dots: Dots) -> Expr:
    """Sums with pairs of products of bfloat16."""
    one = build.reinterpret(
        f"bfloat16x{2 * piece.count}", Broadcast(build.reinterpret("int32", piece.one), piece.count)
    )
    name = StringImm(f"llvm.x86.avx512bf16.dpbf16ps.{32 * piece.count}")
    return build.call("tir.call_llvm_pure_intrin", name, sums, one, piece.vector, dtype=f"float32x{piece.count}")


class DotProducts(FuncPass):
    """Sums of a few products of short elements in lanes become instructions that add up whole groups.

    A vectorized loop around a serial one of 4 iterations (2 for 16 bits) that adds to each lane of an int32 the products of
    bytes that all lanes share with bytes of its own, which stand beside each other, would load and widen them one by one. It
    becomes ``vpdpbusd`` (for pairs ``vpdpwssd``, or ``vpmaddwd`` and an addition): 64 products at once. All of these wrap as
    sums of int32 do, so that each bit is the same.

    The instruction multiplies unsigned bytes with signed ones. Of two signed ones (or two unsigned ones) those that all lanes
    share are taken with their sign bit exchanged, 128 too large (too small). What that adds depends on the other ones alone:
    it is summed up beside the rows of a tile, and taken off behind the loop.

    Pairs of bfloat16 become ``vdpbf16ps``, which rounds otherwise than products and sums of float32, and takes subnormal numbers
    for zeros: ``bfloats`` is for those who permit that.

    ``fours``, ``pairs`` and ``bfloats`` are the bits of the widest vectors that a processor has such instructions for; 0 for
    none. Needs
    FlattenBuffer, and stands before VectorizeLoop. Not one of TIR's passes.

    >>> from tirlower.script import parse
    >>> print(DotProducts(fours=512)(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((4,), "uint8"), B: T.Buffer((16,), "int8"), C: T.Buffer((4,), "int32")):
    ...     T.func_attr({"tir.noalias": True})
    ...     for l in T.vectorized(4):
    ...         for g in range(4):
    ...             C[l] = C[l] + T.Cast("int32", A[g]) * T.Cast("int32", B[l * 4 + g])
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((4,), "uint8"), B: T.Buffer((16,), "int8"), C: T.Buffer((4,), "int32")):
        T.func_attr({"tir.noalias": True})
        C[0:4] = T.call_llvm_pure_intrin("int32x4", "llvm.x86.avx512.vpdpbusd.128", C[0:4], T.reinterpret("int8x16", T.Broadcast(T.reinterpret("int32", A[0:4]), 4)), B[0:16])
    """

    name = "tir.DotProducts"
    stage = Stage.FLAT
    fours: int = 0
    pairs: int = 0
    bfloats: int = 0

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the sums of a function."""
        dots = Dots(self.fours, self.pairs, self.bfloats)
        return func if dots == Dots() else func.with_body(_Finder(func, dots).visit(func.body))
