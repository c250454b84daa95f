"""Graphs as text: a Python function with one assignment a node, which parses back, and runs as Python too.

>>> import tirlower.graph as tg
>>> print(tg.trace(lambda x: (x + 1) * x, tg.spec((tg.dim("B", 1, 256), 4), "float32")))
@tg.graph
def main(x: tg.Tensor(("B", 4), "float32")):
    tg.dims(B=(1, 256))
    add: tg.Tensor(("B", 4), "float32") = tg.add(x, 1.0)
    multiply: tg.Tensor(("B", 4), "float32") = tg.multiply(add, x)
    return multiply
"""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.control import Call, If, While
from tirlower.graph.core.debug import Assert, Debug
from tirlower.graph.core.dims import Dim
from tirlower.graph.core.effects import Extern, Global, KernelCall, Load, Store
from tirlower.graph.core.extents import extent_text
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, TensorType, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.registry import Definition, definition
from tirlower.ir import Expr, PrimFunc
from tirlower.ir.dtype import NumpyDType
from tirlower.ir.stmt import normalize_attr

__all__ = ["graph_lines", "graph_text", "identifier", "state_line"]

_RESERVED = frozenset({"tg", "float", *keyword.kwlist})
"""Names that mean something else in the text."""


def graph_text(graph: Graph, digits: int = 8) -> str:
    """A graph as text, in which so many digits of the digest stand for a constant."""
    return "\n".join(_Printer(graph, digits=digits).lines())


def graph_lines(graph: Graph, held: Mapping[object, str]) -> list[str]:
    """The lines of a graph whose text stands behind lines that make some states, under these names."""
    return _Printer(graph, held=held).lines()


def state_line(one: Global, name: str) -> str:
    """The line that makes a state."""
    return _Printer(Graph(name, (), (), (), ()))._declared(one, name)[0]


