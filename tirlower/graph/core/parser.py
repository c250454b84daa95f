"""Graphs from their text: read by ``ast``, with errors that point into it; nothing is evaluated.

>>> g = parse('''
... @tg.graph
... def scaled(x: tg.Tensor(("B", 4), "float32")):
...     tg.dims(B=(1, 256))
...     y = tg.multiply(x, 2.0)
...     return y
... ''')
>>> g
<Graph scaled: 1 inputs, 1 operations, 1 results>
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn, TypeAlias, TypeVar

from tirlower.diagnostics import Label, ScriptError, Source, Span, nearest_name
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import Dim, Extent, extent_expr
from tirlower.graph.core.effects import Extern, Global
from tirlower.graph.core.extents import extent_of, parsed_extent
from tirlower.graph.core.nodes import Graph, TensorType, Value, extent_exprs
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.arguments import bound, dtype_name
from tirlower.graph.frontend.control import State, prim_func
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.registry import definition
from tirlower.ir import PrimFunc
from tirlower.ir.dtype import Array, DataType
from tirlower.script.source import parse_text

__all__ = ["Parser", "Store", "constant_data", "dim_facts", "parse", "parsed"]

T = TypeVar("T")

Store: TypeAlias = "Mapping[str, Array | ConstantData]"
"""Constants by their digests, or so many digits of them that one is meant."""


def parse(text: str, constants: Store | None = None) -> Graph:
    """The graph of a text that ``str(graph)`` made, or that is written so.

    ``constants`` has arrays by digest; those that it lacks stay abstract: enough to look at a graph and to run passes on.
    Raises :class:`GraphError`, pointing into the text, for what is no graph.
    """
    tree, source = parsed(text)
    functions = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
    if len(functions) != 1 or len(tree.body) != 1:
        raise GraphError(
            f"the text of a graph is one function under @tg.graph, got {len(tree.body)} statements",
            help="tg.parse_module reads several graphs",
        )
    return Parser(source, functions[0], constants or {}).graph()


def parsed(text: str) -> tuple[ast.Module, Source]:
    """The syntax tree of a text. Raises :class:`GraphError` where it is not Python."""
    try:
        return parse_text(text, "<graph>")
    except ScriptError as error:
        raise GraphError(error.message, labels=error.labels, notes=error.notes, help=error.help) from None


class Parser:
    """The reader of a function; what it makes known to the functions behind it is in ``shared``."""

    def __init__(
        self, source: Source, function: ast.FunctionDef, constants: Store, outer: Parser | None = None
    ) -> None:
        self.source = source
        self.function = function
        self.constants = constants
        self.builder: GraphBuilder = GraphBuilder(function.name, env=None if outer is None else outer.builder.env)
        self.shared: dict[str, Graph | State | PrimFunc | Extern] = {} if outer is None else outer.shared
        """The graphs inside nodes, the states and the kernels by their names, which all of the text shares."""
        self.values: dict[str, Value] = {}
        self.promised: dict[str, tuple[ast.expr, TensorType]] = {}
        """Types that annotations state of values that are not made yet."""
        self.attrs: dict[str, object] = {}

    # Errors

    def span(self, node: ast.AST) -> Span:
        """The place of a syntax node. Python counts columns in bytes, spans in characters."""
        assert isinstance(node, (ast.expr, ast.stmt, ast.arg, ast.keyword))
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return Span(
            self.source, node.lineno, self._column(node.lineno, node.col_offset), end_line, self._column(end_line, end)
        )

    def _column(self, line: int, offset: int) -> int:
        return len(self.source.line(line).encode()[:offset].decode(errors="ignore"))

    def fail(self, message: str, node: ast.AST, help: str | None = None) -> NoReturn:
        """Raise an error that points at a syntax node."""
        raise GraphError(message, span=self.span(node), help=help)

    def at(self, node: ast.AST, make: Callable[[], T]) -> T:
        """What a function makes; its errors point at a syntax node."""
        try:
            return make()
        except GraphError as error:
            if not any(label.span is not None for label in error.labels):
                error.labels.append(Label(self.span(node)))
            raise

    # Statements

    def graph(self) -> Graph:
        """The graph of the function."""
        function = self.function
        if [ast.unparse(d) for d in function.decorator_list] != ["tg.graph"]:
            self.fail(f"{function.name!r} does not stand under @tg.graph", function)
        body = list(function.body)
        a = function.args
        if a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults:
            self.fail("the parameters of a graph are tensors, without defaults", function)
        types = [(p, self._type(p.annotation, p)) for p in a.args]
        while body and self._is_statement(body[0], "dims"):
            self._dims(body.pop(0))
        for parameter, kind in types:
            self._free(parameter.arg, parameter)
            self.values[parameter.arg] = self.builder.param(parameter.arg, kind.shape, kind.dtype)
        for each in _own(function):  # numbers in calls become constants with names that the text does not have
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.builder.named(each.id)
        for n, statement in enumerate(body):
            if isinstance(statement, ast.Return):
                if n + 1 != len(body):
                    self.fail("nothing stands behind the return", body[n + 1])
                return self._return(statement)
            self._statement(statement)
        self.fail(f"{function.name!r} returns nothing", function, "the last line returns the results: `return y`")

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.FunctionDef):
            self._free(statement.name, statement)
            self.shared[statement.name] = Parser(self.source, statement, self.constants, self).graph()
        elif self.declares(statement):
            pass
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and not _tg_statement(statement):
            self._without_results(statement.value)
        elif self._is_statement(statement, "assume"):
            call = self._call(statement)
            a, b = (extent_expr(self._text_extent(arg)) for arg in self._counted(call, 2))
            self.builder.assume(a, b)
        elif self._is_statement(statement, "attributes"):
            self.attrs.update({k.arg or "": self._attribute(k.value) for k in self._call(statement).keywords})
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            kind = self._type(statement.annotation, statement)
            self.promised[statement.target.id] = statement.annotation, kind
            if statement.value is not None:
                self._assign([statement.target], statement.value)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            self._assign(target.elts if isinstance(target, ast.Tuple) else [target], statement.value)
        else:
            self.fail("a line of a graph is an assignment of an operation", statement, "`y = tg.add(x, 1.0)`")

    def _is_statement(self, statement: ast.stmt, name: str) -> bool:
        value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        return isinstance(value, ast.Call) and _tg(value.func) == name

    def _call(self, statement: ast.stmt) -> ast.Call:
        value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        assert isinstance(value, ast.Call)
        return value

    def _dims(self, statement: ast.stmt) -> None:
        self.builder.env.first([self._dim(each) for each in self._call(statement).keywords])

    def _dim(self, stated: ast.keyword) -> Dim:
        facts = self.literal(stated.value)
        if stated.arg is None or not isinstance(facts, tuple):
            self.fail("the facts of a dim are a tuple", stated.value, "B=(1, 256), or B=(1, None, 8, (16, 64))")
        name = stated.arg
        return self.at(stated.value, lambda: self.builder.env.state(name, *dim_facts(name, facts)))

    def _return(self, statement: ast.Return) -> Graph:
        value = statement.value
        structure: str | tuple[str, ...] = "one"
        if isinstance(value, ast.Tuple):
            given, structure = list(value.elts), "tuple"
        elif isinstance(value, ast.Dict):
            keys = [k.value if isinstance(k, ast.Constant) else None for k in value.keys]
            if not all(isinstance(k, str) for k in keys):
                self.fail("the keys of results are texts", value)
            given, structure = value.values, tuple(str(k) for k in keys)
        elif value is None:
            self.fail("the return has no results", statement)
        else:
            given = [value]
        made = self.builder.finish([self._value(g) for g in given], structure)
        return made.with_attr(self.attrs) if self.attrs else made

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        names: list[str] = []
        for target in targets:
            if not isinstance(target, ast.Name):
                self.fail("results of operations have names", target)
            self._free(target.id, target)
            names.append(target.id)
        made = self._made(value, names)
        if len(made) != len(names):
            self.fail(f"this has {len(made)} results, got {len(names)} names", value)
        for name, one in zip(names, made, strict=True):
            self.values[name] = self._checked(name, one)

    def _checked(self, name: str, made: Value) -> Value:
        if name in self.promised:
            where, kind = self.promised[name]
            if not self.builder.env.equal_types(kind, made):
                self.fail(
                    f"{name!r} is stated as {kind}, and is {made.type}",
                    where,
                    "state what it is, or say it without a type",
                )
        return made

    def _free(self, name: str, node: ast.AST) -> None:
        if name in self.values or name in self.shared:
            self.fail(f"{name!r} is made twice", node, "each value has a name of its own")

    # Graphs inside nodes, states, kernels

    def declares(self, statement: ast.stmt) -> bool:
        """Whether a line makes a state or a kernel; then it is made."""
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        target, call = statement.targets[0], statement.value
        maker = _tg(call.func) if isinstance(call, ast.Call) else None
        if maker not in ("state", "extern", "prim_func") or not isinstance(target, ast.Name):
            return False
        assert isinstance(call, ast.Call)
        self._free(target.id, target)
        args = [self.literal(a) for a in call.args]
        named = {k.arg or "": self.literal(k.value) for k in call.keywords}
        self.shared[target.id] = self.at(call, lambda: self._thing(maker, args, named, call))
        return True

    def _thing(
        self, maker: str, args: Sequence[object], named: Mapping[str, object], call: ast.Call
    ) -> State | PrimFunc | Extern:
        match maker, args:
            case "prim_func", [str(text)]:
                return prim_func(text)
            case "extern", [str(symbol), tuple(numbers), int(workspace)]:
                return Extern(symbol, extent_exprs(self._numbers(numbers)), workspace)
            case "state", [str(name), tuple(shape), dtype, what] if all(type(e) is int and e >= 0 for e in shape):
                kind = DataType(dtype_name(dtype))
                data = constant_data(kind, shape, what, self.constants)
                mutable, public = (named.get(key, True) is True for key in ("mutable", "public"))
                return State(Global(name, extent_exprs(shape), kind, data, mutable, public))
        self.fail(f"tg.{maker} is not given what it takes", call)

    def _named(self, node: ast.expr, kind: type[T], what: str) -> T:
        """A graph, state or kernel by its name."""
        found = self.shared.get(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(found, kind):
            self.fail(f"this is no {what} that stands before this line: {ast.unparse(node)}", node)
        return found

    def _without_results(self, call: ast.Call) -> None:
        """A line that names no results: a store, or what has none."""
        if isinstance(call.func, ast.Attribute) and call.func.attr == "store":
            held = self._named(call.func.value, State, "state").held
            (value,) = self._counted(call, 1)
            self.at(call, lambda: self.builder.store(held, self._operand(value)))
            return
        maker = _tg(call.func)
        if maker in ("assert_", "print_"):
            self._debug(call, maker)
            return
        if self._made(call, []):
            self.fail("the results of this line have no names", call, f"y = {ast.unparse(call)}")

    def _debug(self, call: ast.Call, maker: str) -> None:
        if not 1 <= len(call.args) <= 2 or call.keywords:
            self.fail(f"tg.{maker} takes a value and a text", call)
        text = self.literal(call.args[1]) if len(call.args) > 1 else ""
        if not isinstance(text, str):
            self.fail(f"the text of tg.{maker} is a string", call.args[1])
        value = self._operand(call.args[0])
        make = self.builder.assert_ if maker == "assert_" else self.builder.print_
        self.at(call, lambda: make(value, text))

    def _made(self, value: ast.expr, names: Sequence[str]) -> tuple[Value, ...]:
        """The values that a line makes."""
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "values":
            value = value.func.value  # of a dict of results
        if not isinstance(value, ast.Call):
            self.fail("a value is made by an operation of tg", value, "`y = tg.add(x, 1.0)`")
        call = value
        self.builder.exact = names
        if isinstance(call.func, ast.Name):
            graph = self._named(call.func, Graph, "graph")
            given = [self._value(a) for a in call.args]
            return self.at(call, lambda: self.builder.call(graph, *given))
        if isinstance(call.func, ast.Attribute) and call.func.attr == "load" and _tg(call.func) is None:
            return (self.builder.load(self._named(call.func.value, State, "state").held),)
        maker = _tg(call.func)
        if maker is None:
            self.fail("a value is made by an operation of tg", value, "`y = tg.add(x, 1.0)`")
        if maker == "constant":
            return self._constant(call, names)
        if maker in ("cond", "while_loop") and len(call.args) > 2:
            return self._control(call, maker)
        return self._kernel(call) if maker == "call" else self._operation(call, names)

    def _control(self, call: ast.Call, maker: str) -> tuple[Value, ...]:
        args = list(call.args)
        condition = self._value(args.pop(0)) if maker == "cond" else None
        first, second = (self._named(a, Graph, "graph") for a in args[:2])
        given = [self._value(a) for a in args[2:]]
        if condition is None:
            return self.at(call, lambda: self.builder.while_(first, second, *given))
        return self.at(call, lambda: self.builder.if_(condition, first, second, *given))

    def _kernel(self, call: ast.Call) -> tuple[Value, ...]:
        named = {k.arg: k.value for k in call.keywords}
        out, effect = named.get("out"), named.get("effect")
        if not call.args or out is None:
            self.fail(
                "tg.call takes a kernel, values, and the types of its results", call, "tg.call(f, x, out=tg.spec(...))"
            )
        kernel = self.shared.get(call.args[0].id) if isinstance(call.args[0], ast.Name) else None
        if not isinstance(kernel, (PrimFunc, Extern)):
            self.fail(f"this is no kernel that stands before this line: {ast.unparse(call.args[0])}", call.args[0])
        types = [self._type(e, e) for e in (out.elts if isinstance(out, ast.Tuple) else [out])]
        given = [self._value(a) for a in call.args[1:]]
        loud = effect is not None and self.literal(effect) is True
        stated = self.literal(named["numbers"]) if "numbers" in named else ()
        if not isinstance(stated, tuple):
            self.fail("the numbers that a kernel is given are a tuple", named["numbers"], 'numbers=("B * 2",)')
        return self.at(
            call, lambda: self.builder.kernel(kernel, types, *given, effect=loud, numbers=self._numbers(stated))
        )

    def _numbers(self, stated: Sequence[object]) -> list[Extent]:
        return [parsed_extent(str(n), self.builder.env, "the number") for n in stated]

    # Values

    def _constant(self, call: ast.Call, names: Sequence[str]) -> tuple[Value, ...]:
        dtype, shape, what = (self.literal(a) for a in self._counted(call, 3))
        if not isinstance(shape, tuple) or not all(type(e) is int and e >= 0 for e in shape):
            self.fail("the shape of a constant is a tuple of numbers", call.args[1])
        kind = DataType(self.at(call.args[0], lambda: dtype_name(dtype)))
        data = self.at(call, lambda: constant_data(kind, shape, what, self.constants))
        self.builder.exact = names
        return (self.at(call, lambda: self.builder.const(data)),)

    def _operation(self, call: ast.Call, names: Sequence[str]) -> tuple[Value, ...]:
        name = _tg(call.func)
        found = self.at(call.func, lambda: definition(name or ""))
        args = [self._operand(a) for a in call.args]
        kwargs: dict[str, object] = {}
        for each in call.keywords:
            if each.arg is None:
                self.fail("attributes are given by name", each.value)
            is_operand = any(p.name == each.arg for p in found.parameters)
            kwargs[each.arg] = self._operand(each.value) if is_operand else self._attribute(each.value)

        def make() -> tuple[Value, ...]:
            operands, attrs = bound(found, args, kwargs)
            self.builder.exact = names
            return self.builder.ops(found.name, *operands, **attrs)

        return self.at(call, make)

    def _operand(self, node: ast.expr) -> object:
        if isinstance(node, ast.Name):
            return self._value(node)
        literal = self.literal(node)
        if literal is not None and not isinstance(literal, (bool, int, float)):
            self.fail("an operand is a value or a number", node)
        return literal

    def _value(self, node: ast.expr) -> Value:
        if not isinstance(node, ast.Name):
            self.fail("this is a name of a value", node)
        if node.id not in self.values:
            near = nearest_name(node.id, self.values)
            self.fail(
                f"there is no value {node.id!r} before this line", node, f"did you mean {near!r}?" if near else None
            )
        return self.values[node.id]

    # Types, attributes, literals

    def _type(self, node: ast.expr | None, around: ast.AST) -> TensorType:
        if node is None:
            self.fail("a parameter says its type", around, 'x: tg.Tensor(("B", 4), "float32")')
        if (
            not isinstance(node, ast.Call)
            or _tg(node.func) not in ("Tensor", "spec")
            or len(node.args) != 2
            or node.keywords
        ):
            self.fail("this is no type of a tensor", node, 'tg.Tensor(("B", 4), "float32")')
        shape, dtype = node.args
        if not isinstance(shape, ast.Tuple):
            self.fail("a shape is a tuple of numbers and texts", shape)
        extents = tuple(self._extent(e) for e in shape.elts)
        return TensorType(extents, DataType(self.at(dtype, lambda: dtype_name(self.literal(dtype)))))

    def _extent(self, node: ast.expr) -> Extent:
        literal = self.literal(node)
        if type(literal) is int and literal >= 0:
            return literal
        return self._text_extent(node)

    def _text_extent(self, node: ast.expr) -> Extent:
        text = self.literal(node)
        if not isinstance(text, str):
            self.fail("an extent is a number or the text of an expression of dims", node, '"B * 4"')
        return self.at(node, lambda: parsed_extent(text, self.builder.env, "the extent"))

    def _attribute(self, node: ast.expr) -> object:
        if isinstance(node, ast.Tuple):
            return tuple(self._attribute(e) for e in node.elts)
        if isinstance(node, ast.Call) and _tg(node.func) == "extent":
            (text,) = self._counted(node, 1)
            return self._text_extent(text)
        if any(isinstance(n, ast.Name) and n.id != "float" for n in ast.walk(node)):
            return self.at(node, lambda: extent_of(node, self.builder.env, f"here stands {ast.unparse(node)!r}"))
        return self.literal(node)

    def literal(self, node: ast.expr) -> object:
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (bool, int, float, str))):
            return node.value
        if isinstance(node, ast.Tuple):
            return tuple(self.literal(e) for e in node.elts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.literal(node.operand)
            if isinstance(inner, (int, float)):
                return -inner
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "float"
            and len(node.args) == 1
        ):
            text = self.literal(node.args[0])
            if text in ("inf", "-inf", "nan"):
                return float(str(text))
        self.fail(f"this is no number, text or tuple of them: {ast.unparse(node)}", node)

    def _counted(self, call: ast.Call, count: int) -> Sequence[ast.expr]:
        if len(call.args) != count or call.keywords:
            self.fail(f"{ast.unparse(call.func)} takes {count} arguments", call)
        return call.args


def dim_facts(name: str, facts: object) -> tuple[int, int | None, int, tuple[int, ...]]:
    """Least and greatest value, divisor and hints of a dim from a tuple of them. Raises :class:`GraphError`."""
    several = tuple(facts) if isinstance(facts, (tuple, list)) else (facts, facts)
    if 2 <= len(several) <= 4:
        low, high = several[:2]
        multiple = several[2] if len(several) > 2 else 1
        hints = several[3] if len(several) > 3 else ()
        if type(low) is int and type(multiple) is int and (high is None or type(high) is int):
            if isinstance(hints, tuple) and all(type(h) is int for h in hints):
                return low, high, multiple, hints
    raise GraphError(
        f"these are no facts of the dim {name!r}: {facts!r}",
        help=f"its range, ends included, and where there are such a divisor and hints: {name}=(1, None, 8, (16, 64))",
    )


def constant_data(kind: DataType, shape: tuple[int, ...], what: object, store: Store) -> ConstantData:
    """A splat of a number, or the constant of a digest: from a store, or abstract."""
    if isinstance(what, (bool, int, float)):
        return ConstantData.splat(what, shape, kind)
    if not isinstance(what, str) or len(what) < 8 or set(what) - set("0123456789abcdef"):
        raise GraphError(f"a constant is said by a number or by eight digits of its digest, got {what!r}")
    keys = [key for key in store if key.startswith(what)]
    if not keys:
        return ConstantData.abstract(what, shape, kind)
    found = store[keys[0]]
    data = found if isinstance(found, ConstantData) else ConstantData(found)
    if (data.dtype, data.shape) != (kind, shape) or not data.digest.startswith(what):
        raise GraphError(f"the constant {what!r} that is given is another one: {data!r}, not {kind!s}{list(shape)}")
    return data


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The syntax nodes of a function, but not those of functions in it."""
    stack: list[ast.AST] = [function]
    while stack:
        node = stack.pop()
        yield node
        stack += [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.FunctionDef)]


def _tg_statement(statement: ast.Expr) -> bool:
    """Whether a line states something of the graph."""
    return isinstance(statement.value, ast.Call) and _tg(statement.value.func) in ("assume", "attributes", "dims")


def _tg(node: ast.expr) -> str | None:
    """The name of ``tg.name``; None for other expressions."""
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tg"
    return node.attr if named and isinstance(node, ast.Attribute) else None
