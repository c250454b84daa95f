"""Random programs: machine code and the interpreter compute the same, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.sampling import by_day
from tirlower.interp import interpret
from tirlower.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Bind,
    Broadcast,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Op,
    Or,
    PrimFunc,
    Ramp,
    Select,
    Seq,
    Stmt,
    Sub,
    Var,
    const,
    decl_buffer,
)
from tirlower.ir.dtype import DataType
from tirlower.transforms import FuseMultiplyAdd

from .conftest import build

INTS = ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "int7", "int33", "uint5"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
N = 24


class Generator:
    """Random well-typed expressions and statements over one buffer of each type."""

    def __init__(self, seed: int, lanes: int) -> None:
        self.random = random.Random(seed)
        self.lanes = lanes
        self.kinds = self.random.sample(INTS, 3) + self.random.sample(FLOATS, 2) + ["int32"]
        self.kinds = list(dict.fromkeys(self.kinds))
        self.buffers = {kind: decl_buffer((N,), kind, f"B{i}") for i, kind in enumerate(self.kinds)}
        self.index = Var("i", "int32")
        self.scalars: list[Var] = []
        self.count = 0

    def typed(self, kind: str, lanes: int) -> DataType:
        return DataType(kind).with_lanes(lanes)

    def constant(self, kind: str, lanes: int) -> Expr:
        dtype = DataType(kind)
        if dtype.is_float:
            return const(self.random.choice([0.0, 1.0, -1.5, 0.25, 7.0, -0.0]), self.typed(kind, lanes))
        low, high = int(dtype.min_value), int(dtype.max_value)
        value = self.random.choice([0, 1, 2, 3, 5, low, high, self.random.randint(low, high)])
        return const(value, self.typed(kind, lanes))

    def load(self, kind: str, lanes: int) -> Expr:
        i = self.index
        start: Expr = self.random.choice(
            [i, IntImm("int32", 15) - i, FloorMod(i * 7 + 3, IntImm("int32", 16)), FloorDiv(i, IntImm("int32", 2))]
        )
        if self.random.random() < 0.2:
            start = FloorMod(Cast("int32", self.expr(self.random.choice(self.kinds[:3]), 1, 1)), IntImm("int32", 16))
        if lanes == 1:
            return BufferLoad(self.buffers[kind], (start,))
        stride = self.random.choice([1, 1, 1, 0])
        if self.random.random() < 0.2:
            reverse = Ramp(IntImm("int32", 23) - i, IntImm("int32", -1), lanes)
            return BufferLoad(self.buffers[kind], (reverse,))
        return BufferLoad(self.buffers[kind], (Ramp(start, IntImm("int32", stride), lanes),))

    def condition(self, depth: int, lanes: int) -> Expr:
        pick = self.random.random()
        if depth > 0 and pick < 0.4:
            both = self.random.choice([And, Or])
            return both(self.condition(depth - 1, lanes), self.condition(depth - 1, lanes))
        if pick < 0.5:
            return Not(self.condition(max(depth - 1, 0), lanes))
        kind = self.random.choice(self.kinds)
        compare = self.random.choice([EQ, NE, LT, LE, GT, GE])
        return compare(self.expr(kind, depth - 1, lanes), self.expr(kind, depth - 1, lanes))

    def expr(self, kind: str, depth: int, lanes: int) -> Expr:
        dtype = DataType(kind)
        if depth <= 0:
            usable = [v for v in self.scalars if v.dtype == kind]
            pick = self.random.random()
            if pick < 0.3:
                return self.constant(kind, lanes)
            if pick < 0.5 and usable:
                var = self.random.choice(usable)
                return var if lanes == 1 else Broadcast(var, lanes)
            if pick < 0.6 and kind == "int32":
                return self.index if lanes == 1 else Ramp(self.index, IntImm("int32", 1), lanes)
            return self.load(kind, lanes)
        a = lambda: self.expr(kind, depth - 1, lanes)
        choices = ["ring"] * 4 + ["extremum", "select", "choice", "let", "cast"]
        choices += ["divide"] * 2 if dtype.is_integral else ["fdivide"]
        if dtype.is_integral:
            choices += ["bits", "shift"]
        what = self.random.choice(choices)
        if what == "ring":
            return self.random.choice([Add, Sub, Mul])(a(), a())
        if what == "extremum":
            return self.random.choice([Min, Max])(a(), a())
        if what == "select":
            return Select(self.condition(depth - 1, self.random.choice([1, lanes])), a(), a())
        if what == "choice":
            arms = (a(), a())
            return Call(Op.get("tir.if_then_else"), (self.condition(depth - 1, 1), *arms), arms[0].dtype)
        if what == "let" and lanes == 1:
            self.count += 1
            var = Var(f"v{self.count}", kind)
            value = a()
            self.scalars.append(var)
            body = self.expr(kind, depth - 1, lanes)
            self.scalars.remove(var)
            return Let(var, value, body)
        if what == "cast":
            other = self.random.choice(self.kinds)
            if DataType(other).is_float and dtype.is_integral:
                return a()
            return Cast(self.typed(kind, lanes), self.expr(other, depth - 1, lanes))
        if what == "divide":
            top = int(dtype.max_value)
            divisor = a()
            if self.random.random() < 0.5:
                divisor = const(self.random.choice([1, 2, 3, min(7, top), 4]), self.typed(kind, lanes))
            else:
                divisor = Select(EQ(divisor, const(0, divisor.dtype)), const(1, divisor.dtype), divisor)
            return self.random.choice([Div, Mod, FloorDiv, FloorMod])(a(), divisor)
        if what == "fdivide":
            return self.random.choice([Div, FloorDiv])(
                a(), const(self.random.choice([2.0, -4.0, 3.0]), self.typed(kind, lanes))
            )
        if what == "bits":
            name = self.random.choice(["bitwise_and", "bitwise_or", "bitwise_xor"])
            return Call(Op.get(f"tir.{name}"), (a(), a()), self.typed(kind, lanes))
        if what == "shift":
            name = self.random.choice(["shift_left", "shift_right"])
            amount = const(self.random.randrange(dtype.bits), self.typed(kind, lanes))
            return Call(Op.get(f"tir.{name}"), (a(), amount), self.typed(kind, lanes))
        return a()

    def statement(self, depth: int) -> Stmt:
        pick = self.random.random()
        if depth > 0 and pick < 0.25:
            return IfThenElse(
                self.condition(2, 1), self.statement(depth - 1), self.random.choice([None, self.statement(depth - 1)])
            )
        if depth > 0 and pick < 0.4:
            kind = self.random.choice(self.kinds)
            self.count += 1
            var = Var(f"b{self.count}", kind)
            value = self.expr(kind, 3, 1)
            self.scalars.append(var)
            rest = [self.statement(depth - 1) for _ in range(2)]
            self.scalars.remove(var)
            return Seq((Bind(var, value), *rest))
        kind = self.random.choice(self.kinds)
        lanes = self.random.choice([1, self.lanes])
        value = self.expr(kind, 4, lanes)
        index: Expr = self.index if lanes == 1 else Ramp(self.index, IntImm("int32", 1), lanes)
        return BufferStore(self.buffers[kind], value, (index,))

    def function(self) -> PrimFunc:
        body = Seq(tuple([self.statement(2) for _ in range(4)]))
        loop = For(self.index, IntImm("int32", 0), IntImm("int32", 16), ForKind.SERIAL, None, {}, body)
        handles = [Var(f"p{i}", b.data.type) for i, b in enumerate(self.buffers.values())]
        return PrimFunc(
            tuple(handles),
            dict(zip(handles, self.buffers.values(), strict=True)),
            None,
            {"global_symbol": "fuzz"},
            loop,
        )

    def arguments(self) -> list[np.ndarray[Any, Any]]:
        rng = np.random.default_rng(self.random.randrange(2**32))
        out = []
        for kind in self.kinds:
            dtype = DataType(kind)
            if dtype.is_float:
                out.append(rng.integers(-9, 9, N).astype(dtype.numpy))
            else:
                low, high = int(dtype.min_value), int(dtype.max_value)
                wide = rng.integers(low, high, N, endpoint=True, dtype="uint64" if dtype.is_uint else "int64")
                small = rng.integers(max(low, -9), min(high, 9), N, endpoint=True)
                out.append(np.where(rng.random(N) < 0.5, wide, small.astype(wide.dtype)).astype(dtype.numpy))
        return out


def bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits, with one NaN and one zero: neither a NaN's payload nor the sign of zero is part of the language."""
    nan = np.isnan(array.astype("float64")) if array.dtype.kind not in "iu" else np.zeros(array.shape, bool)
    return np.where(nan, 1, array.view(f"uint{8 * array.dtype.itemsize}")) * (array != 0)


@pytest.mark.parametrize("seed", by_day(range(120)))
def test_machine_code_agrees_with_the_interpreter(seed: int) -> None:
    agree(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_more_random_programs(seed: int) -> None:
    agree(seed)


def agree(seed: int) -> None:
    """Run one random program both ways."""
    made = Generator(seed, lanes=[2, 4, 8, 3][seed % 4])
    func, arrays = made.function(), made.arguments()
    if seed % 2:
        func = FuseMultiplyAdd()(func)
    ours, theirs = [a.copy() for a in arrays], [a.copy() for a in arrays]
    with np.errstate(all="ignore"):
        interpret(func, *theirs)
    build(func, "llvm", opt_level=[0, 1, 3][seed % 3])(*ours)
    for kind, a, b in zip(made.kinds, ours, theirs, strict=True):
        same = bits(a) == bits(b)
        assert same.all(), f"{kind}: {a[~same]} instead of {b[~same]}\n{func}"
