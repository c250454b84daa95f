"""Places and errors: from syntax nodes to spans of the script, from any failure to a message that points into it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import ParamSpec

from tirlower.diagnostics import Label, ScriptError, Source, Span, TirError, nearest_name
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr
from tirlower.script.builder import Builder
from tirlower.script.forms import Frame
from tirlower.script.namespace import GlobalCallee
from tirlower.script.scope import PythonScope

P = ParamSpec("P")

__all__ = ["Places", "describe", "kind_of"]


class Places(Builder):
    """A builder that knows its script: where a syntax node stands, and how to report what went wrong there."""

    def __init__(self, source: Source, scope: PythonScope, line_shift: int = 0, text_only: bool = False) -> None:
        super().__init__()
        self.source = source
        self.scope = scope
        self.line_shift = line_shift
        self.text_only = text_only
        self.functions: dict[str, GlobalCallee] = {}
        self.helper_depth = 0
        self._ascii_source: Source | None = None

    def span(self, node: ast.AST) -> Span:
        """The place of a syntax node in the script's own file."""
        shift = self.line_shift
        line, col = node.lineno + shift, node.col_offset  # type: ignore[attr-defined]
        end_line, end_col = node.end_lineno + shift, node.end_col_offset  # type: ignore[attr-defined]
        source = self.source
        if source is not self._ascii_source:
            if all(map(str.isascii, source.lines)):
                self._ascii_source = source
            else:
                # Python counts columns in bytes of UTF-8, spans in characters.
                col = _characters(source.line(line), col)
                end_col = _characters(source.line(end_line), end_col)
        return Span(source, line, col, end_line, end_col)

    def here(self) -> Span | None:
        """The span of the statement being parsed."""
        return None if self.current is None else self.span(self.current)

    def error(
        self, message: str, node: ast.AST | None = None, help: str | None = None, notes: Sequence[str] = ()
    ) -> ScriptError:
        """An error at a syntax node (at the current statement without one)."""
        place = self.here() if node is None else self.span(node)
        return ScriptError(message, span=place, help=help, notes=notes)

    def explain(self, err: Exception, node: ast.AST) -> ScriptError:
        """An error of the IR, or of Python, as one of the script at a place."""
        if isinstance(err, ScriptError) and any(label.span is not None for label in err.labels):
            return err
        if isinstance(err, TirError):
            place = self.span(node)
            # A label inside the node says more; one elsewhere (where a variable was made) would mislead.
            labels = [label for label in err.labels if label.span is not None and _lies_in(label.span, place)]
            return ScriptError(
                err.message, origin=err.origin, labels=labels or [Label(place)], notes=err.notes, help=err.help
            )
        if isinstance(err, RecursionError):
            return self.error("the script nests too deeply for Python's recursion limit", node)
        if isinstance(err, KeyError):
            return self.error(f"there is no key {err}", node)
        return self.error(f"{type(err).__name__}: {err}" if not isinstance(err, TypeError) else str(err), node)

    def call_error(
        self, func: Callable[P, object], args: list[object], kwargs: dict[str, object], node: ast.Call, err: TypeError
    ) -> Exception:
        """A TypeError of a call as the script's error: wrong arguments are shown with the ones expected."""
        if isinstance(err, TirError):
            return err
        try:
            signature = inspect.signature(func)
        except (TypeError, ValueError):
            return self.explain(err, node)
        given = [one for name, one in signature.parameters.items() if name != "span"]
        signature = signature.replace(parameters=given)
        shown = ast.unparse(node.func)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as wrong:
            names = [name for name in signature.parameters if name != "_"]
            unknown = next((k for k in kwargs if k not in names), None)
            near = nearest_name(unknown, names) if unknown is not None else None
            if unknown is not None:
                keyword = next((k for k in node.keywords if k.arg == unknown), node)
                return self.error(
                    f"{shown} has no argument {unknown!r}",
                    keyword,
                    help=f"did you mean {near!r}?" if near else f"it takes {', '.join(names)}",
                )
            return self.error(f"{shown}: {wrong}", node, help=f"it takes {', '.join(names)}")
        return self.explain(err, node)


def _lies_in(inner: Span, outer: Span) -> bool:
    if inner.source is not outer.source:
        return False
    first, last = (inner.line, inner.col), (inner.end_line, inner.end_col)
    return (outer.line, outer.col) <= first and last <= (outer.end_line, outer.end_col)


def _characters(line: str, offset: int) -> int:
    """A byte offset of UTF-8 as a number of characters."""
    return len(line.encode()[:offset].decode(errors="replace"))


_NAMES_OF_SYNTAX = {
    ast.Await: "`await`", ast.Yield: "`yield`", ast.YieldFrom: "`yield from`", ast.NamedExpr: "`:=`",
    ast.Set: "a set", ast.SetComp: "a set comprehension", ast.Starred: "`*`",
    ast.Try: "`try`", ast.Import: "`import`", ast.ImportFrom: "`import`", ast.Raise: "`raise`",
    ast.Delete: "`del`", ast.Global: "`global`", ast.Nonlocal: "`nonlocal`", ast.ClassDef: "a class",
    ast.FunctionDef: "a nested function", ast.AsyncFor: "`async for`", ast.AsyncWith: "`async with`",
    ast.AsyncFunctionDef: "an async function", ast.Match: "`match`",
}  # fmt: skip


def describe(node: ast.AST) -> str:
    """A syntax node in the words of a user."""
    return _NAMES_OF_SYNTAX.get(node.__class__, f"`{type(node).__name__}`")


def kind_of(value: object) -> str:
    """A value in the words of a user."""
    if isinstance(value, Buffer):
        return f"the buffer {value.name!r}"
    if isinstance(value, Frame):
        return f"the form {value.what}"
    if isinstance(value, Expr):
        return f"the expression {value}"
    return f"a {type(value).__name__}"
