"""The driver: one prim func that calls the kernels of a graph in order, with views of the arena between them.

Its parameters are the inputs, the results, the constants, the arena, and the dims. A call between prim funcs passes
pointers, so that each kernel gets the dims that it needs as numbers; that the views which one call is given do not overlap
is proved at the call site from their offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.debug import Assert, failure
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.effects import OUTSIDE, Global, Load
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, TensorType, Value
from tirlower.graph.lower.emit import dims_of, emit, emit_opaque
from tirlower.graph.lower.lifetimes import lifetimes
from tirlower.graph.lower.printing import print_symbol, printed_text
from tirlower.graph.lower.steps import Choice, DebugStep, ExternStep, KernelStep, Step, steps_of, with_copied_results
from tirlower.graph.lower.storage import Storage, place
from tirlower.graph.ops.registry import Definition, definition
from tirlower.ir import (
    ALLOC_ALIGNMENT,
    Buffer,
    BufferLoad,
    Call,
    Evaluate,
    Expr,
    GlobalVar,
    IRBuilder,
    IRModule,
    PrimFunc,
    StringImm,
    Var,
    build,
    decl_buffer,
)  # fmt: skip
from tirlower.ir.constants import const
from tirlower.ir.dtype import HANDLE, DataType
from tirlower.ir.op import Op as Operation
from tirlower.ir.refresh import refresh_binders

__all__ = ["Lowered", "lower"]


@dataclass(frozen=True)
class Lowered:
    """The prim funcs of a graph: ``main`` and the kernels; what the executable has to bring."""

    graph: Graph
    module: IRModule
    storage: Storage
    constants: tuple[ConstantData, ...]
    dims: tuple[Var, ...]
    calls: Mapping[str, tuple[GraphNode, ...]]
    """The nodes that each kernel is called for."""
    states: tuple[Global, ...] = ()
    """What lives from call to call: arrays that stand behind the constants."""
    steps: tuple[Step, ...] = ()
    """What ``main`` does; empty for one that was saved."""
    lifetimes: Mapping[Value, tuple[int, int]] = field(default_factory=dict)
    """The first and the last step of ``main`` at which each place is used."""


def lower(graph: Graph) -> Lowered:
    """The module of a graph without macros: one kernel an operation, equal ones once."""
    env = DimEnv(graph.dims)
    return _Lowering(with_copied_results(graph), env).run()


class _Lowering:
    def __init__(self, graph: Graph, env: DimEnv) -> None:
        self.graph = graph
        self.env = env
        self.kernels: dict[str, PrimFunc] = {}
        self.by_key: dict[object, str] = {}
        self.calls: dict[str, tuple[GraphNode, ...]] = {}
        self.states = {one: Value.of(one.type, one.name) for one in graph.effects if one is not OUTSIDE}
        self.states |= {one: Value.of(one.type, one.name) for one in _read_only(graph)}

    def run(self) -> Lowered:
        """The kernels, then where values live, then ``main``."""
        steps = steps_of(self.graph, self.states, self._kernel, self._prim_func)
        storage = place(self.graph, self.env, list(_places(steps)), self.states.values())
        dims = tuple(one.var for one in self.graph.dims)
        main = self._main(steps, storage, dims)
        module = IRModule({**self.kernels, "main": main})
        constants = tuple(n.data for n in storage.constants)
        return Lowered(
            self.graph, module, storage, constants, dims, self.calls, tuple(self.states), steps, lifetimes(steps)
        )

    def _prim_func(self, kernel: PrimFunc, node: GraphNode) -> str:
        """The name of the kernel for a prim func that was written already."""
        name = self.by_key.get(kernel)
        if name is None:
            name = self.by_key[kernel] = self._free(kernel.name)
            # Each function of a module has variables of its own; it is called from here alone.
            attrs = {k: v for k, v in kernel.attrs.items() if k != "global_symbol"}
            self.kernels[name] = cast(PrimFunc, refresh_binders(kernel.with_(attrs=attrs)))
            self.calls[name] = ()
        self.calls[name] = (*self.calls[name], node)
        return name

    def _kernel(self, op: Op) -> tuple[str, tuple[Value, ...]]:
        """The name of an operation's kernel, and the operands that it takes: not those that are one number."""
        found = definition(op.name)
        numbers = {
            n: v.node.data.value
            for n, v in enumerate(op.inputs)
            if isinstance(v.node, Const) and v.node.data.value is not None and not found.is_opaque
        }
        operands = tuple(v for n, v in enumerate(op.inputs) if n not in numbers)
        types = [v.type for v in op.inputs]
        key = (
            op.name,
            tuple(map(str, types)),
            op.groups,
            repr(op.attrs),
            tuple((n, repr(x)) for n, x in numbers.items()),
        )
        name = self.by_key.get(key)
        if name is None:
            name = self.by_key[key] = self._named(op)
            with self.env.inferring():  # loops of its own: two kernels of one module share no variable
                self.kernels[name] = self._emitted(found, op, types, name, numbers)
            self.calls[name] = ()
        self.calls[name] = (*self.calls[name], op)
        return name, operands

    def _emitted(
        self, found: Definition, op: Op, types: Sequence[TensorType], name: str, numbers: Mapping[int, float]
    ) -> PrimFunc:
        if found.is_opaque:
            return emit_opaque(found.opaque(types, op.groups, op.attrs), name, self.env)
        generic = found.generic(types, op.groups, op.attrs)
        known: dict[Buffer, Expr] = {}
        for n, number in numbers.items():
            buffer = generic.operands[n]
            known[buffer] = const(number, buffer.dtype)
        return emit(generic, name, self.env, known)

    def _named(self, op: Op) -> str:
        shape = "x".join(
            str(e) if isinstance(e, int) else "".join(v.name for v in dims_of([e])) for e in op.results[0].shape
        )
        return self._free(f"{op.name}_{shape or 'scalar'}")

    def _free(self, base: str) -> str:
        name, count = base, 1
        while name in self.kernels or name == "main":
            count += 1
            name = f"{base}_{count}"
        return name

    def _main(self, steps: Sequence[Step], storage: Storage, dims: tuple[Var, ...]) -> PrimFunc:
        ib = IRBuilder()
        with ib.func("main", attrs={"tir.noalias": True}):
            held: dict[Value, Buffer] = {}
            for value in self.graph.params:
                held[value] = ib.buffer_param(decl_buffer(value.extents, value.dtype, value.name))
            outputs = [
                ib.buffer_param(decl_buffer(v.extents, v.dtype, f"result{n}")) for n, v in enumerate(self.graph.results)
            ]
            for constant in storage.constants:
                value = constant.results[0]
                held[value] = ib.buffer_param(decl_buffer(value.extents, value.dtype, value.name))
            for value in self.states.values():
                held[value] = ib.buffer_param(decl_buffer(value.extents, value.dtype, value.name))
            arena = ib.buffer_param(
                decl_buffer((storage.arena + ALLOC_ALIGNMENT,), "uint8", "arena", data_alignment=ALLOC_ALIGNMENT)
            )
            for value, n in storage.written.items():
                held[value] = outputs[n]
            _Body(ib, held, storage.offsets, arena, self.kernels, {var.name: var for var in dims}).write(steps)
        func = ib.module()["main"]
        return func.with_(params=(*func.params, *dims))


