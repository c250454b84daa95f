"""VectorizeLoop: vectorized loops become vector expressions.

The lanes of a loop run in step: each statement in turn is executed for all lanes, its loads before its store. The
loop variable becomes a ramp and every expression that depends on it a vector; allocations inside are replicated for
the lanes. A statement with no vector form (a condition that differs between lanes, a call that takes scalars only, a
while loop) becomes a serial loop over the lanes of that statement alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import (
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    IntImm,
    Let,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
    const,
    is_const_int,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, post_order_visit, substitute
from tirlower.ir.op import Op
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
    seq,
)
from tirlower.ir.target import Target
from tirlower.transforms.base import FuncPass, Stage
from tirlower.transforms.context import PassContext

__all__ = ["VectorizeLoop"]


class _Scalarize(Exception):
    """Raised while vectorizing an expression that has no vector form: the statement around it is scalarized."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def broadcast_to(expr: Expr, lanes: int | Expr) -> Expr:
    """A scalar (or narrower broadcast) repeated to a number of lanes."""
    kind = expr.dtype
    if isinstance(lanes, int) and kind.lanes == lanes and not kind.scalable:
        return expr
    if not isinstance(lanes, int) and kind.scalable:
        return expr
    if (
        isinstance(expr, Broadcast)
        and isinstance(lanes, int)
        and isinstance(expr.lanes, int)
        and lanes % expr.lanes == 0
    ):
        return Broadcast(expr.value, lanes, span=expr.span)
    if kind.is_vector:
        raise _Scalarize(f"cannot repeat the {kind.lanes} lanes of {expr} to {lanes}")
    return Broadcast(expr, lanes, span=expr.span)


def _lanes(expr: Expr) -> int | Expr:
    """The lanes of a vector, as the constructors take them."""
    kind = expr.dtype
    if not kind.scalable:
        return kind.lanes
    return (
        build.mul(const(kind.lanes, "int32"), build.call("tir.vscale")) if kind.lanes != 1 else build.call("tir.vscale")
    )


def _depends(node: Any, var: Var) -> bool:
    found = False

    def look(op: Any) -> None:
        nonlocal found
        found = found or op is var

    post_order_visit(node, look)
    return found


class _LaneAllocation(Mutator):
    """Gives each lane its own part of an allocation: element ``i`` of lane ``l`` stands at ``i * lanes + l``."""

    def __init__(self, old: Buffer, new: Buffer, var: Var, lanes: Expr) -> None:
        self.old, self.new, self.var, self.lanes = old, new, var, lanes
        self.views: dict[Buffer, Buffer] = {}

    def _buffer(self, buffer: Buffer) -> Buffer | None:
        if buffer.data is not self.old.data:
            return None
        if buffer is self.old:
            return self.new
        made = self.views.get(buffer)
        if made is None:
            shape = (*buffer.shape[:-1], build.mul(buffer.shape[-1], build.cast(buffer.shape[-1].dtype, self.lanes)))
            made = buffer.with_(shape=shape, data=self.new.data)
            self.views[buffer] = made
        return made

    def _indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        last = indices[-1]
        lanes, lane = build.cast(last.dtype.element, self.lanes), build.cast(last.dtype.element, self.var)
        return (*indices[:-1], build.add(build.mul(last, lanes), lane))

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        new = self._buffer(op.buffer)
        return op if new is None else op.with_(buffer=new, indices=self._indices(op.indices))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        new = self._buffer(op.buffer)
        return op if new is None else op.with_(buffer=new, indices=self._indices(op.indices))

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        new = self._buffer(op.buffer)
        return op if new is None else op.with_(buffer=new)

    def visit_Var(self, op: Var) -> Expr:
        if op is self.old.data:
            raise _Scalarize(f"the address of the allocation {self.old.name!r} is taken inside the loop")
        return op


