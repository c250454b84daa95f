"""A program as the text of a Python function, which records each access: what :mod:`tests.judge.evaluate` runs.

Names of the program have prefixes: ``v_`` variables, ``b_`` buffers, ``m_`` the memory (a number) of a buffer or pointer,
``f_`` functions. Accesses are numbered as they stand, and so are places (statements).

Loop variables, the symbols of shapes and what is computed from them are indices: they are the numbers that they are. All
else is data, and wraps; so does an index where data is computed from it, where it is stored and where it is passed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from tests.judge.arithmetic import chosen, folded, is_zero, known, literal
from tests.judge.program import Expr, Program, Stmt, statements

__all__ = ["INIT", "translated"]

INIT = "init of "
"""What the update of a block's init begins with, before the operation of the block."""

_CHAINS = {"+": "sum", "-": "sum", "*": "product", "min": "min", "max": "max", "&": "and", "|": "or", "^": "xor"}
_CLASSES = {"sum": ("+", "-"), "product": ("*",), "min": ("min",), "max": ("max",)}


def _update_of(buffer: str, at: Any, value: Expr) -> tuple[str, list[Expr]] | None:
    """Of ``x = x op …``, the operation and the loads of x itself (the objects); None of another store.

    One load but for minima and maxima, which a repetition does not change: ``x = max(x, x)``.
    """
    own = buffer, tuple(map(folded, at))
    value = chosen(value)
    name = _CHAINS.get(value[0])
    if name is None:
        return None
    if name in ("and", "or", "xor"):
        leaves = [(chosen(value[1]), True), (chosen(value[2]), True)]
    else:
        leaves = []
        stack = [(value, True)]
        while stack:
            op, plus = stack.pop()
            op = chosen(op)
            if op[0] in _CLASSES[name]:
                stack += [(op[1], plus), (op[2], plus if op[0] != "-" else not plus)]
            else:
                leaves.append((op, plus))
    mine = [leaf for leaf, plus in leaves if _element(leaf) == own and plus]
    neutral = {"sum": 0, "product": 1}.get(name)
    if neutral is not None and len(leaves) == 2 and any(literal(leaf) == neutral for leaf, _ in leaves):
        return None  # `x = x + 0` is `x = x`
    once = len(mine) == 1 or (mine and name in ("min", "max"))
    if once and all(_element(leaf) != own or plus for leaf, plus in leaves):
        return name, mine
    return None


def _element(expr: Expr) -> tuple[str, Any] | None:
    """What a load reads; None of others."""
    return (expr[1], tuple(map(folded, expr[2]))) if expr[0] == "ld" else None


_RULES = {
    "//": "floor_div", "%": "floor_mod", "tdiv": "trunc_div", "tmod": "trunc_mod", "<<": "shift_left",
    ">>": "shift_right", "min": "min", "max": "max",
}  # fmt: skip
_BITS = ("&", "|", "^")


def translated(program: Program) -> tuple[str, frozenset[str]]:
    """The text of ``run(at, sizes, buffers)`` and the names of the parameters whose memory is kept by bytes."""
    made = _Translator(program)
    return made.text, frozenset(buf.name for buf in program.params if made.roots[buf.name] in made.bytewise)


