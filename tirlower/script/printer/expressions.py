"""Expressions as text.

One stack for a whole expression, so that a chain of any length is printed without recursion. An operator is printed
as an operator where the parser makes the same node of it; where it would fold (``1 + 2``, ``x * 1``), or where the
dialect has no operator, the node's constructor is printed (``T.Add(1, 2)``). The functions that the parser calls are
asked, so the two cannot come apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir import expr as nodes
from tirlower.ir.buffer import Buffer
from tirlower.ir.build import BinaryBuilder
from tirlower.ir.cancel import span_difference
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Binary, BufferLoad, Call, Expr, FloatImm, IntImm, Let, Ramp, StringImm, Var
from tirlower.ir.functor import by_class
from tirlower.ir.op import GlobalVar, Op
from tirlower.script.printer.document import CLOSE, Piece, open_mark
from tirlower.script.printer.literals import bare_text, imm_text, new_var, plain_text, string_text
from tirlower.script.printer.names import Names
from tirlower.script.printer.style import USUAL, Style

__all__ = ["ExprPrinter"]

# Python's precedence of what is printed; higher binds tighter.
OR, AND, NOT, COMPARE, SUM, PRODUCT, UNARY, ATOM = range(1, 9)

_OPERATORS: dict[type, tuple[str, int, BinaryBuilder]] = {
    nodes.Add: (" + ", SUM, build.add),
    nodes.Sub: (" - ", SUM, build.sub),
    nodes.Mul: (" * ", PRODUCT, build.mul),
    nodes.FloorDiv: (" // ", PRODUCT, build.floordiv),
    nodes.FloorMod: (" % ", PRODUCT, build.floormod),
    nodes.EQ: (" == ", COMPARE, build.eq),
    nodes.NE: (" != ", COMPARE, build.ne),
    nodes.LT: (" < ", COMPARE, build.lt),
    nodes.LE: (" <= ", COMPARE, build.le),
    nodes.GT: (" > ", COMPARE, build.gt),
    nodes.GE: (" >= ", COMPARE, build.ge),
    nodes.And: (" and ", AND, build.logical_and),
    nodes.Or: (" or ", OR, build.logical_or),
}

_FUNCTIONS: dict[type, tuple[str, BinaryBuilder]] = {
    nodes.Min: ("min", build.min_),
    nodes.Max: ("max", build.max_),
    nodes.Mod: ("truncmod", build.truncmod),
}

_CONSTANTS = (IntImm, FloatImm, nodes.Broadcast)
_DTYPE_LAST = frozenset(("tvm_struct_get", "tvm_thread_context", "tvm_thread_invariant"))


def _keeps(op: Expr, build_it: BinaryBuilder) -> TypeGuard[Binary]:
    """Whether the parser's function makes this very node of the operands."""
    if TYPE_CHECKING:
        assert isinstance(op, Binary)
    a, b = op.a, op.b
    if a is not b and not isinstance(a, _CONSTANTS) and not isinstance(b, _CONSTANTS):
        return not (op.dtype.is_float and op.__class__ in (nodes.FloorDiv, nodes.FloorMod, nodes.Mod))
    if a.__class__ is IntImm and b.__class__ is IntImm:
        return False  # what stands between two numbers Python computes itself
    try:
        made = build_it(a, b)
    except (TirError, ArithmeticError, ValueError):
        return False
    if TYPE_CHECKING:
        assert isinstance(made, Binary)
    return made.__class__ is op.__class__ and made.a is a and made.b is b


class _LetStep:
    """A mark on the stack: before the body of a Let its variable is named, after it the name is free again."""

    __slots__ = ("let", "name")

    def __init__(self, let: Let) -> None:
        self.let = let
        self.name = ""


Item: TypeAlias = Piece | tuple[Expr, int]
"""What is still to be printed: a part of the text, or an expression with the precedence that it needs."""
Printed: TypeAlias = tuple[int, list[Item | _LetStep]]
"""How tight a text binds, and its items."""