class _Vectorizer(Mutator):
    """Rewrites the body of one vectorized loop."""

    def __init__(self, var: Var, extent: Expr, predicated: bool) -> None:
        self.var = var
        self.extent = extent
        self.lanes: int | Expr = extent.value if isinstance(extent, IntImm) else extent
        self.ramp = Ramp(const(0, var.dtype), const(1, var.dtype), self.lanes)
        self.predicated = predicated
        self.lets: dict[Var, Expr] = {}
        self.analyzer = Analyzer()
        self.reasons: list[str] = []

    # -- expressions: operands arrive rewritten --------------------------------------------------------------------

    def visit_Var(self, op: Var) -> Expr:
        if op is self.var:
            return self.ramp
        return self.lets.get(op, op)

    def visit_expr(self, root: Any) -> Any:
        return _ExprVectorizer(self).visit_expr(root)

    # -- statements ------------------------------------------------------------------------------------------------

    def statement(self, op: Stmt, rewrite: Callable[[Any], Stmt]) -> Stmt:
        """A rewritten statement, or a loop over its lanes where it has no vector form."""
        try:
            return rewrite(op)
        except _Scalarize as reason:
            self.reasons.append(reason.reason)
            return self.scalarize(op)

    def scalarize(self, op: Stmt) -> Stmt:
        index = Var(f"{self.var.name}_s", self.var.dtype, span=self.var.span)
        restored = {var: Shuffle((new,), (index,)) for var, new in self.lets.items() if _depends(op, var)}
        body = refresh_binders(substitute(op, {self.var: index, **restored}))
        return For(index, const(0, index.dtype), self.extent, ForKind.SERIAL, None, {}, body, span=op.span)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        return self.statement(op, self._store)

    def _store(self, op: BufferStore) -> Stmt:
        value, indices = self.visit(op.value), [self.visit(i) for i in op.indices]
        predicate = None if op.predicate is None else self.visit(op.predicate)
        if (
            value is op.value
            and predicate is op.predicate
            and all(a is b for a, b in zip(indices, op.indices, strict=True))
        ):
            return op
        if not indices or any(i.dtype.is_vector for i in indices[:-1]):
            raise _Scalarize(f"an index of {op.buffer.name!r} other than the last differs between lanes")
        if not indices[-1].dtype.is_vector and not value.dtype.is_vector and predicate is None:
            return op.with_(value=value, indices=tuple(indices))
        if op.indices[-1].dtype.is_vector:
            raise _Scalarize(f"the store to {op.buffer.name!r} is a vector store already")
        inner = op.buffer.dtype.lanes
        if inner > 1:
            raise _Scalarize(f"the elements of {op.buffer.name!r} are vectors")
        indices[-1] = broadcast_to(indices[-1], self.lanes)
        if predicate is not None:
            predicate = broadcast_to(predicate, self.lanes)
        return op.with_(value=broadcast_to(value, self.lanes), indices=tuple(indices), predicate=predicate)

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return self.statement(op, self._evaluate)

    def _evaluate(self, op: Evaluate) -> Stmt:
        value = self.visit(op.value)
        if (
            value is not op.value
            and isinstance(op.value, Call)
            and op.value.dtype.is_scalar
            and not value.dtype.is_vector
        ):
            raise _Scalarize("a call with effects runs once for each lane")
        return op.with_(value=value)

    def visit_Bind(self, op: Bind) -> Stmt:
        # A value that cannot be a vector makes every use impossible: the whole scope is scalarized by the Seq.
        value = self.visit(op.value)
        if value.dtype is op.var.dtype:
            return op.with_(value=value)
        var = Var(op.var.name, value.dtype, span=op.var.span)
        self.lets[op.var] = var
        return op.with_(var=var, value=value)

    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        changed = False
        for position, stmt in enumerate(op.stmts):
            if isinstance(stmt, AllocBuffer):
                rest = seq(*op.stmts[position + 1 :])
                made = self._allocation(stmt, rest)
                if made is not None:
                    done += made
                    return Seq(tuple(done), span=op.span)
            try:
                new = self.visit(stmt)
            except _Scalarize as reason:
                # A binding without a vector form: the rest of its scope runs lane by lane.
                self.reasons.append(reason.reason)
                done.append(self.scalarize(Seq(op.stmts[position:], span=op.span)))
                return Seq(tuple(done), span=op.span)
            changed = changed or new is not stmt
            done.append(new)
        return op.with_(stmts=tuple(done)) if changed else op

    def _allocation(self, op: AllocBuffer, rest: Stmt) -> list[Stmt] | None:
        """The allocation and what follows, with a part for each lane; None where it can stay as it is."""
        if _depends(op, self.var) or any(self.visit(e).dtype.is_vector for e in op.buffer.shape):
            raise _Scalarize(f"the shape of {op.buffer.name!r} differs between lanes")
        buffer = op.buffer
        if not buffer.shape:
            buffer = op.buffer.with_(shape=(const(1, "int32"),))
        lanes = build.cast(buffer.shape[-1].dtype, self.extent)
        data = Var(op.buffer.data.name, op.buffer.data.type, span=op.buffer.data.span)
        new = buffer.with_(shape=(*buffer.shape[:-1], build.mul(buffer.shape[-1], lanes)), data=data)
        worker = _LaneAllocation(op.buffer, new, self.var, self.extent)
        replicated = worker.visit(rest)
        return [op.with_(buffer=new), self.visit(replicated)]

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        return op

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        return op

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        if _depends(op.buffer, self.var) or any(_depends(op.buffer, let) for let in self.lets):
            raise _Scalarize(f"the view {op.buffer.name!r} differs between lanes")
        return op

    def visit_For(self, op: For) -> Stmt:
        if op.kind is ForKind.VECTORIZED:
            raise TransformError(
                f"vectorized loop {op.loop_var.name!r} stands inside vectorized loop {self.var.name!r}",
                span=op.span,
                help="fuse the two, or vectorize only one",
            )
        low, extent = self.visit(op.min), self.visit(op.extent)
        if low.dtype.is_vector or extent.dtype.is_vector:
            self.reasons.append(f"the bounds of loop {op.loop_var.name!r} differ between lanes")
            return self.scalarize(op)
        return op.with_(min=low, extent=extent, body=self.body(op.body))

    def body(self, op: Stmt) -> Stmt:
        """A nested body: a scope of its own, scalarized whole where a declaration in it has no vector form."""
        try:
            return self.visit(op)
        except _Scalarize as reason:
            self.reasons.append(reason.reason)
            return self.scalarize(op)

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        return self.statement(op, self._if)

    def _if(self, op: IfThenElse) -> Stmt:
        condition = self.visit(op.condition)
        if condition.dtype.is_vector:
            if self.predicated and op.else_case is None:
                masked = _Masker(condition).visit(self.body(op.then_case))
                return masked
            raise _Scalarize(f"the condition {op.condition} differs between lanes")
        else_case = None if op.else_case is None else self.body(op.else_case)
        return op.with_(condition=condition, then_case=self.body(op.then_case), else_case=else_case)

    def visit_While(self, op: While) -> Stmt:
        self.reasons.append("a while loop runs lane by lane")
        return self.scalarize(op)

    def visit_Assert(self, op: Assert) -> Stmt:
        condition = self.visit(op.condition)
        return op if condition is op.condition else self.scalarize(op)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        value = self.visit(op.value)
        if value.dtype.is_vector:
            return self.scalarize(op)
        return op.with_(value=value, body=self.body(op.body))

    def visit_Block(self, op: Block) -> Stmt:
        raise TransformError(
            f"block {op.name!r} inside vectorized loop {self.var.name!r}",
            span=op.span,
            help="run LowerOpaqueBlock and FlattenBuffer before VectorizeLoop",
        )


