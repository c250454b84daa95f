"""The driver: one prim func that calls the kernels of a graph in order, with views of the arena between them.

Its parameters are the inputs, the results, the constants, the arena, and the dims. A call between prim funcs passes
pointers, so that each kernel gets the dims that it needs as numbers; that the views which one call is given do not overlap
is proved at the call site from their offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.nodes import Const, Graph, Op, Value
from tirlower.graph.lower.emit import dims_of, emit
from tirlower.graph.lower.storage import Storage, place
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.inference import loops
from tirlower.graph.ops.registry import definition
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
    Var,
    decl_buffer,
)  # fmt: skip
from tirlower.ir.constants import const
from tirlower.ir.dtype import HANDLE, DataType
from tirlower.ir.op import Op as Operation

__all__ = ["Lowered", "lower"]


@dataclass(frozen=True)
class Lowered:
    """The prim funcs of a graph: ``main`` and the kernels; what the executable has to bring."""

    graph: Graph
    module: IRModule
    storage: Storage
    constants: tuple[ConstantData, ...]
    dims: tuple[Var, ...]
    calls: Mapping[str, tuple[Op, ...]]
    """The operations that each kernel is called for."""


def lower(graph: Graph) -> Lowered:
    """The module of a graph without macros: one kernel an operation, equal ones once."""
    env = DimEnv(graph.dims)
    return _Lowering(with_copied_results(graph), env).run()


def with_copied_results(graph: Graph) -> Graph:
    """The graph with a copy for each result that is an input, a constant, or a result already: results never alias."""
    builder = GraphBuilder(graph.name, env=DimEnv(graph.dims))
    builder.env.assume_all(graph.assumed)
    builder.nodes += graph.nodes
    for value in (*graph.params, *(v for n in graph.nodes for v in n.results)):
        builder.named(value.name)
    results: list[Value] = []
    for value in graph.results:
        own = isinstance(value.node, Op) and value not in results
        results.append(value if own else builder.op("identity", value))
    if all(a is b for a, b in zip(results, graph.results, strict=True)):
        return graph
    return graph.with_(nodes=tuple(builder.nodes), results=tuple(results))


class _Lowering:
    def __init__(self, graph: Graph, env: DimEnv) -> None:
        self.graph = graph
        self.env = env
        self.kernels: dict[str, PrimFunc] = {}
        self.by_key: dict[object, str] = {}
        self.calls: dict[str, tuple[Op, ...]] = {}
        self.steps: list[tuple[Op, str, tuple[Value, ...]]] = []

    def run(self) -> Lowered:
        """The kernels, then where values live, then ``main``."""
        for op in self.graph.ops:
            self.steps.append((op, *self._kernel(op)))
        used = frozenset(v for _, _, operands in self.steps for v in operands)
        storage = place(self.graph, self.env, used)
        dims = tuple(one.var for one in self.graph.dims)
        main = self._main(storage, dims)
        module = IRModule({**self.kernels, "main": main})
        constants = tuple(n.data for n in storage.constants)
        return Lowered(self.graph, module, storage, constants, dims, self.calls)

    def _kernel(self, op: Op) -> tuple[str, tuple[Value, ...]]:
        """The name of an operation's kernel, and the operands that it takes: not those that are one number."""
        numbers = {
            n: v.node.data.value
            for n, v in enumerate(op.inputs)
            if isinstance(v.node, Const) and v.node.data.value is not None
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
            generic = loops(definition(op.name), types, op.groups, op.attrs, self.env)
            name = self.by_key[key] = self._named(op)
            known: dict[Buffer, Expr] = {}
            for n, number in numbers.items():
                buffer = generic.operands[n]
                known[buffer] = const(number, buffer.dtype)
            self.kernels[name] = emit(generic, name, self.env, known)
            self.calls[name] = ()
        self.calls[name] = (*self.calls[name], op)
        return name, operands

    def _named(self, op: Op) -> str:
        shape = "x".join(
            str(e) if isinstance(e, int) else "".join(v.name for v in dims_of([e])) for e in op.results[0].shape
        )
        base = f"{op.name}_{shape or 'scalar'}"
        name, count = base, 1
        while name in self.kernels or name == "main":
            count += 1
            name = f"{base}_{count}"
        return name

    def _main(self, storage: Storage, dims: tuple[Var, ...]) -> PrimFunc:
        ib = IRBuilder()
        by_name = {var.name: var for var in dims}
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
            arena = ib.buffer_param(
                decl_buffer((storage.arena + ALLOC_ALIGNMENT,), "uint8", "arena", data_alignment=ALLOC_ALIGNMENT)
            )
            for value, n in storage.written.items():
                held[value] = outputs[n]
            for op, name, operands in self.steps:
                given = [*operands, *op.results]
                pointers = [held[v].data if v in held else _address(arena, storage.offsets[v]) for v in given]
                kernel = self.kernels[name]
                numbers = [by_name[p.name] for p in kernel.params if p not in kernel.buffer_map]
                ib.emit(Evaluate(Call(GlobalVar(name), (*pointers, *numbers), DataType("void"))))
        func = ib.module()["main"]
        return func.with_(params=(*func.params, *dims))


def _address(arena: Buffer, offset: Expr) -> Expr:
    return Call(Operation.get("tir.address_of"), (BufferLoad(arena, (offset,)),), HANDLE)
