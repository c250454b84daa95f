"""What depends on a virtual thread: the variables and memory that its index may reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tirlower.ir.binding import buffer_variables
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, Var
from tirlower.ir.functor import Visitor
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Bind, BufferStore, Evaluate, For, IfThenElse, Stmt

__all__ = ["JUMPS", "ONCE", "Uses", "touched_by", "uses_of"]

_SYNC = (
    "tvm_storage_sync",
    "tvm_global_barrier_kinit",
    "ptx_commit_group",
    "ptx_wait_group",
    "ptx_wait_barrier",
)
ONCE = frozenset(Op.get(f"tir.{name}") for name in _SYNC)
"""Calls that all virtual threads make together: they are made once for all of them."""
JUMPS = frozenset(Op.get(f"tir.{name}") for name in ("ret", "thread_return", "break_loop", "continue_loop"))
"""Calls that leave a loop or the function: where all virtual threads make one, the first will do."""
_HARMLESS = frozenset((Op.get("tir.assume"), *ONCE, *JUMPS))
_ACCESS_PTR = Op.get("tir.tvm_access_ptr")
_ADDRESS = Op.get("tir.address_of")


@dataclass
class Uses:
    """The variables that expressions use, data variables of memory they read included.

    ``opaque``: they may do anything; then ``written`` has the data variables whose pointers they pass on.
    """

    names: set[Var] = field(default_factory=set)
    loaded: set[Var] = field(default_factory=set)
    pointers: set[Var] = field(default_factory=set)
    opaque: bool = False

    @property
    def written(self) -> set[Var]:
        """The memory that the calls may write."""
        return self.pointers if self.opaque else set()


class _Uses(Visitor):
    def __init__(self) -> None:
        self.made = Uses()

    def visit_Var(self, op: Var) -> None:
        self.made.names.add(op)
        if isinstance(op.type, PointerType):
            self.made.pointers.add(op)

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        self.made.names.update(buffer_variables(op.buffer))
        self.made.loaded.add(op.buffer.data)

    def visit_Call(self, op: Call) -> bool | None:
        if isinstance(op.op, GlobalVar) or (op.op.purity > Purity.READS and op.op not in _HARMLESS):
            self.made.opaque = True
        if op.op is _ADDRESS and isinstance(op.args[0], BufferLoad):
            self.made.pointers.add(op.args[0].buffer.data)
        elif op.op is _ACCESS_PTR:
            mask = getattr(op.args[4], "value", 3)
            if isinstance(op.args[1], Var) and not mask & 2:
                # Only read through: all but the mark of a pointer.
                self.made.names.add(op.args[1])
                self.made.loaded.add(op.args[1])
                for part in (op.args[2], op.args[3]):
                    self.visit_expr(part)
                return False
        return None


def uses_of(*roots: Expr | Stmt | None) -> Uses:
    """What expressions use, and those of statements."""
    worker = _Uses()
    for root in roots:
        if root is not None:
            worker.visit(root)
    return worker.made


class _Flow(Visitor):
    """From each variable (or condition) to those whose values may depend on it."""

    def __init__(self, root: Var) -> None:
        self.edges: dict[object, list[object]] = {}
        self.start: list[object] = [root]
        self.control: list[object] = []

    def flow(self, sources: Iterable[object], target: object) -> None:
        for source in sources:
            self.edges.setdefault(source, []).append(target)

    def _effects(self, uses: Uses) -> None:
        """Memory that a call may change is each thread's own afterwards, if it is private."""
        for data in uses.written:
            self.flow(uses.names, data)
            self.start.append(data)

    def _under(self, uses: Uses, *bodies: Stmt | None) -> None:
        token = object()
        self.flow(uses.names, token)
        self.flow(self.control[-1:], token)
        if uses.opaque:
            self.start.append(token)
        self._effects(uses)
        self.control.append(token)
        for body in bodies:
            if body is not None:
                self.visit(body)
        self.control.pop()

    def visit_For(self, op: For) -> None:
        uses = uses_of(op.min, op.extent)
        self.flow(uses.names, op.loop_var)
        self._under(uses, op.body)

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self._under(uses_of(op.condition), op.then_case, op.else_case)

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        self.visit(op.body)

    def visit_Bind(self, op: Bind) -> None:
        uses = uses_of(op.value)
        self.flow(uses.names, op.var)
        if op.var.dtype.is_handle:
            # Both name the same memory.
            for data in uses.pointers | uses.loaded:
                self.flow((op.var,), data)
        if uses.opaque:
            self.start.append(op.var)
        self._effects(uses)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.flow(uses_of(*op.buffer.shape, op.condition).names, op.buffer.data)

    def visit_BufferStore(self, op: BufferStore) -> None:
        uses = uses_of(op.value, *op.indices, op.predicate)
        data = op.buffer.data
        self.flow(uses.names | set(buffer_variables(op.buffer)) - {data}, data)
        self.flow(self.control[-1:], data)
        if uses.opaque:
            self.start.append(data)
        self._effects(uses)

    def visit_Evaluate(self, op: Evaluate) -> None:
        uses = uses_of(op.value)
        for data in uses.written:
            self.flow(self.control[-1:], data)
        self._effects(uses)


def touched_by(var: Var, body: Stmt) -> set[Var]:
    """The variables and data variables whose values may depend on a variable: through bindings, loops' bounds, stores,
    and the conditions and loops under which these stand. Memory that an opaque call may write is among them.
    """
    flow = _Flow(var)
    flow.visit(body)
    seen: set[object] = set()
    stack = flow.start
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            stack += flow.edges.get(one, ())
    return {one for one in seen if isinstance(one, Var)}