class _Masker(Mutator):
    """Puts a mask on every vector access of a vectorized statement; raises where that is impossible."""

    def __init__(self, mask: Expr) -> None:
        self.mask = mask

    def _merge(self, predicate: Expr | None, lanes: int) -> Expr:
        if lanes != self.mask.dtype.lanes:
            raise _Scalarize("an access under the condition is not of the loop's lanes")
        return self.mask if predicate is None else And(self.mask, predicate)

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        lanes = op.indices[-1].dtype.lanes
        return op if lanes == 1 else op.with_(predicate=self._merge(op.predicate, lanes))

    def visit_Call(self, op: Call) -> Expr:
        if isinstance(op.op, Op) and op.op.purity.value >= 2:
            raise _Scalarize(f"a call of {op.op.name} under a condition that differs between lanes")
        return op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        if not op.indices or not op.indices[-1].dtype.is_vector:
            raise _Scalarize("a scalar store under a condition that differs between lanes")
        op = self.generic(op)
        return op.with_(predicate=self._merge(op.predicate, op.indices[-1].dtype.lanes))

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        if isinstance(op.value, Call):
            raise _Scalarize("a call under a condition that differs between lanes")
        return op

    def visit_For(self, op: For) -> Stmt:
        raise _Scalarize("a loop under a condition that differs between lanes")

    visit_While = visit_IfThenElse = visit_Assert = visit_AttrStmt = visit_AllocBuffer = visit_For


