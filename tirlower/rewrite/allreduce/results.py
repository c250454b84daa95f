"""Where the results of reductions over threads are: in memory of each thread, or of all, from which each reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.functor import Mutator, Visitor
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, AttrStmt, BufferStore, DeclBuffer, For, ForKind, Seq, Stmt

__all__ = ["ALLREDUCE", "MoveResults", "ResultUses"]

ALLREDUCE = Op.get("tir.tvm_thread_allreduce")


@dataclass
class _Use:
    """What is done with a variable of a thread: how many reductions store it, and where it is read."""

    reductions: int = 0
    readers: list[frozenset[Var]] = field(default_factory=list)
    """The variables of the thread loops around each load."""


class ResultUses(Visitor):
    """The results that nothing but one reduction stores: those that may be in memory of all threads.

    A result is one element of ``local`` memory. Others, that threads store into by themselves or whose address is taken, are
    left out.
    """

    def __init__(self, body: Stmt) -> None:
        self._uses: dict[Var, _Use] = {}
        self._threads: frozenset[Var] = frozenset()
        self._results: set[int] = set()
        self.visit(body)

    def movable(self, targets: Sequence[BufferLoad], index: Expr) -> bool:
        """Whether results may be elements at an index, which is known wherever they are read."""
        data = [target.buffer.data for target in targets]
        uses = [self._uses.get(each) for each in data]
        if len(set(data)) < len(data) or not all(use is not None and use.reductions == 1 for use in uses):
            return False
        needed = set(each(Var, index))
        return all(needed <= around for use in uses if use is not None for around in use.readers)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        """A candidate."""
        buffer = op.buffer
        single = len(buffer.shape) == 1 and is_const_int(buffer.shape[0], 1) and is_const_int(buffer.elem_offset, 0)
        if buffer.scope == "local" and single and is_const_int(op.condition, 1):
            self._uses.setdefault(buffer.data, _Use())

    def visit_For(self, op: For) -> None:
        """Note the threads."""
        before = self._threads
        if op.kind is ForKind.THREAD_BINDING:
            self._threads = before | {op.loop_var}
        self.generic(op)
        self._threads = before

    def visit_Call(self, op: Call) -> None:
        """The results of a reduction are named as loads."""
        if op.op is ALLREDUCE and isinstance(op.args[0], IntImm):
            count = op.args[0].value
            for target in op.args[2 + count : 2 + 2 * count]:
                if isinstance(target, BufferLoad) and target.buffer.data in self._uses:
                    self._results.add(id(target))
                    self._uses[target.buffer.data].reductions += 1
        elif op.op is Op.get("tir.address_of") and isinstance(op.args[0], BufferLoad):
            self._uses.pop(op.args[0].buffer.data, None)

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        """A reader."""
        use = self._uses.get(op.buffer.data)
        if use is not None and id(op) not in self._results:
            use.readers.append(self._threads)
        self.generic(op)

    def visit_BufferStore(self, op: BufferStore) -> None:
        """What a thread stores itself is its own."""
        self._uses.pop(op.buffer.data, None)
        self.generic(op)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        """So is what has another name."""
        self._uses.pop(op.buffer.data, None)

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        """And what something is said of."""
        if isinstance(op.node, Var):
            self._uses.pop(op.node, None)
        self.generic(op)

    def visit_Var(self, op: Var) -> None:
        """And what a pointer leads to."""
        self._uses.pop(op, None)


class MoveResults(Mutator):
    """Puts results into memory of all threads: each data variable of ``moved`` becomes a buffer, read at an index.

    The new allocations stand where the old ones were; what follows them is a ``volatile_scope``, as other threads store.
    """

    def __init__(self, moved: dict[Var, tuple[Buffer, Expr]]) -> None:
        self.moved = moved

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        """A load of a result."""
        found = self.moved.get(op.buffer.data)
        return op if found is None else BufferLoad(found[0], (found[1],), span=op.span)

    def visit_Seq(self, op: Seq) -> Stmt:
        """The statements behind an allocation go into its scope."""
        for at, stmt in enumerate(op.stmts):
            if isinstance(stmt, AllocBuffer) and stmt.buffer.data in self.moved:
                new = self.moved[stmt.buffer.data][0]
                before = tuple(self.visit(each) for each in op.stmts[:at])
                rest = self.visit(Seq(op.stmts[at + 1 :]))
                rest = rest.stmts[0] if isinstance(rest, Seq) and len(rest.stmts) == 1 else rest
                return Seq((*before, AllocBuffer(new), AttrStmt(new.data, "volatile_scope", const(1), rest)))
        return self.generic(op)
