"""``@T.macro``: a piece of script that is parsed again at each call, in the place of the call."""

from __future__ import annotations

import ast
import inspect
from types import FrameType, FunctionType
from typing import TYPE_CHECKING

from tirlower.diagnostics import Source, TirError
from tirlower.script.rebind import MacroRebinds
from tirlower.script.rebind_names import assigned_names, rebound_names
from tirlower.script.scope import PythonScope
from tirlower.script.source import definition_at

if TYPE_CHECKING:
    from tirlower.script.parse_function import Parser

__all__ = ["Macro"]

_DEEPEST = 100


class _BoundMacro:
    """A macro as a method of an object."""

    def __init__(self, macro: Macro, instance: object) -> None:
        self.macro = macro
        self.instance = instance
        self.__name__ = macro.__name__

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Raises: a macro is called inside a prim_func only."""
        return self.macro(*args, **kwargs)

    def expand_in(self, parser: Parser, args: list[object], kwargs: dict[str, object], node: ast.AST) -> object:
        """Parse the body at a call, for the object."""
        return self.macro.expand_in(parser, [self.instance, *args], kwargs, node)

    def __repr__(self) -> str:
        return f"<macro {self.__name__} of {self.instance!r}>"


class Macro:
    """A macro: its parameters are replaced by the arguments' values, its statements stand where it is called.

    Hygienic (the default): other names are those around the macro's definition, read when it is called. Not
    hygienic: they are those at the call. Names that the body assigns are its own in both cases.
    """

    def __init__(
        self,
        name: str,
        definition: ast.FunctionDef,
        source: Source,
        line_shift: int,
        scope: PythonScope,
        hygienic: bool,
        signature: inspect.Signature,
        text_only: bool = False,
    ) -> None:
        self.__name__ = name
        self.definition = definition
        self.source = source
        self.line_shift = line_shift
        self.scope = scope
        self.hygienic = hygienic
        self.signature = signature
        self.text_only = text_only
        params = list(signature.parameters)
        self.follows = rebound_names(definition.body, params)
        self.loads = {name: ast.Name(name, ast.Load()) for name in self.follows}
        self.own = None if hygienic else assigned_names(definition.body) | set(params)

    @classmethod
    def of_function(cls, func: FunctionType, hygienic: bool, frame: FrameType) -> Macro:
        """The macro of a decorated Python function."""
        definition, source, shift = definition_at(func.__code__, func.__globals__, func.__name__)
        scope = PythonScope.of_function(func, frame)
        return cls(func.__name__, definition, source, shift, scope, hygienic, inspect.signature(func))

    def __get__(self, instance: object, owner: type | None = None) -> Macro | _BoundMacro:
        """The macro of a class; as an attribute of an object it takes that as its first argument, as methods do."""
        return self if instance is None else _BoundMacro(self, instance)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Raises: a macro is called inside a prim_func only."""
        raise TirError(f"the macro {self.__name__!r} is called inside a prim_func only")

    def expand_in(self, parser: Parser, args: list[object], kwargs: dict[str, object], node: ast.AST) -> object:
        """Parse the body at a call; returns the value of its ``return``, if it ends with one."""
        bound = self.signature.bind(*[parser.enter_value(a) for a in args], **kwargs)
        bound.apply_defaults()
        flow = parser.flow
        if flow is None and self.follows:
            raise MacroRebinds
        names = parser.names
        before = self._names_before(parser, node) if flow is not None and not self.hygienic else {}
        state = (parser.source, parser.line_shift, parser.scope, parser.current, names.table, parser.text_only)
        body = None if flow is None else flow.body
        parser.helper_depth += 1
        names.push()
        try:
            if parser.helper_depth > _DEEPEST:
                raise parser.error(f"the macro {self.__name__!r} expands itself without an end", node)
            if self.hygienic:
                names.table = {}
                parser.scope = self.scope
                # A macro given as text is as restricted as the text; one of Python brings its own scope.
                parser.text_only = self.text_only
            parser.source, parser.line_shift = self.source, self.line_shift
            parser.current = self.definition
            if flow is not None:
                flow.enter_body(self.own, self.follows)
            for name, value in {**before, **bound.arguments}.items():
                parser.define(self.definition, name, value)
            return parser.macro_body(self.definition.body)
        finally:
            if flow is not None:
                flow.back_to_body(body)
            if not self.hygienic:
                names.pop()
            parser.source, parser.line_shift, parser.scope, parser.current, names.table, parser.text_only = state
            if self.hygienic:
                names.discard()
            parser.helper_depth -= 1

    def _names_before(self, parser: Parser, node: ast.AST) -> dict[str, object]:
        """What the names that a macro assigns stand for at its call: they begin as these, and are its own."""
        found: dict[str, object] = {}
        with parser.values_only():
            for name in sorted(self.follows - set(self.signature.parameters)):
                if parser.flow is not None and parser.flow.seen(node, name, parser.names.table):
                    found[name] = parser.eval(ast.copy_location(self.loads[name], node))
        return found

    def __repr__(self) -> str:
        return f"<macro {self.__name__}>"
