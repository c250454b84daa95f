"""A graph as prim funcs: its kernels, and the driver that calls them in order, with views of the arena between them.

The parameters of ``main`` are the inputs, the results, the constants, the arena, and the dims. A call between prim funcs passes
pointers, so that each kernel gets the dims that it needs as numbers; that the views which one call is given do not overlap
is proved at the call site from their offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.effects import OUTSIDE, Global, Load
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, TensorType, Value
from tirlower.graph.lower.emit import dims_of, emit, emit_opaque
from tirlower.graph.lower.lifetimes import lifetimes
from tirlower.graph.lower.main import Driver
from tirlower.graph.lower.parts import places_of
from tirlower.graph.lower.steps import Step, steps_of, with_copied_results
from tirlower.graph.lower.storage import Storage, place
from tirlower.graph.ops.registry import Definition, definition
from tirlower.ir import Buffer, Expr, IRModule, PrimFunc, Var
from tirlower.ir.constants import const
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
        self.calls: dict[str, list[GraphNode]] = {}
        self.states = {one: Value.of(one.type, one.name) for one in graph.effects if one is not OUTSIDE}
        self.states |= {one: Value.of(one.type, one.name) for one in _read_only(graph)}

    def run(self) -> Lowered:
        """The kernels, then where values live, then ``main``."""
        steps = steps_of(self.graph, self.states, self._kernel, self._prim_func)
        storage = place(self.graph, self.env, list(places_of(steps)), self.states.values())
        dims = tuple(one.var for one in self.graph.dims)
        driver = Driver(self.graph, self.env, self.kernels, storage)
        main = driver.main(steps, self.states.values())
        module = IRModule({**self.kernels, **driver.parts, "main": main})
        constants = tuple(n.data for n in storage.constants)
        calls = {name: tuple(nodes) for name, nodes in self.calls.items()}
        return Lowered(self.graph, module, storage, constants, dims, calls, tuple(self.states), steps, lifetimes(steps))

    def _prim_func(self, kernel: PrimFunc, node: GraphNode) -> str:
        """The name of the kernel for a prim func that was written already."""
        name = self.by_key.get(kernel)
        if name is None:
            name = self.by_key[kernel] = self._free(kernel.name)
            # Each function of a module has variables of its own; it is called from here alone.
            attrs = {k: v for k, v in kernel.attrs.items() if k != "global_symbol"}
            self.kernels[name] = cast(PrimFunc, refresh_binders(kernel.with_(attrs=attrs)))
            self.calls[name] = []
        self.calls[name].append(node)
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
            self.calls[name] = []
        self.calls[name].append(op)
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


def _read_only(graph: Graph) -> Iterator[Global]:
    """The states that a graph reads and that never change."""
    for one in (graph, *inner_graphs(graph)):
        for node in one.nodes:
            if isinstance(node, Load) and not node.source.mutable:
                yield node.source
