"""LowerAutoCopy: blocks marked as copies become vectorized copy loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import pointer_dtype
from tirlower.ir.expr import BufferLoad, Cast, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, substitute
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.scopes import names_in
from tirlower.ir.stmt import Block, BufferStore, For, ForKind, IfThenElse, Seq, Stmt
from tirlower.transforms.base import FuncPass, Stage
from tirlower.transforms.context import PassContext

__all__ = ["LowerAutoCopy"]

ORIGIN = "tir.LowerAutoCopy"
AUTO_COPY = "auto_copy"
"""Block annotation: 1 for a copy to be lowered here."""
VECTOR_BYTES = "vector_bytes"
"""Block annotation: the bytes that one vector of the copy has (default 1: no vectors)."""
LOCAL_STAGE = "local_stage"
"""Block annotation: pass the data through registers first, which a CPU's copy does anyway."""


@dataclass(eq=False)
class _Copy:
    """A nest of loops around one store of a load, under conditions or not."""

    loops: list[For]
    conditions: list[Expr]
    store: BufferStore
    load: BufferLoad


class _Lowerer(Mutator):
    def __init__(self) -> None:
        self.threads = 0
        self.analyzer = Analyzer()

    def visit_expr(self, root: Any) -> Any:
        return root

    def visit_For(self, op: For) -> Stmt:
        bound = op.kind is ForKind.THREAD_BINDING
        self.threads += bound
        made: Stmt = op.with_(body=self.visit(op.body))
        self.threads -= bound
        return made

    def visit_Block(self, op: Block) -> Stmt:
        marked = op.annotations.get(AUTO_COPY)
        # The threads of a kernel share the work of a copy; that is another lowering.
        if marked is None or _is_zero(marked) or self.threads:
            return op.with_(body=self.visit(op.body))
        if op.iters or op.init is not None or op.match_buffers:
            _refuse(
                op, "it has iterators, an init or matched buffers", "run ConvertBlocksToOpaque and LowerMatchBuffer"
            )
        if len(op.reads) != 1 or len(op.writes) != 1:
            _refuse(
                op, f"it reads {len(op.reads)} and writes {len(op.writes)} regions", "a copy reads and writes one each"
            )
        copy = _taken_apart(op)
        element = pointer_dtype(op.reads[0].buffer.dtype)
        lanes = _vector_bytes(op) * 8 // element.bits if element.is_scalar else 1
        kept = {key: v for key, v in op.annotations.items() if key not in (AUTO_COPY, VECTOR_BYTES, LOCAL_STAGE)}
        return op.with_(annotations=kept, body=self._lowered(copy, lanes) if lanes > 1 else op.body)

    def _lowered(self, copy: _Copy, lanes: int) -> Stmt:
        loops = self._coalesced(copy)
        if (
            not loops
            or loops[-1].kind is not ForKind.SERIAL
            or loops[-1].annotations
            or not self._distinct(copy, loops[-1])
        ):
            return _nest(loops, _conditional(copy))
        return _nest(loops[:-1], self._split(loops[-1], _conditional(copy), lanes))

    # Which loop is to be the vector

    def _coalesced(self, copy: _Copy) -> list[For]:
        """The loops in order, that along neighbouring elements innermost."""
        loops = copy.loops
        if len(loops) < 2 or any(op.kind is not ForKind.SERIAL or op.annotations for op in loops):
            return loops
        written = [self._unit(loop.loop_var, copy.store.indices) for loop in loops]
        read = [self._unit(loop.loop_var, copy.load.indices) for loop in loops]
        if written[-1] or not any(written) or not self._free_order(copy):
            return loops
        best = max(range(len(loops)), key=lambda at: (written[at], read[at], at))
        return [*loops[:best], *loops[best + 1 :], loops[best]]

    def _moved(self, var: Var, index: Expr) -> Expr:
        """By how much an index moves with a variable."""
        later = substitute(index, {var: build.add(var, const(1, var.dtype))})
        return self.analyzer.simplify(build.sub(later, index))

    def _unit(self, var: Var, indices: tuple[Expr, ...]) -> bool:
        """Whether a variable moves an access to the neighbouring element."""
        steps = [self._moved(var, index) for index in indices]
        return bool(steps) and is_const_int(steps[-1], 1) and all(is_const_int(step, 0) for step in steps[:-1])

    def _free_order(self, copy: _Copy) -> bool:
        """Whether the loops may be interchanged: constant-stride, each along a dimension of its own, none of them in the
        bounds of another one."""
        taken: set[int] = set()
        variables = {loop.loop_var for loop in copy.loops}
        for loop in copy.loops:
            steps = [self._moved(loop.loop_var, index) for index in copy.store.indices]
            moved = [axis for axis, step in enumerate(steps) if not is_const_int(step, 0)]
            if len(moved) != 1 or moved[0] in taken or not isinstance(steps[moved[0]], IntImm):
                return False
            if not variables.isdisjoint(v for part in (loop.min, loop.extent) for v in names_in(part)):
                return False
            taken.add(moved[0])
        return True

    def _distinct(self, copy: _Copy, loop: For) -> bool:
        """Whether the iterations of a loop write different elements."""
        steps = [self._moved(loop.loop_var, index) for index in copy.store.indices]
        return any(isinstance(step, IntImm) and step.value for step in steps)

    # The vector loop

    def _split(self, loop: For, body: Stmt, lanes: int) -> Stmt:
        """Vectors of ``lanes`` elements, and a serial loop for the rest."""
        var, low, extent = loop.loop_var, loop.min, loop.extent
        factor = const(lanes, var.dtype)
        zero = const(0, var.dtype)
        count = self.analyzer.simplify(build.floordiv(build.max_(extent, zero), factor))
        rest = self.analyzer.simplify(build.floormod(build.max_(extent, zero), factor))
        done: list[Stmt] = []
        if not is_const_int(count, 0):
            outer, inner = copy_var(var, f"{var.name}_0"), copy_var(var, f"{var.name}_1")
            at = build.add(low, build.add(build.mul(outer, factor), inner))
            vector = For(inner, zero, factor, ForKind.VECTORIZED, None, {}, substitute(body, {var: at}), span=loop.span)
            one = is_const_int(count, 1)
            done.append(
                substitute(vector, {outer: zero})
                if one
                else For(outer, zero, count, ForKind.SERIAL, None, {}, vector, span=loop.span)
            )
        if not is_const_int(rest, 0):
            tail = copy_var(var)
            at = build.add(low, build.add(build.mul(count, factor), tail))
            if done:
                body = refresh_binders(body)
            done.append(For(tail, zero, rest, ForKind.SERIAL, None, {}, substitute(body, {var: at}), span=loop.span))
        return done[0] if len(done) == 1 else Seq(tuple(done))