class ExprPrinter:
    """Prints expressions under the names of a table.

    ``lookup`` finds functions of the dialect by name (as ``T.exp``), to ask whether a call means what it should.
    What has no name yet is named at its first use and reported to ``undefined``. ``prelude`` collects the variables
    of Lets (name and constructor), which a script declares before the statement.
    """

    def __init__(
        self, names: Names, lookup: Callable[[str], object], marks: bool = False, style: Style = USUAL
    ) -> None:
        self.names = names
        self.lookup = lookup
        self.marks = marks
        self.style = style
        self.prelude: dict[str, str] = {}
        self.lets: dict[str, Var] = {}
        self.meta: dict[int, str] = {}
        self.undefined: Callable[[Var | Buffer], str] = self.name_free
        self.module: str | None = None
        self.ret_types: dict[str, DataType] = {}
        self.known_calls: dict[object, bool] = {}

    # Names

    def name_free(self, item: Var | Buffer) -> str:
        """Name something that nothing defines."""
        return self.names.define(item, item.name, "v" if isinstance(item, Var) else "buffer", outermost=True)

    def var(self, var: Var) -> str:
        """The text of a variable."""
        return self.names.of.get(var) or self.undefined(var)

    def buffer(self, buffer: Buffer) -> str:
        """The text of a buffer."""
        return self.names.of.get(buffer) or self.undefined(buffer)

    # Expressions

    def text(self, expr: Expr, need: int = 0) -> str:
        """The text of an expression without marks."""
        return "".join(p for p in self.pieces(expr, need) if p.__class__ is str)

    def pieces(self, root: Expr, need: int = 0, explicit: bool = False) -> list[Piece]:
        """The parts of an expression's text, in parentheses where it binds looser than ``need``.

        ``explicit`` types an int32 constant that stands alone.
        """
        if root.__class__ is IntImm:
            text = imm_text(root, explicit, self.style)
            return [open_mark(root), text, CLOSE] if self.marks else [text]
        out: list[Piece] = []
        stack: list[Item | _LetStep] = [(root, need)]
        while stack:
            item = stack.pop()
            if not isinstance(item, tuple):
                if isinstance(item, _LetStep):
                    self._let_step(item, out)
                else:
                    out.append(item)
                continue
            if len(item) == 1:
                out.append(item)
                continue
            op, need = item
            cls = op.__class__
            if self.marks:
                out.append(open_mark(op))
                stack.append(CLOSE)
            if id(op) in self.meta:
                out.append(self.meta[id(op)])
            elif op.__class__ is Var:
                out.append(self.var(op))
            elif op.__class__ is IntImm:
                out.append(imm_text(op, False, self.style))
            else:
                operator = _OPERATORS.get(cls)
                if operator is not None and _keeps(op, operator[2]):
                    sign, level, _ = operator
                    loose = level < need
                    if loose:
                        out.append("(")
                        stack.append(")")
                    stack += reversed(self.operand(op.b, level + 1, op.a))
                    stack.append(sign)
                    stack += reversed(self.operand(op.a, level + (level == COMPARE), op.b))
                else:
                    handler = _HANDLERS.get(cls)
                    level, parts = self.print_other(op) if handler is None else handler(self, op)
                    if level < need:
                        out.append("(")
                        stack.append(")")
                    stack += parts[::-1]
        return out

    def operand(self, op: Expr, need: int, other: Expr) -> Sequence[Item]:
        """Items for an operand beside ``other``, which says the type of a bare number."""
        if op.__class__ is FloatImm and other.__class__ is not FloatImm and self.is_bare(op):
            return self.mark(op, bare_text(op))
        return [(op, need)]

    def is_bare(self, op: FloatImm) -> bool:
        """Whether the style writes a float as a number, where its place says the type."""
        return op.dtype == self.style.float_dtype and math.isfinite(op.value)

    def _let_step(self, step: _LetStep, out: list[Piece]) -> None:
        if step.name:
            self.names.pop()
            out.append(f", where={{{step.name}: ")
            return
        var = step.let.var
        made = new_var(var)
        self.names.push()
        name = self.names.define(var, var.name)
        while name in self.prelude and self.lets.get(name) is not var:
            # A name of a statement stands for one variable, which a script declares before it.
            name = self.names.define(var, var.name)
        self.prelude[name] = made
        self.lets[name] = var
        step.name = name

    def arguments(self, values: Iterable[Expr], close: str = ")") -> list[Item]:
        """Items for a list of arguments."""
        items: list[Item] = []
        for value in values:
            if items:
                items.append(", ")
            items.append((value, 0))
        items.append(close)
        return items

    def print_constructor(self, op: Expr) -> Printed:
        """``T.Add(a, b)``: the node of that name, which never folds."""
        return ATOM, [f"T.{type(op).__name__}(", *self.arguments(op.children())]

    def print_min_max(self, op: Binary) -> Printed:
        """``T.min(a, b)`` and the like."""
        name, make = _FUNCTIONS[op.__class__]
        if not _keeps(op, make):
            return self.print_constructor(op)
        return ATOM, [f"T.{name}(", *self.arguments((op.a, op.b))]

    def print_div(self, op: nodes.Div) -> Printed:
        """``a / b`` of floats; of integers, ``T.Div(a, b)``, which truncates."""
        if op.dtype.is_float and _keeps(op, build.true_div):
            return PRODUCT, [*self.operand(op.a, PRODUCT, op.b), " / ", *self.operand(op.b, UNARY, op.a)]
        return self.print_constructor(op)

    def print_not(self, op: nodes.Not) -> Printed:
        """``not a``."""
        if isinstance(op.a, IntImm):
            return self.print_constructor(op)
        return NOT, ["not ", (op.a, NOT)]

    def print_float(self, op: FloatImm) -> Printed:
        """A float constant with its type."""
        return ATOM, [imm_text(op)]

    def print_string(self, op: StringImm) -> Printed:
        """A string."""
        return ATOM, [string_text(op.value)]

    def print_cast(self, op: nodes.Cast) -> Printed:
        """``T.Cast("int64", x)``."""
        return ATOM, [f'T.Cast("{op.dtype}", ', (op.value, 0), ")"]

    def print_load(self, op: BufferLoad) -> Printed:
        """``A[i, j]``; with a predicate, ``A.vload([i, j], predicate=p)``."""
        name = self.buffer(op.buffer)
        if op.predicate is None:
            return ATOM, [*self.mark(op.buffer, name), "[", *self.indices(op.indices), "]"]
        return ATOM, [
            *self.mark(op.buffer, name), ".vload([", *self.arguments(op.indices, "]"), ", predicate=",
            (op.predicate, 0), ")",
        ]  # fmt: skip

    def mark(self, node: object, text: str) -> list[Piece]:
        """A text that stands for a node."""
        return [open_mark(node), text, CLOSE] if self.marks else [text]

    def indices(self, indices: tuple[Expr, ...]) -> list[Item]:
        """Items for the indices of an access; a ramp of constant length is a slice."""
        if not indices:
            return ["()"]
        items: list[Item] = []
        for index in indices:
            if items:
                items.append(", ")
            items += self.slice_of(index) if index.__class__ is Ramp else [(index, 0)]
        return items

    def slice_of(self, op: Ramp) -> list[Item]:
        """``base:base + lanes:stride`` for a ramp, if the parser reads that as this ramp."""
        lanes, stride, base = op.lanes, op.stride, op.base
        if lanes.__class__ is not int or lanes < 2 or stride.__class__ is not IntImm or stride.value < 1:
            return [(op, 0)]
        length = IntImm(stride.dtype, lanes * stride.value) if _fits(lanes * stride.value, stride.dtype) else None
        if length is None or _is_long(base):
            return [(op, 0)]
        stop = build.add(base, length)
        found = span_difference(base, stop)
        if not isinstance(found, IntImm) or found.value != length.value:
            return [(op, 0)]
        items: list[Item] = [(base, 0), ":", (stop, 0)]
        if stride.value != 1:
            items += [":", (stride, 0)]
        return [open_mark(op), *items, CLOSE] if self.marks else items

    def print_vector(self, op: Ramp | nodes.Broadcast) -> Printed:
        """``T.Ramp(base, stride, lanes)`` and ``T.Broadcast(value, lanes)``."""
        lanes = (op.lanes, 0) if isinstance(op.lanes, Expr) else str(op.lanes)
        return ATOM, [f"T.{type(op).__name__}(", *self.arguments(op.children(), ", "), lanes, ")"]

    def print_shuffle(self, op: nodes.Shuffle) -> Printed:
        """``T.Shuffle([a, b], [0, 2])``."""
        return ATOM, ["T.Shuffle([", *self.arguments(op.vectors, "], ["), *self.arguments(op.indices, "])")]

    def print_let(self, op: Let) -> Printed:
        """``T.Let(body, where={x: value})``."""
        step = _LetStep(op)
        return ATOM, ["T.Let(", step, (op.body, 0), step, (op.value, 0), "})"]

    def print_call(self, op: Call) -> Printed:
        """``T.exp(x)`` where that makes this call; else ``T.call_intrin`` with the type and the full name."""
        target = op.op
        if isinstance(target, GlobalVar):
            return self._print_global(op, target)
        args = self.arguments(op.args)
        if not op.annotations:
            dtype = f'"{op.dtype}"'
            comma = ", " if op.args else ""
            if target.infer is not None and not target.dtype_first:
                if self._means(op, target, op.args, None):
                    return ATOM, [f"T.{target.short}(", *args]
            elif target.short in _DTYPE_LAST:
                if self._means(op, target, op.args, "last"):
                    return ATOM, [f"T.{target.short}(", *self.arguments(op.args, comma), dtype, ")"]
            elif self._means(op, target, op.args, "first"):
                return ATOM, [f"T.{target.short}({dtype}{comma}", *args]
        head = f'T.call_intrin("{op.dtype}", "{target.name}"' + (", " if op.args else "")
        if op.annotations:
            tail: list[Item] = [", annotations=", *self.attr(op.annotations), ")"]
            return ATOM, [head, *self.arguments(op.args, ""), *tail]
        return ATOM, [head, *args]

    def _print_global(self, op: Call, target: GlobalVar) -> Printed:
        if self.module is not None and not op.annotations and self.ret_types.get(target.name) == op.dtype:
            return ATOM, [f"{self.module}.{target.name}(", *self.arguments(op.args)]
        return ATOM, [
            f'T.Call("{op.dtype}", I.GlobalVar({string_text(target.name)}), [', *self.arguments(op.args, "])"),
        ]  # fmt: skip

    def _means(self, op: Call, target: Op, args: tuple[Expr, ...], dtype: str | None) -> bool:
        """Whether the dialect's function of that name makes this call."""
        plain = not any(isinstance(a, (IntImm, FloatImm, StringImm, nodes.Broadcast)) for a in args)
        key = (
            (target, op.dtype, dtype, *[a.dtype for a in args])
            if plain and len(set(map(id, args))) == len(args)
            else None
        )
        if key is not None and key in self.known_calls:
            return self.known_calls[key]
        given = [_as_written(a) for a in args]
        if dtype is not None:
            given.insert(0 if dtype == "first" else len(given), str(op.dtype))
        function = self.lookup(target.short)
        try:
            made = function(*given) if callable(function) else None
        except (TirError, TypeError, ValueError, ArithmeticError):
            made = None
        same = (
            isinstance(made, Call)
            and made.op is target
            and made.dtype is op.dtype
            and not made.annotations
            and len(made.args) == len(args)
            and all(x is y or _same_constant(x, y) for x, y in zip(made.args, args, strict=True))
        )
        if key is not None:
            self.known_calls[key] = same
        return same

    def print_other(self, op: object) -> Printed:
        """A node that the dialect does not know."""
        return ATOM, [f"<{type(op).__name__}>"]

    # Attribute values

    def attr(self, value: object) -> Sequence[Item]:
        """Items for an attribute's value."""
        text = plain_text(value)
        if text is not None:
            return [text]
        if isinstance(value, Expr):
            return [(value, 0)]
        if isinstance(value, (tuple, list)):
            items: list[Item] = ["["]
            for i, part in enumerate(value):
                items += [*[", "] * (i > 0), *self.attr(part)]
            return [*items, "]"]
        if isinstance(value, dict):
            items = ["{"]
            for i, (key, part) in enumerate(value.items()):
                items += [", "] * (i > 0) + [f"{string_text(str(key))}: ", *self.attr(part)]
            return [*items, "}"]
        return self.attr_object(value)

    def attr_object(self, value: object) -> Sequence[Item]:
        """Items for another object as an attribute's value; a statement printer knows more of them."""
        if isinstance(value, Buffer):
            return self.mark(value, self.buffer(value))
        if isinstance(value, GlobalVar):
            return [f"I.GlobalVar({string_text(value.name)})"]
        return [string_text(re.sub(r" at 0x[0-9a-f]+", "", repr(value)))]

    def attr_pieces(self, value: object) -> list[Piece]:
        """The parts of an attribute value's text."""
        return self.flatten(self.attr(value))

    def flatten(self, items: Iterable[Item]) -> list[Piece]:
        """Items (texts, marks, expressions with their precedence) as parts of text."""
        out: list[Piece] = []
        for item in items:
            if isinstance(item, tuple) and len(item) == 2:
                out += self.pieces(item[0], item[1])
            else:
                out.append(item)
        return out


