"""Building graphs, node by node, and rebuilding them with some nodes replaced.

>>> b = GraphBuilder("scaled")
>>> x = b.param("x", (4, 8), "float32")
>>> g = b.finish(b.op("multiply", x, 2.0))
>>> [n.name for n in g.ops], [str(v.type) for v in g.results]
(['multiply'], ['float32[4, 8]'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tirlower.diagnostics import TirError
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.control import Call, If, While
from tirlower.graph.core.debug import Assert, Print
from tirlower.graph.core.dims import Dim, DimEnv, Extent, as_shape
from tirlower.graph.core.effects import Extern, Global, KernelCall, Load, Store
from tirlower.graph.core.named_dims import variables
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, TensorType, Value, extent_exprs
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.inference import inferred
from tirlower.graph.ops.kernels import fit
from tirlower.graph.ops.registry import Definition, Groups, definition
from tirlower.ir import PrimFunc, expr_deep_equal
from tirlower.ir.dtype import Array, DataType, NumpyDType

__all__ = ["GraphBuilder", "rewritten"]


class GraphBuilder:
    """A graph under construction: values are made by :meth:`param`, :meth:`const` and :meth:`op`, in order.

    ``env`` holds the dims of its shapes; a builder of a part of a graph shares that of the whole.
    """

    def __init__(self, name: str = "main", dims: Iterable[Dim] = (), env: DimEnv | None = None) -> None:
        self.name = name
        self.env = env or DimEnv(dims)
        self._assumed = DimEnv() if env else self.env
        """What the graph takes for equal: of a part of a graph, what it needs itself."""
        self.params: list[Value] = []
        self.nodes: list[GraphNode] = []
        self.origin = ""
        """Where the next nodes come from: ``model.py:12``, or the name of a node of ONNX."""
        self.exact: Sequence[str] = ()
        """The names that the results of the next node get as they stand, which :meth:`named` has reserved."""
        self._names: dict[str, int] = {}
        self._arrays: dict[int, tuple[Array, Value]] = {}

    def assume(self, a: Extent, b: Extent) -> None:
        """Take two extents for equal: every call checks it."""
        self.env.assume(a, b)
        self._assumed.assume(a, b)

    # Values

    def named(self, hint: str) -> str:
        """A name that no value of the graph has yet: the hint where it is free, else with a number behind it."""
        base = hint if hint.isidentifier() else "".join(c if c.isalnum() or c == "_" else "_" for c in hint)
        base = base if base.isidentifier() else f"v_{base}"
        name, count = base, self._names.get(base, 0)
        while name in self._names:
            name, count = f"{base}_{count + 1}", count + 1
        self._names[base] = count
        self._names.setdefault(name, 0)
        return name

    def param(self, name: str, shape: object, dtype: DataType | str) -> Value:
        """An input of the graph; a dim in its shape is brought in.

        >>> from tirlower.graph.core.dims import dim
        >>> b = GraphBuilder()
        >>> g = b.finish(b.op("exp", b.param("x", (dim("B", 1, 64), 4), "float32")))
        >>> g.dims
        (dim(1 <= B <= 64),)
        """
        for extent in shape if isinstance(shape, (tuple, list)) else (shape,):
            if isinstance(extent, Dim):
                self.env.add(extent)
        value = Value.of(TensorType(as_shape(shape), DataType(dtype)), self.named(name))
        self.params.append(value)
        return value

    def const(self, array: Array | ConstantData, name: str = "c") -> Value:
        """A constant; the same array given twice is one."""
        if isinstance(array, ConstantData):
            exact, self.exact = self.exact, ()
            return self._emit(
                Const(self._named([TensorType(array.shape, array.dtype)], name, exact), array, origin=self.origin)
            )[0]
        known = self._arrays.get(id(array))
        if known is None:
            known = self._arrays[id(array)] = (array, self.const(ConstantData(array), name))
        return known[1]

    def op(self, name: str, *args: object, **attrs: object) -> Value:
        """The one result of an operation on values, arrays and numbers (:meth:`ops` gives several).

        A Python number is weak: it takes its dtype from the other operands. Raises :class:`GraphError` where the
        operation is not known, or not for these operands.
        """
        made = self.ops(name, *args, **attrs)
        if len(made) != 1:
            raise GraphError(f"{name} has {len(made)} results", help="GraphBuilder.ops returns them all")
        return made[0]

    def ops(self, name: str, *args: object, **attrs: object) -> tuple[Value, ...]:
        """The results of an operation."""
        exact, self.exact = self.exact, ()
        found = definition(name)
        given, groups = found.arranged(args)
        inputs = tuple(self._values(given))
        whole = found.completed(attrs)
        types = self.infer(found, inputs, groups, whole)
        results = self._named(types, name, exact)
        return self._emit(Op(results, name, inputs, groups, whole, origin=self.origin))

    # Nodes with graphs inside, states, kernels

    def call(self, graph: Graph, *operands: object) -> tuple[Value, ...]:
        """The results of a graph on values. Raises :class:`GraphError` where they are not what it takes."""
        inputs = tuple(self._values(operands))
        self._taken(f"the graph {graph.name!r}", graph.params, inputs)
        exact, self.exact = self.exact, ()
        results = self._named([v.type for v in graph.results], graph.name, exact)
        return self._emit(Call(results, graph, inputs, origin=self.origin))

    def if_(self, condition: object, then_graph: Graph, else_graph: Graph, *operands: object) -> tuple[Value, ...]:
        """The results of one of two graphs on the same values. Raises :class:`GraphError` where they do not fit."""
        inputs = tuple(self._values(operands))
        chosen = self._values([condition])[0]
        self._truth(chosen.type, "the condition of a choice")
        for graph, what in ((then_graph, "holds"), (else_graph, "does not hold")):
            self._taken(f"the graph {graph.name!r} for where the condition {what}", graph.params, inputs)
        a, b = then_graph.results, else_graph.results
        if len(a) != len(b):
            raise self._wrong(
                f"the two ways of a choice give {len(a)} and {len(b)} results", "both give as many, of the same types"
            )
        for n, (x, y) in enumerate(zip(a, b, strict=True)):
            self._same(f"result {n} of the two ways of a choice is of two types", x, y, "cast or reshape one of them")
        exact, self.exact = self.exact, ()
        results = self._named([v.type for v in a], "chosen", exact)
        return self._emit(If(results, chosen, then_graph, else_graph, inputs, origin=self.origin))

    def while_(self, condition: Graph, body: Graph, *operands: object) -> tuple[Value, ...]:
        """The last of the values that a loop carries. Raises :class:`GraphError` where a type changes on the way."""
        inputs = tuple(self._values(operands))
        self._taken(f"the condition {condition.name!r} of a loop", condition.params, inputs)
        self._taken(f"the body {body.name!r} of a loop", body.params, inputs)
        if len(condition.results) != 1:
            raise GraphError(f"the condition of a loop gives one result, got {len(condition.results)}")
        self._truth(condition.results[0].type, "the condition of a loop")
        if len(body.results) != len(inputs):
            raise GraphError(f"a loop carries {len(inputs)} values, and its body gives {len(body.results)}")
        for param, result in zip(body.params, body.results, strict=True):
            self._same(
                f"{param.name!r}, which a loop carries, changes",
                param,
                result,
                "carry a tensor of the greatest shape, and a length beside it",
            )
        exact, self.exact = self.exact, ()
        results = self._named([v.type for v in inputs], "carried", exact)
        return self._emit(While(results, condition, body, inputs, origin=self.origin))

    def load(self, source: Global) -> Value:
        """What a global holds here."""
        exact, self.exact = self.exact, ()
        return self._emit(Load(self._named([source.type], source.name, exact), source, origin=self.origin))[0]

    def store(self, target: Global, value: object) -> None:
        """Let a global hold a value from here on. Raises :class:`GraphError` where it is of another type, or constant."""
        if not target.mutable:
            raise self._wrong(
                f"the state {target.name!r} is never changed: nothing is stored to it",
                "tg.state(..., mutable=True) makes one that is",
            )
        if isinstance(value, (bool, int, float)):
            value = ConstantData.splat(value, target.initial.shape, target.dtype)
        given = self._values([value])[0]
        if not self.env.equal_types(given, target):
            raise self._wrong(
                f"the state {target.name!r} is {target.type}, got {given.type} for it",
                "a state keeps its type: cast, pad or slice what is stored",
            )
        self._emit(Store((), target, (given,), origin=self.origin))

    def assert_(self, condition: object, text: str = "") -> None:
        """End a call with an error that has the text, unless a bool without axes is true.

        >>> b = GraphBuilder()
        >>> b.assert_(b.op("all", b.param("mask", (4,), "bool")), "all are there")
        >>> print(b.finish(()))
        @tg.graph
        def main(mask: tg.Tensor((4,), "bool")):
            all: tg.Tensor((), "bool") = tg.all(mask)
            tg.assert_(all, "all are there")
            return ()
        """
        given = self._values([condition])[0]
        self._truth(given.type, "what is asserted")
        self._emit(Assert((), (given,), text, origin=self.origin))

    def print_(self, value: object, text: str = "") -> None:
        """Write a tensor to ``sys.stdout`` behind a text."""
        self._emit(Print((), (self._values([value])[0],), text, origin=self.origin))

    def kernel(
        self,
        kernel: PrimFunc | Extern,
        types: Sequence[TensorType],
        *operands: object,
        effect: bool = False,
        numbers: Sequence[Extent] = (),
    ) -> tuple[Value, ...]:
        """The results, of these types, of a kernel that is written already.

        ``numbers`` are the values of its scalars, where they are no extents of its tensors. Raises :class:`GraphError`
        where it does not take these tensors.
        """
        inputs = tuple(self._values(operands))
        given = extent_exprs(numbers)
        if isinstance(kernel, PrimFunc):
            with self.env.noting() as noted:
                fit(kernel, [v.type for v in inputs], types, given, self.env)
            self._assumed.assume_all(noted)
        elif given:
            raise self._wrong(f"{kernel!r} has its numbers already", "tg.extern(symbol, numbers)")
        exact, self.exact = self.exact, ()
        name = kernel.symbol if isinstance(kernel, Extern) else kernel.name
        results = self._named(types, name, exact)
        return self._emit(KernelCall(results, kernel, inputs, effect, given, origin=self.origin))

    def _taken(self, what: str, params: Sequence[Value], inputs: Sequence[Value]) -> None:
        if len(params) != len(inputs):
            names = ", ".join(v.name for v in params) or "none"
            raise GraphError(f"{what} takes {len(params)} values ({names}), got {len(inputs)}")
        for param, given in zip(params, inputs, strict=True):
            self._same(f"{what} takes something else for {param.name!r}", param, given)

    def _same(self, what: str, a: Value, b: Value, help: str | None = None) -> None:
        """Two values are of one type; extents of which that is not known are compared by every call."""
        same = a.dtype == b.dtype and len(a.shape) == len(b.shape)
        if not same or any(self.env.equal(x, y) is False for x, y in zip(a.shape, b.shape, strict=True)):
            where = [f"at {self.origin}"] if self.origin else []
            raise GraphError(f"{what}: {a.type} and {b.type}", help=help, notes=where)
        with self.env.noting() as noted:
            for x, y in zip(a.shape, b.shape, strict=True):
                self.env.same(x, y, what)
        self._assumed.assume_all(noted)

    def _wrong(self, what: str, help: str) -> GraphError:
        return GraphError(what, notes=[f"at {self.origin}"] if self.origin else [], help=help)

    def _truth(self, kind: TensorType, what: str) -> None:
        if kind.shape or not kind.dtype.is_bool:
            raise self._wrong(
                f"{what} is a bool without axes, got {kind}",
                "compare: x > 0; (x > 0).any() and .all() are of all elements",
            )

    def infer(
        self, found: Definition, inputs: Sequence[Value], groups: Groups, attrs: dict[str, object]
    ) -> tuple[TensorType, ...]:
        """The types of the results of an operation."""

        def expanded() -> list[TensorType]:
            inside = GraphBuilder(found.name, env=self.env)
            formal = [inside.param(v.name, v.shape, v.dtype) for v in inputs]
            return [v.type for v in found.expand(inside, formal, groups, attrs)]

        try:
            with self.env.noting() as noted:
                types = inferred(found, [v.type for v in inputs], groups, attrs, self.env, expanded)
        except GraphError as error:
            if not error.notes:
                shown = ", ".join(f"{v.name}: {v.type}" for v in inputs)
                error.notes.append(f"in {found.name}({shown})" + (f" at {self.origin}" if self.origin else ""))
            error.help = error.help or f"help(tg.{found.name}) says what it takes"
            raise
        except TirError as error:  # expressions know nothing of the operands of a graph
            shown = ", ".join(f"{v.name}: {v.type}" for v in inputs)
            where = f"in {found.name}({shown})" + (f" at {self.origin}" if self.origin else "")
            raise GraphError(f"{found.name}: {error.message}", notes=[where], help=error.help) from None
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            # Attributes of other kinds than the definition's: it computes with them as with its own.
            shown = ", ".join([*(f"{v.name}: {v.type}" for v in inputs), *(f"{k}={v!r}" for k, v in attrs.items())])
            raise GraphError(
                f"{found.name} does not take these attributes: {error}",
                notes=[f"in {found.name}({shown})" + (f" at {self.origin}" if self.origin else "")],
                help=f"help(tg.{found.name}) says what it takes",
            ) from error
        self._assumed.assume_all(noted)
        return types

    def _values(self, given: Sequence[object]) -> list[Value]:
        kinds = [v.dtype.numpy for v in given if isinstance(v, (Value, ConstantData))]
        kinds += [v.dtype for v in given if isinstance(v, (np.ndarray, np.generic))]
        return [self._value(v, kinds) for v in given]

    def _value(self, given: object, kinds: Sequence[NumpyDType]) -> Value:
        if isinstance(given, Value):
            return given
        if isinstance(given, (np.ndarray, ConstantData)):
            return self.const(given)
        if isinstance(given, np.generic):
            return self.const(np.asarray(given))
        if isinstance(given, (bool, int, float)):
            return self.const(ConstantData.splat(given, (), _weak(given, kinds).name))
        raise GraphError(f"an operand is a value, an array or a number, got {type(given).__name__}: {given!r}")

    def _emit(self, made: GraphNode) -> tuple[Value, ...]:
        self.nodes.append(made)
        return made.results

    def _named(self, types: Sequence[TensorType], hint: str, exact: Sequence[str]) -> tuple[Value, ...]:
        names = exact or [self.named(hint) for _ in types]
        if len(names) != len(types):
            raise GraphError(f"{hint} has {len(types)} results, got {len(names)} names")
        return tuple(Value.of(t, n) for t, n in zip(types, names, strict=True))

    # The whole

    def finish(self, results: Value | Sequence[Value], structure: str | tuple[str, ...] | None = None) -> Graph:
        """The graph with these results."""
        several = (results,) if isinstance(results, Value) else tuple(results)
        how = structure if structure is not None else "one" if isinstance(results, Value) else "tuple"
        assumed = tuple(self._assumed.assumed)
        dims = tuple(self.env)
        if self._assumed is not self.env:  # a part of a graph has those that it names
            named = variables(self.params, self.nodes, assumed)
            dims = tuple(one for one in dims if one.var in named)
        return Graph(self.name, dims, tuple(self.params), tuple(self.nodes), several, assumed, how)


def _weak(given: float, kinds: Sequence[NumpyDType]) -> NumpyDType:
    """The dtype of a Python number beside operands of others: theirs, unless it is of another kind."""
    if not kinds:
        return np.asarray(given).dtype
    common = np.result_type(*kinds)
    if DataType.from_numpy(common).is_float:  # NumPy does not know bfloat16 for a float
        return common
    return np.result_type(common, given)


def _types_again(builder: GraphBuilder, old: GraphNode, operands: Sequence[Value]) -> Sequence[TensorType]:
    """The types of a node's results on other operands: those that it has, unless an extent is written in another way."""
    types = [v.type for v in old.results]
    if not isinstance(old, Op) or all(_alike(a.type, b.type) for a, b in zip(operands, old.operands, strict=True)):
        return types
    return builder.infer(definition(old.name), operands, old.groups, dict(old.attrs))


