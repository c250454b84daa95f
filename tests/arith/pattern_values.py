"""Values of patterns: what both sides of a rule compute, on NumPy arrays, independent of the simplifier's code."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from tirlower import ir
from tirlower.arith.pattern import BOOL_RESULT, Domain, Pat, PConst, PFloat, PLanes, PLit, PNode, PVar, Rule, leaves

LANES = 4


class Undefined(Exception):
    """A pattern that has no value."""


def _floordiv(a, b):
    return a // np.where(b == 0, 1, b)


def _floormod(a, b):
    return a % np.where(b == 0, 1, b)


def _truncdiv(a, b):
    q = abs(a) // np.where(b == 0, 1, abs(b))
    return np.where((a < 0) == (b < 0), q, -q)


_BINARY = {
    ir.Add: lambda a, b: a + b,
    ir.Sub: lambda a, b: a - b,
    ir.Mul: lambda a, b: a * b,
    ir.FloorDiv: _floordiv,
    ir.FloorMod: _floormod,
    ir.Div: _truncdiv,
    ir.Mod: lambda a, b: a - _truncdiv(a, b) * b,
    ir.Min: np.minimum,
    ir.Max: np.maximum,
    ir.LT: lambda a, b: a < b,
    ir.LE: lambda a, b: a <= b,
    ir.GT: lambda a, b: a > b,
    ir.GE: lambda a, b: a >= b,
    ir.EQ: lambda a, b: a == b,
    ir.NE: lambda a, b: a != b,
    ir.And: lambda a, b: a & b,
    ir.Or: lambda a, b: a | b,
}
_DIVISIONS = (ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod)


class Values:
    """One evaluation: integers of a width (wrapping, or exact with a note of what overflows)."""

    def __init__(self, env: dict[str, Any], bits: int, signed: bool, wraps: bool, count: int) -> None:
        self.env = env
        self.bits = bits
        self.signed = signed
        self.wraps = wraps
        self.valid = np.ones(count, dtype=bool)
        """Where no divisor was zero and, for exact arithmetic, nothing left the width."""

    @property
    def limits(self):
        return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if self.signed else (0, (1 << self.bits) - 1)

    def fit(self, value):
        low, high = self.limits
        if self.wraps:
            value = value & ((1 << self.bits) - 1)
            return np.where(value > high, value - (1 << self.bits), value) if self.signed else value
        self.note((value >= low) & (value <= high))
        return value

    def note(self, good) -> None:
        good = np.asarray(good, dtype=bool)
        self.valid &= good.all(axis=-1) if good.ndim > 1 else good

    def of(self, pat: Pat):
        if isinstance(pat, (PVar, PConst)):
            return self.env[pat.name]
        if isinstance(pat, PLit):
            return np.bool_(pat.value) if pat.is_bool else np.int64(pat.value)
        if isinstance(pat, PFloat):
            return pat.value
        assert isinstance(pat, PNode)
        kind = pat.kind
        if kind in ("gcd", "abs"):
            args = [self.of(a) for a in pat.args]
            return np.vectorize(math.gcd if kind == "gcd" else abs)(*args)
        if kind is ir.Not:
            return ~self.of(pat.args[0])
        if kind is ir.Select or pat.op == "tir.if_then_else":
            return np.where(*[self.of(a) for a in pat.args])
        if pat.op == "tir.likely":
            return self.of(pat.args[0])
        if kind is ir.Broadcast:
            value = np.asarray(self.of(pat.args[0]))
            return np.repeat(value[..., None], LANES, axis=-1) if value.ndim else np.full((1, LANES), value)
        if kind is ir.Ramp:
            base, stride = (np.asarray(self.of(a)) for a in pat.args[:2])
            return self.fit(base[..., None] + stride[..., None] * np.arange(LANES).astype(base.dtype))
        a, b = (self.of(arg) for arg in pat.args)
        if kind in _DIVISIONS:
            self.note(np.broadcast_to(b != 0, np.broadcast_shapes(np.shape(a), np.shape(b))))
        value = _BINARY[kind](a, b)
        return value if kind in BOOL_RESULT else self.fit(value)


def condition_holds(rule: Rule, env: dict[str, Any], count: int):
    """Where a rule's condition is true of the values (a proof would be a stronger demand)."""
    if not rule.when:
        return np.ones(count, dtype=bool)
    with np.errstate(all="ignore"):
        return np.broadcast_to(
            np.asarray(_condition(ast.parse(rule.when, mode="eval").body, env), dtype=bool), (count,)
        )


