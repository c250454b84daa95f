"""A sample of each rule's check, repeated by the interpreter: both sides as prim funcs, run on the same values.

:mod:`test_rules` evaluates patterns with NumPy. Here the patterns become IR of the rule's type and the interpreter,
which shares nothing with either, says what they are worth.
"""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from pattern_values import LANES, condition_holds, sorts_of

from tirlower import ir
from tirlower.arith import rules
from tirlower.arith.pattern import Domain, PConst, PFloat, PLanes, PLit, PNode, PVar
from tirlower.arith.pattern import rule as make_rule
from tirlower.diagnostics import InterpreterError
from tirlower.interp import interpret
from tirlower.ir import Buffer, BufferLoad, BufferStore, IntImm, PrimFunc, Ramp, Var, build

pytestmark = pytest.mark.by_day

SAMPLES = 12
CASES = [(one, each.domain) for each in rules.ALL for one in each if each.domain is not Domain.FLOAT]
TYPES = {
    Domain.INDEX: ("int32", "int64"),
    Domain.INDEX_VECTOR: ("int32",),
    Domain.RING: ("int8", "uint8", "int32", "uint32"),
    Domain.INTEGER: ("int8", "uint8", "int32", "uint32"),
    Domain.INT_VECTOR: ("int8", "uint32"),
    Domain.VECTOR: ("int32",),
    Domain.BOOL: ("bool",),
    Domain.INDEX_BOOL: ("int32", "int64"),
    Domain.ANY: ("int32",),
}


class Side:
    """A pattern as an expression: names become loads of a row of samples, constants become immediates of one sample."""

    def __init__(self, values, constants, dtype):
        self.values = values
        self.constants = constants
        self.dtype = ir.DataType(dtype)

    def of(self, pat, kind=None):
        kind = self.dtype if kind is None else kind
        if isinstance(pat, PVar):
            return self.values[pat.name]
        if isinstance(pat, PConst):
            return IntImm(kind.element, ir.wrap_int(self.constants[pat.name], kind.element))
        if isinstance(pat, PLit):
            return IntImm("bool" if pat.is_bool else kind.element, pat.value)
        assert isinstance(pat, PNode) and not isinstance(pat, (PFloat, PLanes))
        if pat.kind in ("gcd", "abs"):
            raise NotImplementedPattern
        if pat.kind is ir.Not:
            return ir.Not(self.of(pat.args[0], ir.BOOL))
        if pat.kind is ir.Select or pat.op == "tir.if_then_else":
            condition = self.of(pat.args[0], ir.BOOL)
            made = [self.of(arg, kind) for arg in pat.args[1:]]
            if pat.op == "tir.if_then_else":
                if condition.dtype.is_vector:
                    condition = BufferLoad(condition.buffer, (IntImm("int32", 0),))  # it takes a scalar
                return build.if_then_else(condition, *made)
            return ir.Select(condition, *made)
        if pat.op == "tir.likely":
            return build.likely(self.of(pat.args[0], ir.BOOL))
        if pat.kind is ir.Broadcast:
            return ir.Broadcast(self.of(pat.args[0], kind), LANES)
        if pat.kind is ir.Ramp:
            return Ramp(self.of(pat.args[0], kind), self.of(pat.args[1], kind), LANES)
        if pat.kind in (ir.And, ir.Or):
            return pat.kind(*[self.of(arg, ir.BOOL) for arg in pat.args])
        inner = self.dtype if issubclass(pat.kind, ir.CompareOp) else kind
        a, b = (self.of(arg, inner) for arg in pat.args)
        return pat.kind(a, b)


class NotImplementedPattern(Exception):
    """A pattern that computes a constant of the rule only."""


def fold_constants(pat, constants):
    """The value of a pattern of constants alone, as the simplifier computes it; None for any other."""
    if isinstance(pat, PConst):
        return constants[pat.name]
    if isinstance(pat, PLit) and not pat.is_bool:
        return pat.value
    if not isinstance(pat, PNode):
        return None
    args = [fold_constants(arg, constants) for arg in pat.args]
    if None in args or not args:
        return None
    table = {
        ir.Add: lambda a, b: a + b,
        ir.Sub: lambda a, b: a - b,
        ir.Mul: lambda a, b: a * b,
        ir.FloorDiv: lambda a, b: a // b if b else None,
        ir.FloorMod: lambda a, b: a % b if b else None,
        ir.Min: min,
        ir.Max: max,
    }
    fn = table.get(pat.kind)
    return None if fn is None else fn(*args)


