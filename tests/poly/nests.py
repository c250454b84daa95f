"""Random loop nests: extents up to 6, depth up to 4, guards, floordiv and floormod, triangular bounds."""

from __future__ import annotations

import random
from typing import Any

from tirlower import ir
from tirlower.ir import (
    AllocBuffer,
    Buffer,
    BufferStore,
    Expr,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Seq,
    Stmt,
    Var,
    const,
)
from tirlower.ir.build import all_of, any_of, eq, ge, le, logical_not, lt, max_, min_, ne

__all__ = ["random_nest", "random_perfect_nest"]


def _int(value: int) -> Expr:
    return const(value, "int32")


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.count = 0
        dims = self.rng.choice([1, 1, 2])
        # Subscripts may be negative here: elements are told apart by number, not by memory.
        self.buffers = [Buffer(name, (1000,) * dims, "int32") for name in "AB"]

    def index(self, loops: list[Var]) -> Expr:
        rng = self.rng
        total: Expr = _int(rng.randint(-2, 3))
        for var in rng.sample(loops, min(len(loops), rng.choice([0, 1, 1, 2, 2, 3]))):
            total = total + var * rng.choice([-2, -1, 1, 1, 1, 2, 3, 4])
        shape = rng.random()
        if shape < 0.12:
            total = total // rng.choice([2, 3, 4, -2])
        elif shape < 0.24:
            total = total % rng.choice([2, 3, 4])
        elif shape < 0.30:
            total = min_(total, _int(rng.randint(0, 4)))
        elif shape < 0.34:
            total = max_(total, self.simple(loops))
        elif shape < 0.38:
            total = ir.Select(self.condition(loops, 0), total, self.simple(loops))
        elif shape < 0.42:
            total = ir.Div(total, _int(rng.choice([2, 3])))
        elif shape < 0.45:
            total = ir.Mod(total, _int(rng.choice([2, 3])))
        elif shape < 0.50:
            total = (total // 2) * 2 + self.simple(loops) % 2
        return total

    def simple(self, loops: list[Var]) -> Expr:
        return (self.rng.choice(loops) if loops else _int(1)) + self.rng.randint(-1, 2)

    def condition(self, loops: list[Var], depth: int = 1) -> Expr:
        rng = self.rng
        if depth and rng.random() < 0.3:
            parts = [self.condition(loops, depth - 1) for _ in range(2)]
            return all_of(*parts) if rng.random() < 0.5 else any_of(*parts)
        if depth and rng.random() < 0.1:
            return logical_not(self.condition(loops, depth - 1))
        left = self.simple(loops) if rng.random() < 0.6 else self.simple(loops) + self.simple(loops)
        if rng.random() < 0.25:
            return rng.choice([eq, ne])(left % rng.choice([2, 3]), _int(rng.randint(0, 1)))
        return rng.choice([lt, le, ge, eq, ne])(
            left, _int(rng.randint(0, 5)) if rng.random() < 0.6 else self.simple(loops)
        )

    def access(self, loops: list[Var]) -> tuple[Buffer, tuple[Expr, ...]]:
        buffer = self.rng.choice(self.buffers)
        return buffer, tuple(self.index(loops) for _ in buffer.shape)

    def store(self, loops: list[Var]) -> Stmt:
        value: Expr = _int(1)
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            buffer, indices = self.access(loops)
            load: Any = ir.BufferLoad(buffer, indices)
            if self.rng.random() < 0.15:
                load = ir.Call(ir.Op.get("tir.if_then_else"), (self.condition(loops), load, _int(0)), "int32")
            value = value + load
        buffer, indices = self.access(loops)
        return BufferStore(buffer, value, indices)

    def body(self, loops: list[Var], depth: int) -> Stmt:
        rng = self.rng
        parts: list[Stmt] = []
        for _ in range(rng.choice([1, 1, 2])):
            if depth and rng.random() < 0.7:
                made: Stmt = self.loop(loops, depth)
            else:
                made = self.store(loops)
            if rng.random() < 0.25:
                other = self.store(loops) if rng.random() < 0.3 else None
                made = IfThenElse(self.condition(loops), made, other)
            parts.append(made)
        if loops and rng.random() < 0.15:
            private = Buffer("T", (1000,) * len(self.buffers[0].shape), "int32")
            self.buffers.append(private)
            parts.append(self.store(loops))
            self.buffers.remove(private)
            return Seq((AllocBuffer(private), *parts))
        return Seq(tuple(parts)) if len(parts) > 1 else parts[0]

    def loop(self, loops: list[Var], depth: int) -> For:
        rng = self.rng
        self.count += 1
        var = Var(f"i{self.count}")
        start: Expr = _int(rng.choice([0, 0, 0, 1, -1]))
        extent: Expr = _int(rng.randint(0, 6) if rng.random() < 0.1 else rng.randint(2, 6 if depth < 3 else 4))
        if loops and rng.random() < 0.2:
            other = rng.choice(loops)
            start, extent = rng.choice(
                [
                    (start, other + 1),
                    (start + other, extent),
                    (start, min_(extent, 4 - other)),
                    (start, max_(extent, other)),
                ]
            )
        return For(var, start, extent, ForKind.SERIAL, None, {}, self.body([*loops, var], depth - 1))


def random_perfect_nest(seed: int) -> PrimFunc:
    """Two or three perfectly nested rectangular loops around one or two stores of floats."""
    maker = _Maker(seed)
    rng = maker.rng
    maker.buffers = [Buffer(b.name, b.shape, "float32") for b in maker.buffers]
    loops = [Var(name) for name in "ijk"[: rng.randint(2, 3)]]
    stores = []
    for _ in range(rng.randint(1, 2)):
        buffer, indices = maker.access(loops)
        value: Expr = const(1.0, "float32")
        for _ in range(rng.randint(0, 2)):
            source, at = maker.access(loops)
            value = value + ir.BufferLoad(source, at)
        stores.append(BufferStore(buffer, value, indices))
    body: Stmt = Seq(tuple(stores)) if len(stores) > 1 else stores[0]
    if rng.random() < 0.3:
        body = IfThenElse(maker.condition(loops), body)
    for var in reversed(loops):
        body = For(var, _int(0), _int(rng.randint(2, 4)), ForKind.SERIAL, None, {}, body)
    params = {Var(b.name.lower(), "handle"): b for b in maker.buffers}
    return PrimFunc(tuple(params), params, None, {}, body)


def random_nest(seed: int) -> PrimFunc:
    """A random function of one to four nested loops on two buffers."""
    maker = _Maker(seed)
    body = maker.loop([], maker.rng.randint(1, 4))
    params = {Var(b.name.lower(), "handle"): b for b in maker.buffers}
    return PrimFunc(tuple(params), params, None, {}, body)
