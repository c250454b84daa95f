"""Where the buffers of a function are allocated, stored and loaded, with the loops and conditions around."""

from __future__ import annotations

from dataclasses import dataclass, field

from tirlower.analysis.vthread_dependence import JUMPS
from tirlower.diagnostics import TransformError
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, Var, is_const_int
from tirlower.ir.functor import Visitor
from tirlower.ir.node import Node
from tirlower.ir.stmt import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    Stmt,
    While,
)

__all__ = ["ORIGIN", "ROLLING_BUFFER_SCOPE", "Accesses", "Allocation", "Load", "Store", "is_rolling_mark", "rolled_by"]

ORIGIN = "tir.InjectRollingBuffer"
ROLLING_BUFFER_SCOPE = "rolling_buffer_scope"
"""Attribute on a buffer (or its data variable): make it a rolling buffer. As a block's annotation, the position of the
written buffer that is meant."""

Path = tuple[Stmt, ...]


@dataclass(eq=False)
class Store:
    """A store, the statements around it (outermost first), and its place in the order of the program."""

    op: BufferStore
    path: Path
    at: int

    @property
    def loops(self) -> list[For]:
        """The loops around it."""
        return [op for op in self.path if isinstance(op, For)]


@dataclass(eq=False)
class Load:
    """A load, and the store whose value or index it is in, if it is in one."""

    op: BufferLoad
    path: Path
    at: int
    store: Store | None


@dataclass(eq=False)
class Allocation:
    """An allocation, and the statements around it."""

    op: AllocBuffer
    path: Path


def is_rolling_mark(op: AttrStmt) -> bool:
    """Whether an attribute marks a rolling buffer."""
    return op.key == ROLLING_BUFFER_SCOPE and not is_const_int(op.value, 0)


def rolled_by(op: Block) -> Buffer | None:
    """The buffer that a block's annotation marks. Raises :class:`TransformError` for a wrong position."""
    position = op.annotations.get(ROLLING_BUFFER_SCOPE)
    if position is None:
        return None
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < len(op.writes):
        raise TransformError(
            f"{ROLLING_BUFFER_SCOPE} of block {op.name!r} names written buffer {position}, it writes {len(op.writes)}",
            origin=ORIGIN,
            span=op.span,
        )
    return op.writes[position].buffer


@dataclass
class Accesses(Visitor):
    """One walk over a function; everything is by data variable."""

    stores: dict[Var, list[Store]] = field(default_factory=dict)
    loads: dict[Var, list[Load]] = field(default_factory=dict)
    allocations: dict[Var, Allocation] = field(default_factory=dict)
    pointers: set[Var] = field(default_factory=set)
    """Data variables used other than by loads and stores."""
    marked: dict[Var, Stmt] = field(default_factory=dict)
    values: dict[Var, Expr] = field(default_factory=dict)
    """What variables are bound to."""
    jumps: list[Path] = field(default_factory=list)
    path: list[Stmt] = field(default_factory=list)
    store: Store | None = None
    count: int = 0

    def _inside(self, op: Stmt, *parts: Node | None) -> None:
        self.path.append(op)
        for part in parts:
            if part is not None:
                self.visit(part)
        self.path.pop()

    def visit_For(self, op: For) -> None:
        self.visit(op.min)
        self.visit(op.extent)
        self._inside(op, op.body)

    def visit_While(self, op: While) -> None:
        self._inside(op, op.condition, op.body)

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.visit(op.condition)
        self._inside(op, op.then_case, op.else_case)

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        if is_rolling_mark(op):
            data = op.node.data if isinstance(op.node, Buffer) else op.node
            if isinstance(data, Var):
                self.marked.setdefault(data, op)
        self.visit(op.value)
        self._inside(op, op.body)

    def visit_Block(self, op: Block) -> None:
        buffer = rolled_by(op)
        if buffer is not None:
            self.marked.setdefault(buffer.data, op)
        self.visit(op.predicate)
        for match in op.match_buffers:
            self.pointers.add(match.source.buffer.data)
        self._inside(op, op.init, op.body)

    def visit_Bind(self, op: Bind) -> None:
        self.visit(op.value)
        self.values[op.var] = op.value

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.allocations[op.buffer.data] = Allocation(op, tuple(self.path))

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        self.pointers.add(op.buffer.data)

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.count += 1
        self.store = Store(op, tuple(self.path), self.count)
        self.stores.setdefault(op.buffer.data, []).append(self.store)
        parts = (op.value, *op.indices)
        for part in parts if op.predicate is None else (*parts, op.predicate):
            self.visit(part)
        self.store = None

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        self.count += 1
        self.loads.setdefault(op.buffer.data, []).append(Load(op, tuple(self.path), self.count, self.store))

    def visit_Var(self, op: Var) -> None:
        if isinstance(op.type, PointerType):
            self.pointers.add(op)

    def visit_Call(self, op: Call) -> None:
        if op.op in JUMPS:
            self.jumps.append(tuple(self.path))
        if op.op is not None and getattr(op.op, "name", "") == "tir.address_of" and isinstance(op.args[0], BufferLoad):
            self.pointers.add(op.args[0].buffer.data)