def _fits(value: int, dtype: DataType) -> bool:
    return value <= dtype.max_value


def _is_long(expr: Expr) -> bool:
    """Whether an expression has over 64 nodes: it is not printed twice."""
    stack = [expr]
    for _ in range(64):
        if not stack:
            return False
        stack += stack.pop().children()
    return True


def _as_written(arg: Expr) -> Expr | int | str:
    """An argument as the parser will have it: a bare number or a string is Python's."""
    if arg.__class__ is IntImm and arg.dtype == "int32":
        return arg.value
    return arg.value if isinstance(arg, StringImm) else arg


def _same_constant(a: Expr, b: Expr) -> bool:
    if a.__class__ is not b.__class__ or not isinstance(a, (IntImm, StringImm)):
        return False
    return a.dtype is b.dtype and isinstance(b, (IntImm, StringImm)) and a.value == b.value


_HANDLERS: dict[type, Callable[[ExprPrinter, object], Printed]] = by_class(
    {
        **dict.fromkeys(_OPERATORS, ExprPrinter.print_constructor),
        **dict.fromkeys(_FUNCTIONS, ExprPrinter.print_min_max),
        nodes.Div: ExprPrinter.print_div,
        nodes.Not: ExprPrinter.print_not,
        nodes.Select: ExprPrinter.print_constructor,
        FloatImm: ExprPrinter.print_float,
        StringImm: ExprPrinter.print_string,
        nodes.Cast: ExprPrinter.print_cast,
        BufferLoad: ExprPrinter.print_load,
        Ramp: ExprPrinter.print_vector,
        nodes.Broadcast: ExprPrinter.print_vector,
        nodes.Shuffle: ExprPrinter.print_shuffle,
        Let: ExprPrinter.print_let,
        Call: ExprPrinter.print_call,
    }
)
