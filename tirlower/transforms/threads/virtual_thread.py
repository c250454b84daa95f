"""InjectVirtualThread: the iterations of a virtual thread axis run interleaved, statement by statement."""

from __future__ import annotations

from typing import NoReturn

from tirlower.analysis.purity import side_effect
from tirlower.analysis.thread_axes import is_virtual_axis
from tirlower.analysis.vthread_dependence import JUMPS, ONCE, Uses, touched_by, uses_of
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.binding import buffer_variables
from tirlower.ir.buffer import Buffer, pointer_dtype
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Let, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, Substituter, Visitor, substitute
from tirlower.ir.op import Purity
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.splice import DECLARATIONS, as_scope, jumps_out, returns
from tirlower.ir.stmt import (
    AllocBuffer,
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
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.copies import CopiedBuffer, CopyAccesses, is_flat

__all__ = ["InjectVirtualThread"]

ORIGIN = "tir.InjectVirtualThread"
UNROLLED = 16
"""From this many virtual threads on, a statement is looped over rather than copied for each."""


class _Checks(Visitor):
    """Refuses what cannot stand among virtual threads."""

    def __init__(self, loop: For) -> None:
        self.loop = loop

    def visit_expr(self, root: Expr) -> None:
        """Expressions are no concern."""

    def visit_While(self, op: While) -> None:
        _refuse(self.loop, op, "a while loop stands inside", "use a for loop with a condition in its body")

    def visit_Block(self, op: Block) -> None:
        _refuse(self.loop, op, f"the block {op.name!r} is left", "run LowerOpaqueBlock and FlattenBuffer first")

    def visit_For(self, op: For) -> None:
        if not is_const_int(op.min, 0):
            _refuse(
                self.loop,
                op,
                f"the loop {op.loop_var.name!r} starts at {op.min}, not at 0",
                "start it at 0 and add its minimum where the variable is used",
            )
        self.visit(op.body)


def _refuse(loop: For, at: Stmt, why: str, help: str) -> NoReturn:
    raise TransformError(
        f"the virtual threads {loop.loop_var.name!r} cannot be interleaved: {why}",
        origin=ORIGIN,
        span=at.span or loop.span,
        help=help,
    )


class _Contents(Visitor):
    """Whether there are loops, definitions, and calls that all threads make together, inside a statement."""

    def __init__(self) -> None:
        self.loops = False
        self.defines = False
        self.together: Call | None = None

    def visit_For(self, op: For) -> None:
        self.loops = True
        self.generic(op)

    def visit_Seq(self, op: Seq) -> None:
        self.defines = self.defines or any(isinstance(stmt, DECLARATIONS) for stmt in op.stmts)
        self.generic(op)

    def visit_Let(self, op: Let) -> None:
        self.defines = True

    def visit_Call(self, op: Call) -> None:
        if op.op in ONCE:
            self.together = op


class _Threads(StmtMutator):
    """The body of one virtual thread loop, its threads interleaved."""

    def __init__(self, loop: For, count: int) -> None:
        self.loop = loop
        self.var = loop.loop_var
        self.count = count
        self.shares = str(loop.thread_tag).startswith("vthread")
        self.touched = touched_by(self.var, loop.body)
        self.copied: dict[Var, CopiedBuffer] = {}
        self.accesses = CopyAccesses(self.copied, lambda data: self.var, ORIGIN)
        self.inline = Substituter({})

    def _is_touched(self, uses: Uses) -> bool:
        return not uses.names.isdisjoint(self.touched)

    # Scopes

    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        for stmt in op.stmts:
            done += self._declared(stmt) if isinstance(stmt, DECLARATIONS) else [self.visit(stmt)]
        return seq(done) if not any(isinstance(s, DECLARATIONS) for s in done) else Seq(tuple(done))

    def _declared(self, stmt: Stmt) -> list[Stmt]:
        """What stands in place of a declaration."""
        if isinstance(stmt, AllocBuffer):
            return [self._allocated(stmt)]
        if isinstance(stmt, DeclBuffer):
            if not self.touched.isdisjoint(set(buffer_variables(stmt.buffer)) - {stmt.buffer.data}):
                return []  # a view for each thread: its uses name it without a declaration
            return [self.accesses.visit(stmt)]
        return self._bound(stmt) if isinstance(stmt, Bind) else [stmt]

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        return self._allocated(op)

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        return seq(self._declared(op))

    def visit_Bind(self, op: Bind) -> Stmt:
        return seq(self._declared(op))

    def _allocated(self, op: AllocBuffer) -> Stmt:
        buffer = op.buffer
        if self.shares and buffer.data not in self.touched:
            return op
        if not is_flat(buffer):
            self._refuse(op, f"the buffer {buffer.name!r} is not flat", "run FlattenBuffer first")
        if self._is_touched(uses_of(*buffer.shape, op.condition)):
            self._refuse(
                op,
                f"the size of the buffer {buffer.name!r} depends on the virtual thread",
                "allocate it with the largest size",
            )
        made = self.copied[buffer.data] = CopiedBuffer(buffer, self.count)
        return op.with_(buffer=made.enlarged)

    def _bound(self, op: Bind) -> list[Stmt]:
        """A binding that differs by thread: put in where it is used, or kept in memory if it reads memory."""
        uses = uses_of(op.value)
        if not self._is_touched(uses) and not uses.opaque:
            return [op]
        if op.var.dtype.is_handle:
            self._refuse(
                op,
                f"the pointer {op.var.name!r} depends on the virtual thread",
                "use access_ptr or address_of where it is needed",
            )
        if side_effect(op.value) is Purity.PURE:
            self.inline.vmap[op.var] = self.inline.visit_expr(op.value)
            return []
        dtype = pointer_dtype(op.var.dtype)
        kept = Buffer(op.var.name, (const(self.count, self.var.dtype),), dtype, scope="local")
        store = BufferStore(kept, _converted(dtype, op.value), (self.var,), None, span=op.span)
        self.inline.vmap[op.var] = _converted(op.var.dtype, BufferLoad(kept, (self.var,)))
        return [AllocBuffer(kept, span=op.span), self._each(store)]

    # Statements

    def visit_For(self, op: For) -> Stmt:
        uses = uses_of(op.extent)
        if self._is_touched(uses) or uses.opaque:
            return self._each(op)
        return op.with_(body=self.visit(op.body))

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        uses = uses_of(op.condition)
        if self._is_touched(uses) or uses.opaque:
            return self._each(op)
        otherwise = None if op.else_case is None else self.visit(op.else_case)
        return op.with_(then_case=self.visit(op.then_case), else_case=otherwise)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        return self._each(op) if self._is_touched(uses_of(op.value)) else op.with_(body=self.visit(op.body))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        uses = uses_of(op.value, *op.indices, op.predicate)
        uses.names.update(buffer_variables(op.buffer))
        return self._each(op) if self._wanted(uses) else op

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        if isinstance(op.value, Call) and (op.value.op in ONCE or op.value.op in JUMPS):
            if self._is_touched(uses_of(op.value)):
                self._refuse(op, "what all of them do together depends on the thread", "make it the same for all")
            return op
        return self._each(op) if self._wanted(uses_of(op.value)) and not is_const_int(op.value) else op

    def visit_Assert(self, op: Assert) -> Stmt:
        return self._each(op) if self._wanted(uses_of(op.condition, op.message)) else op

    def _wanted(self, uses: Uses) -> bool:
        return not self.shares or uses.opaque or self._is_touched(uses)

    def _each(self, stmt: Stmt) -> Stmt:
        """A statement for each thread in turn: copies, or a loop where there are many or it has loops itself."""
        contents = _Contents()
        contents.visit(stmt)
        if contents.together is not None:
            self._refuse(
                stmt,
                f"{contents.together.op} stands in a condition or loop that depends on the thread",
                "all threads must reach it: move it out",
            )
        if jumps_out(stmt) or returns(stmt):
            self._refuse(
                stmt,
                "a jump stands in a condition or loop that depends on the thread",
                "put what follows it under the negated condition",
            )
        stmt = self.accesses.visit(self.inline.visit(stmt))
        if contents.loops or self.count >= UNROLLED:
            var = copy_var(self.var, f"{self.var.name}_s")
            body = substitute(stmt, {self.var: var})
            return For(var, self.loop.min, self.loop.extent, ForKind.SERIAL, None, {}, body, span=stmt.span)
        copies: list[Stmt] = []
        for index in range(self.count):
            copy: Stmt = substitute(stmt, {self.var: const(index, self.var.dtype)})
            copies.append(as_scope(refresh_binders(copy) if contents.defines and index else copy))
        return seq(copies)

    def _refuse(self, at: Stmt, why: str, help: str) -> NoReturn:
        _refuse(self.loop, at, why, help)


def _converted(kind: str, value: Expr) -> Expr:
    return value if value.dtype is kind else build.cast(kind, value)


class _Injector(StmtMutator):
    def visit_For(self, op: For) -> Stmt:
        made: For = op.with_(body=self.visit(op.body))  # inner threads first
        if not is_virtual_axis(made):
            return made
        if not isinstance(made.extent, IntImm):
            _refuse(made, made, f"their number {made.extent} is not a constant", "use a constant extent")
        _Checks(made).visit(made)
        return as_scope(_Threads(made, made.extent.value).visit(made.body)) if made.extent.value > 0 else seq()


class InjectVirtualThread(FuncPass):
    """Loops over virtual threads (``vthread``, ``vthread.x`` …) run their iterations interleaved.

    Each statement that depends on the thread is copied for each of them (looped over, if it contains a loop or there
    are 16 or more), in place, so that all threads finish it before the next statement: loops and conditions that are the
    same for all threads stay around. Where a condition, or the extent of a loop, depends on the thread, that whole
    statement is one. A buffer allocated inside gets a copy for each thread if what is stored in it may depend on the
    thread, through values, indices, conditions or an opaque call; else the threads share it, and one store serves all.
    Opaque calls run once for each thread. As for threads everywhere, what they exchange without a barrier between is a
    race: within one statement, condition or loop that depends on the thread they run one after another. Bindings that depend on the thread are put in for their variables, or kept in a local buffer where they read
    memory. Barriers stay as they are: all threads reach one together. ``cthread`` axes share nothing.

    Needs FlattenBuffer. Raises :class:`TransformError` for a while loop or a block inside, a loop inside whose minimum
    is not 0, a number of threads that is no constant, a buffer to copy that is not flat or whose size depends on the
    thread, a pointer to such a buffer passed on other than by ``access_ptr`` and ``address_of``, and for a barrier, break
    or return in a condition or loop that depends on the thread.

    >>> from tirlower.script import parse
    >>> print(InjectVirtualThread()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((64,), "float32"), C: T.Buffer((16,), "float32")):
    ...     for v in T.thread_binding(2, thread="vthread"):
    ...         B = T.alloc_buffer((8,), "float32")
    ...         for i in range(4):
    ...             for j in range(8):
    ...                 B[j] = A[i * 16 + v * 8 + j]
    ...             for j in range(8):
    ...                 C[v * 8 + j] = C[v * 8 + j] + B[j]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((64,), "float32"), C: T.Buffer((16,), "float32")):
        B = T.alloc_buffer((16,))
        for i in range(4):
            for j in range(8):
                B[j] = A[i * 16 + j]
                B[8 + j] = A[i * 16 + 8 + j]
            for j in range(8):
                C[j] = C[j] + B[j]
                C[8 + j] = C[8 + j] + B[8 + j]
    """

    name = ORIGIN
    stage = Stage.FLAT_1D
    needs = (
        "tir.FlattenBuffer",
        Fact.ONE_BUFFER,
        Fact.OWN_STORAGE,
        Fact.DIVISIONS,
        Fact.PLAIN_EXPRESSIONS,
        Fact.UNMARKED,
        Fact.UNORDERED,
    )
    breaks = (Fact.LANES, Fact.SINGLE_STATEMENTS)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Interleave the virtual threads of a function."""
        return func.with_body(_Injector().visit(func.body))
