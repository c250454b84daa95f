"""Brute force: run a function on given sizes, list every element that it touches, and judge loops by that list.

An evaluator of its own, with nothing in common with the analysis: it interprets integer expressions, follows loops,
guards, blocks and allocations, and records accesses without any data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tirlower import ir
from tirlower.ir import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
    Block,
    BufferLoad,
    BufferStore,
    Call,
    DeclBuffer,
    Evaluate,
    Expr,
    For,
    IfThenElse,
    IterKind,
    PrimFunc,
    Seq,
    Stmt,
    Var,
)

__all__ = ["Event", "bounds_violations", "dependences", "events", "parallel_conflict", "vector_conflict"]


class NotAffine(Exception):
    """A value that depends on data."""


@dataclass(frozen=True)
class Event:
    """One access: of an element (memory and address in bits) by a statement instance."""

    loops: tuple[tuple[For, int, int], ...]
    """(loop, value, count of the iteration) outermost first."""
    path: tuple[int, ...]
    """Places in the text and iteration counts, interleaved; ends with the statement and its phase."""
    is_write: bool
    memory: Any
    elements: frozenset[Any]
    node: Expr | Stmt
    statement: Stmt
    indices: tuple[tuple[int, ...], ...]
    inside: bool


def _evaluate(op: Any, env: Mapping[Var, Any], lane: int = 0) -> Any:
    kind = op.__class__
    if kind is ir.IntImm:
        return op.value
    if kind is Var:
        if op not in env:
            raise NotAffine(op.name)
        return env[op]
    if kind is ir.Ramp:
        return _evaluate(op.base, env, lane) + lane * _evaluate(op.stride, env, lane)
    if kind is ir.Broadcast:
        return _evaluate(op.value, env, lane)
    if kind is ir.Cast and op.value.dtype.is_integral:
        return _kept(int(_evaluate(op.value, env, lane)), op.dtype)
    if kind is Call and op.op.name in _BITS:
        return _kept(_BITS[op.op.name](*(_evaluate(arg, env, lane) for arg in op.args)), op.dtype)
    if kind is ir.Select:
        return _evaluate(op.true_value if _evaluate(op.condition, env, lane) else op.false_value, env, lane)
    if kind is Call and op.op.name == "tir.if_then_else":
        return _evaluate(op.args[1] if _evaluate(op.args[0], env, lane) else op.args[2], env, lane)
    if kind is Call and op.op.name == "tir.likely":
        return _evaluate(op.args[0], env, lane)
    if kind is ir.Not:
        return not _evaluate(op.a, env, lane)
    if kind is ir.And:
        return _evaluate(op.a, env, lane) and _evaluate(op.b, env, lane)
    if kind is ir.Or:
        return _evaluate(op.a, env, lane) or _evaluate(op.b, env, lane)
    rule = _BINARY.get(kind)
    if rule is None:
        raise NotAffine(str(op))
    return _kept(rule(_evaluate(op.a, env, lane), _evaluate(op.b, env, lane)), op.dtype)


def _kept(value: Any, dtype: Any) -> Any:
    """A value as its type keeps it."""
    if dtype.is_bool or not dtype.is_integral:
        return value
    bits = value & ((1 << dtype.bits) - 1)
    return bits - (1 << dtype.bits) if dtype.is_int and bits >> (dtype.bits - 1) else bits


_BITS: dict[str, Any] = {
    "tir.bitwise_and": lambda a, b: a & b, "tir.bitwise_or": lambda a, b: a | b, "tir.bitwise_xor": lambda a, b: a ^ b,
    "tir.bitwise_not": lambda a: ~a, "tir.shift_left": lambda a, b: a << b, "tir.shift_right": lambda a, b: a >> b,
}  # fmt: skip


def _trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[type, Any] = {
    ir.Add: lambda a, b: a + b, ir.Sub: lambda a, b: a - b, ir.Mul: lambda a, b: a * b,
    ir.FloorDiv: lambda a, b: a // b, ir.FloorMod: lambda a, b: a % b,
    ir.Div: _trunc, ir.Mod: lambda a, b: a - b * _trunc(a, b),
    ir.Min: min, ir.Max: max, ir.LT: lambda a, b: a < b, ir.LE: lambda a, b: a <= b, ir.GT: lambda a, b: a > b,
    ir.GE: lambda a, b: a >= b, ir.EQ: lambda a, b: a == b, ir.NE: lambda a, b: a != b,
}  # fmt: skip


class _Continue(Exception):
    pass


class _Break(Exception):
    pass


_JUMPS: dict[str, type[Exception]] = {"tir.continue_loop": _Continue, "tir.break_loop": _Break}


class _Runner:
    def __init__(self, func: PrimFunc, sizes: Mapping[str, int]) -> None:
        self.found: list[Event] = []
        self.env: dict[Var, Any] = {}
        self.memory: dict[Var, Any] = {}
        self.pointers: dict[Var, tuple[Any, int]] = {}
        self.places: dict[int, int] = {}
        self.instances = 0
        self.loops: tuple[tuple[For, int, int], ...] = ()
        self.path: tuple[int, ...] = ()
        named: list[Any] = list(func.params)
        for buffer in func.buffers:
            named += [*buffer.shape, *buffer.strides, buffer.elem_offset]
        for part in named:
            if isinstance(part, Var) and part.name in sizes:
                self.env[part] = sizes[part.name]
        self.statement(func.body)

    def place(self, stmt: Stmt) -> int:
        return self.places.setdefault(id(stmt), self._number(stmt))

    def _number(self, stmt: Stmt) -> int:
        return len(self.places)

    def statement(self, op: Any) -> None:
        kind = op.__class__
        if kind is Seq:
            for stmt in op.stmts:
                self.statement(stmt)
        elif kind is For:
            start = _evaluate(op.min, self.env)
            before = self.loops, self.path
            place = self.place(op)
            for count in range(_evaluate(op.extent, self.env)):
                self.env[op.loop_var] = start + count
                self.loops = (*before[0], (op, start + count, count))
                self.path = (*before[1], place, count)
                try:
                    self.statement(op.body)
                except _Continue:
                    pass
                except _Break:
                    break
            self.loops, self.path = before
        elif kind is IfThenElse:
            self.loads(op, op.condition)
            if _evaluate(op.condition, self.env):
                self.statement(op.then_case)
            elif op.else_case is not None:
                self.statement(op.else_case)
        elif kind is BufferStore:
            self.loads(op, op.value, *op.indices)
            self.access(op, op, op.buffer, op.indices, True)
        elif kind is Bind and op.value.dtype.is_handle:
            self.pointers[op.var] = self.pointer(op.value)
        elif kind is Bind:
            self.loads(op, op.value)
            try:
                self.env[op.var] = _evaluate(op.value, self.env)
            except NotAffine:
                self.env.pop(op.var, None)
        elif kind is Evaluate and op.value.__class__ is Call and op.value.op.name in _JUMPS:
            raise _JUMPS[op.value.op.name]
        elif kind is Evaluate:
            self.loads(op, op.value)
        elif kind is Assert:
            self.loads(op, op.condition)
        elif kind is AllocBuffer:
            self.instances += 1
            self.memory[op.buffer.data] = ("allocated", self.instances)
        elif kind is AttrStmt:
            self.statement(op.body)
        elif kind is Block:
            self.block(op)
        elif kind is AllocConst:
            self.memory[op.buffer.data] = op.buffer.data
        elif kind is not DeclBuffer:
            raise NotImplementedError(kind.__name__)

    def pointer(self, value: Any) -> tuple[Any, int]:
        """The memory that a pointer is into, and the bytes past its start."""
        if isinstance(value, Var):
            return self.pointers.get(value) or (self.memory.get(value, value), 0)
        if value.op.name == "tir.reinterpret":
            return self.pointer(value.args[0])
        if value.op.name == "tir.tvm_access_ptr":
            memory, shift = self.pointer(value.args[1])
            return memory, shift + value.args[0].dtype.bytes * _evaluate(value.args[2], self.env)
        if value.op.name != "tir.address_of":
            raise NotImplementedError(value.op.name)
        load = value.args[0]
        memory, shift = self.pointer(load.buffer.data)
        strides, offset = self.strides(load.buffer)
        at = offset + sum(_evaluate(i, self.env) * s for i, s in zip(load.indices, strides, strict=True))
        return memory, shift + at * load.buffer.dtype.bytes

    def strides(self, buffer: Any) -> tuple[list[int], int]:
        """The strides and the offset of a buffer, in elements."""
        strides = [_evaluate(stride, self.env) for stride in buffer.strides]
        if not strides:
            step = 1
            for extent in reversed(buffer.shape):
                strides.insert(0, step)
                step *= _evaluate(extent, self.env)
        return strides, _evaluate(buffer.elem_offset, self.env)

    def block(self, op: Block) -> None:
        for it in op.iters:
            self.env[it.var] = _evaluate(it.value, self.env)
        if not _evaluate(op.predicate, self.env):
            return
        if op.init is not None and all(
            self.env[it.var] == _evaluate(it.domain.min, self.env) for it in op.iters if it.kind is IterKind.REDUCE
        ):
            self.statement(op.init)
        self.statement(op.body)

    def loads(self, statement: Stmt, *exprs: Any) -> None:
        for expr in exprs:
            self.load(statement, expr)

    def load(self, statement: Stmt, op: Any) -> None:
        if isinstance(op, BufferLoad):
            for index in op.indices:
                self.load(statement, index)
            self.access(statement, op, op.buffer, op.indices, False)
        elif isinstance(op, Call) and op.op.name == "tir.if_then_else":
            self.load(statement, op.args[0])
            self.load(statement, op.args[1 if _evaluate(op.args[0], self.env) else 2])
        elif isinstance(op, (ir.And, ir.Or)):
            self.load(statement, op.a)
            if bool(_evaluate(op.a, self.env)) == isinstance(op, ir.And):
                self.load(statement, op.b)
        else:
            for child in op.children():
                self.load(statement, child)

    def access(self, statement: Stmt, node: Any, buffer: Any, indices: Any, is_write: bool) -> None:
        lanes = indices[-1].dtype.lanes if indices else 1
        shape = [_evaluate(extent, self.env) for extent in buffer.shape]
        strides, offset = self.strides(buffer)
        bits = max(buffer.dtype.bits, 8) * buffer.dtype.lanes
        memory, shift = self.pointer(buffer.data)
        elements: set[Any] = set()
        every = []
        for lane in range(lanes):
            try:
                at = tuple(_evaluate(index, self.env, lane) for index in indices)
            except NotAffine:
                return  # which element it is depends on data
            every.append(at)
            address = offset + sum(i * s for i, s in zip(at, strides, strict=True))
            elements |= {shift + address * bits // 8 + byte for byte in range(bits // 8)}
        inside = all(0 <= i < extent for at in every for i, extent in zip(at, shape, strict=True))
        path = (*self.path, self.place(statement), int(is_write))
        self.found.append(
            Event(self.loops, path, is_write, memory, frozenset(elements), node, statement, tuple(every), inside)
        )


def events(func: PrimFunc, sizes: Mapping[str, int] | None = None) -> list[Event]:
    """Every access of a run, in order. ``sizes`` gives symbolic sizes and scalars by name."""
    runner = _Runner.__new__(_Runner)
    _number_statements(runner, func)
    _Runner.__init__(runner, func, sizes or {})
    return runner.found


def _number_statements(runner: _Runner, func: PrimFunc) -> None:
    """Places in the text, before anything runs (a statement may run first in a later place)."""
    order: dict[int, int] = {}

    def walk(op: Any) -> None:
        order[id(op)] = len(order)
        if isinstance(op, Block) and op.init is not None:
            walk(op.init)
            walk(op.body)
            return
        for child in op.children():
            if isinstance(child, Stmt):
                walk(child)

    walk(func.body)
    runner._number = lambda stmt: order[id(stmt)]  # type: ignore[method-assign]


def _iterations(found: list[Event], loop: For) -> dict[Any, list[tuple[int, Event]]]:
    """The accesses inside each execution of a loop: (iteration count, access)."""
    groups: dict[Any, list[tuple[int, Event]]] = {}
    for event in found:
        for at, (node, _, count) in enumerate(event.loops):
            if node is loop:
                outer = tuple(value for _, value, _ in event.loops[:at])
                groups.setdefault((outer, event.path[: 2 * at]), []).append((count, event))
    return groups


def parallel_conflict(found: list[Event], loop: For) -> tuple[Event, Event] | None:
    """Two iterations of one execution of a loop that touch one element, one of them writing; None if none do."""
    for group in _iterations(found, loop).values():
        touched: dict[Any, list[tuple[int, Event]]] = {}
        for count, event in group:
            for element in event.elements:
                touched.setdefault((event.memory, element), []).append((count, event))
        for accesses in touched.values():
            for count, event in accesses:
                if event.is_write:
                    for other, more in accesses:
                        if other != count:
                            return event, more
    return None


def vector_conflict(found: list[Event], loop: For) -> tuple[Event, Event] | None:
    """A dependence from a lane to a later lane's textually earlier, or same, statement instance; None if none."""
    for group in _iterations(found, loop).values():
        touched: dict[Any, list[tuple[int, Event]]] = {}
        for count, event in group:
            for element in event.elements:
                touched.setdefault((event.memory, element), []).append((count, event))
        for accesses in touched.values():
            for count, event in accesses:
                for other, more in accesses:
                    if count < other and (event.is_write or more.is_write):
                        if _without(more, loop) <= _without(event, loop):
                            return event, more
    return None


def _without(event: Event, loop: For) -> tuple[int, ...]:
    """The place of an instance when the iterations of a loop run in step."""
    at = next(n for n, (node, _, _) in enumerate(event.loops) if node is loop)
    return event.path[2 * at + 2 :]


def dependences(found: list[Event]) -> set[tuple[str, Stmt, Stmt, tuple[int, ...]]]:
    """Every memory-based dependence: (kind, source, sink, distances of the loops in common)."""
    result = set()
    touched: dict[Any, list[Event]] = {}
    for event in found:
        for element in event.elements:
            touched.setdefault((event.memory, element), []).append(event)
    for accesses in touched.values():
        for at, first in enumerate(accesses):
            for second in accesses[at + 1 :]:
                if not (first.is_write or second.is_write):
                    continue
                kind = "output" if first.is_write and second.is_write else "flow" if first.is_write else "anti"
                distance = []
                for (node, value, _), (other, more, _) in zip(first.loops, second.loops, strict=False):
                    if node is not other:
                        break
                    distance.append(more - value)
                result.add((kind, first.statement, second.statement, tuple(distance)))
    return result


def bounds_violations(found: list[Event]) -> list[Event]:
    """The accesses outside their buffer."""
    return [event for event in found if not event.inside]
