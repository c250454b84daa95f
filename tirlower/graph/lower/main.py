"""The statements of the driver: ``main``, and its parts where it is long.

Kernels are called with addresses of arrays and of places of the arena, and with the dims that they need as numbers. A part
is called with a window of the arena, the arrays that its steps name, and dims. Offsets count from its window, so that parts
that do the same elsewhere are one prim func.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from tirlower.arith.affine import Affine
from tirlower.graph.core.debug import Assert, failure
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.lower.callbacks import call_back
from tirlower.graph.lower.parts import in_parts
from tirlower.graph.lower.printing import print_symbol, printed_text
from tirlower.graph.lower.steps import Choice, DebugStep, ExternStep, KernelStep, Part, Step
from tirlower.graph.lower.storage import Storage
from tirlower.graph.lower.sums import Bytes, Sums
from tirlower.ir import (
    ALLOC_ALIGNMENT,
    Buffer,
    BufferLoad,
    Call,
    Evaluate,
    Expr,
    GlobalVar,
    IRBuilder,
    PrimFunc,
    StringImm,
    Var,
    build,
    decl_buffer,
)  # fmt: skip
from tirlower.ir.annotations import NOALIAS, UNIT
from tirlower.ir.constants import const
from tirlower.ir.dtype import HANDLE, INT64, DataType
from tirlower.ir.functor import substitute
from tirlower.ir.op import Op as Operation
from tirlower.ir.query import each

__all__ = ["PART", "Driver"]

PART: Final = "graph.part"
"""On a prim func, when true: a part of ``main``, to which nothing but the driver belongs."""


Reference: TypeAlias = "tuple[object, ...]"


@dataclass(frozen=True)
class _Window:
    """Bytes of the arena: from which on, and how many."""

    start: Bytes
    size: Expr


class Driver:
    """Writes ``main`` and its parts; these are in ``parts`` by their names then."""

    def __init__(self, graph: Graph, env: DimEnv, kernels: Mapping[str, PrimFunc], storage: Storage) -> None:
        self.graph = graph
        self.kernels = kernels
        self.storage = storage
        self.dims = {one.name: one.var for one in graph.dims}
        self.sums = Sums(env)
        self.offsets = {value: self.sums.of(at) for value, at in storage.offsets.items()}
        self.order = {value: n for n, value in enumerate(storage.offsets)}
        self.parts: dict[str, PrimFunc] = {}
        self.whole = _Window(Affine({}), storage.arena + ALLOC_ALIGNMENT)
        self._known: dict[Reference, tuple[str, tuple[Var, ...]]] = {}
        self._numbers = {
            name: tuple(self.dims[p.name] for p in kernel.params if p not in kernel.buffer_map and p.name in self.dims)
            for name, kernel in kernels.items()
        }

    def main(self, steps: Sequence[Step], states: Iterable[Value]) -> PrimFunc:
        """The prim func of all steps."""
        ib = IRBuilder()
        with ib.func("main", attrs={NOALIAS: True}):
            held: dict[Value, Buffer] = {}
            for value in self.graph.params:
                held[value] = ib.buffer_param(decl_buffer(value.extents, value.dtype, value.name))
            outputs = [
                ib.buffer_param(decl_buffer(v.extents, v.dtype, f"result{n}")) for n, v in enumerate(self.graph.results)
            ]
            for value in (*(constant.results[0] for constant in self.storage.constants), *states):
                held[value] = ib.buffer_param(decl_buffer(value.extents, value.dtype, value.name))
            arena = ib.buffer_param(_arena(self.whole))
            for value, n in self.storage.written.items():
                held[value] = outputs[n]
            cut = in_parts(steps, lambda place: place not in self.offsets)
            _Body(self, ib, held, arena, self.whole).write(cut)
        func = ib.module()["main"]
        return func.with_(params=(*func.params, *self.dims.values()))

    def part(self, part: Part) -> tuple[str, tuple[Var, ...], _Window]:
        """The prim func of a part by its name, the dims that it is given, and its window."""
        window = self.window(part.arena)
        # What the function depends on: it is written for the first part of its kind.
        key = (
            *((place.dtype, place.shape) for place in part.outside),
            window.size,
            *self._keys(part.steps, {place: n for n, place in enumerate(part.outside)}, window),
        )
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._part(part, window)
        return *found, window

    def _keys(self, steps: Sequence[Step], outside: Mapping[Value, int], window: _Window) -> Iterator[object]:
        def at(place: Value) -> object:
            number = outside.get(place)
            return number if number is not None else (self.offsets[place] - window.start).key

        for step in steps:
            if isinstance(step, (KernelStep, ExternStep, DebugStep)):
                yield *map(at, step.places), *self._key(step, at)
            elif isinstance(step, Part):
                name, _, inner = self.part(step)
                yield name, *map(at, step.outside), (inner.start - window.start).key
            elif isinstance(step, Choice):
                then, otherwise = (tuple(self._keys(s, outside, window)) for s in (step.then, step.otherwise))
                yield "if", at(step.condition), then, otherwise
            else:
                again, body = (tuple(self._keys(s, outside, window)) for s in (step.again, step.body))
                yield "while", at(step.condition), again, body

    def _key(self, step: KernelStep | ExternStep | DebugStep, at: Callable[[Value], object]) -> Iterator[object]:
        if isinstance(step, KernelStep):
            yield from (step.kernel, *self.numbers(step))
        elif isinstance(step, ExternStep):
            work = None if step.workspace is None else at(step.workspace)
            yield from (step.extern.symbol, *step.extern.numbers, work)
        else:
            node, kind = step.node, type(step.node).__name__
            yield from (kind, failure(node) if isinstance(node, Assert) else printed_text(node), node.inputs[0].shape)

    def _part(self, part: Part, window: _Window) -> tuple[str, tuple[Var, ...]]:
        """A new part's name and dims."""
        name, number = "part", len(self.parts)
        while name in self.kernels or name in self.parts or name == "part":
            number += 1
            name = f"part{number}"
        ib = IRBuilder()
        with ib.func(name, private=True, attrs={NOALIAS: True, UNIT: True, PART: True}):
            held = {
                value: ib.buffer_param(decl_buffer(value.extents, value.dtype, value.name)) for value in part.outside
            }
            arena = ib.buffer_param(_arena(window))
            _Body(self, ib, held, arena, window).write(part.steps)
        func = ib.module()[name]
        used = set(each(Var, func.body, *(e for buffer in func.buffer_map.values() for e in buffer.shape)))
        dims = tuple(dim for dim in self.dims.values() if dim in used)
        # Each function of a module has variables of its own.
        own = {dim: Var(dim.name, dim.type, dim.nonneg) for dim in dims}
        made = cast(PrimFunc, substitute(func, own)) if own else func
        self.parts[name] = made.with_(params=(*made.params, *own.values()))
        return name, dims

    def numbers(self, step: KernelStep) -> tuple[Expr, ...]:
        """What a kernel is given beside addresses."""
        return self._numbers[step.kernel] if step.numbers is None else step.numbers

    def window(self, places: Sequence[Value]) -> _Window:
        """The bytes that places have and those between them; the whole arena where it is not known which come first."""
        sums = self.sums
        if not places:
            return _Window(Affine({}), const(ALLOC_ALIGNMENT, INT64))
        ends = {place: self.offsets[place] + sums.size(place) for place in places}
        if all(end.is_constant and self.offsets[place].is_constant for place, end in ends.items()):
            first, last = min(places, key=lambda p: self.offsets[p].const), max(places, key=lambda p: ends[p].const)
        else:
            first, last = min(places, key=self.order.__getitem__), max(places, key=self.order.__getitem__)
        start, end = self.offsets[first], ends[last]
        if not all(sums.is_positive(self.offsets[p] - start) and sums.is_positive(end - ends[p]) for p in places):
            return self.whole
        return _Window(start, sums.expr((end - start).shifted(ALLOC_ALIGNMENT)))


