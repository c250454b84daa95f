"""SplitVectors: long vectors, and those of odd lengths, become native pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Let, Ramp, Shuffle, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, StmtMutator, Visitor, pre_order_visit
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each, has, nodes
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    Bind,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
    seq,
)
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.scalar_overflow import analyzer_of
from tirlower.rewrite.vectors.slices import IF_THEN_ELSE, NoSlice, Slicer

__all__ = ["SplitVectors"]

REGISTER_BITS: Final = 512
"""The widest registers; a shorter one's processor takes two for each."""
MOST_REGISTERS: Final = 16
"""Vectors of a power of two of lanes stay as they are up to so many registers."""
MOST_COPIES: Final = 8
"""More pieces than this become a loop."""
MOST_LANES: Final = 1024
"""A vector that cannot be cut is left to code generation up to so many lanes."""


S = TypeVar("S", bound=Stmt)


class _Widths(Visitor):
    """The vectors of a function: their lane counts, each with the most bits of a lane."""

    def __init__(self) -> None:
        self.bits: dict[int, int] = {}

    def visit_expr(self, root: Expr) -> None:
        for op in nodes(root):
            dtype = op.dtype
            if dtype.lanes > 1 and not dtype.scalable:
                self.bits[dtype.lanes] = max(self.bits.get(dtype.lanes, 8), 8 if dtype.is_bool else dtype.bits)


def _too_long(lanes: int, bits: int) -> bool:
    """Whether LLVM is better given pieces: it takes vectors that are no power of two apart lane by lane."""
    if lanes & (lanes - 1) == 0:
        return lanes * bits > MOST_REGISTERS * REGISTER_BITS
    return lanes * bits > REGISTER_BITS


def pieces(lanes: int, width: int) -> list[tuple[int, int]]:
    """Where the pieces of a vector begin, and their lanes: of the width, then ever smaller powers of two.

    >>> pieces(45, 16)
    [(0, 16), (16, 16), (32, 8), (40, 4), (44, 1)]
    """
    out = [(start, width) for start in range(0, lanes - width + 1, width)]
    start = len(out) * width
    while start < lanes:
        count = 1 << ((lanes - start).bit_length() - 1)
        out.append((start, count))
        start += count
    return out