def _alike(a: TensorType, b: TensorType) -> bool:
    """Whether two types of the same extents write them alike: inference goes by that."""
    return a is b or all(
        x is y or (x == y if isinstance(x, int) or isinstance(y, int) else expr_deep_equal(x, y))
        for x, y in zip(a.shape, b.shape, strict=True)
    )


def rewritten(
    graph: Graph, rewrite: Callable[[GraphBuilder, GraphNode, tuple[Value, ...]], Sequence[Value] | None]
) -> Graph:
    """The graph with some nodes replaced; the same object where none is.

    ``rewrite`` is called with a builder, a node, and the operands that it has in the new graph, in order. It returns the
    values that stand for the node's results (made by the builder, or others of the new graph), or None to keep the node.
    """
    builder = GraphBuilder(graph.name, graph.dims)
    builder.env.assume_all(graph.assumed)
    builder.params += graph.params
    for value in graph.params:
        builder.named(value.name)
    new: dict[Value, Value] = {}
    for old in graph.nodes:
        operands = tuple(new.get(v, v) for v in old.operands)
        builder.origin = old.origin
        made = rewrite(builder, old, operands)
        if made is None:
            kept = old
            if any(a is not b for a, b in zip(operands, old.operands, strict=True)):
                types = _types_again(builder, old, operands)
                kept = old.with_operands(
                    [Value.of(t, v.name) for t, v in zip(types, old.results, strict=True)], operands
                )
            builder.nodes.append(kept)
            made = kept.results
        for value, other in zip(old.results, made, strict=True):
            if value is not other:
                new[value] = other
    if all(a is b for a, b in zip(builder.nodes, graph.nodes, strict=False)) and len(builder.nodes) == len(graph.nodes):
        return graph
    results = tuple(new.get(v, v) for v in graph.results)
    return graph.with_(nodes=tuple(builder.nodes), results=results, assumed=tuple(builder.env.assumed))