def _arena(window: _Window) -> Buffer:
    return decl_buffer((window.size,), "uint8", "arena", data_alignment=ALLOC_ALIGNMENT)


class _Body:
    """The statements of ``main``, or of a part."""

    def __init__(
        self, driver: Driver, ib: IRBuilder, held: Mapping[Value, Buffer], arena: Buffer, window: _Window
    ) -> None:
        self.driver = driver
        self.ib = ib
        self.held = held
        self.arena = arena
        self.window = window

    def write(self, steps: Sequence[Step]) -> None:
        """Steps in order."""
        for step in steps:
            if isinstance(step, (KernelStep, ExternStep, DebugStep)):
                self._single(step)
            elif isinstance(step, Part):
                name, dims, window = self.driver.part(step)
                self._call(GlobalVar(name), [*map(self.pointer, step.outside), self.address(window.start), *dims])
            elif isinstance(step, Choice):
                with self.ib.if_(self.truth(step.condition)):
                    self._nested(step.then)
                if step.otherwise:
                    with self.ib.else_():
                        self._nested(step.otherwise)
            else:
                self.write(step.again)
                with self.ib.while_(self.truth(step.condition)):
                    self._nested((*step.body, *step.again))

    def _single(self, step: KernelStep | ExternStep | DebugStep) -> None:
        if isinstance(step, KernelStep):
            self._call(GlobalVar(step.kernel), [*map(self.pointer, step.places), *self.driver.numbers(step)])
        elif isinstance(step, DebugStep):
            self._debug(step)
        else:
            work = [] if step.workspace is None else [self.pointer(step.workspace)]
            symbol = StringImm(step.extern.symbol)
            pointers = map(self.pointer, step.places)
            self._call(Operation.get("tir.call_extern"), [symbol, *pointers, *step.extern.numbers, *work])

    def _debug(self, step: DebugStep) -> None:
        if isinstance(step.node, Assert):
            self.ib.assert_(self.truth(step.place), failure(step.node))
            return
        value, buffer = step.node.inputs[0], self.held.get(step.place)
        # What is only read may be a constant.
        pointer = self.pointer(step.place) if buffer is None else buffer.access_ptr("r")
        symbol, text = print_symbol(len(value.extents)), printed_text(step.node)
        call_back(self.ib, symbol, [StringImm(text), pointer, *value.extents])

    def _nested(self, steps: Sequence[Step]) -> None:
        self.write(steps)
        if not steps:
            self.ib.emit(Evaluate(const(0, "int32")))

    def _call(self, callee: GlobalVar | Operation, args: Sequence[Expr]) -> None:
        self.ib.emit(Evaluate(Call(callee, tuple(args), DataType("void"))))

    def pointer(self, place: Value) -> Expr:
        """The address of a place."""
        buffer = self.held.get(place)
        return self.address(self.driver.offsets[place]) if buffer is None else buffer.data

    def address(self, offset: Bytes) -> Expr:
        """The address of a byte of the arena."""
        return Call(Operation.get("tir.address_of"), (self.byte(offset),), HANDLE)

    def byte(self, offset: Bytes) -> Expr:
        """A byte of the arena, as it is counted from the start of the window."""
        return BufferLoad(self.arena, (self.driver.sums.expr(offset - self.window.start),))

    def truth(self, place: Value) -> Expr:
        """The bool at a place."""
        buffer = self.held.get(place)
        if buffer is not None:
            return BufferLoad(buffer, ())
        return build.ne(self.byte(self.driver.offsets[place]), const(0, "uint8"))
