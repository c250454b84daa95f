"""Expressions of a script: Python's syntax tree to values of the dialect.

A value is a node, a Python value (numbers, strings, tuples … stay Python's until they meet a node) or a form. The
tree is walked by a table on the node's class.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, cast

import numpy as np

from tirlower.diagnostics import ScriptError, nearest_name
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, IterVar, MatchBufferRegion, Range
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.expr import BufferLoad, Expr, IntImm, as_expr, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import GlobalVar
from tirlower.ir.stmt import Stmt
from tirlower.script.forms import Frame, MetaVar, ScopeName, Sliced, TypeFunc
from tirlower.script.namespace import (
    NAMESPACES,
    GlobalCallee,
    ModuleRef,
    computes,
    infers_dtype,
    is_header,
    names_a_span,
)
from tirlower.script.parse_operators import Operators
from tirlower.script.python_helpers import ScriptLambda, call_helper, is_helper
from tirlower.script.python_words import (
    BUFFER_REMEDIES,
    NAME_REMEDIES,
    REMEDIES,
    as_dtype,
    as_number,
    is_value_of,
    is_word,
    meaning_of,
    symbolic,
)
from tirlower.script.rebind import Variable
from tirlower.script.rebind_names import target_names
from tirlower.script.scope import MISSING
from tirlower.script.spans import describe, kind_of
from tirlower.script.weak import Weak

__all__ = ["Evaluator"]

_TEXT_ATTRIBUTES = (
    Expr, Buffer, DataType, TypeFunc, Range, IterVar, BufferRegion, MatchBufferRegion, PointerType, Stmt,
)  # fmt: skip
"""What a script given as text may read attributes of."""

_CONVERSIONS: dict[int, Callable[[object], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


class Evaluator(Operators):
    """Evaluates expressions; statements are the business of the parser, which derives from it."""

    # Evaluation

    def eval(self, node: ast.AST) -> object:
        """The value of an expression. Raises :class:`ScriptError` at the part that is wrong."""
        handler = _EVAL.get(node.__class__)
        if handler is None:
            raise self.error(f"{describe(node)} is not part of the dialect", node)
        try:
            return handler(self, node)
        except ScriptError:
            raise
        except Exception as err:
            raise self.explain(err, node) from err

    def eval_Constant(self, node: ast.Constant) -> object:
        """A literal."""
        value = node.value
        if isinstance(value, (complex, bytes)):
            raise self.error(f"a {type(value).__name__} literal is not part of the dialect", node)
        return value

    def eval_Name(self, node: ast.Name) -> object:
        """A name of the script, or of the Python scope around it."""
        flow = self.flow
        if flow is not None:
            read = flow.read(node, node.id, self.span, self.names.table)
            if read.__class__ is Variable:
                if flow.as_value and not flow.repeating:
                    return self.variable_value(read, flow.in_header)
                if self.kernel is not None and read.on_host:
                    return self.kernel_value(read)
                return read.load(self.span(node))
            if read is not MISSING:
                return read
        found = self.names.table.get(node.id, MISSING)
        if found is not MISSING:
            return found
        return self.outer_name(node.id, node)

    def outer_name(self, name: str, node: ast.AST) -> object:
        """A name of the Python scope."""
        found = self.scope.lookup(name)
        if found is not MISSING:
            return found
        found = self.functions.get(name, MISSING)
        if found is not MISSING:
            return found
        near = nearest_name(name, [*self.names.table, *self.functions, *self.scope.known()])
        raise self.error(
            f"the name {name!r} is not defined here",
            node,
            help=NAME_REMEDIES.get(name)
            or (f"did you mean {near!r}?" if near else "define it before its use, or in the Python scope around"),
        )

    def eval_Attribute(self, node: ast.Attribute) -> object:
        """An attribute: of a namespace, of a node, of a Python object."""
        value = self.eval(node.value)
        attr = node.attr
        if isinstance(value, ModuleType):
            return self._member(value, attr, node)
        if isinstance(value, ModuleRef):
            callee = value.functions.get(attr)
            if callee is None:
                near = nearest_name(attr, value.functions)
                raise self.error(
                    f"the module {value.name!r} has no function {attr!r}",
                    node,
                    help=f"did you mean {near!r}?" if near else None,
                )
            return callee
        return self._field(value.enter(self, None) if isinstance(value, Frame) else value, attr, node)

    def _member(self, value: ModuleType, attr: str, node: ast.Attribute) -> object:
        """What a namespace of the dialect, or a Python module, has under a name."""
        space = NAMESPACES.get(value.__name__)
        if space is None and self.text_only and not is_value_of(value, attr):
            raise self.error(f"a script given as text reads no Python module, as {value.__name__!r}", node)
        found = space.find(attr) if space is not None else getattr(value, attr, MISSING)
        if found is not MISSING:
            return found
        shown = ast.unparse(node.value)
        way = None if space is None else REMEDIES.get(attr)
        near = nearest_name(attr, dir(value) if space is None else space.names())
        raise self.error(
            f"{shown} has no {attr!r}",
            node,
            help=way or (f"did you mean `{shown}.{near}`?" if near else None),
        )

    def _field(self, value: object, attr: str, node: ast.Attribute) -> object:
        """An attribute of a node, or of a Python object."""
        if attr.startswith("_"):
            raise self.error(f"names with a leading underscore are not part of the dialect: {attr!r}", node)
        if isinstance(value, Buffer) and attr in ("scope", "size"):
            if attr == "scope":
                return ScopeName(value.scope)
            return functools.reduce(lambda a, b: build.mul(a, b), value.shape, as_expr(1))
        if isinstance(value, Sliced):
            value = value.as_expr()
        if isinstance(value, (Buffer, Expr)) and attr == "dtype":
            return TypeFunc(value.dtype)
        if self.text_only and not isinstance(value, _TEXT_ATTRIBUTES) and not callable(getattr(value, "remap", None)):
            raise self.error(
                f"a script given as text reads no attribute of {type(value).__name__} values: {attr!r}", node
            )
        try:
            return getattr(value, attr)
        except AttributeError:
            known = [name for name in dir(value) if not name.startswith("_")]
            near = nearest_name(attr, known)
            what = f"buffer {value.name!r}" if isinstance(value, Buffer) else f"{type(value).__name__} value"
            way = BUFFER_REMEDIES.get(attr) if isinstance(value, Buffer) else None
            raise self.error(
                f"a {what} has no {attr!r}", node, help=way or (f"did you mean {near!r}?" if near else None)
            ) from None

    def eval_Tuple(self, node: ast.Tuple) -> object:
        """A tuple."""
        return tuple(self._elements(node.elts))

    def eval_List(self, node: ast.List) -> object:
        """A list."""
        return self._elements(node.elts)

    def items_of(self, node: ast.expr) -> Iterable[object]:
        """The value of an expression that Python runs over, or unpacks."""
        value = self.eval(node)
        if TYPE_CHECKING:
            assert isinstance(value, Iterable)
        return value

    def entries_of(self, node: ast.expr) -> Mapping[str, object]:
        """The value of an expression that is unpacked by keys."""
        value = self.eval(node)
        if TYPE_CHECKING:
            assert isinstance(value, Mapping)
        return value

    def _elements(self, parts: list[ast.expr]) -> list[object]:
        found: list[object] = []
        for part in parts:
            if part.__class__ is ast.Starred:
                found += self.items_of(part.value)
            else:
                found.append(self.eval(part))
        return found

    def eval_Dict(self, node: ast.Dict) -> object:
        """A dictionary."""
        found: dict[object, object] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                found.update(self.entries_of(value))
            else:
                found[self.eval(key)] = self.eval(value)
        return found

    def eval_Slice(self, node: ast.Slice) -> object:
        """``a:b:c`` inside an index."""
        return slice(
            None if node.lower is None else self.eval(node.lower),
            None if node.upper is None else self.eval(node.upper),
            None if node.step is None else self.eval(node.step),
        )

    def eval_Subscript(self, node: ast.Subscript) -> object:
        """``A[i, j]``: a load or region of a buffer; an element of a Python sequence."""
        value = self.eval(node.value)
        if value.__class__ is Buffer:
            return self.access(value, self.indices(node.slice), node)
        index = self.eval(node.slice)
        if isinstance(value, Frame):
            value = value.enter(self, None)
            if isinstance(value, Buffer):
                return self.access(value, index if isinstance(index, tuple) else (index,), node)
        if isinstance(value, (BufferRegion, Expr)):
            raise self._not_indexed(value, node)
        if isinstance(value, Sliced) and len(value.indices) < len(value.buffer.shape):
            if not any(isinstance(part, (slice, Range)) for part in value.indices):  # A[i][j] is A[i, j]
                return self.access(value.buffer, (*value.indices, *self.indices(node.slice)), node)
        return self._element(value, index.value if isinstance(index, IntImm) else index, node)

    def _not_indexed(self, value: BufferRegion | Expr, node: ast.Subscript) -> ScriptError:
        if isinstance(value, BufferRegion):
            return self.error(f"a region of buffer {value.buffer.name!r} is not indexed", node)
        return self.error(
            f"an expression of type {value.dtype!s} is not indexed: {value}",
            node,
            help="index a buffer; a pointer becomes one by T.decl_buffer(shape, dtype, data=…)",
        )

    def _element(self, value: object, index: object, node: ast.Subscript) -> object:
        """An element of a Python value; where an index of an array is of the program, of the table that the array becomes."""
        if isinstance(value, np.ndarray) and symbolic(index):
            table = self.table(value, ast.unparse(node.value))
            return self.access(table, index if isinstance(index, tuple) else (index,), node)
        if TYPE_CHECKING:
            assert isinstance(value, Mapping)
        return as_number(value[index])

    def indices(self, node: ast.expr) -> tuple[object, ...]:
        """The indices of an access."""
        if node.__class__ is ast.Tuple:
            return tuple(self._elements(node.elts))
        if node.__class__ is ast.Starred:
            return tuple(self.items_of(node.value))
        value = self.eval(node)
        # The iterators of T.axis.remap or of T.grid under one name are a list.
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)

    def access(self, buffer: Buffer, indices: tuple[object, ...], node: ast.AST) -> object:
        """A load, or what is a region or a vector load by its place."""
        span = self.span(node)
        if self.elements is not None and any(index.__class__ is slice for index in indices):
            return self.elements.load(buffer, indices, span)
        for index in indices:
            if index.__class__ is slice or index.__class__ is Range:
                return Sliced(buffer, indices, span)
        if len(indices) < len(buffer.shape):
            return Sliced(buffer, indices, span)
        return BufferLoad(buffer, cast("tuple[Expr, ...]", indices), span=span)  # as expressions, each

    def eval_Call(self, node: ast.Call) -> object:
        """A call: of a form or function of the dialect, of a function of the module, a macro, a Python helper."""
        func = self.eval(node.func)
        operation = computes(func) or is_word(func)
        kwargs: dict[str, object] = {}
        # What is no operation takes the values of variables: a load would be another value where it is used later.
        with nullcontext() if operation or self.flow is None else self.values_only(is_header(func)):
            args = self._elements(node.args)
            for keyword in node.keywords:
                if keyword.arg is None:
                    kwargs.update(self.entries_of(keyword.value))
                else:
                    kwargs[keyword.arg] = self.eval(keyword.value)
        made = self.call_with_weak(func, args, kwargs, node) if operation else self.call(func, args, kwargs, node)
        if isinstance(made, Expr):
            if made.span is None:
                made.span = self.span(node)
        elif isinstance(made, Frame):
            made.span = self.span(node)
        return made

    @contextmanager
    def values_only(self, header: bool = False) -> Iterator[None]:
        """Inside, a read of a variable gives its value, bound in front (of the block, for its ``header``)."""
        flow = self.flow
        if flow is None:
            yield
            return
        before = flow.in_header
        flow.as_value += 1
        flow.in_header = header
        try:
            yield
        finally:
            flow.as_value -= 1
            flow.in_header = before

    def call_with_weak(self, func: object, args: list[object], kwargs: dict[str, object], node: ast.Call) -> object:
        """Call an operation, whose floats that meet no other are of the function's type."""
        values = [*args, *kwargs.values()]
        bare = [v for v in values if v.__class__ is Weak and v.bare]
        if bare:
            # A variable whose type is not found yet counts as a literal.
            one = {"bool": True, "int": 1, "float": 1.0}
            args = [one[v.kind] if v.__class__ is Weak and v.bare else v for v in args]
            kwargs = {k: one[v.kind] if v.__class__ is Weak and v.bare else v for k, v in kwargs.items()}
        elif self.wide_floats() and not any(isinstance(v, str) for v in values):
            typed = any(isinstance(v, (Expr, Sliced)) and v.dtype.element.is_float for v in values)
            if not typed and not isinstance(func, TypeFunc):
                args = [const(v, "float64") if v.__class__ is float else v for v in args]
        made = self.call(func, args, kwargs, node)
        return bare[0] if bare and isinstance(made, (bool, int, float)) else made

    def call(self, func: object, args: list[object], kwargs: dict[str, object], node: ast.Call) -> object:
        """Call a value of the script."""
        expand = getattr(func, "expand_in", None)
        if expand is not None:
            return expand(self, args, kwargs, node)
        func = self._callee(func)
        if isinstance(func, GlobalCallee):
            if kwargs:
                raise self.error(f"a call of the function {func.name!r} takes positional arguments only", node)
            return func(*args)  # type: ignore[arg-type]
        func = meaning_of(func, args, kwargs) or func
        if not callable(func):
            raise self.error(f"{kind_of(func)} is not called: {ast.unparse(node.func)}", node.func)
        if isinstance(func, FunctionType) and is_helper(func) and not self.text_only:
            return call_helper(self, func, args, kwargs, node)
        if "dtype" in kwargs and infers_dtype(func):
            # TIR's operations take the type of their result, which follows from their operands.
            kwargs = {key: value for key, value in kwargs.items() if key != "dtype"}
        if getattr(func, "__module__", "").startswith("tirlower.") or isinstance(func, TypeFunc):
            args = [as_dtype(arg) for arg in args]
            kwargs = {key: as_dtype(value) for key, value in kwargs.items()}
        if names_a_span(func, len(args)):
            raise self.call_error(func, args, kwargs, node, TypeError("too many positional arguments"))
        try:
            return func(*args, **kwargs)
        except TypeError as err:
            raise self.call_error(func, args, kwargs, node, err) from err

    def _callee(self, func: object) -> object:
        """A function of the program, called by what names it."""
        if isinstance(func, PrimFunc):
            return GlobalCallee.of(func)
        if isinstance(func, GlobalVar):
            return self.functions.get(func.name) or GlobalCallee(func.name, DataType("void"))
        return func

    def eval_Lambda(self, node: ast.Lambda) -> object:
        """A function of the script, as for ``T.comm_reducer``: its body is evaluated by the dialect."""
        spec = node.args
        if spec.vararg or spec.kwarg or spec.kwonlyargs or spec.defaults:
            raise self.error("a lambda of a script has plain parameters only", node)
        names = [a.arg for a in [*spec.posonlyargs, *spec.args]]
        return ScriptLambda(self, names, node)

    def eval_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> object:
        """A comprehension over Python sequences."""
        found: list[object] = []
        with self.hiding_targets(node):
            self._comprehend(node.generators, lambda: found.append(self.eval(node.elt)))
        return found

    def eval_DictComp(self, node: ast.DictComp) -> object:
        """A dictionary comprehension over Python sequences."""
        found: dict[object, object] = {}
        with self.hiding_targets(node):
            self._comprehend(node.generators, lambda: found.update({self.eval(node.key): self.eval(node.value)}))
        return found

    def hiding_targets(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> AbstractContextManager[None]:
        """The names of a comprehension are its own."""
        if self.flow is None:
            return nullcontext()
        return self.flow.hiding({name for part in node.generators for name in target_names(part.target)})

    def _comprehend(self, generators: list[ast.comprehension], yield_one: Callable[[], None]) -> None:
        if not generators:
            yield_one()
            return
        first, rest = generators[0], generators[1:]
        items = self.items_of(first.iter)
        if hasattr(items, "loops"):
            raise self.error("a comprehension runs over Python sequences, not over a loop of the program", first.iter)
        for item in items:
            self.names.push()
            try:
                self.assign_names(first.target, item)
                if all(self.eval(test) for test in first.ifs):
                    self._comprehend(rest, yield_one)
            finally:
                self.names.pop()

    def assign_names(
        self, target: ast.AST, value: object, define: Callable[[ast.AST, str, object], None] | None = None
    ) -> None:
        """Python's assignment to names (with unpacking), without effect in the program.

        ``define`` is told each; without it the names are those of a comprehension or a helper.
        """
        if isinstance(target, ast.Name):
            if define is None:
                self.names.set(target.id, value)
            else:
                define(target, target.id, value)
            return
        if isinstance(target, (ast.Tuple, ast.List)):
            if TYPE_CHECKING:
                assert isinstance(value, Iterable)
            parts = list(value)
            starred = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
            if starred:
                at, after = starred[0], len(target.elts) - starred[0] - 1
                cut = len(parts) - after
                parts = [*parts[:at], parts[at:cut], *parts[cut:]]
            if len(parts) != len(target.elts):
                raise self.error(f"{len(target.elts)} names for {len(parts)} values", target)
            for part, item in zip(target.elts, parts, strict=True):
                self.assign_names(part.value if isinstance(part, ast.Starred) else part, item, define)
            return
        raise self.error("a name or a tuple of names is expected here", target)

    def eval_JoinedStr(self, node: ast.JoinedStr) -> object:
        """An f-string of Python values."""
        parts: list[str] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.eval(part.value)
                spec = self.eval(part.format_spec) if part.format_spec is not None else ""
                convert: Callable[[object], object] | None = _CONVERSIONS.get(part.conversion)
                parts.append(format(value if convert is None else convert(value), str(spec)))
            else:
                parts.append(str(self.eval(part)))
        return "".join(parts)

    def eval_Starred(self, node: ast.Starred) -> object:
        """``*a`` where it means nothing."""
        raise self.error("`*` unpacks arguments and indices only", node)

    def enter_value(self, value: object) -> object:
        """A form met as an argument takes effect where it stands."""
        if isinstance(value, Frame):
            return value.enter(self, None)
        return value.value if isinstance(value, MetaVar) else value


_EVAL: dict[type, Callable[[Evaluator, ast.AST], object]] = {
    getattr(ast, name.removeprefix("eval_")): getattr(Evaluator, name)
    for name in dir(Evaluator)
    if name.startswith("eval_")
}
_EVAL[ast.GeneratorExp] = _EVAL[ast.ListComp]
