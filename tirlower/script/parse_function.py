"""Functions of a script: parameters and what they declare, the type of the result, and the rounds of a parse.

A function that binds a name anew is parsed several times: to follow the names, then until the types of the variables
that they become are settled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tirlower.diagnostics import ScriptError
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import HANDLE, DataType, PointerType
from tirlower.ir.expr import Var, as_expr, const
from tirlower.ir.func import Origin, PrimFunc
from tirlower.ir.stmt import Block
from tirlower.script.blocks import implicit_root
from tirlower.script.buffers import BufferSpec, parameter_buffer
from tirlower.script.builder import FunctionState, Level, body_of
from tirlower.script.forms import is_number, type_of_annotation
from tirlower.script.parse_stmt import Statements
from tirlower.script.rebind import ROUNDS, MacroRebinds, Rebinding
from tirlower.script.rebind_names import rebound_names
from tirlower.script.scope import MISSING, Names, activate, deactivate

__all__ = ["Parser"]


class Parser(Statements):
    """Parses definitions of functions."""

    def function(self, node: ast.FunctionDef, private: bool = False) -> PrimFunc:
        """The function of a definition."""
        before = activate(self)
        outer = self.func
        known = dict(self.names.table)
        follows = rebound_names(node.body, [param.arg for param in [*node.args.posonlyargs, *node.args.args]])
        try:
            if not follows:
                try:
                    return self._function(node, private)
                except MacroRebinds:
                    self._restore(known)
            return self._rounds(node, private, follows, known)
        finally:
            self.func, self.flow = outer, None
            deactivate(before)

    def _restore(self, known: dict[str, object]) -> None:
        """Begin again with the names known before: what a parse left open is gone."""
        self.names = Names()
        self.names.table.update(known)
        self._levels = [Level(None)]
        self.ifs = []
        self.kernel = None
        self.helper_depth = 0

    def _rounds(self, node: ast.FunctionDef, private: bool, follows: set[str], known: dict[str, object]) -> PrimFunc:
        """Parse a function some of whose names may be variables: once to follow them, then for their types."""
        flow = self.flow = Rebinding(node.name, follows)
        self._function(node, private)
        flow.decide()
        for _ in range(ROUNDS):
            self._restore(known)
            flow.begin()
            self.flow = flow
            error: ScriptError | None = None
            made: PrimFunc | None = None
            try:
                made = self._function(node, private)
            except ScriptError as err:
                error = flow.error or err
            if flow.settled():
                error = flow.error or error
                if error is not None:
                    raise error
                assert made is not None
                return made
        raise flow.unsettled()

    def _function(self, node: ast.FunctionDef, private: bool) -> PrimFunc:
        self.current = node
        place = self.span(node)
        place.end_line, place.end_col = place.line, place.col + len("def ") + len(node.name)
        func = self.func = FunctionState(node.name)
        # An error ends the parse as a whole: what is open then stays open.
        self.open()
        func.start = len(self._levels) - 1
        func.declared = dict(_declared_symbols(node.body))
        flow, self.flow = self.flow, None
        self._parameters(node, func)
        ret_type = self.return_type(node)
        if isinstance(ret_type, DataType) and ret_type.code != "void":
            func.ret_type = ret_type
        self.flow = flow
        if flow is not None:
            for param in [*node.args.posonlyargs, *node.args.args]:
                value = self.names.table[param.arg]
                if isinstance(value, Buffer):
                    flow.assign(param, param.arg, f"the buffer {value.name!r}", value, self.span(param))
                else:
                    self.define(param, param.arg, value)
            for name, symbol in func.symbols.items():
                flow.assign(node, name, "a symbol", symbol, self.span(node))
        self.body(node.body)
        body = self.close()
        if flow is not None and flow.trial:
            return PrimFunc((), {}, DataType("void"), {}, body_of(()))
        if func.has_block and implicit_root(body):
            body = Block("root", (), as_expr(True), (), (), None, (), {}, body, span=place)
        attrs = dict(func.attrs)
        if private and "global_symbol" in attrs:
            raise self.error(
                f"the function {node.name!r} is private and has the global symbol {attrs['global_symbol']!r}",
                node,
                help="leave out private=True to export it, or the attribute to keep it private",
            )
        if not private:
            attrs.setdefault("global_symbol", node.name)
        origin = Origin(ast.get_docstring(node))
        try:
            return PrimFunc(tuple(func.params), func.buffer_map, ret_type, attrs, body, origin=origin, span=place)
        except ScriptError:
            raise
        except Exception as err:
            raise self.explain(err, node) from err

    def return_type(self, node: ast.FunctionDef) -> DataType | PointerType:
        """What the function returns, by its ``-> T.int32``."""
        if node.returns is None:
            return DataType("void")
        value = self.annotation(node.returns)
        if value is None:
            return DataType("void")
        kind = type_of_annotation(value)
        if kind is None:
            raise self.error("a function returns a type such as T.int32, or None", node.returns)
        return kind

    def symbolic(self, text: str) -> object:
        """A symbolic dimension given as a string: a name (made at its first use) or an expression of such names."""
        if text.isidentifier():
            return super().symbolic(text)
        for part in ast.walk(ast.parse(text, mode="eval")):
            if isinstance(part, ast.Name) and self.names.table.get(part.id, MISSING) is MISSING:
                self.symbolic(part.id)
        assert self.current is not None
        return self.text_expression(text, self.current)

    def _parameters(self, node: ast.FunctionDef, func: FunctionState) -> None:
        spec = node.args
        if spec.vararg or spec.kwarg or spec.kwonlyargs:
            wrong: ast.AST = next(filter(None, [spec.vararg, spec.kwarg, *spec.kwonlyargs]))
            raise self.error(
                "a prim_func has plain parameters, without `*`", wrong, help="n: T.int32, A: T.Buffer(shape, dtype)"
            )
        params = [*spec.posonlyargs, *spec.args]
        # Scalars first: a buffer's shape may name a parameter that stands after it.
        made: dict[str, Var] = {}
        for param in params:
            if param.annotation is None:
                raise self.error(
                    f"the parameter {param.arg!r} has no annotation",
                    param,
                    help="annotate it with T.Buffer(shape, dtype), a type such as T.int32, or T.handle",
                )
            if not _names_a_type(param.annotation):
                continue
            value = self.annotation(param.annotation)
            kind = None if isinstance(value, (Buffer, BufferSpec)) else type_of_annotation(value)
            if kind is not None:
                nonneg = isinstance(value, Var) and value.nonneg
                var = Var(param.arg, kind, nonneg, span=self.span(param))
                made[param.arg] = var
                self.names.set(param.arg, var)
        for param in params:
            self.current = param
            if param.arg in made:
                func.params.append(made[param.arg])
                continue
            assert param.annotation is not None
            value = self.annotation(param.annotation)
            if not isinstance(value, (Buffer, BufferSpec)):
                raise self.error(
                    f"the annotation of the parameter {param.arg!r} is a T.Buffer(…) or a type, got {value!r}",
                    param.annotation,
                )
            try:
                buffer = parameter_buffer(self, param.arg, value)
            except ScriptError:
                raise
            except Exception as err:
                raise self.explain(err, param.annotation) from err
            var = Var(f"{param.arg}_handle", HANDLE, span=self.span(param))
            func.params.append(var)
            func.buffer_map[var] = buffer
            self.know_buffer(buffer)
            self.names.set(param.arg, buffer)
        self.current = node
        defaults = dict(zip([p.arg for p in params[len(params) - len(spec.defaults) :]], spec.defaults, strict=True))
        if defaults:
            func.attrs["tir.defaults"] = {name: self._default(made.get(name), part) for name, part in defaults.items()}

    def _default(self, param: Var | None, node: ast.expr) -> object:
        """The value that a scalar parameter has where a call does not pass it."""
        value = self.eval(node)
        if param is None or not param.dtype.is_scalar or param.dtype.is_handle or not is_number(value):
            raise self.error(
                "a default is a number, of a scalar parameter",
                node,
                help="outputs that a call leaves out are named by tl.build(…, outputs=[…])",
            )
        if not param.dtype.is_float and param.dtype.is_integral and value != int(value):
            raise self.error(f"the default {value} is no {param.dtype!s}", node)
        return const(value, param.dtype).value  # type: ignore[attr-defined]


def _declared_symbols(body: list[ast.stmt]) -> Iterator[tuple[str, DataType]]:
    """``n = T.int64()`` and ``n, m = T.int32(), T.int32()`` at the head of a function: the names, and their types."""
    for stmt in body:
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1:
            continue
        target, value = stmt.targets[0], stmt.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = list(zip(target.elts, value.elts, strict=True))
        for name, made in pairs:
            if not (isinstance(name, ast.Name) and isinstance(made, ast.Call) and not made.args):
                continue
            kind = getattr(made.func, "attr", "")
            if kind in ("int32", "int64"):
                yield name.id, DataType(kind)


def _names_a_type(node: ast.expr) -> bool:
    """Whether an annotation can be a scalar's or handle's: not a call of ``T.Buffer``."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "Ptr"
    if isinstance(node, ast.Call):
        func = node.func
        return (func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")) != "Buffer"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return "Buffer" not in node.value
    return True