class _ExprVectorizer(Mutator):
    """The expressions of a vectorized statement, operands first."""

    def __init__(self, outer: _Vectorizer) -> None:
        self.outer = outer

    def visit_Var(self, op: Var) -> Expr:
        return self.outer.visit_Var(op)

    def _widen(self, *exprs: Expr) -> list[Expr]:
        wide = next((e for e in exprs if e.dtype.is_vector), None)
        if wide is None:
            return list(exprs)
        lanes = _lanes(wide)
        return [broadcast_to(e, lanes) for e in exprs]

    def _rebuild_pair(self, op: Any, a: Expr, b: Expr) -> Expr:
        if a.dtype.lanes == b.dtype.lanes and a.dtype.scalable == b.dtype.scalable:
            return op.with_(a=a, b=b)
        a, b = self._widen(a, b)
        return type(op)(a, b, span=op.span)

    def enter_Let(self, op: Let) -> Expr | None:
        value = self.visit(op.value)
        if value.dtype is op.var.dtype:
            return op.with_(value=value, body=self.visit(op.body))
        var = Var(op.var.name, value.dtype, span=op.var.span)
        self.outer.lets[op.var] = var
        body = self.visit(op.body)
        del self.outer.lets[op.var]
        return Let(var, value, body, span=op.span)

    # Operands of mismatched lanes would not pass the node constructors, so pairs are met before they are rebuilt.
    def enter_BinaryOp(self, op: BinaryOp) -> Expr | None:
        a, b = self.visit(op.a), self.visit(op.b)
        if a is op.a and b is op.b:
            return op
        if isinstance(op, (Add, Sub)):
            fn = build.add if isinstance(op, Add) else build.sub
            if isinstance(b, Ramp) and a.dtype.is_scalar:
                zero = const(0, b.stride.dtype)
                return Ramp(fn(a, b.base), fn(zero, b.stride), b.lanes, span=op.span)
            if isinstance(a, Ramp) and b.dtype.is_scalar:
                return Ramp(fn(a.base, b), a.stride, a.lanes, span=op.span)
        if isinstance(op, Mul):
            for ramp, factor in ((a, b), (b, a)):
                if isinstance(ramp, Ramp) and factor.dtype.is_scalar and self._positive(factor):
                    return Ramp(build.mul(ramp.base, factor), build.mul(ramp.stride, factor), ramp.lanes, span=op.span)
        return self._rebuild_pair(op, a, b)

    def _positive(self, factor: Expr) -> bool:
        if isinstance(factor, IntImm):
            return factor.value > 0
        return self.outer.analyzer.can_prove(build.gt(factor, const(0, factor.dtype)))

    def _enter_pair(self, op: Any) -> Expr | None:
        a, b = self.visit(op.a), self.visit(op.b)
        return op if a is op.a and b is op.b else self._rebuild_pair(op, a, b)

    def enter_CompareOp(self, op: CompareOp) -> Expr | None:
        return self._enter_pair(op)

    def enter_And(self, op: And) -> Expr | None:
        return self._enter_pair(op)

    def enter_Or(self, op: Or) -> Expr | None:
        return self._enter_pair(op)

    def enter_Not(self, op: Not) -> Expr | None:
        return op.with_(a=self.visit(op.a))

    def enter_Select(self, op: Select) -> Expr | None:
        c, t, f = self.visit(op.condition), self.visit(op.true_value), self.visit(op.false_value)
        if c is op.condition and t is op.true_value and f is op.false_value:
            return op
        return Select(*self._widen(c, t, f), span=op.span)

    def enter_Cast(self, op: Cast) -> Expr | None:
        value = self.visit(op.value)
        if value is op.value:
            return op
        return Cast(op.dtype.element.with_lanes(value.dtype.lanes, value.dtype.scalable), value, span=op.span)

    def enter_Ramp(self, op: Ramp) -> Expr | None:
        base, stride = self.visit(op.base), self.visit(op.stride)
        if base is op.base and stride is op.stride:
            return op
        if not isinstance(op.lanes, int) or base.dtype.scalable or stride.dtype.scalable:
            raise _Scalarize("a scalable vector inside a vectorized loop")
        if isinstance(base, Ramp) and stride.dtype.is_scalar and isinstance(base.lanes, int):
            step = build.mul(stride, const(op.lanes, stride.dtype))
            if self.outer.analyzer.can_prove_equal(base.stride, step):
                return Ramp(base.base, stride, op.lanes * base.lanes, span=op.span)
        lanes = max(base.dtype.lanes, stride.dtype.lanes)
        base, stride = broadcast_to(base, lanes), broadcast_to(stride, lanes)
        parts = [Ramp(_element(base, i), _element(stride, i), op.lanes, span=op.span) for i in range(lanes)]
        return Shuffle(tuple(parts), tuple(const(i, "int32") for i in range(lanes * op.lanes)), span=op.span)

    def enter_Broadcast(self, op: Broadcast) -> Expr | None:
        value = self.visit(op.value)
        if value is op.value:
            return op
        raise _Scalarize("a broadcast of a value that differs between lanes")

    def enter_Shuffle(self, op: Shuffle) -> Expr | None:
        vectors = [self.visit(v) for v in op.vectors]
        indices = [self.visit(i) for i in op.indices]
        same = all(a is b for a, b in zip((*vectors, *indices), (*op.vectors, *op.indices), strict=True))
        if same:
            return op
        raise _Scalarize("a shuffle of lanes inside a vectorized loop")

    def enter_BufferLoad(self, op: BufferLoad) -> Expr | None:
        indices = [self.visit(i) for i in op.indices]
        predicate = None if op.predicate is None else self.visit(op.predicate)
        if predicate is op.predicate and all(a is b for a, b in zip(indices, op.indices, strict=True)):
            return op
        if any(i.dtype.is_vector for i in indices[:-1]):
            raise _Scalarize(f"an index of {op.buffer.name!r} other than the last differs between lanes")
        if op.dtype.is_vector and (indices[-1].dtype.is_vector or predicate is not op.predicate):
            raise _Scalarize(f"the load of {op.buffer.name!r} is a vector load already")
        if predicate is not None and predicate.dtype.is_vector:
            indices[-1] = broadcast_to(indices[-1], _lanes(predicate))
        elif predicate is not None and indices[-1].dtype.is_vector:
            predicate = broadcast_to(predicate, _lanes(indices[-1]))
        return BufferLoad(op.buffer, tuple(indices), predicate, span=op.span)

    def enter_Call(self, op: Call) -> Expr | None:
        args = [self.visit(a) for a in op.args]
        if all(a is b for a, b in zip(args, op.args, strict=True)):
            return op
        callee = op.op
        name = callee.name
        if name in ("tir.if_then_else", "tir.likely"):
            if name == "tir.likely":
                return op.with_(args=tuple(args), dtype=args[0].dtype)
            if args[0].dtype.is_vector:
                raise _Scalarize("an if_then_else whose condition differs between lanes")
            t, f = self._widen(args[1], args[2])
            return op.with_(args=(args[0], t, f), dtype=t.dtype)
        elementwise = isinstance(callee, Op) and (callee.elementwise or name.startswith("tir.call_llvm_pure"))
        if not elementwise:
            raise _Scalarize(f"{name} takes no vectors")
        if name.startswith("tir.call_llvm"):
            args = [args[0], *self._widen(*args[1:])] if len(args) > 1 else args
        else:
            args = self._widen(*args)
        wide = next((a for a in args if a.dtype.is_vector), None)
        if wide is None:
            return op.with_(args=tuple(args))
        kind = op.dtype.element.with_lanes(wide.dtype.lanes * op.dtype.lanes, wide.dtype.scalable)
        return op.with_(args=tuple(args), dtype=kind)


