"""How many operations a statement or module executes."""

from __future__ import annotations

from tirlower.arith import Analyzer
from tirlower.arith.conditions import is_pure
from tirlower.diagnostics import ArgumentTypeError
from tirlower.ir.buffer import Range
from tirlower.ir.expr import And, BinaryOp, BufferLoad, Call, CompareOp, Expr, IntImm, Let, Not, Or, Select, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import (
    AllocBuffer,
    Assert,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    Seq,
    Stmt,
    While,
)

__all__ = ["ESTIMATED_FLOPS", "estimate_flops", "estimate_tir_flops"]

ESTIMATED_FLOPS = "estimated_flops"
"""The function attribute that states the number itself."""


class _Counter(Visitor):
    """Adds up what each statement executes."""

    def __init__(self) -> None:
        self.total = 0.0
        self.known = Analyzer()
        self.loops: set[Var] = set()

    def of(self, op: Stmt) -> float:
        """The count of a statement."""
        outer, self.total = self.total, 0.0
        self.visit(op)
        found, self.total = self.total, outer
        return found

    def visit_expr(self, root: Expr) -> None:
        """Operands first, each shared one as often as it is evaluated: a tree's count, computed once a node."""
        self.total += _expression(root)

    def visit_For(self, op: For) -> None:
        """As often as the loop runs at most, by the loops around; once where that depends on anything else."""
        self.loops.add(op.loop_var)
        self.known.bind(op.loop_var, Range(op.min, op.extent), allow_override=True)
        self.total += self.of(op.body) * self._times(op.extent)
        self.loops.discard(op.loop_var)

    def _times(self, extent: Expr) -> int:
        """The greatest value of an extent; 1 where it is not known."""
        if isinstance(extent, IntImm):
            return max(extent.value, 0)
        if any(var not in self.loops for var in each(Var, extent)) or not is_pure(extent):
            return 1
        most = self.known.const_int_bound(extent).ends[1]
        return max(int(most), 0) if most < extent.dtype.max_value else 1

    def visit_While(self, op: While) -> None:
        """Once: how often it runs is not known."""
        self.total += self.of(op.body)

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        """The more expensive branch."""
        self.total += max(self.of(branch) for branch in (op.then_case, op.else_case) if branch is not None)

    def visit_Block(self, op: Block) -> None:
        """The init runs with the first iteration of the reduction only, and is taken as run with each."""
        if op.init is not None:
            self.visit(op.init)
        self.visit(op.body)

    def visit_BufferStore(self, op: BufferStore) -> None:
        """The value: addressing is no work on data."""
        self.total += _expression(op.value)

    def visit_Bind(self, op: Bind) -> None:
        """The value."""
        self.total += _expression(op.value)

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        """The body."""
        self.visit(op.body)

    def visit_Seq(self, op: Seq) -> None:
        """Each in turn."""
        for stmt in op.stmts:
            self.visit(stmt)

    def visit_Evaluate(self, op: Evaluate) -> None:
        """What is evaluated for its effect is no work on data."""

    def visit_Assert(self, op: Assert) -> None:
        """A check is no work on data."""

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        """Neither is memory."""


_CONDITIONS = (CompareOp, And, Or, Not)


def _lanes(op: Expr) -> int:
    return op.dtype.lanes if isinstance(op.dtype.lanes, int) else 1


def _expression(root: Expr) -> float:
    """The operations of an expression; explicit stack and memo, so long chains and shared operands are cheap."""
    if root.is_leaf:
        return 0.0
    memo: dict[int, float] = {}
    stack: list[Expr] = [root]
    while stack:
        op = stack[-1]
        if id(op) in memo:
            stack.pop()
            continue
        if op.is_leaf or isinstance(op, (BufferLoad, *_CONDITIONS)):
            memo[id(op)] = 0.0
            continue
        parts = _operands(op)
        waiting = [part for part in parts if id(part) not in memo]
        if waiting:
            stack += waiting
            continue
        counts = [memo[id(part)] for part in parts]
        if _is_choice(op):
            memo[id(op)] = counts[0] + max(counts[1:])
        else:
            memo[id(op)] = sum(counts) + (_lanes(op) if isinstance(op, BinaryOp) else 0)
    return memo[id(root)]


def _operands(op: Expr) -> list[Expr]:
    return [op.value, op.body] if isinstance(op, Let) else list(op.children())


def _is_choice(op: Node) -> bool:
    return isinstance(op, Select) or (isinstance(op, Call) and op.op is Op.get("tir.if_then_else"))


def estimate_flops(stmt_or_mod: Stmt | PrimFunc | IRModule) -> float:
    """The number of operations that a statement, function or module executes.

    Counted is each arithmetic operation (a vector's lanes each) in the values that are stored or bound; not: the
    arithmetic of indices, bounds and conditions, casts, and calls beyond their operands. A loop counts
    its body as often as it runs, with an extent that varies with the loops around as often as it does at most, and
    once where the extent is not known (a ``while`` too); of branches and selects the more expensive side counts. A function with the attribute ``estimated_flops`` counts as it says.
    Raises :class:`ArgumentTypeError` for anything else.

    >>> from tirlower.ir import Buffer, Var
    >>> A, i = Buffer("A", (8,)), Var("i")
    >>> estimate_flops(For(i, 0, 8, "serial", None, {}, BufferStore(A, A[i] * 2.0 + 1.0, (i + 1,))))
    16.0
    """
    if isinstance(stmt_or_mod, IRModule):
        return sum((estimate_flops(func) for func in stmt_or_mod.functions.values()), 0.0)
    if isinstance(stmt_or_mod, PrimFunc):
        stated = stmt_or_mod.attrs.get(ESTIMATED_FLOPS)
        if stated is not None:
            return float(stated.value if isinstance(stated, IntImm) else str(stated))
        return estimate_flops(stmt_or_mod.body)
    if not isinstance(stmt_or_mod, Stmt):
        raise ArgumentTypeError(
            f"estimate_flops takes a statement, function or module, got {type(stmt_or_mod).__name__}"
        )
    return _Counter().of(stmt_or_mod)


estimate_tir_flops = estimate_flops
"""TIR's name of the same function."""
