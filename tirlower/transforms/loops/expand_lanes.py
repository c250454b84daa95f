"""ExpandLanes: vectorized loops become serial ones that compute what lanes in step do, whatever memory they share.

Each statement in turn runs for all lanes, its loads before its store: a loop over the lanes that evaluates, into a
temporary array, and a loop that stores. Nothing is assumed of what the lanes read and write, so this is right where
the proof that lets VectorizeLoop make groups of lanes, or serial tails, does not hold: where arrays overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.expr import BufferLoad, Expr, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Dispatch, StmtMutator, substitute
from tirlower.ir.op import Purity
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.splice import as_scope, jumps_out, returns
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
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
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.vectors.expressions import depends_on
from tirlower.rewrite.vectors.masks import Scalarize
from tirlower.rewrite.vectors.memory import LaneAllocation

__all__ = ["ExpandLanes"]

Axis = tuple[Var, Expr, Expr]
"""A loop over lanes: its variable, start and extent."""


class _Lanes(Dispatch[Stmt, None, list[Stmt]]):
    """The lanes of one vectorized loop (and of those around it): rewrites the statements of its body.

    ``values`` are what names bound in the body stand for, in terms of the lanes' variables; ``mask`` is the lane's flag
    where not all run.
    """

    def __init__(self, axes: Sequence[Axis], values: dict[Var, Expr], mask: Expr | None) -> None:
        self.axes = list(axes)
        self.values = dict(values)
        self.mask = mask
        slot: Expr | None = None
        count: Expr | None = None
        for var, low, extent in self.axes:
            dtype = var.dtype if len(self.axes) == 1 else "int64"
            own = build.cast(dtype, build.sub(var, low))
            wide = build.cast(dtype, extent)
            slot = own if slot is None else build.add(build.mul(slot, wide), own)
            count = wide if count is None else build.mul(count, wide)
        assert slot is not None and count is not None
        self.slot, self.count = slot, count

    # -- building blocks ---------------------------------------------------------------------------------------------

    def refuse(self, what: str, op: Stmt) -> NoReturn:
        """There is no such form."""
        raise TransformError(
            f"the lanes of vectorized loop {self.axes[-1][0].name!r} cannot run one after another: {what}",
            span=op.span,
            help="make the loop serial",
        )

    def temporary(self, name: str, dtype: DataType | str) -> tuple[AllocBuffer, BufferLoad]:
        """A place for a value of each lane, and the load of the lane's own."""
        shape = (build.max_(self.count, const(1, self.count.dtype)),)
        buffer = Buffer(name, shape, DataType(dtype), Var(name, PointerType(dtype)))
        return AllocBuffer(buffer), BufferLoad(buffer, (self.slot,))

    def put(self, place: BufferLoad, value: Expr) -> BufferStore:
        """Keep a value of a lane."""
        return BufferStore(place.buffer, value, place.indices)

    def each(self, body: Stmt, masked: bool = True) -> Stmt:
        """A statement for each lane, one after another."""
        if masked and self.mask is not None:
            body = IfThenElse(self.mask, body, None)
        for var, low, extent in reversed(self.axes):
            lane = Var(var.name, var.dtype, span=var.span)
            body = For(lane, low, extent, ForKind.SERIAL, None, {}, substitute(body, {var: lane}), span=body.span)
        return refresh_binders(body)

    def at(self, expr: Expr) -> Expr:
        """An expression with what its names stand for."""
        return substitute(expr, self.values) if self.values else expr

    def varies(self, *exprs: Expr) -> bool:
        """Whether expressions may differ between lanes."""
        own = {var for var, _, _ in self.axes}
        return any(depends_on(self.at(expr), own) for expr in exprs)

    def kept(self, name: str, value: Expr, out: list[Stmt]) -> Expr:
        """A value as it is for each lane now: itself where no store changes it, else kept in a temporary."""
        if side_effect(value) is Purity.PURE:
            return value
        alloc, own = self.temporary(name, value.dtype)
        out += [alloc, self.each(self.put(own, value))]
        return own

    def narrowed(self, name: str, condition: Expr, out: list[Stmt]) -> BufferLoad:
        """The flag of the lanes that run, and for which a condition holds."""
        alloc, own = self.temporary(name, "bool")
        out.append(alloc)
        if self.mask is not None:
            out.append(self.each(self.put(own, const(False, "bool")), masked=False))
        out.append(self.each(self.put(own, condition)))
        return own

    def inner(self, mask: Expr | None) -> _Lanes:
        """The same lanes, some of them off."""
        return _Lanes(self.axes, self.values, mask)

    # -- statements --------------------------------------------------------------------------------------------------

    def scope(self, op: Stmt) -> Stmt:
        """A statement that is a scope of its own."""
        before = dict(self.values)
        out: list[Stmt] = []
        self.statements(op.stmts if isinstance(op, Seq) else (op,), out)
        self.values = before
        return as_scope(seq(*out))

    def statements(self, stmts: Sequence[Stmt], out: list[Stmt]) -> None:
        """Statements in order."""
        for at, op in enumerate(stmts):
            if isinstance(op, AllocBuffer):
                self.allocation(op, stmts[at + 1 :], out)
                return
            self.dispatch(op, out)

    def on_Seq(self, op: Seq, out: list[Stmt]) -> None:
        out.append(self.scope(op))

    def on_Evaluate(self, op: Evaluate, out: list[Stmt]) -> None:
        out.append(self.each(op.with_(value=self.at(op.value))))

    def on_Assert(self, op: Assert, out: list[Stmt]) -> None:
        out.append(self.each(op.with_(condition=self.at(op.condition), message=self.at(op.message))))

    def on_AttrStmt(self, op: AttrStmt, out: list[Stmt]) -> None:
        if self.varies(op.value):
            self.refuse(f"the attribute {op.key!r} differs between them", op)
        own = any(op.node is var for var, _, _ in self.axes)
        body = self.scope(op.body)
        out.append(body if own else op.with_(value=self.at(op.value), body=body))

    def on_AllocConst(self, op: AllocConst, out: list[Stmt]) -> None:
        out.append(op)

    def on_DeclBuffer(self, op: DeclBuffer, out: list[Stmt]) -> None:
        if self.varies(*op.buffer.shape, *op.buffer.strides, op.buffer.elem_offset):
            self.refuse(f"the view {op.buffer.name!r} differs between them", op)
        out.append(op)

    def otherwise(self, op: Stmt, out: list[Stmt]) -> None:
        """Any other statement is refused."""
        self.refuse(f"a {type(op).__name__} has no lanes", op)

    def on_BufferStore(self, op: BufferStore, out: list[Stmt]) -> None:
        """All lanes evaluate, then all lanes store."""
        mine: list[Stmt] = []
        value = self.kept("lanes", self.at(op.value), mine)
        indices = tuple(self.kept("index", self.at(index), mine) for index in op.indices)
        predicate = None if op.predicate is None else self.kept("predicate", self.at(op.predicate), mine)
        mine.append(self.each(op.with_(value=value, indices=indices, predicate=predicate)))
        out.append(as_scope(seq(*mine)))

    def on_Bind(self, op: Bind, out: list[Stmt]) -> None:
        """A value of each lane under one name."""
        value = self.at(op.value)
        if value.dtype.is_handle and self.varies(value):
            self.refuse(f"the pointer {op.var.name!r} differs between them", op)
        if value.dtype.is_handle:
            out.append(op.with_(value=value))
        else:
            self.values[op.var] = self.kept(op.var.name, value, out)

    def allocation(self, op: AllocBuffer, rest: Sequence[Stmt], out: list[Stmt]) -> None:
        """Memory of its own for each lane, and the statements that use it."""
        if self.varies(op.condition, *op.buffer.shape):
            self.refuse(f"the shape of {op.buffer.name!r} differs between them", op)
        body: tuple[Stmt, ...] = tuple(rest)
        buffer = op.buffer
        try:
            for lane, low, extent in self.axes:
                worker = LaneAllocation(buffer, build.sub(lane, low), extent)  # type: ignore[arg-type]
                body = tuple(worker.visit(stmt) for stmt in body)
                buffer = worker.new
        except Scalarize as why:
            self.refuse(str(why), op)
        out.append(op.with_(buffer=buffer))
        self.statements(body, out)

    def on_IfThenElse(self, op: IfThenElse, out: list[Stmt]) -> None:
        """The lanes of each side, side by side."""
        condition = self.at(op.condition)
        if not self.varies(condition) and side_effect(condition) is Purity.PURE:
            other = None if op.else_case is None else self.scope(op.else_case)
            out.append(IfThenElse(condition, self.scope(op.then_case), other, span=op.span))
            return
        mine: list[Stmt] = []
        yes = self.narrowed("taken", condition, mine)
        no = self.narrowed("other", build.logical_not(yes), mine) if op.else_case is not None else None
        mine.append(self.inner(yes).scope(op.then_case))
        if op.else_case is not None:
            mine.append(self.inner(no).scope(op.else_case))
        out.append(as_scope(seq(*mine)))

    def on_For(self, op: For, out: list[Stmt]) -> None:
        """A loop inside: each step for all lanes that still have one; lanes of a vectorized one are more lanes."""
        if op.kind not in (ForKind.SERIAL, ForKind.UNROLLED, ForKind.VECTORIZED, ForKind.PARALLEL):
            self.refuse(f"loop {op.loop_var.name!r} is {op.kind.value}", op)
        if jumps_out(op.body) or returns(op.body):
            self.refuse(f"they may leave loop {op.loop_var.name!r} at different times", op)
        low, extent = self.at(op.min), self.at(op.extent)
        known = not self.varies(low, extent) and side_effect(build.add(low, extent)) is Purity.PURE
        if op.kind is ForKind.VECTORIZED:
            if not known:
                self.refuse(f"the bounds of loop {op.loop_var.name!r} differ between them", op)
            out.append(_Lanes([*self.axes, (op.loop_var, low, extent)], self.values, self.mask).scope(op.body))
            return
        if known:
            out.append(op.with_(min=low, extent=extent, kind=ForKind.SERIAL, annotations={}, body=self.scope(op.body)))
            return
        mine: list[Stmt] = []
        first = self.kept("first", build.cast(op.loop_var.dtype, low), mine)
        alloc, steps = self.temporary("steps", "int64")
        most, longest = _single("most", "int64")
        count = self.put(steps, build.cast("int64", extent))
        longer = IfThenElse(build.gt(steps, longest), BufferStore(most, steps, longest.indices), None)
        mine += [AllocBuffer(most), BufferStore(most, const(0, "int64"), longest.indices), alloc]
        mine.append(self.each(Seq((count, longer))))
        step = Var("step", DataType("int64"))
        body: list[Stmt] = []
        going = self.narrowed("going", build.lt(step, steps), body)
        within = self.inner(going)
        within.values[op.loop_var] = build.add(first, build.cast(op.loop_var.dtype, step))
        body.append(within.scope(op.body))
        mine.append(For(step, const(0, "int64"), longest, ForKind.SERIAL, None, {}, as_scope(seq(*body)), span=op.span))
        out.append(as_scope(seq(*mine)))

    def on_While(self, op: While, out: list[Stmt]) -> None:
        """Until no lane goes on."""
        if jumps_out(op.body) or returns(op.body):
            self.refuse("they may leave a while loop at different times", op)
        mine: list[Stmt] = []
        alloc, going = self.temporary("going", "bool")
        on = self.mask if self.mask is not None else const(True, "bool")
        mine += [alloc, self.each(self.put(going, on), masked=False)]
        some, flag = _single("some", "bool")
        mine += [AllocBuffer(some), BufferStore(some, const(True, "bool"), flag.indices)]
        within = self.inner(going)
        body = [BufferStore(some, const(False, "bool"), flag.indices)]
        body.append(within.each(within.put(going, within.at(op.condition))))  # type: ignore[arg-type]
        body.append(within.each(BufferStore(some, const(True, "bool"), flag.indices)))  # type: ignore[arg-type]
        body.append(within.scope(op.body))  # type: ignore[arg-type]
        mine.append(While(flag, as_scope(seq(*body)), span=op.span))
        out.append(as_scope(seq(*mine)))