class _Printer:
    """The text of a graph. Graphs inside nodes, states and kernels have names that all of it shares."""

    def __init__(
        self, graph: Graph, outer: _Printer | None = None, digits: int = 8, held: Mapping[object, str] | None = None
    ) -> None:
        self.graph = graph
        self.held = held or {}
        self.digits: int = digits if outer is None else outer.digits
        self.outer = outer
        top = graph if outer is None else outer.graph
        self.taken = {*_RESERVED, *(d.name for d in top.dims), *self.held.values()}
        self.shared: dict[object, str] = dict(self.held) if outer is None else outer.shared
        self.names: dict[Value, str] = {}
        self.inlined: dict[Value, str] = {}
        self.bound = False
        """Whether an attribute names dims, which are Python's names then."""
        self.inner = inner_graphs(graph) if outer is None else ()
        for each in (*self.inner, *([graph] if self.inner or outer is None else [])):
            self._share(each)
        self.taken |= set(self.shared.values())

    def _share(self, graph: Graph) -> None:
        for node in graph.nodes:
            if isinstance(node, (Load, Store)):
                held = node.source if isinstance(node, Load) else node.target
                self._shared(held, held.name)
            elif isinstance(node, KernelCall):
                self._shared(node.kernel, node.name)
        if graph is not self.graph:
            self._shared(graph, graph.name)

    def _shared(self, thing: object, hint: str) -> None:
        if thing not in self.shared:
            name = self.shared[thing] = identifier(hint, {*self.taken, *self.shared.values()})
            self.taken.add(name)

    def lines(self) -> list[str]:
        """The text, line by line."""
        graph = self.graph
        params = [f"{self.name(v)}: {_type(v.type)}" for v in graph.params]
        self._inline()
        body = [line for node in graph.nodes for line in self._node(node)]
        inside: list[str] = []
        for each in self.inner:
            printer = _Printer(each, self)
            inside += ["", *printer.lines()]
            self.bound = self.bound or printer.bound
        name = identifier(graph.name, set(_RESERVED)) if self.outer is None else self.shared[graph]
        made = [f"def {name}({', '.join(params)}):"]
        if graph.dims and self.outer is None:
            facts = ", ".join(f"{d.name}={_facts(d)}" for d in graph.dims)
            names = ", ".join(d.name for d in graph.dims)
            made.append(f"    {f'{names} = ' if self.bound else ''}tg.dims({facts})")
        made += [f"    tg.assume({_quoted(extent_text(a))}, {_quoted(extent_text(b))})" for a, b in graph.assumed]
        if graph.attrs:
            made.append(f"    tg.attributes({self._attributes(graph.attrs)})")
        if self.outer is None:
            own = {thing: known for thing, known in self.shared.items() if thing not in self.held}
            made += [f"    {line}" for thing, known in own.items() for line in self._declared(thing, known)]
        made += [f"    {line}" if line else "" for line in (*inside, *([""] if inside else []), *body)]
        returned = self._returned()
        return ["@tg.graph", *made, f"    return {returned}" if returned else "    return ()"]

    def _declared(self, thing: object, name: str) -> list[str]:
        """The line that makes a state or a kernel."""
        if isinstance(thing, Global):
            fixed = ("" if thing.mutable else ", mutable=False") + ("" if thing.public else ", public=False")
            return [f"{name} = tg.state({_quoted(thing.name)}, {self._contents(thing.initial)}{fixed})"]
        if isinstance(thing, Extern):
            return [f"{name} = tg.extern({_quoted(thing.symbol)}, {_given(thing.numbers)}, {thing.workspace})"]
        if isinstance(thing, PrimFunc):
            return [f"{name} = tg.prim_func({_quoted(thing.script())})"]
        return []

    def name(self, value: Value) -> str:
        """The name of a value: its own where nothing has it yet."""
        known = self.names.get(value)
        if known is None:
            known = self.names[value] = identifier(value.name or "v", self.taken)
            self.taken.add(known)
        return known

    # Constants

    def _inline(self) -> None:
        """Find the numbers that stand in a call: made right before it, for it alone, and of the dtype that it gives them."""
        uses: dict[Value, int] = {}
        for value in (*(v for n in self.graph.nodes for v in n.operands), *self.graph.results):
            uses[value] = uses.get(value, 0) + 1
        before: list[Value] = []
        for node in self.graph.nodes:
            if isinstance(node, Const):
                before.append(node.results[0])
                continue
            if isinstance(node, Op) and before:
                self._inline_in(node, before, uses)
            before = []

    def _inline_in(self, node: Op, before: Sequence[Value], uses: Mapping[Value, int]) -> None:
        inputs = [v for v in dict.fromkeys(node.inputs) if v in before]
        # The numbers of a call become constants in the order of its operands, behind all that stands before it.
        count = 0
        while count < min(len(inputs), len(before)) and inputs[-1 - count] is before[-1 - count]:
            count += 1
        several = inputs[len(inputs) - count :]
        while several:
            kinds = [v.dtype.numpy for v in node.inputs if v not in several]
            plain = {v: _number(v, kinds) for v in several if uses[v] == 1}
            good = {v: text for v, text in plain.items() if text is not None}
            if len(good) == len(several):
                self.inlined.update(good)
                return
            last = max(n for n, v in enumerate(several) if v not in good)
            several = several[last + 1 :]

    def _constant(self, data: ConstantData) -> str:
        return f"tg.constant({_quoted(data.dtype)}, {_numbers(data.shape)}, {_splat(data) or _quoted(data.digest[: self.digits])})"

    def _contents(self, data: ConstantData) -> str:
        return f"{_numbers(data.shape)}, {_quoted(data.dtype)}, {_splat(data) or _quoted(data.digest[: self.digits])}"

    # Nodes

    def _node(self, node: GraphNode) -> list[str]:
        if isinstance(node, Const):
            value = node.results[0]
            return [] if value in self.inlined else [f"{self.name(value)} = {self._constant(node.data)}"]
        if isinstance(node, Store):
            return [f"{self.shared[node.target]}.store({self.name(node.inputs[0])})"]
        if isinstance(node, Debug):
            maker = "assert_" if isinstance(node, Assert) else "print_"
            text = f", {_quoted(node.text)}" if node.text else ""
            return [f"tg.{maker}({self.name(node.inputs[0])}{text})"]
        if not isinstance(node, Op):
            call, form = self._other(node)
            return self._assigned(node.results, call, form)
        found = definition(node.name)
        arguments = self._operands(found, node)
        shown = {k: v for k, v in node.attrs.items() if not _is_default(found, k, v)}
        if shown:
            arguments.append(self._attributes(shown))
        call = f"tg.{node.name}({', '.join(arguments)})"
        return self._assigned(node.results, call, "one" if len(node.results) == 1 else "tuple")

    def _assigned(self, results: Sequence[Value], call: str, form: str | tuple[str, ...]) -> list[str]:
        """The lines that give names and types to the results of a call, which come in a form."""
        names = [self.name(v) for v in results]
        if not names:
            return [call]
        if form == "one":
            return [f"{names[0]}: {_type(results[0].type)} = {call}"]
        whole = call if form == "tuple" else f"{call}.values()"
        return [
            *(f"{n}: {_type(v.type)}" for n, v in zip(names, results, strict=True)),
            f"{', '.join(names)}{',' * (len(names) == 1)} = {whole}",
        ]

    def _other(self, node: GraphNode) -> tuple[str, str | tuple[str, ...]]:
        """The call of a node that is no operation, and the form of its results."""
        given = [self.name(v) for v in node.operands]
        if isinstance(node, Load):
            return f"{self.shared[node.source]}.load()", "one"
        if isinstance(node, KernelCall):
            return self._kernel(node, given)
        return self._control(node, [self.shared[g] for g in node.graphs], given)

    def _kernel(self, node: KernelCall, given: list[str]) -> tuple[str, str]:
        types = [_type(v.type).replace("tg.Tensor", "tg.spec") for v in node.results]
        more = ", effect=True" if node.effect else ""
        more += f", numbers={_given(node.numbers)}" if node.numbers else ""
        out = types[0] if len(types) == 1 else f"({', '.join(types)})"
        arguments = ", ".join([self.shared[node.kernel], *given])
        return f"tg.call({arguments}, out={out}{more})", "one" if len(types) == 1 else "tuple"

    def _control(self, node: GraphNode, graphs: list[str], given: list[str]) -> tuple[str, str | tuple[str, ...]]:
        if isinstance(node, Call):
            return f"{graphs[0]}({', '.join(given)})", node.graph.structure
        if isinstance(node, If):
            return f"tg.cond({', '.join([given[0], *graphs, *given[1:]])})", node.then_graph.structure
        if isinstance(node, While):
            return f"tg.while_loop({', '.join([*graphs, *given])})", "one" if len(given) == 1 else "tuple"
        raise GraphError(f"{type(node).__name__} has no text")

    def _operands(self, found: Definition, node: Op) -> list[str]:
        rest = [self.inlined.get(v) or self.name(v) for v in node.inputs]
        shown: list[str] = []
        for group in node.groups:
            count = abs(group or 0)
            shown += ["None"] if group is None else rest[:count]
            rest = rest[count:]
        while shown and shown[-1] == "None":
            shown.pop()
        return shown

    def _attributes(self, attrs: Mapping[str, object]) -> str:
        return ", ".join(f"{name}={self._attribute(name, value)}" for name, value in attrs.items())

    def _attribute(self, name: str, value: object) -> str:
        if isinstance(value, tuple):
            inner = [self._attribute(name, v) for v in value]
            return f"({', '.join(inner)}{',' * (len(inner) == 1)})"
        if isinstance(value, Expr):
            text = extent_text(value)
            if "(" in text.replace("(-", "") and ("min(" in text or "max(" in text or "select(" in text):
                return f"tg.extent({_quoted(text)})"
            self.bound = True
            return text
        if isinstance(value, float):
            return _float(value)
        if value is None or isinstance(value, (bool, int, str)):
            return _quoted(value) if isinstance(value, str) else repr(value)
        raise GraphError(f"the attribute {name!r} has no text: {value!r}")

    def _returned(self) -> str:
        names = [self.name(v) for v in self.graph.results]
        structure = self.graph.structure
        if structure == "one":
            return names[0]
        if structure == "tuple":
            return ", ".join(names) + "," * (len(names) == 1)
        return "{" + ", ".join(f"{_quoted(k)}: {n}" for k, n in zip(structure, names, strict=True)) + "}"


