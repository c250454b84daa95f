"""Statements of a script: loops, branches, scopes of forms, assertions and jumps."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import cast

from tirlower.diagnostics import ScriptError, Span, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterVar
from tirlower.ir.expr import Call, Expr, ExprLike, IntImm, StringImm, as_expr
from tirlower.ir.op import Op
from tirlower.ir.stmt import Assert, Evaluate, IfThenElse, Stmt, While
from tirlower.script.forms import Frame, Sliced, is_number
from tirlower.script.loops import LoopFrame, python_range
from tirlower.script.parse_assign import Assignments
from tirlower.script.python_words import sequence_of
from tirlower.script.rebind import Rebinding, unknown
from tirlower.script.rebind_trace import Jump, Loop, Sequence
from tirlower.script.spans import describe, kind_of
from tirlower.script.statement_forms import leave_loop
from tirlower.script.weak import Weak

__all__ = ["Statements"]

_SYMBOLIC = (Expr, Sliced, IterVar, Weak)
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Assert, ast.Return)
_JUMPS = {"tir.break_loop": "break", "tir.continue_loop": "continue", "tir.ret": "return"}
_IF_PATHS = ("where this condition holds", "where this condition does not hold")

MAX_ITEMS = 4096
"""The items of a Python sequence that a loop is unrolled over."""


class Statements(Assignments):
    """Parses the body of a function, statement by statement, into the IR."""

    # Bodies

    def body(self, stmts: list[ast.stmt]) -> None:
        """Parse statements into the scope at hand."""
        flow = self.flow
        for stmt in stmts:
            self.current = stmt
            if flow is not None:
                self.allocate_variables(flow.statement())
            handler = _STMT.get(stmt.__class__)
            if handler is None:
                raise self.error(
                    f"{describe(stmt)} is not part of the dialect",
                    stmt,
                    help="a script has assignments, for, while, if, with, assert, return and calls of T functions",
                )
            try:
                if flow is not None and isinstance(stmt, _SIMPLE):
                    self._tolerant(handler, stmt, flow)
                else:
                    handler(self, stmt)
            except ScriptError:
                raise
            except Exception as err:
                raise self.explain(err, stmt) from err

    def _tolerant(self, handler: Callable[[object, object], None], stmt: ast.stmt, flow: Rebinding) -> None:
        """A simple statement, while types are being found: an error counts only if they turn out to be right."""
        depth, levels, scopes = flow.depth(), len(self._levels), self.names.depth
        try:
            handler(self, stmt)
        except Exception as err:
            error = err if isinstance(err, ScriptError) else self.explain(err, stmt)
            if not flow.trial and not flow.variables:
                raise error from err
            flow.error = flow.error or error
            flow.back_to(depth)
            del self._levels[levels:]
            while self.names.depth > scopes:
                self.names.pop()
            if flow.trial:
                # What it would have named, an axis say, is read further on: by a loop's header, whose errors count.
                for name in flow.failed(stmt, self.span):
                    if name not in self.names.table:
                        self.names.set(name, unknown(name))

    def emit(self, stmt: Stmt, span: Span | None = None) -> None:
        """Add a statement to the scope at hand; jumps are followed."""
        flow = self.flow
        if flow is not None and stmt.__class__ is Evaluate and isinstance(stmt.value, Call):
            kind = _JUMPS.get(getattr(stmt.value.op, "name", ""))
            if kind is not None:
                flow.add(Jump(kind))
        super().emit(stmt, span)

    def macro_body(self, stmts: list[ast.stmt]) -> object:
        """Parse the statements of a macro; the value of a final ``return``."""
        last = stmts[-1]
        if isinstance(last, ast.Return) and last.value is not None:
            self.body(stmts[:-1])
            self.current = last
            return self.eval(last.value)
        self.body(stmts)
        return None

    def stmt_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Functions do not nest."""
        raise self.error(
            "a function inside a prim_func is not part of the dialect", node, help="define it outside, or as @T.macro"
        )

    def stmt_For(self, node: ast.For) -> None:
        """A loop of the program."""
        if node.orelse:
            raise self.error("`else` of a loop is not part of the dialect", node.orelse[0])
        with self.values_only():
            frame = self._loop(node.iter)
        if isinstance(frame, list):
            self._python_loop(node, frame)
            return
        names = self._loop_names(node.target, len(frame.loops))
        span = self.span(node)
        flow = self.flow
        if flow is not None:
            place = self.span(node)
            place.end_line, place.end_col = place.line, place.col + len("for")
            loop = Loop(place)
            loop.runs = all(isinstance(one.extent, IntImm) and one.extent.value > 0 for one in frame.loops)
            flow.add(loop)
            flow.push(loop.body)
        self.open()
        values, finish = frame.start(self, names)
        self._bind_loop(node.target, values)
        self.body(node.body)
        self.emit(finish(self.close(), span), span)
        if flow is not None:
            flow.pop()

    def _python_loop(self, node: ast.For, items: list[object]) -> None:
        """A loop over a Python sequence: its body once for each item, where it stands."""
        jump = next((part for part in _own_jumps(node.body)), None)
        if jump is not None:
            raise self.error(
                "a loop over a Python sequence is unrolled, and is not left by break or continue",
                jump,
                help="put the rest of the body under an if, or loop over range and read a buffer",
            )
        if len(items) > MAX_ITEMS:
            raise self.error(
                f"a loop over a Python sequence is unrolled: {len(items)} items are more than {MAX_ITEMS}",
                node.iter,
                help="put the items into a NumPy array and read it in a loop over range",
            )
        for item in items:
            self.current = node
            self.assign_names(node.target, item, self.define)
            self.body(node.body)

    def _loop(self, node: ast.expr) -> LoopFrame | list[object]:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "range"
            and self.eval(node.func) is range
        ):
            try:
                options = {word.arg: self.eval(word.value) for word in node.keywords if word.arg is not None}
                bounds = cast("list[ExprLike]", [self.eval(arg) for arg in node.args])
                return python_range(*bounds, **cast("dict[str, dict[str, object]]", options))
            except ScriptError:
                raise
            except Exception as err:
                raise self.explain(err, node) from err
        value = self.eval(node)
        if isinstance(value, LoopFrame):
            return value
        try:
            items = sequence_of(value)
        except TirError as err:
            raise self.explain(err, node) from err
        if items is not None:
            return items
        raise self.error(
            f"a loop runs over range, T.serial, T.parallel, T.vectorized, T.unroll, T.thread_binding, T.grid or a "
            f"Python sequence, got a {type(value).__name__}",
            node,
        )

    def _loop_names(self, target: ast.expr, count: int) -> list[str]:
        if isinstance(target, ast.Name):
            return [target.id] if count == 1 else [f"{target.id}_{i}" for i in range(count)]
        if isinstance(target, (ast.Tuple, ast.List)):
            names: list[str] = []
            for part in target.elts:
                if isinstance(part, ast.Starred) and isinstance(part.value, ast.Name):
                    extra = count - (len(target.elts) - 1)
                    names += [f"{part.value.id}_{i}" for i in range(max(extra, 0))]
                elif isinstance(part, ast.Name):
                    names.append(part.id)
            if len(names) == count:
                return names
            raise self.error(f"{len(target.elts)} loop variables for {count} loops", target)
        raise self.error("a loop variable is a name", target)

    def _bind_loop(self, target: ast.expr, values: list[Expr]) -> None:
        if isinstance(target, ast.Name) and len(values) == 1:
            self.define(target, target.id, values[0])
        else:
            self.assign_names(target, values, self.define)

    def stmt_While(self, node: ast.While) -> None:
        """A loop while a condition holds."""
        if node.orelse:
            raise self.error("`else` of a loop is not part of the dialect", node.orelse[0])
        span = self.span(node)
        flow = self.flow
        if flow is None:
            condition = self._repeated(node.test)
            self.emit(While(condition, self.nested(node.body), span=span), span)
            return
        place = self.span(node)
        place.end_line, place.end_col = place.line, place.col + len("while")
        loop = Loop(place)
        flow.add(loop)
        flow.push(loop.test)
        flow.repeating += 1
        condition = self._repeated(node.test)
        flow.repeating -= 1
        flow.pop()
        loop.endless = isinstance(condition, IntImm) and condition.value != 0
        flow.push(loop.body)
        body = self.nested(node.body)
        flow.pop()
        self.emit(While(condition, body, span=span), span)

    def _repeated(self, node: ast.expr) -> Expr:
        """The condition of a while, which nothing in front of the loop can be a part of."""
        out = self._levels[-1].out
        count = len(out)
        made = self.condition(node)
        if len(out) != count:
            raise self.error(
                "the condition of a while makes statements, which would run once, before the loop",
                node,
                help="write `while True:` with `if not …: break` in it",
            )
        return made

    def condition(self, node: ast.expr) -> Expr:
        """A condition of the program."""
        value = self.eval(node)
        try:
            return build.as_bool(bool(value) if is_number(value) else cast("ExprLike", value), self.span(node))
        except ScriptError:
            raise
        except Exception as err:
            raise self.explain(err, node) from err

    def nested(self, stmts: list[ast.stmt]) -> Stmt:
        """Statements in a scope of their own, as one."""
        self.open()
        self.body(stmts)
        return self.close()

    def stmt_If(self, node: ast.If) -> None:
        """A branch: of the program, or chosen now by a Python condition."""
        # A chain of elif is walked in a loop: it may be long.
        arms: list[tuple[Expr, Stmt, ast.If]] = []
        rest: list[ast.stmt] = [node]
        flow = self.flow
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            arm = rest[0]
            self.current = arm
            test = self.eval(arm.test)
            if isinstance(test, _SYMBOLIC):
                condition = build.as_bool(test, self.span(arm.test))
                if flow is not None:
                    then_part, else_part = flow.conditional(_IF_PATHS, self.span(arm.test))
                    flow.push(then_part)
                arms.append((condition, self.nested(arm.body), arm))
                if flow is not None:
                    flow.pop()
                    flow.push(else_part)
                rest = arm.orelse
            elif isinstance(test, (Buffer, Frame)) or callable(test):
                raise self.error(f"a condition is an expression or a Python value, got {kind_of(test)}", arm.test)
            elif test:
                rest = arm.body
                break
            else:
                rest = arm.orelse
        if not arms:
            # A branch chosen now is no scope: its statements stand here, and so do its names.
            self.body(rest)
            return
        made = self.nested(rest) if rest else None
        if flow is not None:
            for _ in arms:
                flow.pop()
        for condition, then_case, arm in reversed(arms):
            made = IfThenElse(condition, then_case, made, span=self.span(arm))
        assert made is not None
        self.emit(made)

    def stmt_With(self, node: ast.With) -> None:
        """``with`` a form that opens a scope."""
        opened: list[Frame] = []
        flow = self.flow
        for item in node.items:
            frame = self.eval(item.context_expr)
            if not isinstance(frame, Frame):
                raise self.error("`with` takes a form such as T.block or T.attr", item.context_expr)
            frame.span = self.span(node)
            self.current = node
            if flow is not None:
                flow.push(Sequence())
            target = item.optional_vars
            name = target.id if isinstance(target, ast.Name) else None
            try:
                value = frame.begin(self, name)
            except ScriptError:
                raise
            except Exception as err:
                raise self.explain(err, item.context_expr) from err
            opened.append(frame)
            if target is not None:
                if value is None:
                    raise self.error(f"{frame.what} has no value to bind", target)
                if name is not None:
                    self.take_name(value, name)
                self.assign_names(target, value, self.define_form)
        self.body(node.body)
        for frame in reversed(opened):
            self.current = node
            if flow is not None:
                flow.end_with(frame.runs, self.span(node))
            frame.end(self)

    # Simple statements

    def stmt_Expr(self, node: ast.Expr) -> None:
        """An expression evaluated for its effects, or a form."""
        value = self.eval(node.value)
        if value is None or isinstance(value, str) or value is Ellipsis:
            return
        if isinstance(value, Frame):
            value.enter(self, None)
        elif isinstance(value, (Stmt, *_SYMBOLIC, int, float)):
            self.emit(value if isinstance(value, Stmt) else Evaluate(as_expr(value)))
        elif isinstance(value, LoopFrame):
            raise self.error("a loop needs a body", node, help="write `for i in …:`")
        else:
            raise self.error(f"this statement has no effect: it is a {type(value).__name__}", node)

    def stmt_Assert(self, node: ast.Assert) -> None:
        """``assert condition, "message"``."""
        condition = self.condition(node.test)
        message = "" if node.msg is None else self.eval(node.msg)
        if not isinstance(message, (str, StringImm)):
            raise self.error("the message of an assertion is a string", node.msg)
        self.emit(Assert(condition, as_expr(message)))

    def stmt_Return(self, node: ast.Return) -> None:
        """``return value``: the same as ``T.ret(value)``."""
        value = None if node.value is None else self.eval(node.value)
        if value is None and isinstance(node.value, ast.Call):
            raise self.error(
                f"{ast.unparse(node.value.func)} has no value to return",
                node,
                help="write it on a line of its own, then `return`",
            )
        ret = Op.get("tir.ret")
        if isinstance(value, Call) and value.op is ret:
            made: Expr = value
        else:
            stated = None if self.func is None else self.func.ret_type
            if value is not None and stated is not None and stated.is_scalar and not stated.is_handle:
                # Converted as a store is, within the kinds of numbers.
                value = self.convert(value, stated, "the value that the function returns")
            made = build.call("tir.ret") if value is None else build.call("tir.ret", as_expr(value))
        made.span = self.here()
        self.emit(Evaluate(made))

    def stmt_Break(self, node: ast.Break) -> None:
        """``break``."""
        self.emit(leave_loop("break"))

    def stmt_Continue(self, node: ast.Continue) -> None:
        """``continue``."""
        self.emit(leave_loop("continue"))

    def stmt_Pass(self, node: ast.Pass) -> None:
        """``pass``: nothing."""


_STMT: dict[type, Callable[[object, object], None]] = {
    getattr(ast, name.removeprefix("stmt_")): getattr(Statements, name)
    for name in dir(Statements)
    if name.startswith("stmt_")
}


def _own_jumps(stmts: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The ``break`` and ``continue`` statements that belong to the loop around some statements."""
    for stmt in stmts:
        if isinstance(stmt, (ast.Break, ast.Continue)):
            yield stmt
        elif isinstance(stmt, (ast.If, ast.With)):
            yield from _own_jumps(stmt.body)
            yield from _own_jumps(getattr(stmt, "orelse", []))
