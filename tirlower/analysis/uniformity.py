"""Which values are the same in all threads of a block, or of a warp: what a condition around a barrier must be.

A value varies that comes from a thread's index, from a call with effects (a shuffle, a vote), or from memory of the
thread's own into which such a value, or a value under such a condition, is stored. Elements of such memory are told apart where
all accesses of it have constant indices. Memory that threads share gives each of them the same at the same index.

Among the threads of a warp an expression of thread indices alone (``tx // 32``, ``ty``) varies where it has two values in one
warp: it is computed for all threads of the block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tirlower.analysis.purity import side_effect
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Let, Var
from tirlower.ir.functor import Visitor, post_order_visit
from tirlower.ir.integers import Value, operation, word_of, wrapped
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each, nodes
from tirlower.ir.splice import jumps_out
from tirlower.ir.stmt import AllocBuffer, Bind, BufferStore, Evaluate, For, ForKind, IfThenElse, Stmt, While

__all__ = ["Uniformity"]

_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_MOST_THREADS = 1 << 16
"""The threads of a block for which expressions are computed; a device has fewer."""

_JUMPS = frozenset((Op.get("tir.break_loop"), Op.get("tir.continue_loop")))


class Uniformity(Visitor):
    """The variables and thread-own buffers of a function whose values differ between threads.

    ``together`` is how many threads with consecutive numbers are asked about, as 32 for those of a warp; all of a block
    where it is None. The numbers are those of the axes of one kernel.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "int32")):
    ...     for tx in T.thread_binding(8, thread="threadIdx.x"):
    ...         half: T.let[T.int32] = tx // 2
    ...         A[half] = 0
    ... ''')
    >>> facts = Uniformity(func.body)
    >>> [facts.varies(stmt.indices[0]) for stmt in func.body.body.stmts[1:]]
    [True]
    >>> [Uniformity(func.body, together=2).varies(stmt.indices[0]) for stmt in func.body.body.stmts[1:]]
    [False]
    """

    def __init__(self, body: Stmt, *, together: int | None = None) -> None:
        self.together = together
        self._indices = _indices_of_threads(body) if together is not None else {}
        self.varying: set[object] = set()
        self.private: set[Var] = set()
        self._elements: set[Var] = set()
        self._into: dict[object, list[object]] = {}
        self._control: list[frozenset[object]] = []
        self._loops: list[set[object]] = []
        self._own(body)
        self.visit(body)
        self._spread()

    def varies(self, *exprs: Expr) -> bool:
        """Whether one of the expressions may differ between the threads of a block."""
        return any(self._is_varying(source) for source in self._sources(*exprs))

    def _is_varying(self, source: object) -> bool:
        return source is _VARYING or source in self.varying

    def _own(self, body: Stmt) -> None:
        buffers: dict[Var, Buffer] = {}
        mixed: set[Var] = set()

        for op in nodes(body):
            if isinstance(op, AllocBuffer) and not op.buffer.scope.startswith(("shared", "global")):
                self.private.add(op.buffer.data)
            if op.__class__ in (BufferLoad, BufferStore):
                data = op.buffer.data
                if buffers.setdefault(data, op.buffer) is not op.buffer or _numbers(op.indices) is None:
                    mixed.add(data)
            elif op.__class__ is Call and side_effect(op) > Purity.READS:
                mixed.update(each(Var, op))
                mixed.update(
                    arg.buffer.data for call in each(Call, op) for arg in call.args if isinstance(arg, BufferLoad)
                )
        self._elements = self.private - mixed

    def _cell(self, access: BufferLoad | BufferStore) -> object:
        """What stands for an element of private memory: the element, or all of the buffer."""
        data = access.buffer.data
        return (data, _numbers(access.indices)) if data in self._elements else data

    def _sources(self, *exprs: Expr) -> frozenset[object]:
        """The variables and private memories that expressions are computed from, or the mark of a varying call."""
        found: set[object] = set()

        for op in nodes(*exprs) if self.together is None else self._not_known_equal(exprs):
            if op.__class__ is Var:
                if not isinstance(op.type, PointerType) or op in self.private:
                    found.add(op)
            elif op.__class__ is BufferLoad and op.buffer.data in self.private:
                found.add(self._cell(op))
            elif op.__class__ is Call and side_effect(op) > Purity.READS:
                found.add(_VARYING)
            elif op.__class__ is Let:
                self._edge(op.var, self._sources(op.value))
        return frozenset(found)

    def _not_known_equal(self, exprs: Sequence[Expr]) -> Iterable[Node]:
        """The nodes of expressions without those parts that are computed to be equal in the threads asked about."""
        values: dict[int, Value] = {}

        def compute(op: Node) -> None:
            if isinstance(op, Expr):
                values[id(op)] = self._value(op, values)

        for expr in exprs:
            post_order_visit(expr, compute)
        stack: list[Node] = list(exprs)
        seen: set[int] = set()
        while stack:
            op = stack.pop()
            if id(op) not in seen and not self._is_equal(values.get(id(op))):
                seen.add(id(op))
                yield op
                stack += op.children()

    def _value(self, op: Expr, values: dict[int, Value]) -> Value:
        """What an expression of thread indices alone is worth, by thread; None where it is of anything else."""
        if isinstance(op, IntImm):
            return op.value
        if isinstance(op, Var):
            return self._indices.get(op)
        operands = [values.get(id(child)) for child in op.children()]
        compute = operation(word_of(op), op.dtype)
        if compute is None or any(value is None for value in operands):
            return None
        try:
            return wrapped(op, compute(*operands))
        except ArithmeticError:
            return None

    def _is_equal(self, value: Value) -> bool:
        if not isinstance(value, np.ndarray):
            return value is not None
        assert self.together is not None
        first = np.arange(value.size) // self.together * self.together
        return bool(np.all(value == value[first]))

    def _edge(self, target: object, sources: Iterable[object]) -> None:
        for source in sources:
            self._into.setdefault(source, []).append(target)

    def _assign(self, target: object, sources: frozenset[object]) -> None:
        self._edge(target, sources.union(*self._control))

    def _spread(self) -> None:
        stack = [_VARYING, *self.varying]
        while stack:
            for target in self._into.get(stack.pop(), ()):
                if target not in self.varying:
                    self.varying.add(target)
                    stack.append(target)

    # Statements

    def visit_expr(self, root: Expr) -> None:
        """Private memory that is given to a call holds anything; nested bindings are noted."""
        self._sources(root)
        for call in each(Call, root):
            if side_effect(call) > Purity.READS:
                for op in each((Var, BufferLoad), call):
                    data = op if isinstance(op, Var) else op.buffer.data
                    if data in self.private:
                        self._edge(data, (_VARYING,))

    def visit_For(self, op: For) -> None:
        if op.kind is ForKind.THREAD_BINDING and not str(op.thread_tag).startswith("blockIdx"):
            self.varying.add(op.loop_var)
            self.generic(op)
            return
        self.visit_expr(op.min)
        self.visit_expr(op.extent)
        bounds = self._sources(op.min, op.extent)
        self._assign(op.loop_var, bounds)
        self._loop(op, bounds, op.body)

    def visit_While(self, op: While) -> None:
        self.visit_expr(op.condition)
        self._loop(op, self._sources(op.condition), op.body)

    def _loop(self, op: For | While, control: frozenset[object], body: Stmt) -> None:
        # The loop is a target too: whether its iterations diverge.
        self._assign(op, control)
        self._control.append(frozenset((*control, op)) if jumps_out(body) else control)
        self._loops.append({op})
        self.visit(body)
        self._loops.pop()
        self._control.pop()

    def diverges(self, op: For | While) -> bool:
        """Whether the threads of a block may run different iterations of a loop."""
        return op in self.varying

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.visit_expr(op.condition)
        self._control.append(self._sources(op.condition))
        self.visit(op.then_case)
        if op.else_case is not None:
            self.visit(op.else_case)
        self._control.pop()

    def visit_Bind(self, op: Bind) -> None:
        self.visit_expr(op.value)
        self._assign(op.var, self._sources(op.value))

    def visit_BufferStore(self, op: BufferStore) -> None:
        parts = [op.value, *op.indices] + ([op.predicate] if op.predicate is not None else [])
        for part in parts:
            self.visit_expr(part)
        if op.buffer.data in self.private:
            self._assign(self._cell(op), self._sources(*parts))

    def visit_Evaluate(self, op: Evaluate) -> None:
        if isinstance(op.value, Call) and op.value.op in _JUMPS:
            for loop in self._loops[-1] if self._loops else ():
                self._assign(loop, frozenset())
        self.visit_expr(op.value)


def _indices_of_threads(body: Stmt) -> dict[Var, Value]:
    """The values of the variables of thread axes in the threads of a block, by their number; of none where an extent is
    not constant."""
    loops = [loop for loop in each(For, body) if loop.kind is ForKind.THREAD_BINDING and loop.thread_tag in _AXES]
    extents = dict.fromkeys(_AXES, 1)
    for loop in loops:
        if not isinstance(loop.extent, IntImm) or not isinstance(loop.min, IntImm):
            return {}
        extents[str(loop.thread_tag)] = max(extents[str(loop.thread_tag)], loop.extent.value)
    count, steps = 1, {}
    for axis, extent in extents.items():
        steps[axis] = count
        count *= extent
    if count > _MOST_THREADS:
        return {}
    numbers = np.arange(count)
    found: dict[Var, Value] = {}
    for loop in loops:
        axis = str(loop.thread_tag)
        found[loop.loop_var] = numbers // steps[axis] % extents[axis] + loop.min.value  # type: ignore[attr-defined]
    return found


def _numbers(indices: Sequence[Expr]) -> tuple[int, ...] | None:
    """Constant indices as numbers."""
    found = [index.value for index in indices if isinstance(index, IntImm)]
    return tuple(found) if len(found) == len(indices) else None


class _Varying:
    """What a varying call gives."""


_VARYING = _Varying()