def _single(name: str, dtype: str) -> tuple[Buffer, BufferLoad]:
    """A place for one value, and its load."""
    kind = DataType(dtype)
    buffer = Buffer(name, (const(1, "int32"),), kind, Var(name, PointerType(kind)))
    return buffer, BufferLoad(buffer, (const(0, "int32"),))


class _Loops(StmtMutator):
    """Finds the outermost vectorized loops."""

    def visit_For(self, op: For) -> Stmt:
        if op.kind is not ForKind.VECTORIZED:
            return self.generic(op)
        lanes = _Lanes([(op.loop_var, op.min, op.extent)], {}, None)
        if jumps_out(op.body) or returns(op.body):
            lanes.refuse("one may break, continue or return alone", op)
        return lanes.scope(op.body)


class ExpandLanes(FuncPass):
    """Vectorized loops become serial loops over each statement in turn: all lanes evaluate, then all lanes store.

    What lanes in step compute is kept whatever memory they share: nothing is taken from a proof that they are
    independent, as VectorizeLoop takes it for its groups and tails. Conditions, and loops whose bounds differ between
    lanes, become flags of the lanes; allocations inside get a part for each lane.

    Stands in VectorizeLoop's place where arrays may overlap. Needs LowerOpaqueBlock. Raises :class:`TransformError`
    for a loop that a lane may leave alone, and for what differs between lanes and has no place in memory: a pointer, a
    view, the shape of an allocation.

    >>> from tirlower.script import parse
    >>> print(ExpandLanes()(parse('''
    ... @T.prim_func
    ... def shift(A: T.Buffer((9,), "int32")):
    ...     for i in T.vectorized(8):
    ...         A[i + 1] = A[i]
    ... ''')).script())
    @T.prim_func
    def shift(A: T.Buffer((9,), "int32")):
        lanes = T.alloc_buffer((8,), "int32")
        for i in range(8):
            lanes[i] = A[i]
        for i in range(8):
            A[i + 1] = lanes[i]
    """

    name = "tir.ExpandLanes"
    stage = Stage.FLAT
    needs = (Fact.LANES, Fact.UNMARKED, Fact.UNORDERED)
    breaks = (Fact.VECTOR_LOOPS, Fact.SINGLE_STATEMENTS)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Expand the vectorized loops of a function."""
        return func.with_body(_Loops().visit(func.body))
