"""What random programs are made of: parameters, loops over boxes in several forms, names for values."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.generate.values import FLOATS, INTS, NARROW, Buf, Extent, Index, Values

__all__ = ["EXTENTS", "Loops"]

EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 8, 12)


class Loops:
    """A program that is being written: its lines, what is in scope, and loops."""

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
            if 0.92 < form <= 0.96:
                notes = ", annotations={'pragma_note': 'kept'}"
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

    # Stores

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
