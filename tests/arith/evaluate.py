"""A small evaluator of scalar expressions in Python integers."""

from __future__ import annotations

from typing import Any

from tirlower import ir
from tirlower.ir import IntImm, Var


class NoValue(Exception):
    """A division by zero, or index arithmetic outside its type."""


def _truncdiv(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


_FUNCTIONS = {
    ir.Add: lambda a, b: a + b,
    ir.Sub: lambda a, b: a - b,
    ir.Mul: lambda a, b: a * b,
    ir.FloorDiv: lambda a, b: a // b,
    ir.FloorMod: lambda a, b: a % b,
    ir.Div: _truncdiv,
    ir.Mod: lambda a, b: a - _truncdiv(a, b) * b,
    ir.Min: min,
    ir.Max: max,
    ir.LT: lambda a, b: a < b,
    ir.LE: lambda a, b: a <= b,
    ir.GT: lambda a, b: a > b,
    ir.GE: lambda a, b: a >= b,
    ir.EQ: lambda a, b: a == b,
    ir.NE: lambda a, b: a != b,
    ir.And: lambda a, b: bool(a and b),
    ir.Or: lambda a, b: bool(a or b),
}
_CALLS = {
    "tir.bitwise_and": lambda a, b: a & b,
    "tir.bitwise_or": lambda a, b: a | b,
    "tir.bitwise_xor": lambda a, b: a ^ b,
    "tir.shift_right": lambda a, b: a >> b,
    "tir.shift_left": lambda a, b: a << b,
}


def wraps(dtype: Any) -> bool:
    return not (dtype.is_int and dtype.bits in (32, 64))


def evaluate(root: Any, env: dict[Var, int]) -> Any:
    """The value of a scalar integer or bool expression; index arithmetic is exact, other types wrap."""
    memo: dict[Any, Any] = {}
    stack = [root]
    while stack:
        op = stack[-1]
        if op in memo:
            stack.pop()
            continue
        kind = op.__class__
        if kind is Var:
            memo[op] = env[op]
        elif kind is IntImm:
            memo[op] = bool(op.value) if op.dtype.is_bool else op.value
        elif kind is ir.Let:
            value = evaluate(op.value, env)
            memo[op] = value if isinstance(value, NoValue) else evaluate(op.body, {**env, op.var: value})
        else:
            waiting = [c for c in op.children() if c not in memo]
            if waiting:
                stack += waiting
                continue
            memo[op] = _value(op, kind, [memo[c] for c in op.children()])
        stack.pop()
    return memo[root]


def _value(op: Any, kind: Any, args: list[Any]) -> Any:
    if kind is ir.Not:
        return args[0] if isinstance(args[0], NoValue) else not args[0]
    if kind is ir.Select or (kind is ir.Call and op.op.name == "tir.if_then_else"):
        # An arm without a value is not chosen.
        if isinstance(args[0], NoValue):
            return args[0]
        return args[1] if args[0] else args[2]
    if kind is ir.Call and op.op.name == "tir.likely":
        return args[0]
    if kind is ir.Cast:
        if isinstance(args[0], NoValue):
            return args[0]
        return bool(args[0]) if op.dtype.is_bool else ir.wrap_int(int(args[0]), op.dtype)
    if kind in (ir.And, ir.Or) and args[0] is (kind is ir.Or):
        return args[0]  # as in the language: the right side is not asked
    for a in args:
        if isinstance(a, NoValue):
            return a
    if kind is ir.Call:
        value = _CALLS[op.op.name](*args)
        return value if isinstance(value, bool) else ir.wrap_int(value, op.dtype)
    if kind in (ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod) and args[1] == 0:
        return NoValue(f"division by zero in {op.__class__.__name__}")
    value = _FUNCTIONS[kind](*args)
    if isinstance(value, bool) or op.dtype.is_bool:
        return bool(value)
    return ir.wrap_int(value, op.dtype) if wraps(op.dtype) else value


def lanes(vector: Any) -> list[Any]:
    """The lanes of a ramp, a broadcast or an operation on two of them; a scalar is its own only lane."""
    if isinstance(vector, ir.Ramp):
        return [vector.base + vector.stride * lane for lane in range(vector.lanes)]
    if isinstance(vector, ir.Broadcast):
        return [vector.value] * vector.lanes
    if vector.dtype.is_scalar:
        return [vector]
    return [type(vector)(a, b) for a, b in zip(lanes(vector.a), lanes(vector.b), strict=True)]


def show(e: Any) -> str:
    """A compact text of an expression, for messages."""
    names = {
        ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.FloorDiv: "//", ir.FloorMod: "%", ir.LT: "<", ir.LE: "<=",
        ir.GT: ">", ir.GE: ">=", ir.EQ: "==", ir.NE: "!=", ir.And: "and", ir.Or: "or", ir.Div: "tdiv", ir.Mod: "tmod",
    }  # fmt: skip
    kind = e.__class__
    if kind in names:
        return f"({show(e.a)} {names[kind]} {show(e.b)})"
    if kind is Var:
        return e.name
    if kind is IntImm:
        return str(bool(e.value)) if e.dtype.is_bool else str(e.value)
    if kind is ir.Ramp:
        return f"Ramp({show(e.base)}, {show(e.stride)}, {e.lanes})"
    if kind is ir.Broadcast:
        return f"Broadcast({show(e.value)}, {e.lanes})"
    name = e.op.name.removeprefix("tir.") if kind is ir.Call else kind.__name__.lower()
    if kind is ir.Cast:
        name = str(e.dtype)
    return f"{name}({', '.join(show(c) for c in e.children())})"
