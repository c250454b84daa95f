"""The checker of StorageRewrite: no buffer is read after another one was written into its memory.

It shares nothing with the plan. The accesses of the two programs are paired in order, which tells for each buffer of
the first the memory that it has in the second. Then the first program is simulated, loops twice (what one iteration
leaves is seen by the next) and branches one after the other, keeping for each buffer whether it is fresh,
written, or spoilt: written, and then another buffer of the same memory was written. A read of a spoilt buffer is an
overlap of two live buffers. A store whose value reads the buffer that it spoils works in place; for such a store, the
iterations around it are enumerated, and no two may touch one element.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Literal

from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir.cancel import expr_key
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Ramp, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each, nodes
from tirlower.ir.stmt import AllocBuffer, Bind, BufferStore, DeclBuffer, For, ForKind, IfThenElse, Stmt, While
from tirlower.rewrite.storage.plan import constant_bytes

__all__ = ["verify_storage"]

MAX_POINTS = 400
SYMBOLIC_EXTENT = 3
"""What a loop over an unknown number of iterations is tried with."""

WRITTEN, SPOILT = "written", "spoilt"

_CONCURRENT = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)


class _Uses(Visitor):
    """The data variables that a program uses, in order; where memory is allocated, and how much."""

    def __init__(self) -> None:
        self.used: list[Var] = []
        self.homes: dict[Var, tuple[For, ...]] = {}
        self.sizes: dict[Var, int | None] = {}
        self.loops: tuple[For, ...] = ()

    def visit_For(self, op: For) -> None:
        self.visit(op.min)
        self.visit(op.extent)
        outer = self.loops
        if op.kind in _CONCURRENT:
            self.loops = (*outer, op)
        self.visit(op.body)
        self.loops = outer

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.homes[op.buffer.data] = self.loops
        self.sizes[op.buffer.data] = constant_bytes(op.buffer)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        """A name, not a use."""

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        self.used.append(op.buffer.data)

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.generic(op)
        self.used.append(op.buffer.data)

    def visit_Var(self, op: Var) -> None:
        if isinstance(op.type, PointerType):
            self.used.append(op)


State = dict[Var, object]
"""For each buffer WRITTEN or SPOILT, or the store that spoilt it in place; absent while it is fresh."""


class _Simulator(Visitor):
    """Runs a program on states of buffers, in the order of its statements."""

    def __init__(self, memory: dict[Var, Var], homes: Iterable[Var]) -> None:
        self.memory = memory
        self.state: State = {}
        self.sharing: dict[Var, list[Var]] = {}
        for buffer in homes:
            if buffer in memory:
                self.sharing.setdefault(memory[buffer], []).append(buffer)
        self.aliases: dict[Var, set[Var]] = {}
        self.loops: list[Stmt] = []
        self.inside: dict[Var, int] = {}
        self.store: BufferStore | None = None
        self.checked: set[int] = set()

    # What happens to buffers

    def names(self, data: object) -> Iterable[Var]:
        if not isinstance(data, Var):
            return ()
        return (data,) if data in self.memory else self.aliases.get(data, ())

    def read(self, data: Var) -> None:
        for buffer in self.names(data):
            state = self.state.get(buffer)
            if state is None or state is WRITTEN:
                continue
            if isinstance(state, BufferStore) and state is self.store:
                self.check_in_place(state, buffer)
                continue
            raise TransformError(
                f"buffer {buffer.name!r} is read after another buffer was written into its memory "
                f"{self.memory[buffer].name!r}",
                span=None if self.store is None else self.store.span,
                help="this is a mistake of StorageRewrite: please report the program",
            )

    def write(self, data: Var, store: BufferStore | None) -> None:
        for buffer in self.names(data):
            self.state.setdefault(buffer, WRITTEN)
            for other in self.sharing.get(self.memory[buffer], ()):
                if other is buffer or other not in self.state or self.state[other] is SPOILT:
                    continue
                direct = store is not None and _reads_in_place(store, other)
                if direct and self.state[other] in (WRITTEN, store):
                    self.state[other] = store
                else:
                    self.state[other] = SPOILT

    def check_in_place(self, store: BufferStore, source: Var) -> None:
        """Different iterations around a store in place touch different elements."""
        if id(store) in self.checked:
            return
        self.checked.add(id(store))
        loops = self.loops[self.inside.get(source, 0) :]
        if any(isinstance(loop, While) for loop in loops):
            raise TransformError(f"a store to {store.buffer.name!r} works in place in a while loop", span=store.span)
        seen: dict[object, dict[Var, Expr]] = {}
        for point in _points([loop for loop in loops if isinstance(loop, For)]):
            for element in _elements(store.indices, point):
                other = seen.setdefault(element, point)
                if other is not point:
                    raise TransformError(
                        f"two iterations of a store to {store.buffer.name!r}, which works in place, touch one element",
                        span=store.span,
                        help="this is a mistake of StorageRewrite: please report the program",
                    )

    # Statements

    def visit_For(self, op: For) -> None:
        self.visit(op.min)
        self.visit(op.extent)
        self.loops.append(op)
        self.repeat(op.body)
        self.loops.pop()

    def visit_While(self, op: While) -> None:
        self.visit(op.condition)
        self.loops.append(op)
        self.repeat(op.body, op.condition)
        self.loops.pop()

    def repeat(self, *parts: Node) -> None:
        """Run a body, and once more where the first run left something that the second may see."""
        before = dict(self.state)
        for part in parts:
            self.visit(part)
        if self.state != before:
            for part in parts:
                self.visit(part)

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.visit(op.condition)
        before = dict(self.state)
        self.visit(op.then_case)
        taken, self.state = self.state, before
        if op.else_case is not None:
            self.visit(op.else_case)
        for buffer, state in taken.items():
            known = self.state.get(buffer)
            if known is None or known is WRITTEN or (state is SPOILT and known is not SPOILT):
                self.state[buffer] = state

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.state.pop(op.buffer.data, None)
        self.inside[op.buffer.data] = len(self.loops)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        """A name, not a use."""

    def visit_Bind(self, op: Bind) -> None:
        self.visit(op.value)
        if op.value.dtype.is_handle:
            found: set[Var] = set()
            for part in nodes(op.value):
                found.update(self.names(_data_of(part)))
            self.aliases[op.var] = found

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.store = op
        for part in (op.value, *op.indices):
            self.visit(part)
        if op.predicate is not None:
            self.visit(op.predicate)
        self.store = None
        self.write(op.buffer.data, op)

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        self.read(op.buffer.data)

    def visit_Call(self, op: Call) -> Literal[False] | None:
        if op.op is Op.get("tir.address_of") and isinstance(op.args[0], BufferLoad):
            self.pointer(op.args[0].buffer.data)
            for index in op.args[0].indices:
                self.visit(index)
            return False
        return None

    def visit_Var(self, op: Var) -> None:
        if isinstance(op.type, PointerType) or op in self.aliases:
            self.pointer(op)

    def pointer(self, data: Var) -> None:
        """Whoever has the pointer may read and write."""
        self.read(data)
        self.write(data, None)


def _data_of(part: object) -> object:
    return part if isinstance(part, Var) else part.buffer.data if isinstance(part, BufferLoad) else None


def _reads_in_place(store: BufferStore, source: Var) -> bool:
    """Whether a store reads a buffer, always at the element that it stores to."""
    wanted = tuple(map(expr_key, store.indices))
    loads = [load for load in each(BufferLoad, store.value) if load.buffer.data is source]
    return bool(loads) and all(
        load.dtype is store.value.dtype
        and load.buffer.dtype is store.buffer.dtype
        and tuple(map(expr_key, load.indices)) == wanted
        for load in loads
    )


def _value(expr: Expr, point: dict[Var, Expr]) -> int | None:
    found = Analyzer().simplify(substitute(expr, point))
    return found.value if isinstance(found, IntImm) else None


def _points(loops: list[For]) -> Iterator[dict[Var, Expr]]:
    """Iterations of loops; symbolic bounds are tried with small numbers."""

    def walk(position: int, point: dict[Var, Expr]) -> Iterator[dict[Var, Expr]]:
        if position == len(loops):
            yield point
            return
        loop = loops[position]
        start, extent = _value(loop.min, point), _value(loop.extent, point)
        first = 0 if start is None else start
        for step in range(SYMBOLIC_EXTENT if extent is None else extent):
            yield from walk(position + 1, {**point, loop.loop_var: IntImm(loop.min.dtype, first + step)})

    return itertools.islice(walk(0, {}), MAX_POINTS)


def _elements(indices: tuple[Expr, ...], point: dict[Var, Expr]) -> Iterator[object]:
    """The elements that an access touches at an iteration, as far as their indices can be evaluated or told apart."""
    parts: list[list[object]] = []
    for index in indices:
        lanes = (
            [index.base + index.stride * lane for lane in range(index.lanes)]
            if isinstance(index, Ramp) and isinstance(index.lanes, int)
            else [index]
        )
        values = [substitute(lane, point) for lane in lanes]
        simple = [Analyzer().simplify(value) for value in values]
        parts.append([s.value if isinstance(s, IntImm) else expr_key(s) for s in simple])
    return itertools.product(*parts)


def verify_storage(before: PrimFunc, after: PrimFunc) -> None:
    """Raise :class:`TransformError` if buffers of ``before`` that share memory in ``after`` are live at one time, if
    the memory is too small, or if iterations that run side by side would share it."""
    old, new = _Uses(), _Uses()
    old.visit(before.body)
    new.visit(after.body)
    if len(old.used) != len(new.used):
        raise TransformError(f"the rewritten function has {len(new.used)} accesses, not {len(old.used)}")
    memory: dict[Var, Var] = {}
    for buffer, found in zip(old.used, new.used, strict=True):
        if buffer not in old.homes:
            continue
        if memory.setdefault(buffer, found) is not found:
            raise TransformError(f"buffer {buffer.name!r} lies in two memories at once")
    for buffer, found in memory.items():
        have, need = new.sizes.get(found), old.sizes[buffer]
        if have is not None and need is not None and have < need:
            raise TransformError(f"buffer {buffer.name!r} needs {need} bytes, its memory {found.name!r} has {have}")
        if [loop.loop_var for loop in old.homes[buffer]] != [loop.loop_var for loop in new.homes.get(found, ())]:
            raise TransformError(f"the memory of buffer {buffer.name!r} left a loop whose iterations run side by side")
    _Simulator(memory, old.homes).visit(before.body)
