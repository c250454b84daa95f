"""When each allocation is in use: the order of accesses, and live ranges over it.

Statements are numbered in program order. An allocation is live from the beginning of the first statement that touches
it to the end of the last, where the statements are those of the scope it is allocated in: what is touched inside a loop
is live for all of the loop, since a later iteration may read what an earlier one wrote. Branches and nested scopes are
entered, loops are not. An allocation inside a loop is new in each iteration, so its range lies within one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each
from tirlower.ir.stmt import (
    AllocBuffer,
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
)
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["Allocation", "Frame", "Liveness"]

_JUMPS = frozenset(Op.get(f"tir.{name}") for name in ("ret", "thread_return", "break_loop", "continue_loop"))
_KEEPS_POINTERS = (
    "tir.tvm_struct_set",
    "tir.tvm_stack_make_array",
    "tir.dma_copy",
    "tir.ptx_cp_async",
    "tir.ptx_wgmma",
)
"""Calls after whose return memory that they were given is still used: stored in a structure, or copied meanwhile."""


class Frame:
    """A statement that contains others, while it is walked: its place among them, and when it begins and ends.

    ``repeats`` says that its body may run several times; ``region`` is the innermost frame around (or this one) that
    allocations do not leave: the function, the body of a loop whose iterations run side by side, an attribute.
    """

    __slots__ = ("begin", "depth", "end", "parent", "region", "repeats", "stmt")

    def __init__(
        self, stmt: Stmt | PrimFunc, parent: Frame | None, begin: int, repeats: bool = False, region: bool = False
    ) -> None:
        self.stmt = stmt
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.begin = begin
        self.end = begin
        self.repeats = repeats
        self.region: Frame = self if region or parent is None else parent.region


Touch = tuple[Frame, int, Stmt]
"""Where an access happens: the frame around its statement, its time, and the statement."""


class Allocation:
    """An allocation with its live range ``start`` to ``stop``, both included.

    ``first`` and ``last`` are the statements (of the scope of the range) that begin and end it; ``place`` says where
    memory for it can be allocated: a frame (at its head) or a ``Bind`` (right after it); None where it has to stay.
    """

    def __init__(self, op: AllocBuffer, frame: Frame) -> None:
        self.op = op
        self.frame = frame
        self.touches: tuple[Touch, Touch] | None = None
        self.escapes = False
        self.start = self.stop = 0
        self.first: Stmt | None = None
        self.last: Stmt | None = None
        self.place: Frame | Bind | None = None

    @property
    def data(self) -> Var:
        """The data variable that names the memory."""
        return self.op.buffer.data

    @property
    def touched(self) -> int:
        """When it is first accessed; -1 if it never is."""
        return -1 if self.touches is None else self.touches[0][1]

    def touch(self, frame: Frame, time: int, stmt: Stmt) -> None:
        """Note an access."""
        here = (frame, time, stmt)
        self.touches = (here if self.touches is None else self.touches[0], here)

    def settle(self) -> None:
        """Work out the live range from the first and the last access."""
        if self.touches is None:
            return
        first, last = self.touches
        level = _common(first[0], last[0])
        inside: Frame | None = level
        while inside is not None and inside is not self.frame:
            if inside.repeats and inside.parent is not None:
                level = inside.parent  # the outermost loop between allocation and accesses counts as one statement
            inside = inside.parent
        self.start, _, self.first = _unit(first, level)
        _, self.stop, self.last = _unit(last, level)
        if self.escapes:
            self.stop, self.last = self.frame.end, None

    def __repr__(self) -> str:
        return f"Allocation({self.op.buffer.name!r}, {self.start}..{self.stop})"


def _common(a: Frame, b: Frame) -> Frame:
    while a is not b:
        if a.depth >= b.depth and a.parent is not None:
            a = a.parent
        elif b.parent is not None:
            b = b.parent
    return a


def _unit(touch: Touch, level: Frame) -> tuple[int, int, Stmt | None]:
    """The statement directly under a frame in which an access happens, with its beginning and end."""
    frame, time, stmt = touch
    if frame is level:
        return time, time, stmt
    while frame.parent is not None and frame.parent is not level:
        frame = frame.parent
    return frame.begin, frame.end, frame.stmt if isinstance(frame.stmt, Stmt) else None


class Liveness(Visitor):
    """The allocations of a function with their live ranges, in the order in which the ranges begin.

    Raises :class:`TransformError` for a block.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.found: dict[Var, Allocation] = {}
        self.root = Frame(func, None, 0, region=True)
        self.frame = self.root
        self.time = 0
        self.stmt: Stmt = func.body
        self.jumps = False
        self.order: list[Allocation] = []
        # When and where the variables that an extent may name are defined: by a loop, or by a binding in a frame.
        self.defined: dict[Var, tuple[int, Frame, Bind | None]] = {}
        self.analyzer, self.wrapping = analyzer_of(func)
        for buffer in func.buffers:
            for extent in buffer.shape:
                if not isinstance(extent, IntImm):
                    self.analyzer.enter_constraint(build.ge(extent, const(0, extent.dtype)))
        self.inside(func.body, self.root)
        for allocation in self.found.values():
            allocation.settle()
            allocation.place = self._place(allocation)
        # By beginning; those of one statement as they are first touched in it.
        self.order.sort(key=lambda a: a.start)

    # Statements

    def inside(self, stmt: Stmt, frame: Frame) -> None:
        outer, self.frame = self.frame, frame
        self.visit(stmt)
        frame.end = self.time
        self.frame = outer

    def visit(self, op: Node) -> None:
        """Visit a statement or expression; a statement takes a moment of its own."""
        if isinstance(op, Stmt):
            self.time += 1
            self.stmt = op
        super().visit(op)

    def visit_Seq(self, op: Seq) -> None:
        frame = Frame(op, self.frame, self.time)
        outer, self.frame = self.frame, frame
        for stmt in op.stmts:
            self.visit(stmt)
        frame.end = self.time
        self.frame = outer

    def visit_For(self, op: For) -> None:
        self.visit(op.min)
        self.visit(op.extent)
        self.time += 1
        side_by_side = op.kind in (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)
        frame = Frame(op, self.frame, self.time, repeats=True, region=side_by_side)
        self.defined[op.loop_var] = (self.time, frame, None)
        self.inside(op.body, frame)
        self.time += 1

    def visit_While(self, op: While) -> None:
        frame = Frame(op, self.frame, self.time, repeats=True)
        outer, self.frame = self.frame, frame
        self.visit(op.condition)
        self.visit(op.body)
        self.stmt = op
        self.visit(op.condition)
        frame.end = self.time
        self.frame = outer
        self.time += 1

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.visit(op.condition)
        self.time += 1
        whole = Frame(op, self.frame, self.time)
        outer, self.frame = self.frame, whole
        for case in (op.then_case, op.else_case):
            if case is not None:
                self.time += 1
                self.inside(case, Frame(case, whole, self.time))
        whole.end = self.time
        self.frame = outer
        self.time += 1

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        self.visit(op.value)
        self.time += 1
        self.inside(op.body, Frame(op, self.frame, self.time, region=not op.key.startswith("pragma_")))
        if op.key.startswith("async"):
            self._escape_within(op.body)
        self.time += 1

    def visit_Block(self, op: Block) -> None:
        raise TransformError(
            f"block {op.name!r} is left", span=op.span, help="run LowerOpaqueBlock before StorageRewrite"
        )

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        for extent in op.buffer.shape:
            self.visit(extent)
        self.visit(op.condition)
        self.found[op.buffer.data] = Allocation(op, self.frame)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        for part in (*op.buffer.shape, *op.buffer.strides, op.buffer.elem_offset):
            self.visit(part)

    def visit_Bind(self, op: Bind) -> None:
        self.visit(op.value)
        if op.value.dtype.is_handle:
            self._escape(op.value)  # the variable is another name of the memory
        self.defined[op.var] = (self.time, self.frame, op)

    def visit_BufferStore(self, op: BufferStore) -> None:
        for part in (op.value, *op.indices):
            self.visit(part)
        if op.predicate is not None:
            self.visit(op.predicate)
        if op.value.dtype.is_handle:
            self._escape(op.value)
        self.touch(op.buffer.data)

    def visit_Evaluate(self, op: Evaluate) -> None:
        if isinstance(op.value, Call) and op.value.op in _JUMPS:
            self.jumps = True
        self.visit(op.value)

    # Expressions

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        self.touch(op.buffer.data)

    def visit_Var(self, op: Var) -> None:
        if isinstance(op.type, PointerType):
            self.touch(op)

    def visit_Call(self, op: Call) -> None:
        if isinstance(op.op, Op) and op.op.name.startswith(_KEEPS_POINTERS):
            self._escape(op)

    def touch(self, data: Var) -> None:
        allocation = self.found.get(data)
        if allocation is not None:
            if allocation.touches is None:
                self.order.append(allocation)
            allocation.touch(self.frame, self.time, self.stmt)

    def _escape(self, value: Expr) -> None:
        """What a pointer in an expression names is in use until its scope ends."""
        for op in each((Var, BufferLoad), value):
            data = op if isinstance(op, Var) else op.buffer.data
            if data in self.found:
                self.found[data].escapes = True

    def _escape_within(self, body: Stmt) -> None:
        for op in each((BufferLoad, BufferStore), body):
            if op.buffer.data in self.found:
                self.found[op.buffer.data].escapes = True

    # Places

    def _place(self, allocation: Allocation) -> Frame | Bind | None:
        """The outermost place where the extents are known, and where allocating is never wrong."""
        op, region = allocation.op, allocation.frame.region
        if not is_const_int(op.condition, 1) or allocation.touches is None:
            return None
        parts = (*op.buffer.shape, *op.buffer.strides, op.buffer.elem_offset)
        if all(isinstance(part, IntImm) for part in parts):
            return region
        if op.buffer.strides or not is_const_int(op.buffer.elem_offset, 0):
            return None
        # The variables that are visible are defined one inside the other, so the latest is the innermost.
        latest: tuple[int, Frame, Bind | None] = (region.begin, region, None)
        for extent in op.buffer.shape:
            if side_effect(extent) is not Purity.PURE:
                return None
            for var in _variables(extent):
                latest = max(latest, self.defined.get(var, latest), key=lambda entry: entry[0])
        _, frame, bind = latest
        shape = allocation.op.buffer.shape
        if self._is_size(shape, frame):
            return bind or frame
        # Extents may be negative where they were not evaluated before: left are loops that surely run, and whatever
        # else stands in a loop that runs only where they are not.
        inner: Frame | None = None
        surely = not self.jumps
        between: Frame | None = allocation.frame
        while between is not None and between is not frame:
            if isinstance(between.stmt, For) and (surely or self._is_size(shape, between)):
                inner = between
            surely = surely and _runs(between.stmt)
            between = between.parent
        return bind or frame if surely and between is not None else inner

    def _is_size(self, shape: Sequence[Expr], at: Frame) -> bool:
        """Whether extents are certainly not negative where a frame's body begins: its loops have an iteration then."""
        with ExitStack() as facts:
            around: Frame | None = at
            while around is not None:
                if isinstance(around.stmt, For):
                    extent = around.stmt.extent
                    if side_effect(extent) is Purity.PURE and not self.wrapping.overflows(extent):
                        facts.enter_context(self.analyzer.constraint_scope(build.gt(extent, const(0, extent.dtype))))
                around = around.parent
            return all(self.analyzer.can_prove(build.ge(extent, const(0, extent.dtype))) for extent in shape)


def _runs(stmt: Stmt | PrimFunc) -> bool:
    """Whether what a statement contains surely runs when it does."""
    if isinstance(stmt, For):
        return isinstance(stmt.extent, IntImm) and stmt.extent.value > 0
    return isinstance(stmt, (Seq, AttrStmt))


def _variables(expr: Expr) -> list[Var]:
    return list(each(Var, expr))
