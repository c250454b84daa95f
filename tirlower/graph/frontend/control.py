"""Choices, loops, calls and states of traced functions.

The functions of a choice or a loop are traced into graphs of their own; values of the function around that they read
become operands. Given arrays alone, all of this runs as Python does.

>>> import numpy as np, tirlower.graph as tg
>>> def halved(x):
...     return tg.while_loop(lambda v: (v > 1).any(), lambda v: v / 2, x)
>>> g = tg.trace(halved, tg.spec((3,), "float32"))
>>> tg.interpret(g, np.array([8, 3, 1], "float32")).tolist(), halved(np.array([8.0, 3.0, 1.0])).tolist()
([1.0, 0.375, 0.125], [1.0, 0.375, 0.125])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np

from tirlower.diagnostics import ScriptError
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import Dim, Extent
from tirlower.graph.core.effects import Extern, Global
from tirlower.graph.core.extents import parsed_extent
from tirlower.graph.core.nodes import Graph, TensorType, Value, extent_exprs
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.arguments import Function, dtype_name
from tirlower.graph.frontend.recording import Recording, current, place
from tirlower.graph.frontend.symbolic import plain
from tirlower.graph.frontend.tensor import Tensor, values_in
from tirlower.graph.frontend.tensor_facts import TensorSpec
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.instantiate import instantiated
from tirlower.graph.ops.interpret import interpret
from tirlower.ir import Expr, PrimFunc, Var, build
from tirlower.ir.dtype import Array, DataType
from tirlower.script.parse import parse

__all__ = [
    "State",
    "call",
    "called",
    "cond",
    "extern",
    "prim_func",
    "recording_of",
    "state",
    "values_of",
    "while_loop",
]

Structure: TypeAlias = "str | tuple[str, ...]"


# Graphs inside nodes


class _Inside:
    """A function traced into a graph inside a node of the recording around."""

    def __init__(
        self, function: Function, name: str, given: Sequence[Value], outer: Recording, more: Sequence[Value]
    ) -> None:
        good = name if name.isidentifier() else "inner"
        self.builder = GraphBuilder(good, env=outer.builder.env)
        self.recording = Recording(self.builder, outer)
        self.outer = outer
        formal = [Tensor.of(self.recording, self.builder.param(v.name or "x", v.shape, v.dtype)) for v in given]
        for value in more:
            self.recording.capture(value, outer)
        with self.recording.running():
            made = function(*formal)
            self.results, self.structure = self._flat(made, name)

    def _flat(self, made: object, name: str) -> tuple[list[Value], Structure]:
        if isinstance(made, Mapping):
            if not all(isinstance(k, str) for k in made):
                raise GraphError(f"the keys of the results of {name!r} at {place()} are strings, got {list(made)}")
            return [self._value(v, name) for v in made.values()], tuple(made)
        if made is None:  # states were stored, and nothing is given back
            return [], "tuple"
        if isinstance(made, (tuple, list)):
            return [self._value(v, name) for v in made], "tuple"
        return [self._value(made, name)], "one"

    def _value(self, given: object, name: str) -> Value:
        if isinstance(given, Tensor):
            given.recording.check(f"a result of {name!r}")
            if given.recording is self.recording:
                return given.value
        elif isinstance(given, (np.ndarray, np.generic, bool, int, float)):
            return self.builder.const(np.asarray(given))
        raise GraphError(
            f"a result of {name!r} at {place()} is {given!r}",
            help="the results are tensors of it, in one tuple or dict where there are several",
        )

    @property
    def captured(self) -> list[Value]:
        """Values of the recording around that it reads, in the order in which it met them."""
        return list(self.recording.captured)

    def graph(self, more: Sequence[Value] = ()) -> Graph:
        """The graph: its parameters are what it is given, then what it reads of the function around, then ``more``."""
        for value in more:
            self.recording.capture(value, self.outer)
        return self.builder.finish(self.results, self.structure)


def _function(of: Function | Graph, name: str) -> Function:
    if not callable(of):
        raise GraphError(f"tg.{name} at {place()} takes functions, got {of!r}")
    return of


def _named(function: Function | Graph, else_name: str) -> str:
    name = getattr(function, "__name__", "") if not isinstance(function, Graph) else function.name
    return name if name.isidentifier() else else_name


def recording_of(given: Sequence[object]) -> Recording | None:
    """The recording to which a construct belongs: none where nothing is traced."""
    here = current()
    if here is None and values_in(given):
        tensor = values_in(given)[0]
        tensor.recording.check("control flow")
        return tensor.recording
    return here


def values_of(recording: Recording, given: Sequence[object]) -> list[Value]:
    """Tensors, arrays, numbers and extents as values of a recording. Raises :class:`GraphError` for anything else."""
    made: list[Value] = []
    for one in map(plain, given):
        if isinstance(one, Tensor):
            made.append(one.value)
        elif isinstance(one, (np.ndarray, np.generic, bool, int, float)):
            made.append(recording.builder.const(np.asarray(one)))
        elif isinstance(one, (Dim, Expr)):
            made.append(
                recording.builder.op("dim_value", value=one.var if isinstance(one, Dim) else one, dtype="int64")
            )
        else:
            raise GraphError(f"an operand at {place()} is a tensor, an array or a number, got {one!r}")
    return made


def _shaped(recording: Recording, values: Sequence[Value], structure: Structure) -> object:
    made = [Tensor.of(recording, v) for v in values]
    if structure == "one":
        return made[0]
    return tuple(made) if structure == "tuple" else dict(zip(structure, made, strict=True))


def cond(condition: object, then_fn: Function | Graph, else_fn: Function | Graph, *operands: object) -> object:
    """``then_fn(*operands)`` where the condition, a bool without axes, holds; else ``else_fn(*operands)``.

    The functions may read other tensors of the function around. Both give results of the same types. A condition that is
    known while tracing chooses then. Raises :class:`GraphError` where the two ways do not fit.
    """
    recording = recording_of([condition, *operands])
    if not isinstance(condition, Tensor):
        return (_function(then_fn, "cond") if np.asarray(condition).item() else _function(else_fn, "cond"))(*operands)
    assert recording is not None
    given = values_of(recording, operands)
    where = place()
    if isinstance(then_fn, Graph) and isinstance(else_fn, Graph):
        with recording.adding() as builder:
            ways = [_instance(g, given, builder) for g in (then_fn, else_fn)]
            made = builder.if_(condition.value, *ways, *given)
        return _shaped(recording, made, then_fn.structure)
    then = _Inside(_function(then_fn, "cond"), _named(then_fn, "then"), given, recording, [])
    other = _Inside(_function(else_fn, "cond"), _named(else_fn, "otherwise"), given, recording, then.captured)
    if then.structure != other.structure:
        raise GraphError(
            f"the two ways of tg.cond at {where} give results of two forms: {then.structure!r} and {other.structure!r}"
        )
    captured = other.captured
    graphs = then.graph(captured), other.graph()
    with recording.adding() as builder:
        made = builder.if_(condition.value, *graphs, *given, *captured)
    return _shaped(recording, made, then.structure)


def while_loop(cond_fn: Function | Graph, body_fn: Function | Graph, *carried: object) -> object:
    """As long as ``cond_fn(*carried)`` holds, ``carried = body_fn(*carried)``; gives the last ones.

    Types must not change on the way: carry a tensor of the greatest shape, and a length beside it. Raises
    :class:`GraphError` with both types where one does.
    """
    recording = recording_of(carried)
    if recording is None:
        again, step = _function(cond_fn, "while_loop"), _function(body_fn, "while_loop")
        while np.asarray(again(*carried)).item():
            made = step(*carried)
            carried = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        return carried[0] if len(carried) == 1 else carried
    if not carried:
        raise GraphError(f"tg.while_loop at {place()} carries nothing", help="give it the first values of what changes")
    given = values_of(recording, carried)
    if isinstance(cond_fn, Graph) and isinstance(body_fn, Graph):
        with recording.adding() as builder:
            last = builder.while_(*[_instance(g, given, builder) for g in (cond_fn, body_fn)], *given)
        return _shaped(recording, last, "one" if len(given) == 1 else "tuple")
    test_name = _named(cond_fn, "again")
    body = _Inside(_function(body_fn, "while_loop"), _named(body_fn, "body"), given, recording, [])
    test = _Inside(_function(cond_fn, "while_loop"), test_name, given, recording, body.captured)
    captured = test.captured
    for value in captured:
        body.recording.capture(value, recording)
    if len(body.results) != len(given):
        raise GraphError(
            f"tg.while_loop at {place()} carries {len(given)} values, and its body gives {len(body.results)}"
        )
    body.results += [body.recording.captured[v] for v in captured]
    body.structure = "tuple"
    with recording.adding() as builder:
        made_values = builder.while_(test.graph(), body.graph(), *given, *captured)[: len(given)]
    return _shaped(recording, made_values, "one" if len(given) == 1 else "tuple")


# Calls


def called(graph: Graph, args: Sequence[object], named: Mapping[str, object]) -> object:
    """What calling a graph gives: a call in the graph that is traced, or the results on arrays.

    The dims of the graph that is called become the extents that its operands have.
    """
    names = [v.name for v in graph.params]
    unknown = [n for n in named if n not in names]
    if unknown:
        raise GraphError(f"the graph {graph.name!r} has no input {unknown[0]!r}: it takes {', '.join(names)}")
    given = [*args, *[named[n] for n in names[len(args) :] if n in named]]
    recording = recording_of(given)
    if recording is None:
        return interpret(graph, *given)
    if len(given) != len(names):
        raise GraphError(f"the graph {graph.name!r} takes {len(names)} values ({', '.join(names)}), got {len(given)}")
    values = values_of(recording, given)
    with recording.adding() as builder:
        made = builder.call(_instance(graph, values, builder), *values)
    return _shaped(recording, made, graph.structure)


def _instance(graph: Graph, values: Sequence[Value], builder: GraphBuilder) -> Graph:
    """A graph under the dims of the one that is built, as the types of what it is given have them."""
    if len(values) == len(graph.params):
        mine = {one.var for one in builder.env}
        extents: dict[Var, Extent] = {}
        for param, value in zip(graph.params, values, strict=True):
            if len(param.shape) != len(value.shape) or param.dtype != value.dtype:
                raise GraphError(f"the graph {graph.name!r} takes {param.type} for {param.name!r}, got {value.type}")
            for formal, extent in zip(param.shape, value.shape, strict=True):
                if isinstance(formal, Var) and formal not in mine:
                    extents.setdefault(formal, extent)
        for one in graph.dims:
            _fits(one, extents.get(one.var, one.var), builder, graph)
        return instantiated(graph, extents, builder.env)
    return graph


def _fits(one: Dim, extent: Extent, builder: GraphBuilder, graph: Graph) -> None:
    """What is stated of a dim of the graph that is called is true of what stands for it."""
    if extent is one.var:
        if one.var not in {d.var for d in builder.env}:
            raise GraphError(f"nothing that {graph.name!r} is called with says what its dim {one.name} is")
        return
    whole = extent if isinstance(extent, Expr) else None
    proves = builder.env.analyzer.can_prove
    if whole is None:
        good = one.admits(cast(int, extent))
    else:
        good = (
            proves(whole >= one.low)
            and (one.high is None or proves(whole <= one.high))
            and (one.multiple_of == 1 or proves(build.eq(whole % one.multiple_of, 0)))
        )
    if not good:
        raise GraphError(
            f"{graph.name!r} states {one.facts}, and is called with {one.name} = {extent}",
            help="state the range of the dims that it is called with accordingly",
        )


def extern(symbol: str, numbers: Sequence[object] = (), workspace: int = 0) -> Extern:
    """A function of machine code for :func:`call`: ``void symbol(void *operand, ..., void *result, ..., int64_t number, ...)``."""
    return Extern(symbol, extent_exprs([_extent(n) for n in numbers]), workspace)


def _extent(given: object) -> Extent:
    given, recording = plain(given), current()
    if isinstance(given, str) and recording is not None:
        return parsed_extent(given, recording.builder.env, "the number")
    return given.var if isinstance(given, Dim) else cast(Extent, given)


def prim_func(text: str) -> PrimFunc:
    """The prim func of a script, as the text of a graph has it."""
    try:
        made = parse(text)
    except ScriptError as error:
        raise GraphError(f"this is no script of a prim func: {error.message}") from None
    if not isinstance(made, PrimFunc):
        raise GraphError("a kernel is one prim func, got a module")
    return made


def call(
    kernel: PrimFunc | Extern, *args: object, out: object, effect: bool = False, numbers: Sequence[object] = ()
) -> object:
    """The results of a prim func that was written by hand, of the types that ``out`` says (a spec, or several).

    Its parameters are the operands, then the results. It stays the kernel that it is. With ``effect`` it is called even
    where nobody uses its results. Its scalars are extents of its tensors; where one stands only inside an extent, ``numbers``
    are the values of all of them, in order. Raises :class:`GraphError` where it does not take these tensors.
    """
    specs = list(out) if isinstance(out, (tuple, list)) else [out]
    for one in specs:
        if not isinstance(one, TensorSpec):
            raise GraphError(
                f"tg.call at {place()} wants the types of its results: out=tg.spec(shape, dtype), got {one!r}"
            )
    if not isinstance(kernel, (PrimFunc, Extern)):
        raise GraphError(f"tg.call at {place()} takes a prim func, got {kernel!r}", help="a graph is called as g(x)")
    recording = recording_of(args)
    if recording is None:
        raise GraphError(f"tg.call at {place()} stands in a function that is traced", help="call the prim func built")
    values = values_of(recording, args)
    with recording.adding() as builder:
        types: list[TensorType] = []
        for wanted in cast("list[TensorSpec]", specs):
            for extent in wanted.extents:
                if isinstance(extent, Dim):
                    builder.env.add(extent)
            types.append(TensorType(tuple(_extent(e) for e in wanted.extents), wanted.kind))
        several = [_extent(n) for n in numbers]
        made = builder.kernel(kernel, types, *values, effect=effect, numbers=several)
    return _shaped(recording, made, "tuple" if isinstance(out, (tuple, list)) else "one")


# States


class State:
    """A tensor that lives from call to call of a graph (:func:`state`); outside of graphs, an array that it holds."""

    def __init__(self, held: Global) -> None:
        self.held = held
        self._array: Array | None = None

    @property
    def name(self) -> str:
        """The name."""
        return self.held.name

    def load(self) -> Tensor | Array:
        """What it holds here."""
        recording = current()
        if recording is None:
            return (self.held.initial.numpy() if self._array is None else self._array).copy()
        _one_of_its_name(self.held, recording)
        with recording.adding() as builder:
            return Tensor.of(recording, builder.load(self.held))

    def store(self, value: object) -> None:
        """Hold a value from here on. Raises :class:`GraphError` where it is of another shape or dtype."""
        recording = recording_of([value])
        if recording is not None:
            _one_of_its_name(self.held, recording)
            with recording.adding() as builder:
                builder.store(self.held, value.value if isinstance(value, Tensor) else value)
            return
        array = np.asarray(value)
        if array.shape != self.held.shape:
            raise GraphError(f"the state {self.name!r} is {self.held.type}, got an array of shape {array.shape}")
        self._array = array.astype(self.held.dtype.numpy)

    def __repr__(self) -> str:
        return f"<State {self.name}: {self.held.type}>"


def _one_of_its_name(held: Global, recording: Recording) -> None:
    outermost = recording
    while outermost.outer is not None:
        outermost = outermost.outer
    if outermost.states.setdefault(held.name, held) is not held:
        raise GraphError(f"two states are named {held.name!r} at {place()}", help="give one of them another name")


def state(
    name: str, shape: object, dtype: object, init: object = 0, mutable: bool = True, public: bool = True
) -> State:
    """A tensor of fixed shape that lives from call to call, at first an array, a number, or a constant by its digest.

    ``load()`` and ``store(value)`` stand in traced functions; accesses of one state keep their order. One that is not
    ``public`` is of no use to anybody but the graph: it may be merged with another, or folded away.
    """
    kind = DataType(dtype_name(dtype))
    given = tuple(cast("Sequence[int]", shape)) if isinstance(shape, (tuple, list)) else (cast(int, shape),)
    if not all(isinstance(e, int) for e in given):
        raise GraphError(
            f"the shape of the state {name!r} at {place()} is of numbers, got {given}", help="an upper bound"
        )
    if isinstance(init, str):
        data = ConstantData.abstract(init, given, kind)
    elif isinstance(init, (bool, int, float)):
        data = ConstantData.splat(init, given, kind)
    else:
        data = ConstantData(np.array(init))
    return State(Global(name, extent_exprs(given), kind, data, mutable, public))