class _Body:
    """The statements of ``main``."""

    def __init__(
        self,
        ib: IRBuilder,
        held: Mapping[Value, Buffer],
        offsets: Mapping[Value, Expr],
        arena: Buffer,
        kernels: Mapping[str, PrimFunc],
        dims: Mapping[str, Var],
    ) -> None:
        self.ib = ib
        self.held = held
        self.offsets = offsets
        self.arena = arena
        self.kernels = kernels
        self.dims = dims

    def write(self, steps: Sequence[Step]) -> None:
        """Steps in order."""
        for step in steps:
            if isinstance(step, KernelStep):
                kernel = self.kernels[step.kernel]
                numbers: Sequence[Expr] = step.numbers or [
                    self.dims[p.name] for p in kernel.params if p not in kernel.buffer_map
                ]
                self._call(GlobalVar(step.kernel), [*map(self.pointer, step.places), *numbers])
            elif isinstance(step, ExternStep):
                work = [] if step.workspace is None else [self.pointer(step.workspace)]
                pointers = map(self.pointer, step.places)
                symbol = StringImm(step.extern.symbol)
                self._call(Operation.get("tir.call_extern"), [symbol, *pointers, *step.extern.numbers, *work])
            elif isinstance(step, DebugStep):
                self._debug(step)
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

    def _debug(self, step: DebugStep) -> None:
        if isinstance(step.node, Assert):
            self.ib.assert_(self.truth(step.place), failure(step.node))
            return
        value, buffer = step.node.inputs[0], self.held.get(step.place)
        # What is only read may be a constant.
        pointer = self.pointer(step.place) if buffer is None else buffer.access_ptr("r")
        symbol, text = print_symbol(len(value.extents)), printed_text(step.node)
        self._call(Operation.get("tir.call_extern"), [StringImm(symbol), StringImm(text), pointer, *value.extents])

    def _nested(self, steps: Sequence[Step]) -> None:
        self.write(steps)
        if not steps:
            self.ib.emit(Evaluate(const(0, "int32")))

    def _call(self, callee: GlobalVar | Operation, args: Sequence[Expr]) -> None:
        self.ib.emit(Evaluate(Call(callee, tuple(args), DataType("void"))))

    def pointer(self, place: Value) -> Expr:
        """The address of a place."""
        buffer = self.held.get(place)
        if buffer is not None:
            return buffer.data
        return Call(Operation.get("tir.address_of"), (BufferLoad(self.arena, (self.offsets[place],)),), HANDLE)

    def truth(self, place: Value) -> Expr:
        """The bool at a place."""
        buffer = self.held.get(place)
        if buffer is not None:
            return BufferLoad(buffer, ())
        return build.ne(BufferLoad(self.arena, (self.offsets[place],)), const(0, "uint8"))


def _places(steps: Sequence[Step]) -> Iterator[Value]:
    """The places that steps name, in order."""
    for step in steps:
        if isinstance(step, KernelStep):
            yield from step.places
        elif isinstance(step, ExternStep):
            yield from step.places
            yield from () if step.workspace is None else (step.workspace,)
        elif isinstance(step, DebugStep):
            yield step.place
        elif isinstance(step, Choice):
            yield step.condition
            yield from _places((*step.then, *step.otherwise))
        else:
            yield from _places(step.again)
            yield step.condition
            yield from _places(step.body)


def _read_only(graph: Graph) -> Iterator[Global]:
    """The states that a graph reads and that never change."""
    for one in (graph, *inner_graphs(graph)):
        for node in one.nodes:
            if isinstance(node, Load) and not node.source.mutable:
                yield node.source
