"""StripPrefetches: loops that fetch ahead become strips, with the prefetches of a strip in front of it, one for each line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.arith.analyzer import Analyzer
from tirlower.ir import build
from tirlower.ir.annotations import NONTEMPORAL
from tirlower.ir.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Mul,
    Sub,
    Var,
    const,
    is_const_int,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, substitute
from tirlower.ir.op import Op
from tirlower.ir.query import each, may_move, mentions, nodes, statements
from tirlower.ir.refresh import copy_var
from tirlower.ir.splice import as_scope, jumps_out, returns
from tirlower.ir.stmt import Bind, BufferStore, Evaluate, For, ForKind, IfThenElse, Seq, Stmt, While, seq
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.loop_nests import strips

__all__ = ["StripPrefetches"]

_PREFETCH: Final = Op.get("tir.prefetch")
_ADDRESS_OF: Final = Op.get("tir.address_of")

#: iterations of a strip: enough that LLVM makes vectors of them, and few enough lines that the processor has on their way
_STRIP: Final = 64
_LINE_BYTES: Final = 64

#: conditions that hold for iterations in a row: what holds where a line begins holds for all of it, or nearly
_BOUNDS: Final = (LT, LE, GT, GE, And, Add, Sub, Mul, Var, IntImm)


class _Stripper(StmtMutator):
    """Finds the loops."""

    def __init__(self, func: PrimFunc) -> None:
        self.sizes = {extent for buffer in func.buffers for extent in buffer.shape}
        self.analyzer = Analyzer()

    def visit_For(self, op: For) -> Stmt:
        parts = _parts(op)
        if parts is None:
            return self.generic(op)
        ahead, others = parts
        extent, var = op.extent, op.loop_var
        width = min(_STRIP, extent.value) if isinstance(extent, IntImm) else _STRIP
        names = [f"{var.name}_{part}" for part in ("o", "i", "t")]
        work = op.with_(body=seq(*others))
        whole, strip, rest = strips(work, width, names, self.analyzer.simplify, nonneg=extent in self.sizes)
        first = build.add(op.min, build.mul(whole.loop_var, const(width, var.dtype)))
        fetched = [self._fetch(stmt, op, first, width) for stmt in ahead]
        rest = rest.with_(annotations=op.annotations)
        return as_scope(seq(whole.with_(body=seq(*fetched, strip)), *([] if is_const_int(rest.extent, 0) else [rest])))

    def _fetch(self, stmt: Stmt, loop: For, first: Expr, width: int) -> Stmt:
        """What a statement fetches in the iterations of a strip, once for each line."""
        var = loop.loop_var
        every = min(width, *(self._iterations_of_a_line(load, var) for load in each(BufferLoad, stmt)))
        tests = (op.condition for op in statements(stmt) if isinstance(op, IfThenElse))
        if any(mentions(test, {var}) and not _is_bound(test) for test in tests):
            every = 1
        count = -(-width // every)
        at = copy_var(var, f"{var.name}_p")
        step = build.mul(at, const(every, var.dtype)) if count > 1 else const(0, var.dtype)
        made = substitute(stmt, {var: build.add(first, step)})
        return (
            For(at, const(0, var.dtype), const(count, var.dtype), ForKind.SERIAL, None, {}, made) if count > 1 else made
        )

    def _iterations_of_a_line(self, load: BufferLoad, var: Var) -> int:
        """Of how many iterations the elements lie within the bytes of one line."""
        (index,) = load.indices
        further = substitute(index, {var: build.add(var, const(1, var.dtype))})
        step = self.analyzer.simplify(build.sub(further, index))
        if not isinstance(step, IntImm):
            return 1
        size = abs(step.value) * load.dtype.bits * load.dtype.lanes // 8
        return max(1, _LINE_BYTES // size) if size else _STRIP


def _parts(loop: For) -> tuple[list[Stmt], list[Stmt]] | None:
    """The statements of a loop that only fetch ahead, and the others, which LLVM could make vectors of without those."""
    if loop.kind is not ForKind.SERIAL or loop.thread_tag is not None or set(loop.annotations) - {NONTEMPORAL}:
        return None
    if isinstance(loop.extent, IntImm) and loop.extent.value < 2:
        return None
    if not may_move(loop.min) or not may_move(loop.extent):
        return None  # the strips, and what is left, ask for them anew
    body: Sequence[Stmt] = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    ahead = [stmt for stmt in body if _fetches(stmt)]
    others = [stmt for stmt in body if not _fetches(stmt)]
    inner = list(statements(*others))
    if not ahead or not any(isinstance(stmt, BufferStore) for stmt in inner):
        return None
    if any(isinstance(stmt, (For, While)) or _is_prefetch(stmt) for stmt in inner):
        return None
    if jumps_out(loop.body) or returns(loop.body):
        return None
    bound = {stmt.var for stmt in inner if isinstance(stmt, Bind)}
    return None if any(mentions(stmt, bound) for stmt in ahead) else (ahead, others)


def _is_prefetch(stmt: object) -> bool:
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op is _PREFETCH


def _fetches(stmt: Stmt) -> bool:
    """Whether a statement does nothing but fetch elements, whose places follow from the loops alone."""
    if isinstance(stmt, IfThenElse):
        return stmt.else_case is None and may_move(stmt.condition) and _fetches(stmt.then_case)
    if isinstance(stmt, Seq):
        return bool(stmt.stmts) and all(map(_fetches, stmt.stmts))
    if not _is_prefetch(stmt):
        return False
    assert isinstance(stmt, Evaluate) and isinstance(stmt.value, Call)
    where, *rest = stmt.value.args
    load = where.args[0] if isinstance(where, Call) and where.op is _ADDRESS_OF else None
    return isinstance(load, BufferLoad) and len(load.indices) == 1 and all(map(may_move, (*load.indices, *rest)))


def _is_bound(condition: Expr) -> bool:
    return all(isinstance(part, _BOUNDS) for part in nodes(condition))


class StripPrefetches(FuncPass):
    """Innermost loops that fetch elements ahead become strips of 64 iterations, in front of which a line is fetched once.

    LLVM makes no vectors of a loop with a prefetch in it, and the prefetch of each element fetches a line as often as it
    has elements. The iterations behind the last whole strip fetch nothing. Loops whose prefetches depend on memory or on
    names of the body stay, and so do loops around loops.

    Ours, not TIR's. Needs FlattenBuffer, and stands before VectorizeLoop.

    >>> from tirlower.script import parse
    >>> print(StripPrefetches()(parse('''
    ... @T.prim_func
    ... def double(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    ...     for i in range(1000):
    ...         T.prefetch(T.address_of(A[i + 256]), 0, 3, 1)
    ...         B[i] = A[i] * 2.0
    ... ''')).script())
    @T.prim_func
    def double(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
        for i_o in range(15):
            for i_p in range(4):
                T.prefetch(T.address_of(A[i_o * 64 + i_p * 16 + 256]), 0, 3, 1)
            for i_i in range(64):
                B[i_o * 64 + i_i] = A[i_o * 64 + i_i] * T.float32(2)
        for i_t in range(40):
            B[960 + i_t] = A[960 + i_t] * T.float32(2)
    """

    name = "tir.StripPrefetches"
    stage = Stage.FLAT

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Make strips of the loops of a function."""
        if not any(map(_is_prefetch, statements(func.body))):
            return func
        return func.with_body(_Stripper(func).visit(func.body))