class _Splitter(StmtMutator):
    def __init__(self, func: PrimFunc, widths: dict[int, int]) -> None:
        self.width = {n: max(REGISTER_BITS // bits, 1) for n, bits in widths.items() if _too_long(n, bits)}
        self.cut = frozenset(self.width)
        self.apart = bool(func.attrs.get("tir.noalias"))
        self.params = {buffer.data for buffer in func.buffer_map.values()}
        self.allocated: set[Var] = set()
        self.memory: dict[Var, BufferLoad] = {}
        self.analyzer, _ = analyzer_of(func)
        #: what must stand before the statement at hand: vectors computed into memory
        self.before: list[Stmt] = []

    # -- scopes ------------------------------------------------------------------------------------------------------

    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        for stmt in op.stmts:
            if isinstance(stmt, Bind) and stmt.value.dtype.lanes in self.cut:
                done += self._bind(stmt)
            else:
                done.append(self.visit(stmt))
        return (
            op.with_(stmts=tuple(done))
            if any(a is not b for a, b in zip(done, op.stmts, strict=False)) or len(done) != len(op.stmts)
            else op
        )

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        self.allocated.add(op.buffer.data)
        return op

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        self.allocated.add(op.buffer.data)
        return op

    def visit_Bind(self, op: Bind) -> Stmt:
        if op.value.dtype.lanes in self.cut:
            return seq()  # the whole of its scope: nothing reads it
        return self._scalar(op, "value")

    def _bind(self, op: Bind) -> list[Stmt]:
        """A long vector that is given a name is computed into memory."""
        outer, self.before = self.before, []
        try:
            self.memory[op.var] = self._compute(self._whole(op.value), op.var.name)
            return self.before
        except NoSlice as reason:
            self._refuse_long(op, reason)
            return [op]
        finally:
            self.before = outer

    # -- memory for vectors ------------------------------------------------------------------------------------------

    def _compute(self, value: Expr, name: str) -> BufferLoad:
        """A load of a vector that is computed before the statement."""
        lanes = value.dtype.lanes
        buffer = Buffer(name, (const(lanes, "int32"),), value.dtype.element, scope="local")
        self.allocated.add(buffer.data)
        index = Ramp(const(0, "int32"), const(1, "int32"), lanes)
        if isinstance(value, Var):
            stores: list[Stmt] = [BufferStore(buffer, value, (index,))]
        elif isinstance(value, Shuffle):
            stores = self._shuffled(value, buffer)
        else:
            stores = [self._pieces(BufferStore(buffer, value, (index,)))]
        self.before += [AllocBuffer(buffer), *stores]
        return BufferLoad(buffer, (index,))

    def _shuffled(self, op: Shuffle, buffer: Buffer) -> list[Stmt]:
        """A shuffle of long vectors into memory: vector behind vector, or element by element from a table of places."""
        picks = [index.value for index in op.indices if isinstance(index, IntImm)]
        total = sum(vector.dtype.lanes for vector in op.vectors)
        stores: list[Stmt] = []
        if picks == list(range(total)):
            start = 0
            for vector in op.vectors:
                lanes = vector.dtype.lanes
                first = const(start, "int32")
                index = first if lanes == 1 else Ramp(first, const(1, "int32"), lanes)
                stores.append(self._pieces(BufferStore(buffer, self._whole(vector), (index,))))
                start += lanes
            return stores
        if len(picks) != len(op.indices):
            raise NoSlice("a shuffle whose indices are no constants")
        whole = Shuffle(op.vectors, tuple(const(i, "int32") for i in range(total)))
        source = self._compute(whole if len(op.vectors) > 1 else self._whole(op.vectors[0]), "lanes")
        table = Buffer("places", (const(len(picks), "int32"),), DataType("int32"), scope="global")
        self.allocated.add(table.data)
        self.before.append(AllocConst(table, np.array(picks, "int32")))
        i = Var("i", DataType("int32"))
        value = BufferLoad(source.buffer, (BufferLoad(table, (i,)),))
        store = BufferStore(buffer, value, (i,))
        return [For(i, const(0, "int32"), const(len(picks), "int32"), ForKind.SERIAL, None, {}, store)]

    def _spill(self, value: Expr) -> BufferLoad:
        if isinstance(value, Var) and value in self.memory:
            return self.memory[value]
        return self._compute(self._whole(value), "lanes")

    # -- statements --------------------------------------------------------------------------------------------------

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        if op.value.dtype.lanes in self.cut:
            return self._scoped(op, self._store)
        return self._scalar(op, "value")

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return self._scalar(op, "value")

    def visit_Assert(self, op: Assert) -> Stmt:
        return self._scalar(op, "condition")

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        return self._scalar(op, "condition", self.generic)

    def visit_For(self, op: For) -> Stmt:
        return self._scalar(op, "min", lambda one: self._scalar(one, "extent", self.generic))

    def visit_While(self, op: While) -> Stmt:
        # Evaluated again and again: vectors that were computed before may be read, none be computed.
        known = len(self.before)
        condition = self._whole(op.condition)
        if len(self.before) > known:
            del self.before[known:]
            condition = op.condition
            self._refuse_long(op, NoSlice("it stands in the condition of a while"))
        return self.generic(op.with_(condition=condition))

    def _scoped(self, op: S, rewrite: Callable[[S], Stmt]) -> Stmt:
        """A rewritten statement, behind what it computes into memory first; as it was where it has no pieces."""
        outer, self.before = self.before, []
        try:
            made = rewrite(op)
            return as_scope(seq(*self.before, made)) if self.before else made
        except NoSlice as reason:
            self._refuse_long(op, reason)
            return self.generic(op)
        finally:
            self.before = outer

    def _refuse_long(self, op: Stmt, reason: NoSlice) -> None:
        longest = _longest(op)
        if longest > MOST_LANES:
            raise TransformError(
                f"a vector of {longest} lanes cannot be taken apart: {reason}",
                span=op.span,
                help=f"use a loop, or vectors of at most {MOST_LANES} lanes",
            ) from reason

    def _scalar(self, op: S, name: str, rest: Callable[[S], Stmt] = lambda one: one) -> Stmt:
        """A statement about a scalar: lanes of long vectors in it come from memory."""
        root = getattr(op, name)
        if not self._mentions(root):
            return rest(op)

        def rewrite(one: S) -> Stmt:
            made = self._whole(root)
            if self._mentions(made):
                raise NoSlice("what is computed from all of its lanes has no pieces")
            return rest(one.with_(**{name: made}))

        return self._scoped(op, rewrite)

    def _mentions(self, root: Expr) -> bool:
        return any(node.dtype.lanes in self.cut for node in nodes(root))

    def _whole(self, root: Expr) -> Expr:
        """An expression in which long vectors that are bound inside it, or of which a shorter one takes lanes, come
        from memory."""
        if not self._mentions(root):
            return root
        return _Inner(self).visit_expr(root)

    def _store(self, op: BufferStore) -> Stmt:
        op = op.with_(
            value=self._whole(op.value),
            indices=tuple(map(self._whole, op.indices)),
            predicate=None if op.predicate is None else self._whole(op.predicate),
        )
        if self._order_matters(op):
            value = self._compute(op.value, "value")
            indices = op.indices
            if not all(_plain(index) for index in indices):
                indices = (*indices[:-1], self._compute(indices[-1], "index"))
            mask = op.predicate
            if mask is not None and not _plain(mask):
                mask = self._compute(mask, "mask")
            op = op.with_(value=value, indices=indices, predicate=mask)
        return self._pieces(op)

    def _pieces(self, op: BufferStore) -> Stmt:
        lanes = op.value.dtype.lanes
        if lanes not in self.cut:
            return op
        group = op.buffer.dtype.lanes
        if group > 1 and (self.width[lanes] % group or not op.indices[-1].dtype.is_vector):
            raise NoSlice(f"a part of an element of {op.buffer.name!r}")
        width = self.width[lanes]
        cut = pieces(lanes, width)
        whole = lanes // width
        done: list[Stmt] = []
        if whole > MOST_COPIES:
            p = Var("p", DataType("int32"))
            body = self._piece(op, build.mul(p, const(width, "int32")), width)
            done.append(For(p, const(0, "int32"), const(whole, "int32"), ForKind.SERIAL, None, {}, body, span=op.span))
            cut = cut[whole:]
        done += [self._piece(op, start, count) for start, count in cut]
        return seq(*done)

    def _piece(self, op: BufferStore, start: int | Expr, count: int) -> Stmt:
        slicer = Slicer(start, count, self._spill, self.cut)
        group = op.buffer.dtype.lanes
        value = slicer.of(op.value)
        if group > 1:
            first = start // group if isinstance(start, int) else build.floordiv(start, const(group, "int32"))
            slicer = Slicer(first, count // group, self._spill, self.cut)
        index = slicer.of(op.indices[-1])
        mask = None if op.predicate is None else slicer.of(op.predicate)
        return op.with_(value=value, indices=(*op.indices[:-1], index), predicate=mask)

    # -- order -------------------------------------------------------------------------------------------------------

    def _order_matters(self, op: BufferStore) -> bool:
        """Whether a piece's loads may read what an earlier piece stored."""
        found = False

        def look(node: Expr | None) -> bool:
            nonlocal found
            if isinstance(node, BufferLoad):
                found = found or self._may_read_stored(node, op)
            elif isinstance(node, Call):
                pure = isinstance(node.op, Op) and node.op.purity <= Purity.PURE
                found = found or not pure
                if not isinstance(node.op, Op) or node.op.purity >= Purity.WRITES:
                    raise NoSlice(f"a call of {node.op.name}, which has effects")
            return not found

        for part in (op.value, *op.indices, *([op.predicate] if op.predicate is not None else [])):
            pre_order_visit(part, look)
        return found

    def _may_read_stored(self, load: BufferLoad, store: BufferStore) -> bool:
        mine, theirs = load.buffer, store.buffer
        if mine.data is not theirs.data:
            known = self.allocated | self.params
            if mine.data not in known or theirs.data not in known:
                return True
            both_given = mine.data in self.params and theirs.data in self.params
            return both_given and not self.apart
        if mine is not theirs:
            return True
        first, second = load.indices, store.indices
        if any(not self.analyzer.can_prove_equal(a, b) for a, b in zip(first[:-1], second[:-1], strict=True)):
            return True
        a, b = first[-1], second[-1]
        if not isinstance(a, Ramp) or not isinstance(b, Ramp) or a.lanes != b.lanes or a.base.dtype != b.base.dtype:
            return True
        step = self.analyzer.simplify(b.stride)
        gap = self.analyzer.simplify(build.sub(a.base, b.base))
        if not isinstance(step, IntImm) or step.value == 0 or not self.analyzer.can_prove_equal(a.stride, b.stride):
            return True
        if not isinstance(gap, IntImm) or not isinstance(a.lanes, int):
            return True
        # Lane j reads what lane i < j wrote where base_a + step * j = base_b + step * i.
        return gap.value % step.value == 0 and -a.lanes < gap.value // step.value < 0


class _Inner(Mutator):
    """Takes out of an expression what its pieces cannot hold: lets of long vectors, and lanes picked from them."""

    def __init__(self, outer: _Splitter) -> None:
        self.outer = outer

    def visit_Var(self, op: Var) -> Expr:
        found = self.outer.memory.get(op)
        return op if found is None else found

    def visit_Call(self, op: Call) -> Expr:
        if op.op is not IF_THEN_ELSE:
            return self.generic(op)
        condition = self.visit(op.args[0])
        known = len(self.outer.before)
        arms = [self.visit(arm) for arm in op.args[1:]]
        if len(self.outer.before) > known:
            raise NoSlice("it stands in one arm of an if_then_else")
        args = (condition, *arms)
        return op if all(a is b for a, b in zip(args, op.args, strict=True)) else op.with_(args=args)

    def visit_Let(self, op: Let) -> Expr:
        if op.value.dtype.lanes not in self.outer.cut:
            return self.generic(op)
        self.outer.memory[op.var] = self.outer._compute(self.visit(op.value), op.var.name)
        return self.visit(op.body)

    def visit_Shuffle(self, op: Shuffle) -> Expr:
        op = self.generic(op)
        lanes, outer = op.dtype.lanes, self.outer
        if lanes in outer.cut or not any(vector.dtype.lanes in outer.cut for vector in op.vectors):
            return op
        picks = [index.value for index in op.indices if isinstance(index, IntImm)]
        if len(op.vectors) == 1 and len(op.indices) == 1:
            if picks:
                # A lane alone: of an assertion, say, that tests one lane after the other.
                return Slicer(picks[0], 1, outer._spill, outer.cut).of(op.vectors[0])
            load = outer._spill(op.vectors[0])
            return BufferLoad(load.buffer, (build.cast("int32", op.indices[0]),), span=op.span)
        if len(picks) != lanes:
            raise NoSlice("a shuffle whose indices are no constants")
        return Slicer(0, lanes, outer._spill, outer.cut).on_Shuffle(op, 0, lanes)


def _plain(expr: Expr) -> bool:
    """Whether an expression reads no memory."""
    return not has((BufferLoad, Call), expr)


def _longest(op: Stmt) -> int:
    return max((node.dtype.lanes for node in each(Expr, op)), default=1)


class SplitVectors(FuncPass):
    """Vectors longer than registers, or of an odd number of lanes, are computed in native pieces.

    All lanes of a statement read before any of them writes. So a long vector statement becomes copies, or a loop, of
    the same statement on pieces of 512 bits where that order cannot be observed, and is computed into memory and copied
    from there where it can. A name for a long vector becomes memory. Vectors of a power of two of lanes stay whole up to
    16 registers, others up to one; those that have no pieces (the operands of ``llvm.vector.reduce``) up to 1,024 lanes.

    Needs nothing; in a pipeline it stands after VectorizeLoop. Raises :class:`TransformError` for a longer vector that
    cannot be taken apart.

    >>> from tirlower.script import parse
    >>> print(SplitVectors()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((24,), "float32"), B: T.Buffer((24,), "float32")):
    ...     T.func_attr({"tir.noalias": True})
    ...     B[0:24] = A[0:24] + T.Broadcast(T.float32(1), 24)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((24,), "float32"), B: T.Buffer((24,), "float32")):
        T.func_attr({"tir.noalias": True})
        B[0:16] = A[0:16] + T.Broadcast(T.float32(1), 16)
        B[16:24] = A[16:24] + T.Broadcast(T.float32(1), 8)
    """

    name = "tir.SplitVectors"

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Split the long vectors of a function."""
        widths = _Widths()
        widths.visit(func.body)
        splitter = _Splitter(func, widths.bits)
        return func.with_body(splitter.visit(func.body)) if splitter.cut else func
