"""Random graphs: up to 60 operations of all dtypes, unit and zero extents, dims, views of views, and what passes look for.

A seed names a graph. Operations are drawn and tried: what is refused for its operands is not there.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np

import tirlower.graph as tg
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.effects import Global

__all__ = ["DTYPES", "generate"]

DTYPES = ("float32", "float32", "float32", "float16", "bfloat16", "float64", "int32", "int64", "int8", "uint8", "int16",
          "uint16", "uint32", "uint64", "bool")  # fmt: skip

UNARY = ("negative", "abs", "sign", "square", "floor", "ceil", "round", "relu", "identity", "positive", "logical_not",
         "bitwise_invert", "isnan", "exp", "tanh", "sqrt", "sigmoid", "negative", "identity")  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "equal", "less", "logical_and", "logical_or",
          "bitwise_and", "bitwise_or", "bitwise_xor", "add", "multiply", "subtract")  # fmt: skip
NUMBERS = (0, 1, -1, 2, 4, 3, 0.5, 0.0, -0.0, 1.0)
LIMIT = 600
"""Elements of a value at the least binding that the generator cares for: nothing grows beyond."""


class _Maker:
    def __init__(self, seed: int, size: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.size = size
        self.depth = 0
        self.states: list[Global] = []
        self.focus: list[Global] = []
        """The states of which the next accesses are; none: of any."""
        self.b = tg.GraphBuilder("fuzzed")
        self.values: list[tg.Value] = []
        self.made: list[tuple[str, tuple[object, ...], dict[str, object]]] = []

    def run(self) -> tg.Graph:
        """The graph."""
        rng = self.rng
        if rng.random() < 0.6:
            for name in ("B", "C")[: rng.randint(1, 2)]:
                low = rng.choice((0, 1, 1, 2))
                self.b.env.add(tg.dim(name, low, rng.choice((None, low + 8)), multiple_of=rng.choice((1, 1, 2))))
        self.dims = [one.var for one in self.b.env]
        for n in range(rng.randint(1, 3)):
            self.values.append(self.b.param(f"x{n}", self.shape(), rng.choice(DTYPES)))
        for one in self.dims:  # each dim is one of an input's shape
            if not any(one is e for v in self.b.params for e in v.shape):
                self.values.append(self.b.param(f"d{one.name}", (one, *self.shape()[:1]), rng.choice(DTYPES)))
        kinds: list[Callable[[], None]] = [
            self.unary, self.binary, self.binary, self.number, self.number, self.view, self.view, self.view, self.join,
            self.join, self.idiom, self.idiom, self.idiom, self.again, self.again, self.cast, self.constant, self.reduction, self.product, self.choice, self.macro,
        ]  # fmt: skip
        if random.Random(~self.seed).random() < 0.5:
            kinds += [self.load, self.tangle, self.tangle, self.private, self.branch, self.loop]
        for _ in range(self.size):
            try:
                rng.choice(kinds)()
            except tg.GraphError:
                continue
        return self.finish()

    def finish(self) -> tg.Graph:
        """The graph with some results, the last value among them."""
        rng = self.rng
        made = [v for v in self.values if v.node is not None] or self.values
        read = {v for n in self.b.nodes for v in n.operands}
        several = {made[-1]: None, **{rng.choice(made): None for _ in range(rng.randint(0, 3))}}
        for value in [v for v in made if v not in read]:
            if rng.random() < 0.7:
                several[value] = None
        results = [*several] if rng.random() < 0.9 else [*several, made[-1]]
        self.watched()
        return self.b.finish(results)

    # What operations take

    def shape(self) -> tuple[object, ...]:
        rng = self.rng
        rank = rng.choice((1, 1, 2, 2, 2, 3, 3, 4, 0))
        extents: list[object] = [1, 1, 2, 2, 3, 4, 4, 5, 6, *self.dims, *self.dims]
        return tuple(0 if rng.random() < 0.02 else rng.choice(extents) for _ in range(rank))

    def value(self) -> tg.Value:
        """A value, the later ones more often."""
        rng = self.rng
        return self.values[max(rng.randrange(len(self.values)), rng.randrange(len(self.values)))]

    def ops(self, name: str, *args: object, **attrs: object) -> None:
        """Make an operation, and remember it."""
        nodes = len(self.b.nodes)
        made = self.b.ops(name, *args, **attrs)
        if any(_size(v) > LIMIT for v in made):
            del self.b.nodes[nodes:]
            return
        self.values += made
        self.made.append((name, args, attrs))

    # Kinds of operations

    def unary(self) -> None:
        name = self.rng.choice(UNARY)
        self.ops(name, self.value())
        if self.rng.random() < 0.4:
            self.ops(self.rng.choice((name, *UNARY)), self.values[-1])

    def idiom(self) -> None:
        """What rules look for, and what looks like it."""
        rng = self.rng
        floats = [v for v in self.values if v.dtype.is_float]
        x = rng.choice(floats) if floats and rng.random() < 0.8 else self.value()
        like = [v for v in self.values if v.type == x.type]
        y, how = rng.choice(like), rng.randrange(10)
        if how == 0 and x.dtype.is_float:
            zero = self.b.const(ConstantData.splat(rng.choice((0.0, -0.0)), (), x.dtype))
            self.ops(rng.choice(("add", "subtract", "multiply")), x, zero)
        elif how == 1:
            self.ops("negative", y)
            self.ops(rng.choice(("add", "subtract")), x, self.values[-1])
        elif how == 2:
            name = rng.choice(("subtract", "maximum", "minimum", "add"))
            self.ops(name, x, y)
            self.ops(name, y, x)
        elif how == 3:
            self.ops("subtract", x, x)
        elif how == 4:
            name, numbers = rng.choice(("add", "multiply")), (0.1, 3, 0.7) if x.dtype.is_float else (1, 3, 2)
            for number in rng.sample(numbers, 2):
                given = bool(number) if x.dtype.is_bool else number
                x = self.b.op(name, x, self.b.const(ConstantData.splat(given, (), x.dtype)))
            self.values.append(x)
        elif how == 5:
            cube = self.cube("q", (3, 3, 3))
            for _ in range(rng.randint(1, 3)):
                axes = [0, 1, 2]
                rng.shuffle(axes)
                cube = self.b.op("transpose", cube, axes=tuple(axes))
            for _ in range(rng.choice((0, 0, 2))):
                cube = self.b.op("flip", cube, axis=rng.choice(((0,), (0, 1), (2,), None)))
            self.values.append(cube)
            if rng.random() < 0.5:
                self.ops("reshape", cube, shape=rng.choice(((27,), (9, 3), (3, 9))))
        elif how == 6:
            row = self.cube("r", (16, 2))
            for _ in range(rng.randint(1, 3)):
                row = self.b.op(
                    "slice", row, starts=(rng.randint(0, 2),), ends=(None,), axes=(0,), steps=(rng.choice((1, 2, 3)),)
                )
            self.values.append(row)
        elif how == 7:
            row = self.cube("r", (16, 2))
            cuts = sorted(rng.choices(range(17), k=4))
            low, high = rng.choice(((0, 1), (0, 1), (1, 2), (0, 2))), (2, 3)
            parts = [self.b.op("slice", row, starts=(cuts[a],), ends=(cuts[b],), axes=(0,)) for a, b in (low, high)]
            axis = 1 if parts[0].shape == parts[1].shape and rng.random() < 0.5 else 0
            self.ops("concat", *parts, axis=axis)
            if rng.random() < 0.5:
                wide = self.b.op("concat", row, self.b.op("exp", row), axis=1)
                self.ops("concat", wide, row, axis=1)
        elif how == 8 and x.dtype.is_float:
            zero = self.b.op("multiply", x, self.b.const(ConstantData.splat(-0.0, (), x.dtype)))
            self.ops(
                rng.choice(("add", "subtract")),
                zero,
                self.b.const(ConstantData.splat(rng.choice((0.0, -0.0)), (), x.dtype)),
            )
            self.ops("floor", self.b.op(rng.choice(("abs", "relu")), x))
        else:
            several = np.where(np.arange(20) % 3, 0.0, -0.0).astype("float32")
            other = several.copy()
            other[-1] = 5
            for array in (several, other):
                self.ops("negative", self.b.const(ConstantData(array)))
            wide = self.b.const(ConstantData.splat(rng.choice((0.0, -0.0)), (3,), "float32"))
            self.ops("copysign", self.b.const(ConstantData(np.ones(3, "float32"))), wide)

    def binary(self) -> None:
        rng = self.rng
        a = self.value()
        like = [v for v in self.values if v.type == a.type] if rng.random() < 0.8 else self.values
        b = a if rng.random() < 0.1 else rng.choice(like)
        self.ops(rng.choice(BINARY), a, b)

    def number(self) -> None:
        rng = self.rng
        x = self.value()
        number = rng.choice(NUMBERS)
        if x.dtype.is_integral:
            number = bool(number) if x.dtype.is_bool else int(abs(number) if x.dtype.is_uint else number)
        c = self.b.const(ConstantData.splat(number, (), x.dtype))
        pair = (x, c) if rng.random() < 0.7 else (c, x)
        self.ops(rng.choice(BINARY), *pair)

    def cube(self, name: str, shape: tuple[int, ...]) -> tg.Value:
        """An input of a shape."""
        known = next((v for v in self.b.params if v.name == name), None)
        return known or self.b.param(name, shape, self.rng.choice(("float32", "int32")))

    def constant(self) -> None:
        rng = self.rng
        x = self.value()
        static = tuple(e if isinstance(e, int) else 1 for e in x.shape)
        shape = static if rng.random() < 0.7 else static[-1:]
        arrays = np.random.default_rng(self.seed + len(self.values))
        if rng.random() < 0.3:
            data = ConstantData.splat(1 if x.dtype.is_bool else 2, shape, x.dtype)
        else:
            array = np.asarray(arrays.standard_normal(shape) * 3)
            if rng.random() < 0.3:
                array = np.where(array > 0, 0.0, -0.0)
            kind = x.dtype.numpy
            data = ConstantData(np.asarray(array if x.dtype.is_float else np.abs(array)).astype(kind))
        self.values.append(self.b.const(data))
        if rng.random() < 0.7:
            self.ops(rng.choice(BINARY), x, self.values[-1])

    def cast(self) -> None:
        x = self.value()
        self.ops("cast", x, dtype=self.rng.choice(DTYPES))
        if self.rng.random() < 0.5:
            self.ops("cast", self.values[-1], dtype=self.rng.choice((*DTYPES, str(x.dtype))))

    def again(self) -> None:
        """What was made before, once more: with its operands exchanged now and then, or another attribute."""
        if not self.made:
            return
        name, args, attrs = self.rng.choice(self.made)
        if len(args) == 2 and self.rng.random() < 0.4:
            args = args[::-1]
        self.ops(name, *args, **attrs)

    def view(self) -> None:
        x = self.value()
        kinds = ("reshape", "transpose", "slice", "slice", "axes", "turn", "widen", "pad")
        if self.rng.random() < 0.6:  # views of the same kind on one another
            kinds = (self.rng.choice(kinds),)
        for _ in range(self.rng.choice((1, 2, 2, 3))):
            getattr(self, self.rng.choice(kinds))(x)
            x = self.values[-1]

    def reshape(self, x: tg.Value) -> None:
        rng = self.rng
        shape = [*x.shape]
        for _ in range(rng.randint(1, 3)):
            how = rng.random()
            if how < 0.4 and len(shape) > 1:
                n = rng.randrange(len(shape) - 1)
                if isinstance(shape[n], int) and isinstance(shape[n + 1], int):
                    shape[n : n + 2] = [shape[n] * shape[n + 1]]
            elif how < 0.7 and shape:
                n = rng.randrange(len(shape))
                whole = shape[n]
                parts = [p for p in (2, 3) if isinstance(whole, int) and whole and whole % p == 0]
                if parts:
                    p = rng.choice(parts)
                    shape[n : n + 1] = [p, whole // p] if rng.random() < 0.5 else [whole // p, p]
            else:
                shape.insert(rng.randint(0, len(shape)), 1)
        known = all(isinstance(e, int) and e for e in shape)
        if shape and known and rng.random() < 0.3:
            shape[rng.randrange(len(shape))] = -1
        self.ops("reshape", x, shape=tuple(shape))

    def transpose(self, x: tg.Value) -> None:
        axes = [*range(len(x.shape))]
        self.rng.shuffle(axes)
        self.ops("transpose", x, axes=tuple(axes) if self.rng.random() < 0.7 else None)

    def slice(self, x: tg.Value) -> None:
        rng = self.rng
        axes = sorted(rng.sample(range(len(x.shape)), rng.randint(1, len(x.shape)))) if x.shape else []
        starts = [rng.choice((None, 0, 1, 2, -1, -3)) for _ in axes]
        ends = [rng.choice((None, None, 2, 3, 4, -1, 100)) for _ in axes]
        steps = [rng.choice((1, 1, 1, 2, -1)) for _ in axes]
        self.ops(
            "slice", x, starts=tuple(starts), ends=tuple(ends), axes=tuple(axes), steps=rng.choice((tuple(steps), None))
        )

    def axes(self, x: tg.Value) -> None:
        units = [n for n, e in enumerate(x.shape) if isinstance(e, int) and e == 1]
        if units and self.rng.random() < 0.5:
            self.ops("squeeze", x, axis=tuple(self.rng.sample(units, self.rng.randint(1, len(units)))))
        else:
            self.ops("expand_dims", x, axis=self.rng.randint(0, len(x.shape)))

    def turn(self, x: tg.Value) -> None:
        rng = self.rng
        n = rng.randrange(len(x.shape)) if x.shape else 0
        if rng.random() < 0.5:
            self.ops("flip", x, axis=rng.choice(((n,), None)))
        else:
            self.ops("roll", x, shift=rng.choice((0, 1, -2)), axis=n)

    def widen(self, x: tg.Value) -> None:
        rng = self.rng
        if rng.random() < 0.3:
            self.ops("tile", x, repeats=tuple(rng.choice((1, 1, 2)) for _ in x.shape))
            return
        shape = tuple(rng.choice((2, 3)) if isinstance(e, int) and e == 1 else e for e in x.shape)
        self.ops("broadcast_to", x, shape=(*((2,) * (rng.random() < 0.3)), *shape))
        if rng.random() < 0.6:
            like = [v for v in self.values if v.shape == self.values[-1].shape]
            self.ops(rng.choice(BINARY), self.values[-1], rng.choice(like))

    def pad(self, x: tg.Value) -> None:
        rng = self.rng
        pads = tuple((rng.choice((0, 0, 1, -1)), rng.choice((0, 0, 1))) for _ in x.shape)
        self.ops("pad", x, pads=pads, mode="constant")

    def join(self) -> None:
        rng = self.rng
        x = self.value()
        if not x.shape:
            return
        n = rng.randrange(len(x.shape))
        extent = x.shape[n]
        how = rng.random()
        if how < 0.35 and isinstance(extent, int) and extent > 1:
            first = rng.randint(1, extent - 1)
            low, count = rng.choice((0, 0, 1)), len(self.values)
            self.ops("slice", x, starts=(low,), ends=(first,), axes=(n,))
            self.ops("slice", x, starts=(first,), ends=(extent,), axes=(n,))
            parts: list[tg.Value] = self.values[count:]
            if rng.random() < 0.3:
                parts.append(self.rng.choice(parts))
            if rng.random() < 0.2:
                parts.reverse()
            self.ops("concat", *parts, axis=n)
        elif how < 0.5 and isinstance(extent, int) and extent % 2 == 0 and extent:
            self.ops("split", x, parts=2, axis=n)
            if rng.random() < 0.5:
                self.ops("concat", *self.values[-2:], axis=n)
        else:
            like = [
                v
                for v in self.values
                if len(v.shape) == len(x.shape) and v.shape[:n] + v.shape[n + 1 :] == x.shape[:n] + x.shape[n + 1 :]
            ]
            parts = [rng.choice(like) for _ in range(rng.randint(1, 3))]
            self.ops("concat", *parts, axis=n)
            if rng.random() < 0.5 and len(self.values[-1].shape) > n and isinstance(self.values[-1].shape[n], int):
                start = rng.randint(0, max(0, self.values[-1].shape[n] - 1))
                self.ops("slice", self.values[-1], starts=(start,), ends=(start + rng.randint(1, 3),), axes=(n,))

    def reduction(self) -> None:
        x = self.value()
        if x.shape:
            axis = self.rng.choice((None, self.rng.randrange(len(x.shape))))
            self.ops(self.rng.choice(("sum", "max", "mean")), x, axis=axis, keepdims=self.rng.random() < 0.5)

    def product(self) -> None:
        x = self.value()
        like = [v for v in self.values if len(v.shape) == 2 and len(x.shape) == 2 and v.shape[0] == x.shape[1]]
        if like:
            self.ops("matmul", x, self.rng.choice(like))

    def choice(self) -> None:
        rng = self.rng
        a = self.value()
        like = [v for v in self.values if v.type == a.type]
        b = rng.choice(like)
        tests = [v for v in self.values if v.dtype.is_bool and v.shape == a.shape]
        condition = rng.choice(tests) if tests else self.b.op("less", a, b)
        if rng.random() < 0.4:
            condition = self.b.op("logical_not", condition)
        self.ops("where", condition, a, b)

    # States, choices, loops

    def state(self) -> Global:
        """One of three states, which graphs inside share."""
        rng = self.rng
        if self.focus:
            return rng.choice(self.focus)
        if len(self.states) < 3 and (not self.states or rng.random() < 0.4):
            x = self.value()
            shape = tuple(e for e in x.shape if isinstance(e, int))
            number = rng.choice((0, 1))
            data = ConstantData.splat(bool(number) if x.dtype.is_bool else number, shape, x.dtype)
            fixed, public = rng.random() < 0.15, rng.random() < 0.5
            made = Global(f"s{len(self.states)}", shape, x.dtype, data, not fixed, public)
            self.states.append(made)
        return rng.choice(self.states)

    def load(self) -> None:
        self.values.append(self.b.load(self.state()))

    def store(self) -> None:
        rng = self.rng
        target = self.state()
        like = [v for v in self.values if v.type == target.type]
        several = [rng.choice(like)] * rng.choice((1, 1, 2)) if like and rng.random() < 0.8 else [None]
        for value in several:
            number = bool(1) if target.dtype.is_bool else rng.choice((0, 1))
            self.b.store(target, number if value is None else value)
        twins = [one for one in self.states if one.type == target.type and one is not target and one.mutable]
        if twins and several[0] is not None and rng.random() < 0.5:
            self.b.store(rng.choice(twins), several[0])

    def tangle(self) -> None:
        """Accesses of one state in a row, with others and with graphs that access it between them."""
        rng = self.rng
        static = [v for v in self.values if all(isinstance(e, int) for e in v.shape)]
        outer, self.focus = self.focus, [self.state()]
        one = self.focus[0]
        if len(self.states) < 3 and rng.random() < 0.5:  # a twin, which begins as it does
            public = one.public and rng.random() < 0.5
            self.states.append(Global(f"s{len(self.states)}", one.shape, one.dtype, one.initial, True, public))
        self.focus += [other for other in self.states if other.type == one.type and other is not one]
        joint = rng.random() < 0.5  # both get the same, one behind the other, or with a load between them
        for _ in range(rng.randint(2, 5)):
            like = [v for v in static if v.type == one.type]
            how = rng.random() * (0.6 if joint else 1)
            if how < 0.4:
                static.append(self.b.load(rng.choice(self.focus)))
                self.values.append(static[-1])
            elif how < 0.6 and like:
                value = rng.choice(like)
                for other in self.focus:
                    if other.mutable:
                        self.b.store(other, value)
                        if rng.random() < 0.2:
                            self.values.append(self.b.load(rng.choice(self.focus)))
            elif how < 0.8 and one.mutable:
                self.store()
            elif self.depth < 2:
                rng.choice((self.branch, self.loop))()
        self.focus = outer

    def private(self) -> None:
        """States of nobody else's: constants, twins, and what looks like them."""
        rng = self.rng
        x = rng.choice([v for v in self.values if all(isinstance(e, int) for e in v.shape)] or self.values)
        shape = tuple(e for e in x.shape if isinstance(e, int))
        numbers = (False, True) if x.dtype.is_bool else (0, 1)
        first = ConstantData.splat(rng.choice(numbers), shape, x.dtype)
        several = [Global(f"p{len(self.b.nodes)}{name}", shape, x.dtype, first, True, False) for name in "ab"]
        before = rng.random() < 0.6
        if before:
            self.values += [self.b.load(one) for one in several]
        if rng.random() < 0.5 or x.type != several[0].type:
            self.b.store(several[0], rng.choice(numbers))
        else:
            for one in several:
                self.b.store(one, x)
                if rng.random() < 0.4:
                    self.values.append(self.b.load(several[1]))
        if not before or rng.random() < 0.3:
            self.values += [self.b.load(one) for one in several]

    def inside(self, name: str, given: list[tg.Value], size: int) -> _Maker:
        """A graph inside a node that takes some values, with operations on them."""
        made = _Maker.__new__(_Maker)
        made.rng, made.seed, made.size, made.depth = self.rng, self.seed, size, self.depth + 1
        made.b = tg.GraphBuilder(name, env=self.b.env)
        made.states, made.focus, made.dims, made.made = self.states, self.focus, self.dims, []
        made.values = [made.b.param(v.name, v.shape, v.dtype) for v in given]
        return made

    def filled(self) -> None:
        """Some operations more."""
        kinds = [
            self.unary,
            self.binary,
            self.binary,
            self.number,
            self.view,
            self.again,
            self.choice,
            self.load,
            self.store,
        ]
        kinds += [self.branch, self.loop, self.tangle] if self.depth < 3 else []
        for _ in range(self.size):
            try:
                self.rng.choice(kinds)()
            except tg.GraphError:
                continue
        self.watched()

    def watched(self) -> None:
        """Assertions and prints of some values, anywhere behind them, in some of the graphs."""
        rng = random.Random(
            f"{self.seed} {self.depth} {len(self.b.nodes)}"
        )  # seeds make the graphs that they made without
        if rng.random() < 0.75:
            return
        for n in range(rng.randint(1, 3)):
            value = rng.choice(self.values)
            if rng.random() < 0.4 and not (value.dtype.is_bool and not value.shape):
                value = self.b.op("any", self.b.op("cast", value, dtype="bool"))
            if value.dtype.is_bool and not value.shape and rng.random() < 0.7:
                self.b.assert_(value, f"text {n % 2}")
            else:
                self.b.print_(value, f"text {n % 2}")
            made = self.b.nodes.pop()
            first = 0 if value.node is None else self.b.nodes.index(value.node) + 1
            self.b.nodes.insert(rng.randint(first, len(self.b.nodes)), made)

    def given(self) -> list[tg.Value]:
        """What a graph inside takes: some of it twice."""
        return [self.value() for _ in range(self.rng.randint(1, 4))]

    def branch(self) -> None:
        rng = self.rng
        given = self.given()
        how = rng.random()
        truths = [v for v in self.values if v.dtype.is_bool and not v.shape]
        if how < 0.2:
            condition = self.b.const(np.asarray(rng.random() < 0.5))
        elif truths and how < 0.6:
            condition = rng.choice(truths)
        else:
            condition = self.b.op("any", self.b.op("cast", rng.choice(given), dtype="bool"))
        then, other = (self.inside(name, given, rng.randint(0, 4)) for name in ("then", "other"))
        then.filled()
        if rng.random() < 0.2:  # the same again
            graph = then.b.finish([rng.choice(then.values) for _ in range(rng.randint(1, 3))])
            self.values += self.b.if_(condition, graph, graph, *given)
            return
        if rng.random() < 0.3:  # as many operations
            y, name = rng.choice(given), "maximum"
            then.values.insert(0, then.b.op(name, then.values[given.index(y)], then.values[given.index(y)]))
            other.values.insert(0, other.b.op("add", other.values[given.index(y)], other.values[given.index(y)]))
        else:
            other.filled()
        pairs = [(x, y) for x in then.values for y in other.values if x.type == y.type]
        several = rng.choices(pairs, k=rng.randint(1, 4))
        a, b = (one.b.finish([pair[n] for pair in several]) for n, one in enumerate((then, other)))
        self.values += self.b.if_(condition, a, b, *given)

    def loop(self) -> None:
        rng = self.rng
        count = self.b.const(np.asarray(0))
        given = [count, *self.given()]
        given += [rng.choice(given[1:])] if rng.random() < 0.4 else []
        test, body = self.inside("again", given, 0), self.inside("body", given, rng.randint(0, 4))
        below = test.b.op("less", test.values[0], rng.choice((0, 1, 2, 3)))
        if rng.random() < 0.3:
            below = test.b.op(
                "logical_and", below, test.b.op("any", test.b.op("cast", rng.choice(test.values), dtype="bool"))
            )
        first = body.b.op("add", body.values[0], 1)
        params = [*body.values]
        body.filled()
        results = [first]
        for param in params[1:]:
            like = [v for v in body.values if v.type == param.type]
            results.append(param if rng.random() < 0.3 else rng.choice(like))
        self.values += self.b.while_(test.b.finish(below), body.b.finish(results), *given)

    def macro(self) -> None:
        x = self.value()
        if x.shape and x.dtype.is_float:
            self.ops("softmax", x, axis=self.rng.randrange(len(x.shape)))


def _size(value: tg.Value) -> int:
    return math.prod(e if isinstance(e, int) else 6 for e in value.shape)


def generate(seed: int, size: int | None = None) -> tg.Graph:
    """The graph of a seed, of ``size`` tries: by default 3 to 60."""
    return _Maker(seed, size if size is not None else 3 + (seed * 7919) % 58).run()