def _condition(tree: ast.expr, env: dict[str, Any]):
    if isinstance(tree, ast.BoolOp):
        parts = [_condition(v, env) for v in tree.values]
        result = parts[0]
        for part in parts[1:]:
            result = (result & part) if isinstance(tree.op, ast.And) else (result | part)
        return result
    if isinstance(tree, ast.Compare):
        result = True
        left = _condition(tree.left, env)
        for op, right_tree in zip(tree.ops, tree.comparators, strict=True):
            right = _condition(right_tree, env)
            name = {ast.Lt: ir.LT, ast.LtE: ir.LE, ast.Gt: ir.GT, ast.GtE: ir.GE, ast.Eq: ir.EQ, ast.NotEq: ir.NE}
            result = result & _BINARY[name[type(op)]](left, right)
            left = right
        return result
    if isinstance(tree, ast.BinOp):
        a, b = _condition(tree.left, env), _condition(tree.right, env)
        name = {ast.Add: ir.Add, ast.Sub: ir.Sub, ast.Mult: ir.Mul, ast.FloorDiv: ir.FloorDiv, ast.Mod: ir.FloorMod}
        return _BINARY[name[type(tree.op)]](a, b)
    if isinstance(tree, ast.UnaryOp):
        assert isinstance(tree.op, ast.USub)
        return -_condition(tree.operand, env)
    if isinstance(tree, ast.Name):
        return env[tree.id]
    if isinstance(tree, ast.Constant):
        return tree.value
    assert isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
    name = tree.func.id
    if name == "integral":
        return True
    args = [_condition(a, env) for a in tree.args if not (isinstance(a, ast.Name) and a.id == "lanes")]
    if name == "gcd":
        return np.vectorize(math.gcd)(*args)
    if name == "divides":
        return (args[0] != 0) & (_floormod(args[1], args[0]) == 0)
    if name == "in_block":
        x, stride, size = args
        first, last = _floordiv(x, size), _floordiv(x + stride * (LANES - 1), size)
        return (size > 0) & (first == last)
    raise AssertionError(f"no meaning for {name} in {ast.unparse(tree)}")


def sorts_of(rule: Rule, domain: Domain) -> dict[str, tuple[str, bool]]:
    """For each name of a rule: "int", "bool" or "const", and whether it is a vector."""
    found: dict[str, tuple[str, bool]] = {}

    def walk(pat: Pat, sort: str, vector: bool) -> None:
        if isinstance(pat, PConst):
            found[pat.name] = ("const", False)
        elif isinstance(pat, PVar):
            found.setdefault(pat.name, (sort, vector))
        elif isinstance(pat, PNode):
            for position, arg in enumerate(pat.args):
                if isinstance(arg, PLanes):
                    continue
                inner = sort
                if pat.kind in (ir.And, ir.Or, ir.Not) or pat.op == "tir.likely":
                    inner = "bool"
                elif pat.kind is ir.Select or pat.op == "tir.if_then_else":
                    inner = "bool" if position == 0 else sort
                elif pat.kind in BOOL_RESULT or pat.kind not in (ir.Broadcast,):
                    inner = "int"
                walk(arg, inner, vector and pat.kind not in (ir.Ramp, ir.Broadcast))

    is_vector = domain in (Domain.VECTOR, Domain.INT_VECTOR, Domain.INDEX_VECTOR)
    walk(rule.lhs, "bool" if domain in (Domain.BOOL, Domain.INDEX_BOOL) else "int", is_vector)
    return found


def uses_floats(rule: Rule) -> bool:
    return any(isinstance(leaf, PFloat) for leaf in leaves(rule.lhs))