def _is_zero(value: Any) -> bool:
    """Whether an annotation says no."""
    return getattr(value, "value", value) in (0, False)


def _taken_apart(op: Block) -> _Copy:
    loops: list[For] = []
    conditions: list[Expr] = []
    body: Stmt = op.body
    while True:
        if isinstance(body, For) and body.kind is not ForKind.THREAD_BINDING and not conditions:
            loops.append(body)
            body = body.body
        elif isinstance(body, IfThenElse) and body.else_case is None:
            conditions.append(body.condition)
            body = body.then_case
        elif isinstance(body, Block) and not body.iters and body.init is None and not body.match_buffers:
            if not is_const_int(body.predicate, 1):
                conditions.append(body.predicate)
            body = body.body
        else:
            break
    if not isinstance(body, BufferStore):
        _refuse(
            op, f"its body is no nest of loops around one store, but a {type(body).__name__}", "mark plain copies only"
        )
    load = body.value.value if isinstance(body.value, Cast) else body.value
    if not isinstance(load, BufferLoad):
        _refuse(op, f"it stores {body.value}, which is no element of a buffer", "mark plain copies only")
    if load.buffer.data is body.buffer.data:
        _refuse(op, f"it copies within the buffer {load.buffer.name!r}", "copy from another buffer")
    return _Copy(loops, conditions, body, load)


def _conditional(copy: _Copy) -> Stmt:
    body: Stmt = copy.store
    for condition in reversed(copy.conditions):
        body = IfThenElse(condition, body)
    return body


def _nest(loops: list[For], body: Stmt) -> Stmt:
    for loop in reversed(loops):
        body = loop.with_(body=body)
    return body


def _vector_bytes(op: Block) -> int:
    value = op.annotations.get(VECTOR_BYTES, 1)
    value = getattr(value, "value", value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        _refuse(op, f"{VECTOR_BYTES} is a positive number, got {value!r}", "give the bytes of a vector, such as 16")
    return value


def _refuse(op: Block, why: str, help: str) -> NoReturn:
    raise TransformError(
        f"the block {op.name!r} cannot be lowered as a copy: {why}", origin=ORIGIN, span=op.span, help=help
    )


class LowerAutoCopy(FuncPass):
    """Blocks annotated ``auto_copy`` become copy loops with vectors of ``vector_bytes`` bytes.

    Such a block reads one region, writes one, and its body is a nest of loops around one store of an element of another
    buffer (converted, or under conditions, or not). The loop along neighbouring elements of the destination becomes the
    innermost one where the order is free, and is split by the ``vector_bytes`` of the source's elements (default 1, so no
    split): a vectorized loop, and a serial one for a rest. ``local_stage`` says to pass the data through registers, which
    a copy of a CPU does in any case. The three annotations are gone afterwards.

    This is what a CPU needs: where a loop over threads stands around the block, it is left as it is. Needs
    ConvertBlocksToOpaque; stands before LowerOpaqueBlock, which drops the annotations. Raises :class:`TransformError`
    for a marked block with iterators, with several regions read or written, or whose body is no such copy.

    >>> from tirlower.script import parse
    >>> print(LowerAutoCopy()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8, 18), "float32"), B: T.Buffer((8, 18), "float32")):
    ...     with T.block("copy"):
    ...         T.reads(A[0:8, 0:18])
    ...         T.writes(B[0:8, 0:18])
    ...         T.block_attr({"auto_copy": 1, "vector_bytes": 32})
    ...         for j, i in T.grid(18, 8):
    ...             B[i, j] = A[i, j]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8, 18), "float32"), B: T.Buffer((8, 18), "float32")):
        with T.block("copy"):
            T.reads(A[0:8, 0:18])
            T.writes(B[0:8, 0:18])
            for i in range(8):
                for j_0 in range(2):
                    for j_1 in T.vectorized(8):
                        B[i, j_0 * 8 + j_1] = A[i, j_0 * 8 + j_1]
                for j in range(2):
                    B[i, 16 + j] = A[i, 16 + j]
    """

    name = ORIGIN
    stage = Stage.OPAQUE

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the marked copies of a function."""
        return func.with_body(_Lowerer().visit(func.body))
