"""Python helper functions called from a script with expressions.

A plain function of the Python scope is read, not run: ``==``, ``and``, ``or``, ``not`` and conditional expressions in
it build expressions, as they do in the script. What its body may hold: assignments, ``if`` on Python values, ``for``
over Python sequences, expressions, ``return``. A function that holds more (or whose source is not at hand) is run as
Python, where ``==`` on expressions compares identity.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from types import FunctionType
from typing import TYPE_CHECKING

from tirlower.diagnostics import ScriptError, Source
from tirlower.ir.buffer import Buffer, IterVar
from tirlower.ir.expr import Expr
from tirlower.ir.functor import by_class
from tirlower.script.forms import Sliced
from tirlower.script.scope import MISSING, PythonScope
from tirlower.script.source import definition_at
from tirlower.script.weak import Weak

if TYPE_CHECKING:
    from tirlower.script.parse_expr import Evaluator

__all__ = ["ScriptLambda", "call_helper", "is_helper"]

_READABLE = (ast.Return, ast.Assign, ast.AugAssign, ast.If, ast.For, ast.Expr, ast.Pass)


def is_helper(func: FunctionType) -> bool:
    """Whether a function is a helper of the user's: not one of this package."""
    return not (func.__module__ or "").startswith("tirlower.")


def call_helper(
    evaluator: Evaluator, func: FunctionType, args: list[object], kwargs: dict[str, object], node: ast.AST
) -> object:
    """The value of a helper's call; read as script where it is given expressions and can be read."""
    symbolic = any(isinstance(a, (Expr, Sliced, IterVar, Buffer, Weak)) for a in [*args, *kwargs.values()])
    tree = _readable(func) if symbolic else None
    if tree is None:
        return func(*args, **kwargs)
    definition, source, shift = tree
    bound = inspect.signature(func).bind(*args, **kwargs)
    bound.apply_defaults()
    state = (evaluator.source, evaluator.line_shift, evaluator.scope, evaluator.names.table, evaluator.current)
    evaluator.helper_depth += 1
    evaluator.names.push()
    try:
        if evaluator.helper_depth > 200:
            raise evaluator.error(f"the helper {func.__name__!r} calls itself without an end", node)
        evaluator.source, evaluator.line_shift = source, shift
        evaluator.scope = PythonScope.of_function(func)
        evaluator.names.table = dict(bound.arguments)
        with nullcontext() if evaluator.flow is None else evaluator.flow.hiding(None):
            found = _run(evaluator, definition.body)
        return None if found is MISSING else found
    finally:
        evaluator.helper_depth -= 1
        evaluator.names.discard()
        evaluator.source, evaluator.line_shift, evaluator.scope, evaluator.names.table, evaluator.current = state


def _readable(func: FunctionType) -> tuple[ast.FunctionDef, Source, int] | None:
    if func.__name__ == "<lambda>" or func.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return None
    try:
        found = definition_at(func.__code__, func.__globals__, func.__name__)
    except ScriptError:
        return None
    stack: list[ast.stmt] = list(found[0].body)
    if found[0].decorator_list:
        return None
    while stack:
        stmt = stack.pop()
        if not isinstance(stmt, _READABLE):
            return None
        if isinstance(stmt, (ast.If, ast.For)):
            stack += [*stmt.body, *stmt.orelse]
        if isinstance(stmt, ast.Assign) and not all(
            isinstance(t, (ast.Name, ast.Tuple, ast.List)) for t in stmt.targets
        ):
            return None
        if isinstance(stmt, ast.AugAssign) and not isinstance(stmt.target, ast.Name):
            return None
    return found


def _run(evaluator: Evaluator, body: list[ast.stmt]) -> object:
    """Run statements; the returned value, or ``MISSING`` where none returns."""
    for stmt in body:
        evaluator.current = stmt
        if isinstance(stmt, ast.Return):
            return None if stmt.value is None else evaluator.eval(stmt.value)
        run = _STATEMENTS.get(stmt.__class__)
        returned = MISSING if run is None else run(evaluator, stmt)
        if returned is not MISSING:
            return returned
    return MISSING


def _assign(evaluator: Evaluator, stmt: ast.Assign) -> object:
    value = evaluator.enter_value(evaluator.eval(stmt.value))
    for target in stmt.targets:
        evaluator.assign_names(target, value)
    return MISSING


def _augment(evaluator: Evaluator, stmt: ast.AugAssign) -> object:
    assert isinstance(stmt.target, ast.Name)
    old = evaluator.eval(ast.copy_location(ast.Name(stmt.target.id, ast.Load()), stmt.target))
    evaluator.names.set(stmt.target.id, evaluator.binary(stmt.op, old, evaluator.eval(stmt.value), stmt))
    return MISSING


def _branch(evaluator: Evaluator, stmt: ast.If) -> object:
    test = evaluator.eval(stmt.test)
    if isinstance(test, (Expr, Sliced, IterVar, Weak)):
        raise evaluator.error(
            "a helper function cannot branch on an expression of the program",
            stmt.test,
            help="use T.if_then_else or a conditional expression, or make it a @T.macro",
        )
    return _run(evaluator, stmt.body if test else stmt.orelse)


def _loop(evaluator: Evaluator, stmt: ast.For) -> object:
    for item in evaluator.items_of(stmt.iter):
        evaluator.assign_names(stmt.target, item)
        returned = _run(evaluator, stmt.body)
        if returned is not MISSING:
            return returned
    return MISSING


def _effect(evaluator: Evaluator, stmt: ast.Expr) -> object:
    evaluator.enter_value(evaluator.eval(stmt.value))
    return MISSING


_STATEMENTS: dict[type, Callable[[Evaluator, object], object]] = by_class(
    {
        ast.Assign: _assign,
        ast.AugAssign: _augment,
        ast.If: _branch,
        ast.For: _loop,
        ast.Expr: _effect,
    }
)


class ScriptLambda:
    """A lambda of a script; calling it evaluates the body with the dialect's rules."""

    def __init__(self, evaluator: Evaluator, names: list[str], node: ast.Lambda) -> None:
        self.evaluator = evaluator
        self.names = names
        self.node = node
        self.captured = dict(evaluator.names.table)

        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        )

    def __call__(self, *args: object) -> object:
        """The value of the body. Raises TypeError for a wrong number of arguments."""
        if len(args) != len(self.names):
            raise TypeError(f"the lambda takes {len(self.names)} arguments, got {len(args)}")
        evaluator = self.evaluator
        outer = evaluator.names.table
        evaluator.names.table = {**self.captured, **dict(zip(self.names, args, strict=True))}
        try:
            with nullcontext() if evaluator.flow is None else evaluator.flow.hiding(set(self.names)):
                return evaluator.eval(self.node.body)
        finally:
            evaluator.names.table = outer