def _element(vector: Expr, lane: int) -> Expr:
    if isinstance(vector, Broadcast):
        return vector.value
    if isinstance(vector, Ramp):
        return build.add(vector.base, build.mul(vector.stride, const(lane, vector.stride.dtype)))
    return Shuffle((vector,), (const(lane, "int32"),))


class _Loops(Mutator):
    """Finds the vectorized loops."""

    def __init__(self, target: Target | None, predicated: bool) -> None:
        self.target = target
        self.predicated = predicated
        self.reasons: dict[str, list[str]] = {}

    def visit_expr(self, root: Any) -> Any:
        return root

    def visit_For(self, op: For) -> Stmt:
        if op.kind is not ForKind.VECTORIZED:
            return self.generic(op)
        extent = op.extent
        if isinstance(extent, IntImm):
            if extent.value < 1:
                return seq()
        elif not _is_scalable(extent) or not _has_scalable_vectors(self.target):
            raise TransformError(
                f"cannot vectorize loop {op.loop_var.name!r}: its extent {extent} is not a constant",
                span=op.span,
                help="split the loop by a constant and vectorize the inner part",
            )
        body, var = op.body, op.loop_var
        if not is_const_int(op.min, 0):
            # Normalise to start at 0.
            var = Var(var.name, var.dtype, span=var.span)
            body = substitute(body, {op.loop_var: build.add(op.min, var)})
        if isinstance(extent, IntImm) and extent.value == 1:
            return self.visit(substitute(body, {var: const(0, var.dtype)}))
        worker = _Vectorizer(var, extent, self.predicated)
        made = worker.body(body)
        if worker.reasons:
            self.reasons[op.loop_var.name] = worker.reasons
        return made