class _Translator:
    def __init__(self, program: Program) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.place = 0
        self.count = 0
        self.update = ""
        self.own: list[Expr] = []
        self.begins = ""
        self.around: list[tuple[str, int]] = []
        """The loops around: their variable ("" of a while) and place."""
        self.dtypes = {buf.name: buf.dtype for buf in program.params}
        self.roots = {buf.name: buf.name for buf in program.params}
        """The parameter or allocation that a buffer or pointer is of."""
        self.bytewise: set[str] = set()
        self.indices: set[str] = set(program.symbols) | _sizes(program)
        self.declared(program)
        for name in (*program.scalars, *program.symbols):
            self.line(f"v_{name} = sizes[{name!r}]")
        for at, buf in enumerate(program.params):
            self.line(f"m_{buf.name} = {at}; b_{buf.name} = buffers[{at}]")
        self.block(program.body)
        head = ["def run(at, sizes, buffers):", *self.functions(program)]
        self.text = "\n".join([*head, *self.lines]) + "\n"

    def declared(self, program: Program) -> None:
        """The types of all buffers and what they are of."""
        for stmt in statements(program.body):
            if stmt[0] in ("view", "ptr"):
                self.roots[stmt[1]] = self.roots.get(stmt[2], stmt[2])
            elif stmt[0] == "alloc":
                self.roots[stmt[1]] = stmt[1]
            if stmt[0] in ("view", "alloc"):
                self.dtypes[stmt[1]] = stmt[3]
        self.bytewise = {self.roots[name] for name, dtype in self.dtypes.items() if dtype != "int32"}

    def functions(self, program: Program) -> Iterator[str]:
        self.indices = set()  # what a function is given is data
        for name, params, value in program.functions:
            yield f" def f_{name}({', '.join(f'v_{param}' for param in params)}): return {self.data(value)}"

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    # Statements

    def block(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            self.place += 1
            getattr(self, f"stmt_{stmt[0]}")(self.place, *stmt[1:])
        if not body:
            self.line("pass")

    def inside(self, body: tuple[Stmt, ...]) -> None:
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def iteration(self, var: str, name: str, value: str, place: int) -> None:
        loops = f"(*loops{place}, ({name!r}, {value}, n{place}))"
        self.line(f" at.move({loops}, (*path{place}, {place}, n{place}))")
        self.around.append((var, place))

    def stmt_for(self, place: int, var: str, kind: str, start: Expr, stop: Expr, _: bool, inner: Any) -> None:
        first, last = self.expr(start), self.expr(stop)
        self.indices.add(var)
        self.line(f"first{place} = {first}; last{place} = {last}; loops{place} = at.loops; path{place} = at.path")
        self.line(f"for n{place}, v_{var} in enumerate(range(first{place}, last{place})):")
        self.iteration(var, var, f"v_{var}", place)
        self.inside(inner)
        self.around.pop()
        self.line(f"at.loops = loops{place}; at.path = path{place}")

    def stmt_while(self, place: int, condition: Expr, inner: Any) -> None:
        self.line(f"n{place} = -1; loops{place} = at.loops; path{place} = at.path")
        self.line("while True:")
        self.line(f" n{place} += 1")
        self.iteration("", f"while {place}", f"n{place}", place)
        self.line(f" if not {self.expr(condition)}: break")
        self.inside(inner)
        self.around.pop()
        self.line(f"at.loops = loops{place}; at.path = path{place}")

    def stmt_if(self, place: int, condition: Expr, then: Any, other: Any) -> None:
        self.line(f"if {self.expr(condition)}:")
        self.inside(then)
        if other:
            self.line("else:")
            self.inside(other)

    def stmt_block(self, place: int, name: str, iters: Any, condition: Expr, init: Any, update: Any) -> None:
        for kind, var, value, start, _ in iters:
            self.line(f"v_{var} = {self.expr(value)}")
            self.indices.add(var)
            if kind == "R":
                self.line(f"first_{var} = {self.expr(start)}")
        self.line(f"if {self.expr(condition)}:" if condition else "if True:")
        self.depth += 1
        if init:
            found = _update_of(*update[0][1:])
            self.begins = "" if found is None or init[0][1] != update[0][1] else f"{INIT}{found[0]}"
            self.line(f"if {' and '.join(f'v_{it[1]} == first_{it[1]}' for it in iters if it[0] == 'R') or 'True'}:")
            self.inside(init)
            self.begins = ""
        self.block(update)
        self.depth -= 1

    def stmt_st(self, place: int, name: str, at: Any, value: Expr) -> None:
        found = _update_of(name, at, value)
        indices = [self.expr(index) for index in at]
        self.update, self.own = found if found is not None else ("", [])
        stored = self.data(value)
        update, self.update, self.own = self.begins or self.update, "", []
        number = self.number()
        self.line(f"b_{name}.store({number}, {place}, {update!r}, ({', '.join(indices)},), {stored})")

    def stmt_let(self, place: int, name: str, value: Expr) -> None:
        self.line(f"v_{name} = {self.expr(value)}")
        (self.indices.add if self.is_index(value) else self.indices.discard)(name)

    def stmt_ptr(self, place: int, name: str, source: str, form: str) -> None:
        self.line(f"m_{name} = m_{source}")

    def stmt_view(self, place: int, name: str, source: str, dtype: str, shape: Any, strides: Any, offset: Expr) -> None:
        sizes = [self.expr(part) for part in shape]
        steps = [self.expr(part) for part in strides]
        begin = self.expr(offset)
        self.line(f"m_{name} = m_{source}")
        self.line(
            f"b_{name} = at.buffer({self.kept(name)}, m_{name}, {dtype!r}, [{', '.join(sizes)}], "
            f"[{', '.join(steps)}], {begin})"
        )

    def stmt_alloc(self, place: int, name: str, shape: Any, dtype: str, scope: str) -> None:
        self.line(f"m_{name} = at.allocate({tuple(shape)}, {dtype!r})")
        self.line(f"b_{name} = at.buffer({self.kept(name)}, m_{name}, {dtype!r}, {list(shape)}, [], 0)")

    def kept(self, name: str) -> bool:
        """Whether the memory of a buffer is kept by bytes."""
        return self.roots.get(name, name) in self.bytewise

    def stmt_break(self, place: int) -> None:
        if not self.around:
            self.line("raise Meaningless('a jump outside of loops')")
            return
        var, of = self.around[-1]
        if var:
            self.line(f"at.run.left.add({var!r} if v_{var} + 1 < last{of} else {var + ' at its end'!r})")
        self.line("break")

    def stmt_continue(self, place: int) -> None:
        self.line("continue" if self.around else "raise Meaningless('a jump outside of loops')")

    def stmt_assert(self, place: int, condition: Expr) -> None:
        self.line(f"if not {self.expr(condition)}: raise Stopped")

    def stmt_assume(self, place: int, condition: Expr) -> None:
        self.line(f"if not {self.expr(condition)}: raise Meaningless('an assumption that does not hold')")

    # Accesses

    def number(self) -> int:
        self.count += 1
        return self.count - 1

    def load(self, expr: Expr) -> str:
        update = self.update if any(expr is own for own in self.own) else ""
        saved = self.update, self.own
        self.update, self.own = "", []
        indices = [self.expr(index) for index in expr[2]]
        self.update, self.own = saved
        number = self.number()
        return f"b_{expr[1]}.load({number}, {self.place}, {update!r}, {', '.join(indices)})"

    # Expressions

    def expr(self, expr: Expr) -> str:
        """The text of an expression; accesses are counted in the parts too that the script drops."""
        text = self.parts(expr)
        return str(known(expr)) if expr[0] in ("and", "or", "not") and known(expr) is not None else text

    def parts(self, expr: Expr) -> str:
        kind = expr[0]
        if kind == "c":
            return str(expr[1]) if expr[1] >= 0 else f"({expr[1]})"
        if kind == "v":
            return f"v_{expr[1]}"
        if kind == "ld":
            return self.load(expr)
        if kind == "cast":
            return f"wrap(narrow({self.expr(expr[2])}, {expr[1]!r}))"
        if kind == "call":
            return f"f_{expr[1]}({', '.join([self.data(arg) for arg in expr[2]])})"
        if kind == "not":
            return f"(not {self.expr(expr[1])})"
        if kind in ("cmp", "and", "or"):
            return f"({self.expr(expr[-2])} {expr[1] if kind == 'cmp' else kind} {self.expr(expr[-1])})"
        exact = self.is_index(expr)
        of = self.expr if exact else self.data
        if kind in ("ite", "sel"):
            c, x, y = self.expr(expr[1]), of(expr[2]), of(expr[3])
            return f"({x} if {c} else {y})" if kind == "ite" else f"select({c}, {x}, {y})"
        a, b = of(expr[1]), of(expr[2])
        if is_zero(expr):
            return "0"
        if kind in _BITS:
            return f"({a} {kind} {b})"
        positive = kind in ("//", "%") and expr[2][0] == "c" and expr[2][1] > 0
        text = f"{_RULES[kind]}({a}, {b})" if kind in _RULES and not positive else f"({a} {kind} {b})"
        return text if exact or positive else f"wrap{text if text[0] == '(' else f'({text})'}"

    def data(self, expr: Expr) -> str:
        """The text of an expression whose value is data from here on."""
        text = self.expr(expr)
        return f"wrap({text})" if self.is_index(expr) and expr[0] != "c" else text

    def is_index(self, expr: Expr) -> bool:
        """Whether an expression is computed from indices and numbers alone, by arithmetic."""
        kind = expr[0]
        if kind == "c" or is_zero(expr):
            return True
        if kind == "v":
            return expr[1] in self.indices
        if kind in ("ite", "sel"):
            return self.is_index(expr[2]) and self.is_index(expr[3])
        if kind == "cast":
            return self.is_index(expr[2])
        if kind in ("ld", "call", "cmp", "and", "or", "not"):
            return False
        return self.is_index(expr[1]) and self.is_index(expr[2])


def _sizes(program: Program) -> set[str]:
    """The scalars that extents of parameters are sums and products of."""
    names: set[str] = set()
    for buf in program.params:
        for part in buf.shape:
            open_parts = [ast.parse(part, mode="eval").body] if isinstance(part, str) else []
            while open_parts:
                node = open_parts.pop()
                if isinstance(node, ast.Name):
                    names.add(node.id)
                elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
                    open_parts += [node.left, node.right]
    return names
