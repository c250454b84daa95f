"""Extents of arrays as calls compute them: numbers, symbols, and compound expressions of symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tirlower.diagnostics import LoweringError
from tirlower.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
    wrap_int,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import post_order_visit
from tirlower.ir.op import Op
from tirlower.ir.stmt import Evaluate

__all__ = ["Compound", "Extent", "Sym", "compound", "extent_of", "extent_text", "names_in"]

IF: Final = Op.get("tir.if_then_else")
LIKELY: Final = Op.get("tir.likely")
SHL: Final = Op.get("tir.shift_left")
SHR: Final = Op.get("tir.shift_right")
AND: Final = Op.get("tir.bitwise_and")
OR: Final = Op.get("tir.bitwise_or")
XOR: Final = Op.get("tir.bitwise_xor")
_RET: Final = Op.get("tir.ret")
_OPERATIONS: Final = frozenset((IF, LIKELY, SHL, SHR, AND, OR, XOR))
_KINDS: Final[frozenset[type]] = frozenset(
    (IntImm, Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, Select, Cast, And, Or, Not, EQ, NE, LT, LE, GT, GE)
)


@dataclass(frozen=True, slots=True)
class Sym:
    """A symbolic dimension, or an integer scalar parameter of that name, standing bare; ``dtype`` int32 or int64."""

    name: str
    dtype: str = "int64"

    @property
    def text(self) -> str:
        """The symbol as messages show it."""
        return self.name

    @property
    def names(self) -> tuple[str, ...]:
        """The symbols that it reads: itself."""
        return (self.name,)

    def evaluate(self, env: Mapping[str, int]) -> int:
        """Its value."""
        return env[self.name]


@dataclass(frozen=True, slots=True, eq=False)
class Compound:
    """An expression of symbols that is checked and never solved, like the ``n * 2`` of a shape.

    ``variables`` has the name of the symbol or scalar parameter behind each variable, in the order in which ``expr``
    reads them; ``nodes`` (derived) are the expression's, operands first, and ``strange`` one of them that is no arithmetic
    of integers, if there is one.
    """

    expr: Expr
    variables: Mapping[Var, str]
    nodes: tuple[Any, ...] = field(init=False)
    strange: Any = field(init=False)

    def __post_init__(self) -> None:
        nodes: list[Any] = []
        post_order_visit(self.expr, nodes.append)
        object.__setattr__(self, "nodes", tuple(nodes))
        strange = (node for node in nodes if not (node.__class__ is Var or _is_integral(node)))
        object.__setattr__(self, "strange", next(strange, None))

    @property
    def text(self) -> str:
        """The expression as messages show it."""
        return str(self.expr)

    @property
    def names(self) -> tuple[str, ...]:
        """The symbols that it reads."""
        return tuple(dict.fromkeys(self.variables.values()))

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value. Raises ZeroDivisionError where it has none, and OverflowError where it leaves its type."""
        if self.strange is not None:
            return self._interpreted(env)
        done: dict[int, int | ArithmeticError] = {}
        for node in self.nodes:
            if node.__class__ is Var:
                done[id(node)] = int(env[self.variables[node]])
            elif node.__class__ is IntImm:
                done[id(node)] = node.value
            else:
                done[id(node)] = _combined(node, [done[id(child)] for child in node.children()])
        result = done[id(self.expr)]
        if isinstance(result, ArithmeticError):
            raise result
        return result

    def _interpreted(self, env: Mapping[str, int]) -> int:
        # What has more in it is rare, and not worth the import before.
        from tirlower.interp.interpreter import Interpreter

        body = Evaluate(Call(_RET, (self.expr,), self.expr.dtype))
        func = PrimFunc(tuple(self.variables), {}, self.expr.dtype, {"global_symbol": "value"}, body)
        return int(Interpreter(func).call("value", *[env[name] for name in self.variables.values()]))


Extent: TypeAlias = int | Sym | Compound


def extent_text(extent: Extent) -> str:
    """An extent as messages show it."""
    return str(extent) if isinstance(extent, int) else extent.text


def names_in(extent: Extent) -> tuple[str, ...]:
    """The symbols and scalar parameters that an extent reads."""
    return () if isinstance(extent, int) else extent.names


def extent_of(expr: Expr, names: Mapping[Var, str], what: str, *, integral: bool = True) -> Extent:
    """An extent as calls take it: a number, a symbol, or a compound expression of symbols.

    ``names`` gives the symbols' names; ``what`` is how an error calls the place; ``integral`` says that machine code
    computes it, which has arithmetic of integers alone.

    Raises:
        LoweringError: the expression holds a variable that is no symbol, or something that is not computed.
    """
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return Sym(_name(expr, names, what), str(expr.dtype))
    return compound(expr, names, what, integral=integral)


def compound(expr: Expr, names: Mapping[Var, str], what: str, *, integral: bool = True) -> Compound:
    """A compound expression of symbols; the arguments are those of :func:`extent_of`, and so are the errors."""
    used: dict[Var, str] = {}

    def look(node: Any) -> None:
        if isinstance(node, Var):
            used[node] = _name(node, names, what)

    post_order_visit(expr, look)
    made = Compound(expr, used)
    if integral and made.strange is not None:
        raise LoweringError(
            f"{what} is `{expr}`, which has more in it than integer arithmetic: {type(made.strange).__name__}",
            origin="call",
            help="use + - * // % min max and comparisons of integer symbols",
        )
    return made


def _name(var: Var, names: Mapping[Var, str], what: str) -> str:
    found = names.get(var)
    if found is None:
        raise LoweringError(
            f"{what} depends on `{var.name}`, which is no parameter and no symbol of a parameter's shape",
            origin="call",
            help=f"make `{var.name}` a parameter",
        )
    return found


def _is_integral(node: Any) -> bool:
    if isinstance(node, Call):
        return node.op in _OPERATIONS
    return type(node) in _KINDS and bool(node.dtype.is_integral and node.dtype.is_scalar)


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_PYTHON: Final[dict[Any, Callable[..., int]]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: _truncated,
    Mod: lambda a, b: a - b * _truncated(a, b),
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
    And: lambda a, b: a & b,
    Or: lambda a, b: a | b,
    Not: lambda a: 1 - a,
    EQ: lambda a, b: int(a == b),
    NE: lambda a, b: int(a != b),
    LT: lambda a, b: int(a < b),
    LE: lambda a, b: int(a <= b),
    GT: lambda a, b: int(a > b),
    GE: lambda a, b: int(a >= b),
    LIKELY: lambda a: a,
    SHL: lambda a, b: a << (b & 63),
    SHR: lambda a, b: a >> (b & 63),
    AND: lambda a, b: a & b,
    OR: lambda a, b: a | b,
    XOR: lambda a, b: a ^ b,
}


def _combined(node: Any, args: list[int | ArithmeticError]) -> int | ArithmeticError:
    """What a node makes of its operands, or why it has no value: no matter where a choice does not choose it."""
    word = node.op if node.__class__ is Call else node.__class__
    if word in (IF, Select) and not isinstance(args[0], ArithmeticError):
        return args[1] if args[0] else args[2]
    values = []
    for arg in args:
        if isinstance(arg, ArithmeticError):
            return arg
        values.append(arg)
    if word is Cast:
        exact = int(values[0] != 0) if node.dtype.is_bool else values[0]
    else:
        try:
            exact = _PYTHON[word](*values)
        except ZeroDivisionError as error:
            return error
    value = wrap_int(exact, node.dtype)
    if value != exact and word in (Add, Sub, Mul) and node.dtype.is_int:
        return OverflowError(f"{node} = {exact} does not fit {node.dtype}")
    return value