def _numbers(shape: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _quoted(text: str) -> str:
    return json.dumps(str(text), ensure_ascii=False)


def identifier(hint: str, taken: Iterable[str]) -> str:
    """A name of Python that is like a hint and that is not taken."""
    base = "".join(c if c.isalnum() or c == "_" else "_" for c in hint) or "v"
    base = base if base.isidentifier() else f"v_{base}"
    name, count = base, 0
    while name in taken or keyword.iskeyword(name):
        count += 1
        name = f"{base}_{count}"
    return name


def _given(several: Sequence[Expr]) -> str:
    """Numbers that a kernel is given, as a tuple of texts."""
    texts = [_quoted(extent_text(e)) for e in several]
    return f"({', '.join(texts)}{',' * (len(texts) == 1)})"


def _type(kind: TensorType) -> str:
    extents = [_quoted(extent_text(e)) if isinstance(e, Expr) else str(e) for e in kind.shape]
    return f"tg.Tensor(({', '.join(extents)}{',' * (len(extents) == 1)}), {_quoted(kind.dtype)})"


def _facts(one: Dim) -> str:
    facts: list[object] = [one.low, one.high]
    if one.multiple_of != 1 or one.hints:
        facts.append(one.multiple_of)
    if one.hints:
        facts.append(one.hints)
    return repr(tuple(facts))


def _is_default(found: Definition, name: str, value: object) -> bool:
    # By text: 1, 1.0 and True are equal, and not the same.
    return name in found.attributes and repr(normalize_attr(found.attributes[name])) == repr(value)


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else f"float({_quoted(str(value))})"


def _splat(data: ConstantData) -> str | None:
    """The number of a splat; None for arrays, and for a NaN with other bits than Python's."""
    if data.value is None:
        return None
    # Python's floats carry the bits of a NaN along, and its text does not.
    number = math.nan if data.value != data.value else data.value
    if ConstantData.splat(number, data.shape, data.dtype) != data:
        return None
    return _float(data.value) if isinstance(data.value, float) else repr(data.value)


def _number(value: Value, kinds: Sequence[NumpyDType]) -> str | None:
    """A constant as a number of Python, if that becomes the same constant next to operands of these dtypes."""
    assert isinstance(value.node, Const)
    data = value.node.data
    text = _splat(data) if not data.shape else None
    if text is None or data.value is None:
        return None
    dtype = np.result_type(*kinds, data.value) if kinds else np.asarray(data.value).dtype
    return text if dtype.name == data.dtype else None
