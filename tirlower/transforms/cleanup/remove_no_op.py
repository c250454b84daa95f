"""RemoveNoOp: what does nothing goes away."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from tirlower.analysis.aliasing import same_place
from tirlower.analysis.overflow import Wrapping
from tirlower.analysis.purity import side_effect
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Not, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, Visitor
from tirlower.ir.node import Node, Role
from tirlower.ir.op import Purity
from tirlower.ir.query import each
from tirlower.ir.splice import DECLARATIONS, as_scope
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
    IfThenElse,
    Seq,
    Stmt,
    is_no_op,
    seq,
)
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.dead_store import eliminate_dead_stores
from tirlower.rewrite.fact_mutator import FactMutator, stated_fact, without_likely
from tirlower.rewrite.known_mutator import KnownMutator

__all__ = ["RemoveNoOp", "effects_of"]


def effects_of(*values: Expr, wrapping: Wrapping | None = None) -> Stmt:
    """The evaluations that must stay of values no longer needed: those that write or are opaque, and divisions that may
    end the call."""
    fails = wrapping.may_fail if wrapping is not None else lambda _: False
    return seq(*[Evaluate(v, span=v.span) for v in values if side_effect(v) > Purity.READS or fails(v)])


class _Uses(Visitor):
    """The variables and buffers that statements mention."""

    def __init__(self) -> None:
        self.vars: set[Var] = set()
        self.buffers: set[Buffer] = set()

    def visit_Var(self, op: Var) -> None:
        self.vars.add(op)

    def visit_buffer(self, buffer: Buffer) -> None:
        """A use of a buffer uses its data and the variables of its layout."""
        if buffer not in self.buffers:
            self.buffers.add(buffer)
            self.vars.update(each(Var, buffer))

    def _add(self, value: object) -> None:
        if isinstance(value, Buffer):
            self.visit_buffer(value)
        elif isinstance(value, Node):
            self.visit(value)
        elif isinstance(value, Mapping):
            for item in value.values():
                self._add(item)
        elif isinstance(value, tuple):
            for item in value:
                self._add(item)

    def generic(self, op: Node) -> None:
        """Annotations and attributes name variables and buffers too."""
        for field in op.fields:
            if field.role is Role.ATTRS:
                self._add(getattr(op, field.name))
        super().generic(op)

    def visit_Call(self, op: Call) -> None:
        self._add(op.annotations)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        for part in op.buffer.children():
            self.visit(part)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        for part in (*op.buffer.shape, *op.buffer.strides, op.buffer.elem_offset):
            self.visit(part)
        self.generic(op)

    def visit_Block(self, op: Block) -> None:
        for match in op.match_buffers:
            for part in match.buffer.children():
                self.visit(part)
        self.generic(op)


class _Remover(FactMutator, StmtMutator):
    def visit_Seq(self, op: Seq) -> Stmt:
        return as_scope(self._sequence(op, _Uses()))

    def _sequence(self, op: Seq, uses: _Uses) -> Stmt:
        """The statements that do something; ``uses`` has what else sees the declarations."""
        done: list[Stmt] = []
        with ExitStack() as facts:
            for stmt in op.stmts:
                new = self.visit(stmt)
                if not is_no_op(new):
                    done.append(new)
                self._note(new)
                fact = stated_fact(new)
                if fact is not None:
                    facts.enter_context(self.holding(fact))
        if any(isinstance(s, DECLARATIONS) for s in done):
            done = self._without_dead_declarations(done, uses)
        if done and len(done) == len(op.stmts) and all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return seq(*done)

    def _note(self, stmt: Stmt) -> None:
        """Indices may be compared through the integers that are bound."""
        self.note_binding(stmt)
        if (
            isinstance(stmt, Bind)
            and stmt.var.dtype.is_int
            and stmt.var.dtype.is_scalar
            and side_effect(stmt.value) is Purity.PURE
            and not self.wrapping.is_data(stmt.value)
            and not self.wrapping.wraps(stmt.value)
        ):
            self.analyzer.bind(stmt.var, stmt.value, allow_override=True)

    def _effects_of(self, *values: Expr) -> Stmt:
        return effects_of(*values, wrapping=self.wrapping)

    def _without_dead_declarations(self, stmts: list[Stmt], uses: _Uses) -> list[Stmt]:
        """Drop the declarations that nothing after them uses, from the back."""
        kept: list[Stmt] = []
        for stmt in reversed(stmts):
            if isinstance(stmt, Bind) and stmt.var not in uses.vars:
                stmt = self._effects_of(stmt.value)
            elif isinstance(stmt, DeclBuffer) and stmt.buffer not in uses.buffers:
                continue
            elif isinstance(stmt, (AllocBuffer, AllocConst)) and stmt.buffer.data not in uses.vars:
                stmt = self._effects_of(stmt.condition) if isinstance(stmt, AllocBuffer) else seq()
            if not is_no_op(stmt):
                uses.visit(stmt)
                kept.append(stmt)
        kept.reverse()
        return kept

    def visit_Block(self, op: Block) -> Stmt:
        if op.init is None or not isinstance(op.body, Seq):
            return super().visit_Block(op)
        # The allocations that head the body are in scope in the init too.
        uses = _Uses()
        uses.visit(op.init)
        return op.with_(init=self.visit(op.init), body=as_scope(self._sequence(op.body, uses)))

    def visit_For(self, op: For) -> Stmt:
        if self._never_runs(op.extent):
            return self._effects_of(op.min, op.extent)
        made = super().visit_For(op)
        return self._effects_of(op.min, op.extent) if isinstance(made, For) and is_no_op(made.body) else made

    def _never_runs(self, extent: Expr) -> bool:
        if self.analyzer.const_int_bound(extent).max_value <= 0:
            return True
        if extent.is_leaf or side_effect(extent) is not Purity.PURE or self.wrapping.wraps(extent):
            return False
        return self.analyzer.const_int_bound(self.analyzer.simplify(extent)).max_value <= 0

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        decided = without_likely(op.condition)
        if isinstance(decided, IntImm):
            chosen = op.then_case if decided.value else op.else_case
            return seq() if chosen is None else as_scope(self.visit(chosen))
        made = super().visit_IfThenElse(op)
        if not isinstance(made, IfThenElse):
            return made
        if is_no_op(made.else_case):
            if is_no_op(made.then_case):
                return self._effects_of(made.condition)
            return made.with_(else_case=None)
        if is_no_op(made.then_case) and made.else_case is not None:
            return IfThenElse(Not(made.condition), made.else_case, None, span=made.span)
        return made

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key == "pragma_debug_skip_region":
            return seq()
        made = self.generic(op)
        return self._effects_of(made.value) if is_no_op(made.body) else made

    def visit_Assert(self, op: Assert) -> Stmt:
        return seq() if is_const_int(op.condition, 1) else op

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return op if is_no_op(op) or not is_no_op(self._effects_of(op.value)) else seq()

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        return (
            self._effects_of(*op.indices) if isinstance(op.value, BufferLoad) and self._same_place(op, op.value) else op
        )

    def _same_place(self, store: BufferStore, load: BufferLoad) -> bool:
        """Whether a store puts back what a load takes, by the indices' form or by what they are known to be."""
        if same_place(store, load):
            return True
        if store.buffer is not load.buffer or store.predicate is not None or load.predicate is not None:
            return False
        pairs = list(zip(store.indices, load.indices, strict=True))
        return all(
            a.dtype is b.dtype
            and a.dtype.is_scalar
            and side_effect(build.eq(a, b)) is Purity.PURE
            and not self.wrapping.wraps(a)
            and not self.wrapping.wraps(b)
            and self.analyzer.can_prove_equal(a, b)
            for a, b in pairs
        )


