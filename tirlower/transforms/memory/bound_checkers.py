"""InstrumentBoundCheckers: every access is preceded by asserts that its indices lie in the buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tirlower.diagnostics import Span
from tirlower.ir import build
from tirlower.ir.dtype import BOOL
from tirlower.ir.expr import And, Broadcast, BufferLoad, Call, Expr, IntImm, Let, Or, Ramp, Shuffle, const
from tirlower.ir.failure_message import failure
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Dispatch, NodeT, StmtMutator
from tirlower.ir.op import Op
from tirlower.ir.query import has
from tirlower.ir.refresh import refresh_binders
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
    IfThenElse,
    Seq,
    Stmt,
    While,
    seq,
)
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["AccessGuardBuilder", "AccessGuards", "InstrumentBoundCheckers", "Place", "Shown", "lane_of", "lanes_of"]

_IF_THEN_ELSE = Op.get("tir.if_then_else")
_ADDRESS_OF = Op.get("tir.address_of")
_ATOMICS = frozenset(
    Op.get(f"tir.atomic_{name}") for name in ("add", "max", "min", "and", "or", "xor", "exchange", "cas")
)


class Place:
    """Where an expression is evaluated: under which conditions, and with which ``Let`` variables."""

    __slots__ = ("condition", "let", "outer")

    def __init__(self, outer: Place | None = None, let: Let | None = None, condition: Expr | None = None) -> None:
        self.outer = outer
        self.let = let
        self.condition = condition

    def fact(self, claim: Expr) -> Expr:
        """A claim about the place as a condition that can be asserted before the statement."""
        place: Place | None = self
        while place is not None:
            if place.let is not None:
                claim = Let(place.let.var, place.let.value, claim)
            elif place.condition is not None:
                # A path not taken claims nothing.
                claim = build.logical_or(build.logical_not(place.condition), claim)
            place = place.outer
        return claim

    def value(self, shown: Expr) -> Expr:
        """A value of the place, to be shown when its claim fails."""
        place: Place | None = self
        while place is not None:
            if place.let is not None:
                shown = Let(place.let.var, place.let.value, shown)
            place = place.outer
        return shown


_TOP = Place()


def lanes_of(index: Expr) -> list[tuple[str, Expr]]:
    """The scalars to check of an index: itself, both ends of a ramp, every lane of any other vector."""
    if index.dtype.is_scalar:
        return [("", index)]
    if isinstance(index, Broadcast) and index.value.dtype.is_scalar:
        return [("", index.value)]
    if isinstance(index, Ramp) and isinstance(index.lanes, int) and _reaches(index):
        last = build.add(index.base, build.mul(index.stride, const(index.lanes - 1, index.base.dtype)))
        return [(" (lane 0)", index.base), (f" (lane {index.lanes - 1})", last)]
    return [(f" (lane {lane})", lane_of(index, lane)) for lane in range(index.dtype.lanes)]


def _reaches(ramp: Ramp) -> bool:
    """Whether the last lane of a ramp is known from its ends: its distance from the first is a number of the type."""
    stride, kind = ramp.stride, ramp.base.dtype
    if not isinstance(stride, IntImm) or not isinstance(ramp.lanes, int):
        return False
    return kind.min_value <= stride.value * (ramp.lanes - 1) <= kind.max_value


def lane_of(vector: Expr, lane: int) -> Expr:
    """A lane of a vector, as a scalar."""
    if isinstance(vector, Broadcast) and vector.value.dtype.is_scalar:
        return vector.value
    if isinstance(vector, Ramp):
        return build.add(vector.base, build.mul(vector.stride, const(lane, vector.base.dtype)))
    return Shuffle((vector,), (const(lane, "int32"),))


@dataclass(frozen=True)
class Shown:
    """The values that the message of an assertion may show."""

    index: Expr
    extent: Expr
    copy: Callable[[Expr], Expr]


_Entry = tuple[Expr, Place, bool]
"""A node at a place; True: one whose operands are done."""


class AccessGuardBuilder(Dispatch[Expr, list[_Entry], Place]):
    """Collects the asserts of one statement, in the order in which its accesses are evaluated."""

    def __init__(self, span: Span | None) -> None:
        self.asserts: list[Stmt] = []
        self.span = span
        self.seen: set[tuple[int, int]] = set()
        self.lets = False
        """Whether the statement has a ``Let``, which copies must not repeat."""

    def expression(self, root: Expr) -> None:
        """The accesses inside an expression."""
        if not root.is_leaf:
            self.lets = self.lets or _holds(root, Let)
            self._walk(root)

    def _walk(self, root: Expr) -> None:
        # Entries to visit, and (after their indices) accesses to check; what is shared is checked once a place.
        stack: list[_Entry] = [(root, _TOP, False)]
        while stack:
            op, place, ready = stack.pop()
            if ready:
                self.evaluated(op, place)
                continue
            if op.is_leaf or (id(op), id(place)) in self.seen:
                continue
            self.seen.add((id(op), id(place)))
            steps = self.dispatch(op, place)
            stack += reversed(steps)

    def evaluated(self, op: Expr, place: Place) -> None:
        """What is asserted of a node once its operands are evaluated."""
        assert isinstance(op, BufferLoad)
        self.access(op, place)

    def on_Let(self, op: Let, place: Place) -> list[_Entry]:
        return [(op.value, place, False), (op.body, Place(place, let=op), False)]

    def on_And(self, op: And | Or, place: Place) -> list[_Entry]:
        if not op.dtype.is_scalar:
            return self.otherwise(op, place)
        reached = op.a if isinstance(op, And) else build.logical_not(op.a)
        return [(op.a, place, False), (op.b, Place(place, condition=reached), False)]

    on_Or = on_And

    def on_Call(self, op: Call, place: Place) -> list[_Entry]:
        first = op.args[0] if op.args else None
        if first is None:
            return []
        if op.op is _IF_THEN_ELSE and first.dtype.is_scalar:
            taken, other = (Place(place, condition=c) for c in (first, build.logical_not(first)))
            return [(first, place, False), (op.args[1], taken, False), (op.args[2], other, False)]
        if op.op is _ADDRESS_OF and isinstance(first, BufferLoad):
            return [(index, place, False) for index in first.indices]  # named, not read
        element = _element_of(first) if op.op in _ATOMICS else None
        if element is None:
            return self.otherwise(op, place)
        # The element that the address names is read and written.
        return [(first, place, False), (element, place, True), *((arg, place, False) for arg in op.args[1:])]

    def on_BufferLoad(self, op: BufferLoad, place: Place) -> list[_Entry]:
        return [*self.otherwise(op, place), (op, place, True)]

    def otherwise(self, op: Expr, place: Place) -> list[_Entry]:
        """An operation that evaluates its operands, one after the other."""
        return [(child, place, False) for child in op.children()]

    def wanted(self, node: BufferLoad | BufferStore, axis: int) -> bool:
        """Whether a subscript of an access is checked: here, all are."""
        return True

    def message(self, node: BufferLoad | BufferStore, axis: int, which: str, shown: Shown) -> Expr:
        """What an assertion raises. ``shown.index`` and ``shown.extent`` are values that it may show; ``which`` names a
        lane; ``shown.copy`` makes any other expression of the place one that can be shown."""
        text = f"{node.buffer.name}: index {{0}}{which} of dimension {axis} is outside the bounds 0 <= index < {{1}}"
        return failure("IndexError", text, shown.index, shown.extent)

    def access(self, node: BufferLoad | BufferStore, place: Place) -> None:
        """The asserts of one access: each index at least 0 and less than its extent, in the lanes that are not masked."""
        indices, predicate = node.indices, node.predicate
        for axis, (index, extent) in enumerate(zip(indices, node.buffer.shape, strict=True)):
            if not self.wanted(node, axis):
                continue
            masked = predicate is not None and axis == len(indices) - 1
            if masked and index.dtype.is_vector:
                lanes = [(f" (lane {lane})", lane_of(index, lane)) for lane in range(index.dtype.lanes)]
            else:
                lanes = lanes_of(index)
            for number, (which, scalar) in enumerate(lanes):
                mask = None
                if masked and predicate is not None:
                    mask = lane_of(predicate, number) if predicate.dtype.is_vector else predicate
                here = place if mask is None else Place(place, condition=mask)
                self._index(node, axis, which, scalar, extent, here)

    def _index(
        self, node: BufferLoad | BufferStore, axis: int, which: str, index: Expr, extent: Expr, place: Place
    ) -> None:
        index, extent = build.match_types(index, extent)
        # Each copy of a Let has a variable of its own.
        copy: Callable[[Expr], Expr] = refresh_binders if self.lets else lambda expr: expr
        inside = build.logical_and(build.ge(index, const(0, index.dtype)), build.lt(copy(index), extent))
        if node.buffer.buffer_type == "auto_broadcast":
            # A dimension of extent 1 is repeated.
            inside = build.logical_or(build.eq(copy(extent), const(1, extent.dtype)), inside)
        if isinstance(inside, IntImm) and inside.value:
            return
        shown = Shown(copy(place.value(index)), extent, lambda expr: copy(place.value(expr)))
        self.require(copy(place.fact(inside)), self.message(node, axis, which, shown), node)

    def require(self, condition: Expr, message: Expr, node: BufferLoad | BufferStore) -> None:
        """Add an assertion about an access."""
        self.asserts.append(Assert(condition, message, span=self.span))


def _element_of(pointer: object) -> BufferLoad | None:
    """The element whose address is taken, if it is one of a buffer."""
    if isinstance(pointer, Call) and pointer.op is _ADDRESS_OF and isinstance(pointer.args[0], BufferLoad):
        return pointer.args[0]
    return None


def _holds(expr: Expr, kind: type[Expr]) -> bool:
    """Whether an expression has a node of a class in it."""
    return has(kind, expr)


class AccessGuards(StmtMutator):
    """Statements come back with their asserts in front, as a list that the Seq around takes in."""

    def checks(self, op: Stmt) -> AccessGuardBuilder:
        """What collects the asserts of a statement."""
        return AccessGuardBuilder(op.span)

    def guarded(self, op: Stmt, made: Stmt, *exprs: Expr | None) -> Stmt:
        """A statement with the asserts of the expressions that it evaluates first."""
        checks = self.checks(op)
        for expr in exprs:
            if expr is not None:
                checks.expression(expr)
        return self.after(checks, made)

    @staticmethod
    def after(checks: AccessGuardBuilder, made: Stmt) -> Stmt:
        """A statement behind its asserts."""
        return Seq((*checks.asserts, made)) if checks.asserts else made

    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        for stmt in op.stmts:
            made = self.visit(stmt)
            if made is not stmt and isinstance(made, Seq) and not isinstance(stmt, Seq):
                # The asserts and their statement: what it declares is in scope in what follows.
                done += made.stmts
            else:
                done.append(made)
        if len(done) == len(op.stmts) and all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return op.with_(stmts=tuple(done))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        checks = self.checks(op)
        for expr in (op.value, *op.indices, *(() if op.predicate is None else (op.predicate,))):
            checks.expression(expr)
        checks.access(op, _TOP)
        return self.after(checks, op)

    def visit_Bind(self, op: Bind) -> Stmt:
        return self.guarded(op, op, op.value)

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return self.guarded(op, op, op.value)

    def visit_Assert(self, op: Assert) -> Stmt:
        # The message is evaluated only when the condition fails, and then as it is.
        return self.guarded(op, op, op.condition)

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        return self.guarded(op, op, op.condition, *op.buffer.shape)

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        return self.guarded(op, op, *op.buffer.shape, *op.buffer.strides, op.buffer.elem_offset)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        return self.guarded(op, self.generic(op), op.value)

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        return self.guarded(op, self.generic(op), op.condition)

    def nested(self, op: NodeT) -> NodeT:
        """A loop or block with its body rewritten."""
        return self.generic(op)

    def visit_For(self, op: For) -> Stmt:
        return self.guarded(op, self.nested(op), op.min, op.extent)

    def visit_While(self, op: While) -> Stmt:
        made = self.generic(op)
        if not _holds(op.condition, BufferLoad):
            return made
        # The condition is evaluated before each iteration, after a `continue` too.
        checks = self.checks(op)
        checks.expression(op.condition)
        if not checks.asserts:
            return made
        leave = Evaluate(build.call("tir.break_loop"))
        stop = IfThenElse(build.logical_not(op.condition), leave, None, span=op.span)
        return While(const(True, BOOL), seq([*checks.asserts, stop, made.body]), span=op.span)

    def visit_Block(self, op: Block) -> Stmt:
        values = [it.value for it in op.iters]
        return self.guarded(op, self.nested(op), *values, op.predicate if _holds(op.predicate, BufferLoad) else None)


class InstrumentBoundCheckers(FuncPass):
    """Before each statement stand asserts that every index of its accesses lies in its buffer's shape.

    An assert that fails raises IndexError (:class:`BoundsError`) with the buffer, the index, its dimension and the
    bounds. Each dimension of a load or store is checked, in the order of evaluation; of a ramp both ends, of any other
    vector every lane, masked lanes not. An access that is evaluated under a condition (``T.if_then_else``, ``and``,
    ``or``) is checked under it. A loop whose condition loads checks it before each iteration. Only accesses whose index
    and extent are constants in bounds have no assert: nothing else is taken on trust. The address of an element
    (``T.address_of``) may be one that is not accessed, and is not checked.

    In a pipeline it stands after FlattenBuffer and VectorizeLoop (there an index is one of the flat buffer), enabled by
    ``PassContext(config={"tir.instrument_bound_checkers": True})``; on its own it takes any stage. Running it twice
    checks twice. Raises nothing.

    >>> from tirlower.script import parse
    >>> print(InstrumentBoundCheckers()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "int32"), i: T.int32):
    ...     A[i] = 1
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), i: T.int32):
        T.Assert(i >= 0 and i < 8, T.tvm_tuple("IndexError", "A: index {0} of dimension 0 is outside the bounds 0 <= index < {1}", i, 8))
        A[i] = 1
    """

    name = "tir.InstrumentBoundCheckers"
    stage = Stage.ANY

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Guard every access of a function."""
        return func.with_body(AccessGuards().visit(func.body))