def _is_scalable(extent: Expr) -> bool:
    return any(isinstance(e, Call) and e.op is Op.get("tir.vscale") for e in (extent, *extent.children()))


def _has_scalable_vectors(target: Target | None) -> bool:
    if target is None:
        return False
    features = target.get("mattr") or ()
    return "+sve" in features or "+sme" in features or "+v" in features


class _Serializer(Mutator):
    """Vectorized loops become serial ones."""

    def visit_expr(self, root: Any) -> Any:
        return root

    def visit_For(self, op: For) -> Stmt:
        op = self.generic(op)
        return op.with_(kind=ForKind.SERIAL) if op.kind is ForKind.VECTORIZED else op


class VectorizeLoop(FuncPass):
    """Vectorized loops become vector expressions; with ``enable_vectorize=False`` serial loops.

    Needs flat buffers where the loop variable is in an index other than the last. Each statement has its own vector
    form: contiguous accesses are ramps, others gathers and scatters; allocations inside the loop get a part for each
    lane; statements without a vector form become a serial loop over their lanes. ``predicate`` masks the accesses
    under a condition that differs between lanes instead.

    Raises :class:`TransformError` for a loop whose extent is neither a constant nor, for a target with scalable
    vectors, a multiple of ``T.vscale()``; for nested vectorized loops; and for blocks inside.

    >>> from tirlower.script import tir as T
    >>> @T.prim_func
    ... def twice(A: T.Buffer((4,), "float32")):
    ...     for i in T.vectorized(4):
    ...         A[i] = A[i] * T.float32(2)
    >>> "A[0:4] = A[0:4] * T.Broadcast(T.float32(2), 4)" in VectorizeLoop()(twice).script()
    True
    """

    name = "tir.VectorizeLoop"
    stage = Stage.FLAT
    options = {"enable_vectorize": True, "predicate": False}
    positional = ("enable_vectorize",)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Vectorize every vectorized loop of a function."""
        if not self.option("enable_vectorize", ctx) or ctx.option("tir.disable_vectorize"):
            return func.with_body(_Serializer().visit(func.body))
        target = func.attrs.get("target") or Target.current()
        return func.with_body(_Loops(target, self.option("predicate", ctx)).visit(func.body))
