"""Statements of a script: the function, its parameters, loops, blocks, assignments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import cast

from tirlower.diagnostics import ScriptError, Span, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterVar
from tirlower.ir.dtype import HANDLE, DataType, PointerType
from tirlower.ir.expr import Call, Expr, ExprLike, IntImm, StringImm, Var, as_expr, const
from tirlower.ir.func import Origin, PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.stmt import Assert, Block, Evaluate, IfThenElse, Stmt, While
from tirlower.script.blocks import implicit_root
from tirlower.script.buffers import BufferSpec, parameter_buffer
from tirlower.script.builder import FunctionState, Level, body_of
from tirlower.script.forms import Frame, Sliced, is_number, type_of_annotation
from tirlower.script.loops import LoopFrame, python_range
from tirlower.script.parse_assign import Assignments
from tirlower.script.python_words import sequence_of
from tirlower.script.rebind import ROUNDS, MacroRebinds, Rebinding
from tirlower.script.rebind_names import rebound_names
from tirlower.script.rebind_trace import Jump, Loop, Sequence
from tirlower.script.scope import MISSING, Names, activate, deactivate
from tirlower.script.spans import describe, kind_of
from tirlower.script.statement_forms import leave_loop
from tirlower.script.weak import Weak

__all__ = ["Parser"]

_SYMBOLIC = (Expr, Sliced, IterVar, Weak)
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Assert, ast.Return)
_JUMPS = {"tir.break_loop": "break", "tir.continue_loop": "continue", "tir.ret": "return"}
_IF_PATHS = ("where this condition holds", "where this condition does not hold")

MAX_ITEMS = 4096
"""The items of a Python sequence that a loop is unrolled over."""


class Parser(Assignments):
    """Parses the body of a function, statement by statement, into the IR."""

    # Functions

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
                flow.failed(stmt, self.span)

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


_STMT: dict[type, Callable[[object, object], None]] = {
    getattr(ast, name.removeprefix("stmt_")): getattr(Parser, name) for name in dir(Parser) if name.startswith("stmt_")
}


def _own_jumps(stmts: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The ``break`` and ``continue`` statements that belong to the loop around some statements."""
    for stmt in stmts:
        if isinstance(stmt, (ast.Break, ast.Continue)):
            yield stmt
        elif isinstance(stmt, (ast.If, ast.With)):
            yield from _own_jumps(stmt.body)
            yield from _own_jumps(getattr(stmt, "orelse", []))
