"""Random programs: well-formed prim funcs, in bounds and legal by construction, written as scripts.

A program is a sequence of stages. Each fills one buffer, a parameter or one that it allocates, from those filled before
it; iterations of its data-parallel loops write different elements and read the written buffer only where they write it,
so any of them may be parallel, vectorized or unrolled. Stages of other kinds (scans, scatters, while loops) run in
serial loops.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.fuzz.values import FLOATS, INTS, NARROW, Buf, Extent, Index, Values
from tests.transforms.test_random_programs import Generator

__all__ = ["SHAPES", "Program", "generate"]

EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 8, 12)


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


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        self.wide = rng.random() < 0.15
        self.blocks = rng.random() < 0.5
        self.values = Values(rng, "int64" if self.wide else "int32", inexact=rng.random() < 0.1)
        self.lines: list[str] = []
        self.count = 0
        self.depth = 1
        self.outputs: list[Buf] = []
        self.used: list[str] = []
        self.symbolic = rng.random() < 0.35
        kinds = [*INTS, *FLOATS, "int32", "float32", "float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool"]
        self.dtypes = [rng.choice(kinds) for _ in range(rng.randint(1, 3))]

    # Text

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def lit(self, value: Extent) -> str:
        return self.values.lit(value) if isinstance(value, int) else value

    def shape_text(self, shape: Sequence[Extent]) -> str:
        return "(" + "".join(f"{self.lit(extent)}, " for extent in shape) + ")"

    def inner(self, write: Callable[[], None]) -> None:
        """Write an indented scope; what it declares ends with it."""
        values = self.values
        saved = list(values.ints), list(values.scalars), list(values.bufs), len(self.lines)
        self.depth += 1
        write()
        if len(self.lines) == saved[3]:
            self.line("T.evaluate(0)")
        self.depth -= 1
        values.ints[:], values.scalars[:], values.bufs[:] = saved[:3]

    # The program

    def header(self) -> None:
        rng = self.rng
        index = self.values.index
        params, matches = [], []
        dims: tuple[Extent, ...] = ("n", *EXTENTS) if self.symbolic else EXTENTS
        for number in range(rng.randint(2, 4)):
            rank = rng.choice((1, 1, 2, 2, 3))
            shape = tuple(rng.choice(dims if axis == 0 else EXTENTS) for axis in range(rank))
            out = number == 0 or rng.random() < 0.4
            buf = Buf(f"{'O' if out else 'A'}{number}", shape, rng.choice(self.dtypes), small=not out)
            if out:
                self.outputs.append(buf)
            self.values.bufs.append(buf)
            if shape[0] == "n" or rng.random() < 0.15:
                params.append(f"p{number}: T.handle")
                strides = [f"s{number}_{axis}" for axis in range(rank)] if rng.random() < 0.2 else []
                for stride in strides:
                    matches.append(f"{stride} = T.{index}()")
                extra = f", strides=[{', '.join(strides)}]" if strides else ""
                matches.append(
                    f"{buf.name} = T.match_buffer(p{number}, {self.shape_text(shape)}, '{buf.dtype}'{extra})"
                )
            else:
                params.append(f"{buf.name}: T.Buffer({self.shape_text(shape)}, '{buf.dtype}')")
        if rng.random() < 0.5:
            params.append(f"k: T.{index}")
            self.values.ints.append(Index("k", -99, 99))
        if rng.random() < 0.3:
            params.append("c: T.float32")
            self.values.scalars.append(("c", "float32"))
        self.lines += ["@T.prim_func", f"def main({', '.join(params)}):"]
        if any("n" in buf.shape for buf in self.values.bufs):
            self.line(f"n = T.{index}()")
        for text in matches:
            self.line(text)

    def program(self, seed: int) -> Program:
        self.header()
        if self.rng.random() < 0.12:
            self.table()
        for _ in range(self.rng.choice((1, 2, 2, 3))):
            self.stage()
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

    def begin(self, target: Buf) -> None:
        """Allocate a target that is not there yet."""
        if target.local and target not in self.values.bufs:
            scope = self.rng.choice(["", "", ", scope='local'", ", scope='shared'"])
            if self.rng.random() < 0.1:
                scope += ", align=128"
            self.line(f"{target.name} = T.alloc_buffer({self.shape_text(target.shape)}, '{target.dtype}'{scope})")

    def end(self, target: Buf) -> None:
        if target not in self.values.bufs:
            self.values.bufs.append(target)

    # Loops

    def kind(self, innermost: bool, extent: Extent, plain: bool = True) -> str:
        """The kind of a data-parallel loop."""
        if not isinstance(extent, int):
            return self.rng.choice(["serial", "parallel"]) if plain else "serial"
        if not plain:
            return self.rng.choice(["serial", "serial", "unroll"])
        kinds = ["serial", "serial", "serial", "parallel", "unroll"]
        return self.rng.choice([*kinds, "vectorized", "vectorized"] if innermost else kinds)

    def loops(self, shape: Sequence[Extent], body: Callable[[list[str]], None], parallel: bool = True) -> None:
        """Loops over a box, in one of several forms; ``body`` gets the indices."""
        rng = self.rng
        form = rng.random()
        if form < 0.12 and len(shape) == 2 and all(isinstance(e, int) for e in shape):
            return self.fused(shape, body, parallel)
        self.nest(list(shape), [], body, parallel)

    def fused(self, shape: Sequence[Extent], body: Callable[[list[str]], None], parallel: bool) -> None:
        rows, columns = int(shape[0]), int(shape[1])
        loop = self.name("f")
        self.line(f"for {loop} in T.{self.kind(True, rows * columns, parallel)}({self.lit(rows * columns)}):")

        def write() -> None:
            self.values.ints.append(Index(loop, 0, rows * columns))
            body([f"{loop} // {self.lit(columns)}", f"{loop} % {self.lit(columns)}"])

        self.inner(write)

    def nest(self, left: list[Extent], at: list[str], body: Callable[[list[str]], None], parallel: bool) -> None:
        if not left:
            body(at)
            return
        rng = self.rng
        extent, rest = left[0], left[1:]
        form = rng.random()
        loop = self.name("i")
        if form < 0.25:
            self.tiled(extent, rest, at, body, parallel)
            return
        start = rng.choice([0, 0, 0, 0, 2, -3])
        kind = self.kind(not rest, extent, parallel)
        if start == 0:
            notes = ", annotations={'pragma_auto_unroll_max_step': 4}" if kind == "serial" and form > 0.96 else ""
            self.line(f"for {loop} in T.{kind}({self.lit(extent)}{notes}):")
        else:
            self.line(f"for {loop} in T.{kind}({self.lit(start)}, {self.lit(extent)} + {self.lit(start)}):")

        def write() -> None:
            if start == 0:
                self.values.ints.append(Index(loop, 0, extent))
                name = loop
            elif isinstance(extent, int):
                self.values.ints.append(Index(loop, start, extent + start))
                name = f"{loop} - {self.lit(start)}"
            else:
                name = self.name("y")
                self.line(f"{name}: T.{self.values.index} = {loop} - {self.lit(start)}")
                self.values.ints.append(Index(name, 0, extent))
            if rest and rng.random() < 0.15:
                self.let()
            self.nest(rest, [*at, name], body, parallel)

        self.inner(write)

    def tiled(
        self, extent: Extent, rest: list[Extent], at: list[str], body: Callable[[list[str]], None], parallel: bool
    ) -> None:
        """Outer and inner loops, with a guard where the tile does not divide the extent."""
        rng = self.rng
        tile = rng.choice([1, 2, 3, 4, 8])
        outer, inner = self.name("o"), self.name("i")
        count: Extent = (
            -(-extent // tile)
            if isinstance(extent, int)
            else f"(({extent} + {self.lit(tile - 1)}) // {self.lit(tile)})"
        )
        exact = isinstance(extent, int) and extent % tile == 0
        self.line(f"for {outer} in T.{self.kind(False, count, parallel)}({self.lit(count)}):")

        def write() -> None:
            self.line(f"for {inner} in T.{self.kind(not rest, tile, parallel)}({self.lit(tile)}):")
            self.inner(write_inner)

        def write_inner() -> None:
            whole = f"{outer} * {self.lit(tile)} + {inner}"
            self.values.ints.append(Index(inner, 0, tile))
            if exact:
                self.nest(rest, [*at, whole], body, parallel)
                return
            guard = f"{whole} < {self.lit(extent)}"
            self.line(f"if {f'T.likely({guard})' if rng.random() < 0.5 else guard}:")

            def guarded() -> None:
                name = whole
                if rng.random() < 0.5:
                    name = self.name("y")
                    self.line(f"{name}: T.{self.values.index} = {whole}")
                    self.values.ints.append(Index(name, 0, extent))
                elif isinstance(extent, str):
                    self.values.ints.append(Index(f"({whole})", 0, extent))
                self.nest(rest, [*at, name], body, parallel)

            self.inner(guarded)

        self.inner(write)

    def let(self) -> None:
        """A binding of an index or a value."""
        if self.rng.random() < 0.6:
            name = self.name("x")
            self.line(f"{name}: T.{self.values.index} = {self.values.integer()}")
            self.values.ints.append(Index(name, -999, 999))
        else:
            name, dtype = self.name("v"), self.rng.choice(["int32", "float32"])
            self.line(f"{name}: T.{dtype} = {self.values.value(dtype, 1)}")
            self.values.scalars.append((name, dtype))

    # Stages

    def others(self, target: Buf) -> None:
        """Hide the target: data-parallel code reads it only where it writes it."""
        self.values.bufs[:] = [buf for buf in self.values.bufs if buf is not target]

    def store(self, target: Buf, at: list[str]) -> None:
        """``target[at] = …``, as it is, in a block, under a condition, or with a temporary."""
        rng, values = self.rng, self.values
        kind = rng.random()
        if self.blocks and target.shape and kind < 0.6:
            names = [self.name("v") for _ in at]
            self.line(f"with T.block('{self.name('b')}'):")

            def block() -> None:
                for name, extent, value in zip(names, target.shape, at, strict=True):
                    self.line(f"{name} = T.axis.spatial({self.lit(extent)}, {value})")
                values.ints[:] = [Index(n, 0, e) for n, e in zip(names, target.shape, strict=True)] + [
                    one for one in values.ints if one.name == "k"
                ]
                values.scalars[:] = [one for one in values.scalars if one[0] == "c"]
                if rng.random() < 0.15:
                    self.line(f"T.where({self.where(at)})")
                self.plain(target, names)

            self.inner(block)
            return
        if rng.random() < 0.2:
            self.line(f"if {values.condition()}:")
            self.inner(lambda: self.plain(target, at))
            if rng.random() < 0.4:
                self.line("else:")
                self.inner(lambda: self.plain(target, at))
            return
        self.plain(target, at)

    def where(self, at: list[str]) -> str:
        return f"{self.rng.choice(at)} {self.rng.choice(['<', '!=', '>='])} {self.lit(self.rng.randint(0, 6))}"

    def plain(self, target: Buf, at: list[str]) -> None:
        rng, values = self.rng, self.values
        if rng.random() < 0.15:
            self.let()
        place = values.access(target, at)
        value = values.value(target.dtype, rng.choice((1, 2, 2, 3)))
        if target not in values.bufs and not target.local and target.dtype not in NARROW and rng.random() < 0.3:
            if target.dtype == "bool":
                value = f"({place} and {value})"
            else:
                value = rng.choice([f"({place} + {value})", f"T.max({place}, {value})", f"({value} - {place})"])
        self.line(f"{place} = {value}")

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


class _Serial(Generator):
    """The statements of any form, with nothing that runs out of order."""

    def loop(self, depth: int, budget: int) -> None:
        mark = len(self.lines)
        super().loop(depth, budget)
        self.lines[mark] = self.lines[mark].replace("T.vectorized", "T.serial")


def generate(seed: int) -> Program:
    """The program of a seed.

    >>> generate(7).text == generate(7).text
    True
    """
    if seed % 10 == 9:
        return Program(seed, "free", _Serial(seed).program() + "\n", False, empty=False)
    return Writer(seed).program(seed)