class _KnownStores(KnownMutator, StmtMutator):
    """Removes the stores of values that certainly stand there already."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func, dataflow=True)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        if op.predicate is None and side_effect(op.value) <= Purity.READS and not self.wrapping.may_fail(op.value):
            known = self.known.value(BufferLoad(op.buffer, op.indices))
            if known is not None and self.known.equal(self.known.replaced(op.value), known):
                return effects_of(*op.indices, wrapping=self.wrapping)
        return super().visit_BufferStore(op)

    def visit_Seq(self, op: Seq) -> Stmt:
        made = super().visit_Seq(op)
        return made if made is op or not isinstance(made, Seq) else as_scope(seq(*made.stmts))


MAX_ROUNDS = 3
"""How often dead stores are looked for again in what is left; once is enough but where loops are nested."""


class RemoveNoOp(FuncPass):
    """Loops that never run or do nothing, empty branches, unused bindings, views and allocations, evaluations without
    effect, and stores of what stands there already are removed; what has an effect stays.

    Options: with ``use_dataflow_analysis`` stores of values that certainly stand there already go too (by what earlier
    stores and assumptions say of the buffer), and stores whose values are overwritten, or whose memory ends, before
    anything reads them; ``max_simplification_steps`` bounds how many accesses are looked at for that, 0 being no bound.
    Needs nothing, raises nothing; after Simplify it finds more.

    >>> from tirlower.script import parse
    >>> print(RemoveNoOp()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "int32")):
    ...     for i in range(16):
    ...         A[i] = A[i]
    ...     A[0] = 1
    ...     for i in range(0):
    ...         A[0] = 2
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "int32")):
        A[0] = 1
    """

    name = "tir.RemoveNoOp"
    use_dataflow_analysis: bool = False
    max_simplification_steps: int = 0

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Clean a function's body."""
        if not self.use_dataflow_analysis:
            return func.with_body(_Remover(func).visit(func.body))
        for _ in range(MAX_ROUNDS):
            before = func
            func = func.with_body(_KnownStores(func).visit(func.body))
            func = eliminate_dead_stores(func, self.max_simplification_steps)
            func = func.with_body(_Remover(func).visit(func.body))
            if func is before:
                break
        return func
