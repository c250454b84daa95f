"""Random programs: well-formed prim funcs, in bounds and legal by construction, written as scripts.

A program is a sequence of stages. Each fills one buffer, a parameter or one that it allocates, from those filled before
it; iterations of its data-parallel loops write different elements and read the written buffer only where they write it,
so any of them may be parallel, vectorized or unrolled. Stages of other kinds (scans, scatters, while loops) run in
serial loops.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.generate.free import Serial
from tests.generate.loops import EXTENTS, Loops
from tests.generate.values import FLOATS, NARROW, Buf, Extent, Index

__all__ = ["SHAPES", "Program", "generate"]


@dataclass(frozen=True)
class Program:
    """A generated program: its seed, its shapes, its script, and what may be asked of it."""

    seed: int
    shape: str
    text: str
    inexact: bool
    """Native code may differ from the interpreter in the last places of its floats."""
    empty: bool = True
    """Symbolic dimensions may be 0."""


class Writer(Loops):
    """Writes one program."""

    def program(self, seed: int) -> Program:
        self.header()
        if self.rng.random() < 0.12:
            self.table()
        # Drawn apart: programs without such a loop are what they are.
        moving = random.Random(f"moving bounds of {seed}")
        place = moving.choice(("first", "last", "both")) if moving.random() < 0.12 else ""
        if place in ("first", "both"):
            self.moving()
        for _ in range(self.rng.choice((1, 2, 2, 3))):
            self.stage()
        if place in ("last", "both"):
            self.moving()
        return Program(seed, "+".join(self.used), "\n".join(self.lines) + "\n", self.values.inexact)

    def table(self) -> None:
        """Constant data."""
        dtype = self.rng.choice(["int32", "float32", "uint8"])
        values = [self.rng.randint(0, 9) for _ in range(6)]
        self.line(f"K_data = T.allocate_const({values}, '{dtype}', [6])")
        self.line(f"K = T.Buffer((6,), '{dtype}', data=K_data)")
        self.values.bufs.append(Buf("K", (6,), dtype, small=True))

    def stage(self) -> None:
        rng = self.rng
        kind = rng.choice(list(SHAPES))
        self.used.append(kind)
        write = SHAPES[kind]
        if rng.random() < 0.12:
            self.line(f"if {self.values.condition()}:")
            self.inner(lambda: write(self, rng.choice(self.outputs)))
            return
        if rng.random() < 0.1:
            # The whole stage again and again: what is filled is filled anew.
            loop = self.name("t")
            self.line(f"for {loop} in range({self.lit(rng.choice((0, 1, 2)))}):")

            def body() -> None:
                self.values.ints.append(Index(loop, 0, 2))
                write(self, rng.choice(self.outputs))

            self.inner(body)
            return
        write(self, self.target())

    def target(self) -> Buf:
        """A buffer to fill: an output, or a new one, which the stages after it may read."""
        rng = self.rng
        if rng.random() < 0.55:
            return rng.choice(self.outputs)
        shape = tuple(rng.choice(EXTENTS) for _ in range(rng.choice((1, 2))))
        return Buf(self.name("D"), shape, rng.choice(self.dtypes), local=True)

    # Stages

    def elementwise(self, target: Buf) -> None:
        """Each element from others."""
        self.begin(target)
        saved = list(self.values.bufs)
        self.others(target)
        if not target.local or target in saved:
            self.loops(target.shape, lambda at: self.store(target, at))
        else:
            self.loops(target.shape, lambda at: self.plain_or_block(target, at))
        self.values.bufs[:] = saved
        self.end(target)

    def plain_or_block(self, target: Buf, at: list[str]) -> None:
        """A store that surely happens, as the first fill of a buffer must be."""
        if self.blocks and self.rng.random() < 0.6:
            names = [self.name("v") for _ in at]
            self.line(f"with T.block('{self.name('b')}'):")

            def block() -> None:
                for name, extent, value in zip(names, target.shape, at, strict=True):
                    self.line(f"{name} = T.axis.spatial({self.lit(extent)}, {value})")
                self.values.ints[:] = [Index(n, 0, e) for n, e in zip(names, target.shape, strict=True)]
                self.values.scalars[:] = [one for one in self.values.scalars if one[0] == "c"]
                self.plain(target, names)

            self.inner(block)
        else:
            self.plain(target, at)

    def stencil(self, target: Buf) -> None:
        """Each element from the neighbours of another buffer's, its borders padded, clamped or left out."""
        rng, values = self.rng, self.values
        sources = [
            buf for buf in values.bufs if buf is not target and len(buf.shape) == 1 and isinstance(buf.shape[0], int)
        ]
        if not sources:
            self.elementwise(target)
            return
        source = rng.choice(sources)
        size = int(source.shape[0])
        self.begin(target)
        saved = list(values.bufs)
        self.others(target)

        def body(at: list[str]) -> None:
            terms = []
            for offset in rng.sample([-2, -1, 0, 1, 2], rng.randint(1, 3)):
                place = f"{at[-1]} + {self.lit(offset)}"
                inside = f"{self.lit(0)} <= {place} and {place} < {self.lit(size)}"
                if rng.random() < 0.6:
                    pad = values.const(source.dtype) if source.dtype not in NARROW else f"T.{source.dtype}(0)"
                    terms.append(f"T.if_then_else({inside}, {source.name}[{place}], {pad})")
                else:
                    terms.append(f"{source.name}[T.max(T.min({place}, {self.lit(size - 1)}), {self.lit(0)})]")
            self.line(f"{values.access(target, at)} = {self.summed(terms, source.dtype, target.dtype, source.small)}")

        self.loops(target.shape, body)
        values.bufs[:] = saved
        self.end(target)

    def summed(self, terms: list[str], source: str, dtype: str, small: bool) -> str:
        """The sum of terms of one type, in another."""
        middle = "int32" if source == "bool" else "float32" if source in NARROW else source
        total = " + ".join(f"T.Cast('{middle}', {one})" if middle != source else one for one in terms)
        if dtype == "bool":
            return f"({total}) > T.{middle}(0)"
        if middle == dtype:
            return total
        if middle in FLOATS and dtype not in (*FLOATS, *NARROW):
            if not small:
                return f"T.Cast('{dtype}', ({total}) > T.{middle}(0))"
            total = f"T.max({total}, T.{middle}(0))" if dtype.startswith("u") else total
        return f"T.Cast('{dtype}', {total})"

    def reduction(self, target: Buf) -> None:
        """Sums, products or extrema over an inner loop: in a block with init, in place, or in an accumulator."""
        rng, values = self.rng, self.values
        dtype = target.dtype
        if dtype == "bool" or dtype in NARROW:
            self.elementwise(target)
            return
        self.begin(target)
        saved = list(values.bufs)
        self.others(target)
        extent = rng.choice((1, 2, 3, 4, 5))
        kind = rng.random()
        start = values.const(dtype)

        def combine(place: str) -> str:
            value = values.value(dtype, rng.choice((1, 2)))
            return rng.choice([f"{place} + {value}", f"T.max({place}, {value})", f"{place} * {value}"])

        def body(at: list[str]) -> None:
            loop = self.name("r")
            if self.blocks and kind < 0.6:
                self.line(f"for {loop} in {rng.choice(['range', 'T.unroll'])}({self.lit(extent)}):")
                self.inner(lambda: self.reduce_block(target, at, loop, extent, combine))
                return
            if kind < 0.8:
                accumulator = self.name("acc")
                self.line(f"{accumulator} = T.alloc_buffer((1,), '{dtype}', scope='local')")
                place = f"{accumulator}[0]"
            else:
                place = values.access(target, at)
            self.line(f"{place} = {start}")
            self.line(f"for {loop} in {rng.choice(['range', 'T.unroll'])}({self.lit(extent)}):")

            def inner() -> None:
                values.ints.append(Index(loop, 0, extent))
                if rng.random() < 0.2:
                    self.line(f"if {values.condition()}:")
                    self.inner(lambda: self.line(f"{place} = {combine(place)}"))
                else:
                    self.line(f"{place} = {combine(place)}")

            self.inner(inner)
            if kind < 0.8:
                self.line(f"{values.access(target, at)} = {place}")

        self.loops(target.shape, body)
        values.bufs[:] = saved
        self.end(target)

    def reduce_block(self, target: Buf, at: list[str], loop: str, extent: int, combine: Callable[[str], str]) -> None:
        values = self.values
        names = [self.name("v") for _ in at]
        reduced = self.name("v")
        self.line(f"with T.block('{self.name('b')}'):")

        def block() -> None:
            for name, size, value in zip(names, target.shape, at, strict=True):
                self.line(f"{name} = T.axis.spatial({self.lit(size)}, {value})")
            self.line(f"{reduced} = T.axis.reduce({self.lit(extent)}, {loop})")
            values.scalars[:] = [one for one in values.scalars if one[0] == "c"]
            values.ints[:] = [Index(n, 0, e) for n, e in zip(names, target.shape, strict=True)]
            place = values.access(target, names)
            self.line("with T.init():")
            self.inner(lambda: self.line(f"{place} = {values.value(target.dtype, 1)}"))
            values.ints.append(Index(reduced, 0, extent))
            self.line(f"{place} = {combine(place)}")

        self.inner(block)

    def tile_copy(self, target: Buf) -> None:
        """A tile is copied in, worked on and copied out, for each tile."""
        rng, values = self.rng, self.values
        extent = target.shape[0]
        tile = rng.choice((2, 3, 4))
        if not isinstance(extent, int) or (target.local and target not in values.bufs and extent % tile):
            self.elementwise(target)
            return
        self.begin(target)
        saved = list(values.bufs)
        self.others(target)
        row = target.shape[1:]
        outer, guard = self.name("o"), bool(extent % tile)
        self.line(f"for {outer} in T.{self.kind(False, 1)}({self.lit(-(-extent // tile))}):")

        def body() -> None:
            local = Buf(self.name("L"), (tile, *row), rng.choice(self.dtypes), local=True)
            values.ints.append(Index(outer, 0, -(-extent // tile)))
            scope = rng.choice(["local", "shared", "global"])
            self.line(
                f"{local.name} = T.alloc_buffer({self.shape_text(local.shape)}, '{local.dtype}', scope='{scope}')"
            )
            self.loops(local.shape, lambda at: self.plain_or_block(local, at))
            values.bufs.append(local)
            if rng.random() < 0.3:
                second = Buf(self.name("L"), local.shape, rng.choice(self.dtypes), local=True)
                self.line(f"{second.name} = T.alloc_buffer({self.shape_text(second.shape)}, '{second.dtype}')")
                self.loops(second.shape, lambda at: self.plain_or_block(second, at))
                values.bufs.append(second)

            def copy(at: list[str]) -> None:
                place = [f"{outer} * {self.lit(tile)} + {at[0]}", *at[1:]]
                if guard:
                    self.line(f"if {place[0]} < {self.lit(extent)}:")
                    self.inner(lambda: self.plain(target, place))
                else:
                    self.plain(target, place)

            self.loops(local.shape, copy)

        self.inner(body)
        values.bufs[:] = saved
        self.end(target)

    def view(self, target: Buf) -> None:
        """The target is written through a view: another shape of the same memory, or a matched region in a block."""
        rng, values = self.rng, self.values
        if not all(isinstance(e, int) for e in target.shape) or (target.local and target not in values.bufs):
            self.elementwise(target)
            return
        size = 1
        for extent in target.shape:
            size *= int(extent)
        strided = any(line.strip().startswith(f"{target.name} = T.match_buffer") for line in self.lines)
        if self.blocks and rng.random() < 0.6:
            self.matched(target)
            return
        if strided:
            self.elementwise(target)
            return
        rows = rng.choice([d for d in range(1, size + 1) if size % d == 0])
        shape = rng.choice([(size,), (rows, size // rows), (1, size)])
        other = Buf(self.name("W"), shape, target.dtype)
        saved = list(values.bufs)
        self.line(f"{other.name} = T.decl_buffer({self.shape_text(shape)}, '{target.dtype}', data={target.name}.data)")
        self.others(target)
        self.loops(shape, lambda at: self.store(other, at))
        values.bufs[:] = saved

    def matched(self, target: Buf) -> None:
        rng, values = self.rng, self.values
        shape = [int(e) for e in target.shape]
        cut = [rng.choice([d for d in range(1, e + 1) if e % d == 0]) for e in shape]
        loops = [self.name("i") for _ in shape]
        for depth, (loop, extent, part) in enumerate(zip(loops, shape, cut, strict=True)):
            self.line(f"for {loop} in T.{self.kind(False, 2)}({self.lit(extent // part)}):")
            self.depth += 1
        saved = list(values.ints), list(values.scalars), list(values.bufs)
        self.others(target)
        names = [self.name("v") for _ in shape]
        self.line(f"with T.block('{self.name('b')}'):")

        def block() -> None:
            for name, extent, part, loop in zip(names, shape, cut, loops, strict=True):
                self.line(f"{name} = T.axis.spatial({self.lit(extent // part)}, {loop})")
            region = ", ".join(
                f"{n} * {self.lit(p)} : {n} * {self.lit(p)} + {self.lit(p)}" for n, p in zip(names, cut, strict=True)
            )
            local = Buf(self.name("M"), tuple(cut), target.dtype)
            extra = ""
            if (
                rng.random() < 0.5
                or any(p < e for p, e in zip(cut[1:], shape[1:], strict=True))
                or self.is_strided(target)
            ):
                strides = [self.name("s") for _ in cut]
                for stride in strides:
                    self.line(f"{stride} = T.{self.values.index}()")
                extra = f", strides=[{', '.join(strides)}]"
            self.line(
                f"{local.name} = T.match_buffer({target.name}[{region}], {self.shape_text(cut)}, '{target.dtype}'{extra}, offset_factor=1)"
            )
            values.ints[:] = [Index(n, 0, e // p) for n, e, p in zip(names, shape, cut, strict=True)]
            values.scalars[:] = [one for one in values.scalars if one[0] == "c"]
            self.nest(list(cut), [], lambda at: self.plain(local, at), True)

        self.inner(block)
        self.depth -= len(shape)
        values.ints[:], values.scalars[:], values.bufs[:] = saved

    def is_strided(self, target: Buf) -> bool:
        return any(
            line.strip().startswith(f"{target.name} = T.match_buffer") and "strides" in line for line in self.lines
        )

    def scan(self, target: Buf) -> None:
        """Each element from the one before it, in order."""
        values = self.values
        extent = target.shape[0]
        if len(target.shape) > 1 or not isinstance(extent, int) or (target.dtype == "bool" or target.dtype in NARROW):
            self.elementwise(target)
            return
        self.begin(target)
        saved = list(values.bufs)
        self.others(target)
        loop = self.name("i")
        self.line(f"{target.name}[{self.lit(0)}] = {values.value(target.dtype, 1)}")
        self.line(f"for {loop} in range({self.lit(1)}, {self.lit(extent)}):")

        def body() -> None:
            values.ints.append(Index(loop, 1, extent))
            before = f"{target.name}[{loop} - {self.lit(1)}]"
            value = values.value(target.dtype, 1)
            operation = self.rng.choice([f"{before} + {value}", f"T.min({before}, {value})", f"{value} - {before}"])
            if self.blocks and self.rng.random() < 0.4:
                name = self.name("v")
                self.line(f"with T.block('{self.name('b')}'):")

                def block() -> None:
                    self.line(f"{name} = T.axis.scan(({self.lit(1)}, {self.lit(extent)}), {loop})")
                    values.ints[:] = [Index(name, 1, extent)]
                    values.scalars[:] = [one for one in values.scalars if one[0] == "c"]
                    one = f"{target.name}[{name} - {self.lit(1)}]"
                    self.line(f"{target.name}[{name}] = {one} + {values.value(target.dtype, 1)}")

                self.inner(block)
            else:
                self.line(f"{target.name}[{loop}] = {operation}")

        self.inner(body)
        values.bufs[:] = saved
        self.end(target)

    def scatter(self, target: Buf) -> None:
        """Stores anywhere in the target, which may be read anywhere, in serial loops."""
        if target.local and target not in self.values.bufs:
            self.elementwise(target)
            return
        rng, values = self.rng, self.values
        shape: list[Extent] = [rng.choice((0, 1, 2, 3, 5)) for _ in range(rng.randint(1, 2))]
        if "n" in target.shape:
            shape.append("n")

        def body(_at: list[str]) -> None:
            for _ in range(rng.randint(1, 2)):
                if rng.random() < 0.2:
                    self.let()
                if rng.random() < 0.2:
                    self.line(f"if {values.condition()}:")
                    self.inner(lambda: self.line(f"{values.access(target)} = {values.value(target.dtype, 2)}"))
                else:
                    self.line(f"{values.access(target)} = {values.value(target.dtype, 2)}")

        self.nest(shape, [], body, False)

    def while_loop(self, target: Buf) -> None:
        """A counted while loop, its counter in memory."""
        rng, values = self.rng, self.values
        if (target.local and target not in values.bufs) or any(isinstance(e, str) for e in target.shape):
            self.elementwise(target)
            return
        counter, limit = self.name("w"), rng.choice((0, 1, 3, 4))
        self.line(f"{counter} = T.alloc_buffer((1,), 'int32', scope='local')")
        self.line(f"{counter}[0] = 0")
        self.line(f"while {counter}[0] < {limit}:")

        def body() -> None:
            count = Buf(counter, (1,), "int32", local=True)
            values.bufs.append(count)
            self.line(f"{values.access(target)} = {values.value(target.dtype, 2)}")
            if rng.random() < 0.3:
                self.nest([rng.choice((1, 2, 3))], [], lambda _: self.line(
                    f"{values.access(target)} = {values.value(target.dtype, 1)}"), False)  # fmt: skip
            self.line(f"{counter}[0] = {counter}[0] + 1")

        self.inner(body)

    def moving(self) -> None:
        """Loops whose bounds are read from memory that their bodies write: each takes them once, at its beginning."""
        rng, values = self.rng, self.values
        self.used.append("moving")
        memory = Buf(self.name("m"), (8,), "int32", local=True)
        self.begin(memory)
        fill = self.name("i")
        self.line(f"for {fill} in range({self.lit(8)}):")
        self.inner(lambda: self.line(f"{memory.name}[{fill}] = {values.value('int32', 1)} % {rng.choice((3, 5, 9))}"))
        values.bufs.append(memory)
        for _ in range(rng.choice((1, 1, 2))):
            self.moving_loop(memory, 2)
        target = rng.choice(self.outputs)
        if all(isinstance(extent, int) for extent in target.shape):
            for at in rng.sample(range(8), 3):
                kept = f"{memory.name}[{self.lit(at)}]"
                kept = f"{kept} > 3" if target.dtype == "bool" else f"T.Cast('{target.dtype}', {kept})"
                self.line(f"{values.access(target)} = {kept}")

    def moving_loop(self, memory: Buf, depth: int) -> None:
        """One such loop: its elements are below 9 before each, and so are the loop's iterations."""
        rng, values = self.rng, self.values
        loop = self.name("i")
        at = rng.choice(
            [self.lit(rng.randrange(8)), *(f"T.min({one.name}, {self.lit(7)})" for one in values.ints if one.low == 0)]
        )
        datum = f"{memory.name}[{at}]"
        bound = datum if not self.wide else f"T.Cast('int64', {datum})"
        form = rng.random()
        if form < 0.2:
            # Each iteration writes an element of its own, one of them that of the bound.
            if rng.random() < 0.5:
                self.line(f"for {loop} in T.parallel(T.min({bound}, {self.lit(8)})):")
            else:
                first, lanes = f"T.min({bound}, {self.lit(4)})", rng.choice((1, 2, 3, 4))
                self.line(f"for {loop} in T.vectorized({first}, {first} + {self.lit(lanes)}):")
            value = rng.choice((f"{rng.randint(0, 8)}", f"T.Cast('int32', {loop})"))
            self.inner(lambda: self.line(f"{memory.name}[{loop}] = {value}"))
            return
        if form < 0.4:
            extent = rng.choice((1, 1, 2, 3))
            ranged = f"T.{rng.choice(('unroll', 'serial'))}({bound}, {bound} + {self.lit(extent)})"
            high = 8 + extent
        elif form < 0.6:
            high = rng.choice((2, 4, 8))
            ranged = f"range({bound}, {self.lit(high)})"
        else:
            high = 8
            ranged = f"range({bound})"
        self.line(f"for {loop} in {ranged}:")

        def body() -> None:
            values.ints.append(Index(loop, 0, high))
            target = rng.choice(self.outputs)
            place = rng.choice((at, at, self.lit(rng.randrange(8)), f"T.min({loop}, {self.lit(7)})"))

            def guarded() -> None:
                self.line(f"if {loop} {rng.choice(('<', '<', '>=', '=='))} {bound}:")
                self.inner(store)

            def store() -> None:
                if values.readable(target):
                    self.line(f"{values.access(target)} = {values.value(target.dtype, 1)}")

            def moved() -> None:
                value = rng.choice((f"{rng.randint(0, 8)}", f"{values.value('int32', 1)} % {rng.choice((3, 5, 9))}"))
                self.line(f"{memory.name}[{place}] = {value}")

            parts = [moved, guarded, store]
            if depth > 1:
                parts.append(lambda: self.moving_loop(memory, depth - 1))
            for part in rng.sample(parts, rng.randint(2, len(parts))):
                part()

        self.inner(body)

    def chain(self, target: Buf) -> None:
        """Two sweeps over a buffer of the target's shape: what a storage plan may share."""
        rng, values = self.rng, self.values
        if not all(isinstance(e, int) for e in target.shape):
            self.elementwise(target)
            return
        for _ in range(rng.randint(1, 3)):
            middle = Buf(self.name("D"), target.shape, rng.choice([target.dtype, *self.dtypes]), local=True)
            self.elementwise(middle)
            if rng.random() < 0.5 and len(values.bufs) > 4:
                gone = rng.choice([buf for buf in values.bufs if buf.local])
                values.bufs.remove(gone)  # dead from here on
        self.elementwise(target)

    def asserted(self, target: Buf) -> None:
        """Facts that hold are asserted on the way."""
        bound = self.lit(1000)
        self.line(f"assert {self.values.integer(1)} < {bound}, 'small'")
        self.elementwise(target)


SHAPES: dict[str, Callable[[Writer, Buf], None]] = {
    "elementwise": Writer.elementwise,
    "chain": Writer.chain,
    "stencil": Writer.stencil,
    "reduction": Writer.reduction,
    "tile_copy": Writer.tile_copy,
    "view": Writer.view,
    "scan": Writer.scan,
    "scatter": Writer.scatter,
    "while_loop": Writer.while_loop,
    "asserted": Writer.asserted,
}


def generate(seed: int) -> Program:
    """The program of a seed.

    >>> generate(7).text == generate(7).text
    True
    """
    if seed % 10 == 9:
        return Program(seed, "free", Serial(seed).program() + "\n", False, empty=False)
    return Writer(seed).program(seed)