def draw(rng, sort, dtype):
    if sort == "bool":
        return rng.random() < 0.5
    kind = ir.DataType(dtype)
    reach = rng.choice((2, 6, 20, 60))
    low = max(-reach, int(kind.min_value)) if dtype != "bool" else 0
    return rng.randint(low, min(reach, int(kind.max_value)) if dtype != "bool" else 1)


def assignments(rule, domain, dtype, rng):
    """Samples that meet the rule's condition; vectors are lists."""
    sorts = sorts_of(rule, domain)
    found = []
    for _ in range(4000):
        env = {
            name: [draw(rng, sort, dtype) for _ in range(LANES)] if vector else draw(rng, sort, dtype)
            for name, (sort, vector) in sorts.items()
        }
        arrays = {name: np.asarray([value]) for name, value in env.items()}
        if bool(np.asarray(condition_holds(rule, arrays, 1)).all()):
            found.append(env)
        if len(found) == SAMPLES:
            break
    return sorts, found


def run(rule, sorts, env, dtype):
    """Both sides at one sample by the interpreter; None where the left side has no value."""
    constants = {name: value for name, value in env.items() if sorts[name][0] == "const"}
    params, arrays, values = [], [], {}
    buffers = {}
    for name, (sort, vector) in sorts.items():
        if sort == "const":
            continue
        kind = "bool" if sort == "bool" else dtype
        size = LANES if vector else 1
        handle, buffer = Var(f"{name}_handle", "handle"), Buffer(name, (size,), kind)
        params.append(handle)
        buffers[handle] = buffer
        data = env[name] if vector else [env[name]]
        arrays.append(np.asarray(data).astype(ir.DataType(kind).numpy))
        index = Ramp(0, 1, LANES) if vector else IntImm("int32", 0)
        values[name] = BufferLoad(buffer, (index,))
    side = Side(values, constants, dtype)
    results = []
    for pattern in (rule.lhs, rule.rhs):
        expr = side.of(pattern)
        lanes = expr.dtype.lanes
        handle, out = Var("out_handle", "handle"), Buffer("out", (lanes,), expr.dtype.element)
        store = BufferStore(out, expr, (Ramp(0, 1, lanes) if lanes > 1 else IntImm("int32", 0),))
        func = PrimFunc((*params, handle), {**buffers, handle: out}, "void", {}, store)
        result = np.zeros(lanes, dtype=expr.dtype.element.numpy)
        try:
            interpret(func, *arrays, result)
        except InterpreterError as error:
            if not results and "division by zero" in str(error):
                return None  # the left side has no value: nothing is claimed
            raise
        results.append(result)
    return results


def constants_leave(rule, env, dtype):
    """Whether a constant that the rule computes does not fit the type: then it is not applied."""
    kind = ir.DataType(dtype)
    low, high = int(kind.min_value), int(kind.max_value)

    def value(pat):
        constant = fold_constants(pat, env)
        if constant is not None:
            return low <= constant <= high
        return all(value(arg) for arg in getattr(pat, "args", ()) if not isinstance(arg, PLanes))

    return not (value(rule.lhs) and value(rule.rhs))


@pytest.mark.parametrize(("rule", "domain"), CASES, ids=[f"{r.where}:{r.lhs}" for r, _ in CASES])
@pytest.mark.by_day
def test_a_sample_by_the_interpreter(rule, domain):
    rng = random.Random(zlib.crc32(str(rule).encode()))
    compared = 0
    for dtype in TYPES[domain]:
        sorts, samples = assignments(rule, domain, dtype, rng)
        for env in samples[: SAMPLES // len(TYPES[domain])]:
            if constants_leave(rule, env, dtype):
                continue
            try:
                sides = run(rule, sorts, env, dtype)
            except NotImplementedPattern:
                pytest.skip("computes a constant with a function that no expression has")
            if sides is None:
                continue
            left, right = sides
            right = np.broadcast_to(right, left.shape) if right.size == 1 else right
            assert left.tolist() == right.tolist(), f"{rule.where}: {rule} at {env} ({dtype}): {left} becomes {right}"
            compared += 1
    assert compared, f"{rule.where}: no sample of {rule} has a value"


def test_a_wrong_rule_is_found():
    x, c0 = PVar("x"), PConst("c0")
    with pytest.raises(AssertionError, match="becomes"):
        test_a_sample_by_the_interpreter(make_rule((x + c0) // 2, x // 2 + c0 // 2), Domain.INDEX)
