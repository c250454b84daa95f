"""Shape expressions for the entry: symbols, and compound expressions that it computes in machine code and in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tirlower.diagnostics import LoweringError
from tirlower.emit.llvm_text import I1, I64, Builder, Value, const, int_type, struct
from tirlower.ir.dtype import DataType
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
from tirlower.ir.functor import post_order_visit
from tirlower.ir.op import Op
from tirlower.llvm.entry import Compound, Extent, Sym

__all__ = ["compound", "extent_of"]

_IF: Final = Op.get("tir.if_then_else")
_LIKELY: Final = Op.get("tir.likely")
_SHL: Final = Op.get("tir.shift_left")
_SHR: Final = Op.get("tir.shift_right")
_AND: Final = Op.get("tir.bitwise_and")
_KINDS: Final[frozenset[type]] = frozenset(
    (IntImm, Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, Select, Cast, And, Or, Not, EQ, NE, LT, LE, GT, GE)
)
_MAY_LEAVE: Final[dict[type, str]] = {Add: "add", Sub: "sub", Mul: "mul"}
_COMPARE: Final = {EQ: "eq", NE: "ne", LT: "slt", LE: "sle", GT: "sgt", GE: "sge"}


def extent_of(expr: Expr, names: Mapping[Var, str], what: str) -> Extent:
    """An extent as the entry takes it: a number, a symbol, or a compound expression of symbols.

    ``names`` gives the symbols' names; ``what`` is how an error calls the place.

    Raises:
        LoweringError: the expression holds something other than integer arithmetic on symbols.
    """
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return Sym(_name(expr, names, what), str(expr.dtype))
    return compound(expr, names, what)


def _name(var: Var, names: Mapping[Var, str], what: str) -> str:
    found = names.get(var)
    if found is None:
        raise LoweringError(
            f"{what} depends on `{var.name}`, which is no parameter and no symbol of a parameter's shape",
            origin="codegen",
            help=f"make `{var.name}` a parameter",
        )
    return found


def compound(expr: Expr, names: Mapping[Var, str], what: str) -> Compound:
    """A compound expression of symbols. Divisions by zero give any value in machine code.

    Raises:
        LoweringError: as :func:`extent_of`.
    """
    nodes: list[Any] = []
    post_order_visit(expr, nodes.append)
    used: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, Var):
            used[_name(node, names, what)] = None
        elif not _supported(node):
            raise LoweringError(
                f"{what} is `{expr}`, which has more in it than integer arithmetic: {type(node).__name__}",
                origin="codegen",
                help="use + - * // % min max and comparisons of integer symbols",
            )

    def emit(b: Builder, env: Mapping[str, Value]) -> Value:
        return _emit(b, nodes, env, names)

    def evaluate(env: Mapping[str, int]) -> int:
        return _evaluate(nodes, env, names)

    return Compound(str(expr), tuple(used), emit, evaluate)


def _supported(node: Any) -> bool:
    if isinstance(node, Call):
        return node.op in (_IF, _LIKELY, _SHL, _SHR, _AND)
    return type(node) in _KINDS and bool(node.dtype.is_integral and node.dtype.is_scalar)


def _emit(b: Builder, nodes: list[Any], env: Mapping[str, Value], names: Mapping[Var, str]) -> Value:
    """All in 64 bits; each node's value is an i64 (a bool is 0 or 1), wrapped to its own width.

    Where a sum, difference or product leaves its type, the least int64 comes out: no extent of an array, so that the
    call goes to Python, which raises.
    """
    done: dict[int, Value] = {}
    over: Value | None = None
    for node in nodes:
        cls = node.__class__
        if cls is Var:
            value = env[names[node]]
            made = value if value.type is I64 else (b.sext if node.dtype.is_int else b.zext)(value, I64)
        elif cls is IntImm:
            made = const(I64, wrap_int(node.value, DataType("int64")))
        else:
            args = [done[id(child)] for child in node.children()]
            if cls in _MAY_LEAVE and node.dtype.is_int:
                pair = b.intrinsic(f"llvm.s{_MAY_LEAVE[cls]}.with.overflow", struct(I64, I1), args, [I64])
                exact, left = b.extract_value(pair, 0), b.extract_value(pair, 1)
                made = _wrapped(b, exact, node.dtype)
                if made is not exact:
                    left = b.or_(left, b.icmp("ne", made, exact))
                over = left if over is None else b.or_(over, left)
            else:
                made = _wrapped(b, _combine(b, node, args), node.dtype)
        done[id(node)] = made
    result = done[id(nodes[-1])]
    return result if over is None else b.select(over, const(I64, -(1 << 63)), result)


def _wrapped(b: Builder, value: Value, kind: DataType) -> Value:
    if kind.bits >= 64 or kind.is_bool:
        return value
    t = int_type(kind.bits)
    return (b.sext if kind.is_int else b.zext)(b.trunc(value, t), I64)


def _combine(b: Builder, node: Any, args: list[Value]) -> Value:
    cls = node.__class__
    zero = const(I64, 0)
    if cls is Cast:
        return b.zext(b.icmp("ne", args[0], zero), I64) if node.dtype.is_bool else args[0]
    if cls in _COMPARE:
        return b.zext(b.icmp(_COMPARE[cls], args[0], args[1]), I64)
    if cls is Not:
        return b.xor(args[0], const(I64, 1))
    if cls is Select or (cls is Call and node.op is _IF):
        return b.select(b.trunc(args[0], I1), args[1], args[2])
    if cls is Call:
        if node.op is _LIKELY:
            return args[0]
        word = {_SHL: "shl", _SHR: "ashr", _AND: "and"}[node.op]
        amount = args[1] if word == "and" else b.and_(args[1], const(I64, 63))
        return b.binary(word, args[0], amount)
    simple = {Add: "add", Sub: "sub", Mul: "mul", And: "and", Or: "or"}.get(cls)
    if simple is not None:
        return b.binary(simple, args[0], args[1])
    if cls in (Min, Max):
        return b.intrinsic("llvm.smin" if cls is Min else "llvm.smax", I64, args, [I64])
    x, y = args
    # By 0 any value will do, and by -1 the least integer would trap: both divide by 1 (and are negated by -1).
    minus = b.icmp("eq", y, const(I64, -1))
    safe = b.select(b.or_(minus, b.icmp("eq", y, zero)), const(I64, 1), y)
    rest = b.srem(x, safe)
    if cls is Mod:
        return rest
    quotient = b.sdiv(x, safe)
    off = b.and_(b.icmp("ne", rest, zero), b.icmp("slt", b.xor(rest, safe), zero))
    if cls is FloorMod:
        return b.select(off, b.add(rest, safe), rest)
    if cls is FloorDiv:
        quotient = b.sub(quotient, b.zext(off, I64))
    return b.select(minus, b.neg(x), quotient)


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_PYTHON: Final[dict[type, Callable[[int, int], int]]] = {
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
    EQ: lambda a, b: int(a == b),
    NE: lambda a, b: int(a != b),
    LT: lambda a, b: int(a < b),
    LE: lambda a, b: int(a <= b),
    GT: lambda a, b: int(a > b),
    GE: lambda a, b: int(a >= b),
}


def _evaluate(nodes: list[Any], env: Mapping[str, int], names: Mapping[Var, str]) -> int:
    done: dict[int, int] = {}
    for node in nodes:
        cls = node.__class__
        if cls is Var:
            value = int(env[names[node]])
        elif cls is IntImm:
            value = node.value
        else:
            args = [done[id(child)] for child in node.children()]
            if cls is Cast:
                value = int(args[0] != 0) if node.dtype.is_bool else args[0]
            elif cls is Not:
                value = 1 - args[0]
            elif cls is Select or (cls is Call and node.op is _IF):
                value = args[1] if args[0] else args[2]
            elif cls is Call:
                value = args[0]
                if node.op is not _LIKELY:
                    amount = args[1] & 63
                    value = {_SHL: args[0] << amount, _SHR: args[0] >> amount, _AND: args[0] & args[1]}[node.op]
            else:
                value = _PYTHON[cls](*args)
            exact, value = value, wrap_int(value, node.dtype)
            if value != exact and cls in _MAY_LEAVE and node.dtype.is_int:
                raise OverflowError(f"{node} = {exact} does not fit {node.dtype}")
        done[id(node)] = value
    return done[id(nodes[-1])]
