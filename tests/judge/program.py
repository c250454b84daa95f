"""Programs as tuples: the judge's own representation, printed as scripts and run by an evaluator of plain Python integers.

Expressions (all of them int32, or a truth value)::

    ("c", value)  ("v", name)  (operator, a, b) of OPERATORS  ("cast", dtype, a)
    ("ld", buffer, (index, …))  ("call", function, (argument, …))
    ("ite", c, a, b)  ("sel", c, a, b)  ("cmp", "<", a, b)  ("and", a, b)  ("or", a, b)  ("not", a)

Statements::

    ("for", var, kind, start, stop, reduction, body)  ("while", condition, body)  ("if", condition, then, other)
    ("st", buffer, (index, …), value)  ("let", name, value)  ("ptr", name, source, form)
    ("view", name, source, dtype, shape, strides, offset)  ("alloc", name, shape, dtype, scope)
    ("break",)  ("continue",)  ("assert", condition)  ("assume", condition)
    ("block", name, (("S" or "R", iterator, binding, start, stop), …), condition or (), (init,) or (), (update,))

A source is a buffer or a pointer. The init and the update of a block are stores; the init happens where all reduction
iterators ("R") are at their starts. Nothing here is shared with the library: it sees the printed text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = [
    "LOOP_KINDS",
    "OPERATORS",
    "SIZES",
    "Buf",
    "Place",
    "Program",
    "Text",
    "print_program",
    "statements",
]

Expr = tuple[Any, ...]
Stmt = tuple[Any, ...]

SIZES = {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8}
"""Bytes of an element."""

LOOP_KINDS = {"serial": "T.serial", "parallel": "T.parallel", "vectorized": "T.vectorized", "unroll": "T.unroll"}

OPERATORS = {
    "+": "{} + {}", "-": "{} - {}", "*": "{} * {}", "//": "{} // {}", "%": "{} % {}",
    "tdiv": "T.truncdiv({}, {})", "tmod": "T.truncmod({}, {})", "min": "T.min({}, {})", "max": "T.max({}, {})",
    "&": "T.bitwise_and({}, {})", "|": "T.bitwise_or({}, {})", "^": "T.bitwise_xor({}, {})",
    "<<": "T.shift_left({}, {})", ">>": "T.shift_right({}, {})",
}  # fmt: skip


@dataclass(frozen=True)
class Buf:
    """A buffer parameter; an extent, stride or offset is a number or the name of a symbol or an expression of scalars."""

    name: str
    shape: tuple[Any, ...]
    dtype: str = "int32"
    strides: tuple[Any, ...] = ()
    offset: Any = 0


@dataclass(frozen=True)
class Program:
    """Parameters (buffers, scalars), private functions (name, parameters, value), and the statements."""

    params: tuple[Buf, ...]
    body: tuple[Stmt, ...]
    scalars: tuple[str, ...] = ()
    functions: tuple[tuple[str, tuple[str, ...], Expr], ...] = ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names in shapes and strides that are no scalar parameters, in order."""
        found: dict[str, None] = {}
        for buf in self.params:
            for part in (*buf.shape, *buf.strides, buf.offset):
                if isinstance(part, str) and part.isidentifier() and part not in self.scalars:
                    found[part] = None
        return tuple(found)


@dataclass(frozen=True)
class Place:
    """An access of the program: its number, line and column (from 1) in the text."""

    line: int
    column: int
    is_write: bool


@dataclass(frozen=True)
class Text:
    """The script of a program and where its accesses stand, by their numbers in the order of the text."""

    text: str
    places: tuple[Place, ...]


_MARK = re.compile("\x01(\\d+)([rw])\x02")


def print_program(program: Program) -> Text:
    """The script of a program; accesses are numbered as :mod:`tests.judge.evaluate` numbers them."""
    return _Printer(program).made()


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements, outer ones first."""
    for stmt in body:
        yield stmt
        if stmt[0] == "block":
            yield from (*stmt[4], *stmt[5])
        for part in stmt:
            if isinstance(part, tuple) and part and isinstance(part[0], tuple) and stmt[0] in ("for", "while", "if"):
                yield from statements(part)


class _Printer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.count = 0
        self.pointers: set[str] = set()
        self.narrow = {buf.name: buf.dtype for buf in program.params if buf.dtype != "int32"}

    def made(self) -> Text:
        program = self.program
        depth = 0
        if program.functions:
            self.lines += ["@I.ir_module", "class Module:"]
            depth = 1
            for name, params, value in program.functions:
                typed = ", ".join(f"{param}: T.int32" for param in params)
                self.line(1, "@T.prim_func(private=True)")
                self.line(1, f"def {name}({typed}) -> T.int32:")
                self.line(2, f"return {self.expr(value)}")
        given = [self.param(buf) for buf in program.params] + [f"{name}: T.int32" for name in program.scalars]
        self.line(depth, "@T.prim_func")
        self.line(depth, f"def main({', '.join(given)}):")
        self.body(depth + 1, program.body)
        return self._placed()

    def _placed(self) -> Text:
        places: dict[int, Place] = {}
        clean = []
        for number, line in enumerate(self.lines, 1):
            while (found := _MARK.search(line)) is not None:
                places[int(found[1])] = Place(number, found.start() + 1, found[2] == "w")
                line = line[: found.start()] + line[found.end() :]
            clean.append(line)
        return Text("\n".join(clean) + "\n", tuple(places[n] for n in range(len(places))))

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def param(self, buf: Buf) -> str:
        more = f", strides={_tuple(buf.strides)}" if buf.strides else ""
        more += f", elem_offset={_quoted(buf.offset)}" if buf.offset else ""
        return f'{buf.name}: T.Buffer({_tuple(buf.shape)}, "{buf.dtype}"{more})'

    def body(self, depth: int, stmts: tuple[Stmt, ...]) -> None:
        for stmt in stmts:
            self.stmt(depth, stmt)
        if not stmts:
            self.line(depth, "T.evaluate(0)")

    def stmt(self, depth: int, stmt: Stmt) -> None:
        getattr(self, f"stmt_{stmt[0]}")(depth, *stmt[1:])

    def stmt_for(self, depth: int, var: str, kind: str, start: Expr, stop: Expr, reduction: bool, body: Any) -> None:
        more = ', annotations={"tir.reduction": True}' if reduction else ""
        self.line(depth, f"for {var} in {LOOP_KINDS[kind]}({self.expr(start)}, {self.expr(stop)}{more}):")
        self.body(depth + 1, body)

    def stmt_while(self, depth: int, condition: Expr, body: Any) -> None:
        self.line(depth, f"while {self.expr(condition)}:")
        self.body(depth + 1, body)

    def stmt_if(self, depth: int, condition: Expr, then: Any, other: Any) -> None:
        self.line(depth, f"if {self.expr(condition)}:")
        self.body(depth + 1, then)
        if other:
            self.line(depth, "else:")
            self.body(depth + 1, other)

    def stmt_st(self, depth: int, buffer: str, indices: Any, value: Expr) -> None:
        # Numbered as it runs: the subscripts' loads, the value's, the store.
        at = ", ".join(self.expr(index) for index in indices)
        stored = self.expr(value)
        if buffer in self.narrow:
            stored = f'T.Cast("{self.narrow[buffer]}", {stored})'
        self.line(depth, f"{self.mark('w')}{buffer}[{at}] = {stored}")

    def stmt_let(self, depth: int, name: str, value: Expr) -> None:
        self.line(depth, f"{name}: T.int32 = {self.expr(value)}")

    def stmt_ptr(self, depth: int, name: str, source: str, form: str) -> None:
        self.line(depth, f"{name} = {form}({self.data(source)})")
        self.pointers.add(name)

    def stmt_view(self, depth: int, name: str, source: str, dtype: str, shape: Any, strides: Any, offset: Expr) -> None:
        sizes = ", ".join(self.expr(extent) for extent in shape)
        more = f", strides=({', '.join(self.expr(stride) for stride in strides)},)" if strides else ""
        if offset != ("c", 0):
            more += f", elem_offset={self.expr(offset)}"
        self.line(depth, f'{name} = T.decl_buffer(({sizes},), "{dtype}", data={self.data(source)}{more})')
        self.declare(name, dtype)

    def stmt_alloc(self, depth: int, name: str, shape: Any, dtype: str, scope: str) -> None:
        sizes = ", ".join(map(str, shape))
        self.line(depth, f'{name} = T.alloc_buffer(({sizes},), "{dtype}", scope="{scope}")')
        self.declare(name, dtype)

    def stmt_block(self, depth: int, name: str, iters: Any, condition: Expr, init: Any, update: Any) -> None:
        self.line(depth, f'with T.block("{name}"):')
        for kind, var, value, start, stop in iters:
            axis = "T.axis.spatial" if kind == "S" else "T.axis.reduce"
            self.line(depth + 1, f"{var} = {axis}(({self.expr(start)}, {self.expr(stop)}), {self.expr(value)})")
        if condition:
            self.line(depth + 1, f"T.where({self.expr(condition)})")
        if init:
            self.line(depth + 1, "with T.init():")
            self.body(depth + 2, init)
        self.body(depth + 1, update)

    def stmt_break(self, depth: int) -> None:
        self.line(depth, "break")

    def stmt_continue(self, depth: int) -> None:
        self.line(depth, "continue")

    def stmt_assert(self, depth: int, condition: Expr) -> None:
        self.line(depth, f'assert {self.expr(condition)}, "no"')

    def stmt_assume(self, depth: int, condition: Expr) -> None:
        self.line(depth, f"T.assume({self.expr(condition)})")

    def declare(self, name: str, dtype: str) -> None:
        if dtype != "int32":
            self.narrow[name] = dtype

    def data(self, source: str) -> str:
        return source if source in self.pointers else f"{source}.data"

    def mark(self, kind: str) -> str:
        self.count += 1
        return f"\x01{self.count - 1}{kind}\x02"

    def expr(self, expr: Expr) -> str:
        kind = expr[0]
        if kind == "c":
            return str(expr[1]) if expr[1] >= 0 else f"({expr[1]})"
        if kind == "v":
            return str(expr[1])
        if kind == "cast":
            return f'T.Cast("int32", T.Cast("{expr[1]}", {self.expr(expr[2])}))'
        if kind == "ld":
            at = ", ".join(self.expr(index) for index in expr[2])
            text = f"{self.mark('r')}{expr[1]}[{at}]"
            return f'T.Cast("int32", {text})' if expr[1] in self.narrow else text
        if kind == "call":
            return f"Module.{expr[1]}({', '.join(self.expr(arg) for arg in expr[2])})"
        rule = _FORMS.get(kind)
        if rule is not None:
            return rule(*(self.expr(part) for part in expr[1:]))
        if kind == "cmp":
            return f"({self.expr(expr[2])} {expr[1]} {self.expr(expr[3])})"
        text = OPERATORS[kind].format(self.expr(expr[1]), self.expr(expr[2]))
        return text if OPERATORS[kind].startswith("T.") else f"({text})"


_FORMS: dict[str, Callable[..., str]] = {
    "ite": lambda c, a, b: f"T.if_then_else({c}, {a}, {b})",
    "sel": lambda c, a, b: f"T.Select({c}, {a}, {b})",
    "and": lambda a, b: f"({a} and {b})",
    "or": lambda a, b: f"({a} or {b})",
    "not": lambda a: f"(not {a})",
}


def _quoted(part: Any) -> str:
    return str(part) if isinstance(part, int) else f'"{part}"'


def _tuple(parts: tuple[Any, ...]) -> str:
    return f"({', '.join(map(_quoted, parts))},)"
