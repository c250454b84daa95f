"""Random hostile programs: conditions on scalars and loaded data near the limits of their types, views, aliasing calls.

A program is a script and calls of it. Values come from the limits of their types as often as from the sizes of the arrays;
guards are written as users write them, some with arithmetic that wraps; calls pass one array twice, and arrays that overlap.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

__all__ = ["Argument", "Base", "Call", "Hostile", "generate"]

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
EXTENTS = (8, 16)


@dataclass(frozen=True)
class Base:
    """Memory of a call: its elements."""

    dtype: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Argument:
    """A part of some memory, or a scalar."""

    base: int = -1
    start: int = 0
    length: int = 0
    scalar: int = 0


@dataclass(frozen=True)
class Call:
    """Memory and the arguments in it; ``at_end`` says for each whether it ends or begins at the unreadable page."""

    bases: tuple[Base, ...]
    at_end: tuple[bool, ...]
    arguments: tuple[Argument, ...]
    aliased: bool

    def __str__(self) -> str:
        given = []
        for argument in self.arguments:
            if argument.base < 0:
                given.append(str(argument.scalar))
            else:
                given.append(f"m{argument.base}[{argument.start}:{argument.start + argument.length}]")
        memory = [f"m{n} = {list(base.values)}" for n, base in enumerate(self.bases)]
        return f"main({', '.join(given)}) where " + ", ".join(memory)


@dataclass(frozen=True)
class Hostile:
    """A script and its calls."""

    seed: int
    text: str
    calls: tuple[Call, ...]


def limits(dtype: str) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.seed = seed
        self.dtype = rng.choice((*INTS, "int32", "int32", "int32", "int32"))
        """The type that conditions and subscripts are computed in."""
        self.wide = rng.choice(("int32", "int32", "int64"))
        """The type of subscripts."""
        self.size = rng.choice(EXTENTS)
        self.symbolic = rng.random() < 0.5
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.loops: list[str] = []
        self.names: list[str] = []
        """Values of the type."""
        self.scalars = [f"s{n}" for n in range(rng.choice((1, 2, 2, 3)))]
        self.types = [self.dtype if rng.random() < 0.75 else rng.choice(INTS) for _ in self.scalars]
        self.data = rng.choice((self.dtype, self.dtype, "int32", "float32"))
        """The type of what is moved."""
        self.call = rng.random() < 0.25
        self.arrays = ["A", "B", "O"]
        self.moving = random.Random(f"moving bounds of {seed}")
        """Decides where loops stand whose bodies write their bounds, apart: programs without them are what they are."""
        self.moves = self.moving.random() < 0.25

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # Values of the type

    def literal(self, value: int) -> str:
        low, high = limits(self.dtype)
        value = max(low, min(high, value))
        return f"T.{self.dtype}({value})"

    def hostile(self) -> int:
        rng = self.rng
        low, high = limits(self.dtype)
        return rng.choice(
            (
                0,
                1,
                2,
                3,
                self.size - 1,
                self.size,
                self.size + 1,
                high,
                high - 1,
                high - 7,
                high // 2,
                low,
                low + 1,
                -1,
                -3,
            )
        )

    def atom(self) -> str:
        rng = self.rng
        kind = rng.random()
        if self.names and kind < 0.2:
            return rng.choice(self.names)
        if kind < 0.7:
            return self.datum()
        if self.loops and kind < 0.82:
            # A loop variable alone is an index, whose arithmetic the language takes not to wrap; with data it is data.
            return f"({self.converted(rng.choice(self.loops), 'int32')} + {self.datum()})"
        return self.literal(self.hostile() if rng.random() < 0.4 else rng.randint(0, 9))

    def datum(self) -> str:
        """A scalar parameter or a loaded value."""
        if self.rng.random() < 0.7:
            n = self.rng.randrange(len(self.scalars))
            return self.converted(self.scalars[n], self.types[n])
        return self.loaded()

    def converted(self, text: str, dtype: str) -> str:
        return text if dtype == self.dtype else f'T.Cast("{self.dtype}", {text})'

    def loaded(self) -> str:
        rng = self.rng
        if self.loops and rng.random() < 0.7:
            return f"X[{rng.choice(self.loops)} % {self.size}]"
        return f"X[{rng.randrange(self.size)}]"

    def value(self, depth: int = 2) -> str:
        rng = self.rng
        kind = rng.random()
        if depth == 0 or kind < 0.3:
            return self.atom()
        if kind > 0.985:
            return self.beside_an_edge()
        a = self.value(depth - 1)
        if kind < 0.62:
            return f"({a} {rng.choice('++-*')} {self.value(depth - 1)})"
        if kind < 0.68:
            return f"({a} {rng.choice(('//', '%'))} {self.literal(rng.choice((1, 2, 3, 7, self.size, -1, -2)) or 1)})"
        if kind < 0.70:
            return f"({a} {rng.choice(('//', '%'))} {self.value(0)})"
        if kind < 0.76:
            return f"T.{rng.choice(('min', 'max'))}({a}, {self.value(depth - 1)})"
        if kind < 0.80 and not self.dtype.startswith("u"):
            return f"T.abs({a})" if rng.random() < 0.5 else f"(-{a})"
        if kind < 0.86:
            bits = np.iinfo(self.dtype).bits
            by = rng.choice((1, 1, 2, bits - 1))
            return f"T.{rng.choice(('shift_left', 'shift_right'))}({a}, {self.literal(by)})"
        if kind < 0.90:
            return f"T.bitwise_{rng.choice(('and', 'or', 'xor'))}({a}, {self.literal(rng.choice((1, 7, self.size - 1, -1)))})"
        if kind < 0.95:
            other = rng.choice(INTS)
            return f'T.Cast("{self.dtype}", T.Cast("{other}", {a}))'
        if self.call and kind < 0.98:
            return f"Module.f({a}, {self.value(0)})"
        return f"T.{rng.choice(('Select', 'if_then_else'))}({self.condition(0)}, {a}, {self.value(depth - 1)})"

    def beside_an_edge(self) -> str:
        """A choice between numbers, data that cancels out, an index that leaves its type: beside others of their kind."""
        rng = self.rng
        a, far = self.datum(), self.literal(200_000_000)  # times itself and an iteration it is exact in 64 bits
        edge = self.literal(limits(self.dtype)[1] if not self.dtype.endswith("64") else 1 << 31)
        choose = rng.choice(("T.Select", "T.if_then_else"))
        chosen = (
            f"{choose}({self.condition(0)}, {self.literal(rng.choice((0, 1, 3)))}, {self.literal(rng.choice((1, 7)))})"
        )
        gone = rng.choice(
            (f"({a} - {a})", f"({a} % {self.literal(1)})", f"{choose}({a} == {a}, {self.literal(7)}, {a})")
        )
        index = self.converted(rng.choice(self.loops), "int32") if self.loops else chosen
        left, right = rng.choice(
            ((edge, chosen), (f"{index} * {far}", gone), (f"{index} * {far}", chosen), (gone, chosen))
        )
        form = rng.random()
        return f"({left} + {right})" if form < 0.6 else f"T.{'min' if form < 0.8 else 'max'}({left}, {right})"

    def index(self, value: str) -> str:
        """A value of the type as a subscript."""
        return value if self.dtype == self.wide else f'T.Cast("{self.wide}", {value})'

    # Conditions

    def extent(self) -> str:
        """The size of the arrays, in the type."""
        if self.symbolic and self.rng.random() < 0.7:
            return "n" if self.dtype == "int32" else f'T.Cast("{self.dtype}", n)'
        return self.literal(self.size)

    def condition(self, depth: int = 1) -> str:
        rng = self.rng
        op = rng.choice(("<", "<=", ">", ">=", "==", "!="))
        right = self.extent() if rng.random() < 0.5 else self.value(0)
        return f"({self.value(depth)} {op} {right})"

    def guard(self, e: str) -> str:
        """A condition meant to keep a value inside the arrays; some of these do not, where they wrap."""
        rng = self.rng
        n = self.extent()
        high = limits(self.dtype)[1]
        zero, c = self.literal(0), self.literal(rng.choice((1, 1, 2, 3, 5)))
        far = self.literal(rng.choice((high, high - 1, high // 2, 100)))
        size, other = self.literal(self.size), self.value(1)
        plain = f"{e} >= {zero} and {e} < {n}"
        forms = [
            plain, plain, f"{zero} <= {e} < {n}", f"not ({e} < {zero} or {e} >= {n})",
            f"{e} >= {zero} and {e} + {c} <= {n}", f"{e} + {c} > {zero} and {e} + {c} <= {n}",
            f"{e} - {c} < {n} - {c} and {e} >= {zero}", f"{e} + {far} < {size} + {far} and {e} + {far} >= {far}",
            f"{e} * {c} < {n} * {c} and {e} * {c} >= {zero}", f"{e} * {e} < {n} and {e} >= {zero}",
            f"{other} >= {zero} and {e} >= {zero} and {e} + {other} < {n}", f"{other} >= {c} and {e} >= {zero} and {e} + {other} <= {n}",
            f"T.shift_left({e}, {self.literal(1)}) < {n} and T.shift_left({e}, {self.literal(1)}) >= {zero}",
            f"{e} // {self.literal(2)} < {n} // {self.literal(2)} and {e} >= {zero}",
            f"T.bitwise_and({e}, {self.literal(self.size - 1)}) == {e}", f"{e} % {n} == {e}",
            f"T.max({e}, {other}) < {n} and T.min({e}, {other}) >= {zero}", f"{e} < {n} - {other} and {other} >= {zero} and {e} >= {zero}",
            f"{e} - {other} >= {zero} and {other} >= {zero} and {e} < {n}", f"{other} - {e} > {zero} and {other} <= {n} and {e} >= {zero}",
        ]  # fmt: skip
        if self.dtype.startswith("int"):
            forms += [f"T.abs({e}) < {n} and {e} >= {zero}", f"T.abs({e}) < {n}", f"(-{e}) <= {zero} and {e} < {n}",
                      f"(-{e}) > -{n} and {e} >= {zero}"]  # fmt: skip
        narrow = rng.choice(INTS)
        if narrow != self.dtype:
            cast = f'T.Cast("{narrow}", {e})'
            forms += [f"{cast} >= T.{narrow}(0) and {cast} < T.{narrow}({self.size})"] * 3
        return rng.choice(forms)

    # Statements

    def moved(self, source: str, at: str) -> str:
        return f"{source}[{at}]"

    def place(self) -> str:
        """A subscript that is inside."""
        rng = self.rng
        if self.loops and rng.random() < 0.7:
            return rng.choice(self.loops) if rng.random() < 0.6 else f"{self.size - 1} - {self.loops[-1]}"
        return str(rng.randrange(self.size))

    def access(self) -> None:
        """A load or a store at a value, with or without a guard that fits."""
        rng = self.rng
        e = self.value(2)
        if rng.random() < 0.3:
            name = self.name("e")
            self.line(f"{name}: T.{self.dtype} = {e}")
            self.names.append(name)
            e = name
        at = self.index(e)
        if self.loops and rng.random() < 0.25:
            at = f"{at} + {rng.choice(self.loops)}" if self.wide == "int32" else at
        guarded = rng.random()
        if guarded < 0.75:
            self.line(f"if {self.guard(e)}:")
            self.depth += 1
        if rng.random() < 0.2:
            self.store(self.place(), f"X[{self.place()}]" if self.data == self.dtype else "", "X")
        kind = rng.random()
        source = rng.choice(("A", "B", "A"))
        if kind < 0.5:
            self.line(f"O[{self.place()}] = {self.moved(source, at)}")
        elif kind < 0.75:
            self.line(f"{rng.choice(('O', 'A'))}[{at}] = {self.moved(source, self.place())}")
        elif kind < 0.9:
            self.line(f"O[{at}] = O[{at}] + {self.moved(source, self.place())}")
        else:
            choice = f"T.if_then_else({self.guard(e)}, {self.moved(source, at)}, {self.moved('B', self.place())})"
            self.line(f"O[{self.place()}] = {choice}")
        if guarded < 0.75:
            self.depth -= 1

    def store(self, at: str, value: str, target: str) -> None:
        if value:
            self.line(f"{target}[{at}] = {value}")

    def element(self) -> None:
        """A statement that is inside for certain, with conditions on values."""
        rng = self.rng
        at = self.place()
        value = self.moved(rng.choice("ABO"), self.place())
        if self.data == self.dtype and rng.random() < 0.6:
            value = self.value(2)
        if rng.random() < 0.4:
            self.line(f"if {self.condition()}:")
            self.depth += 1
            self.line(f"O[{at}] = {value}")
            self.depth -= 1
            return
        self.line(f"O[{at}] = {value}")

    def loop(self) -> None:
        rng = self.rng
        kind = rng.random()
        var = self.name("i")
        names = list(self.names)
        if self.moves and self.moving.random() < 0.6:
            self.moving_bound(var)
        elif kind < 0.3:
            self.line(f"for {var} in range({self.extent_of_arrays()}):")
            self.nested(var, lambda: self.body(rng.choice((1, 1, 2))))
        elif kind < 0.5:
            # At most some iterations; the start and the stop are data.
            count = f"T.max(T.min({self.value(1)}, {self.literal(self.size)}), {self.literal(0)})"
            self.line(f"for {var} in range({self.index32(count)}):")
            self.nested(var, lambda: self.body(1))
        elif kind < 0.7:
            self.parallel(var)
        elif kind < 0.88:
            self.vector(var)
        else:
            self.line(f"for {var} in T.unroll({rng.choice((2, 3, 4))}):")
            self.nested(var, lambda: self.body(1))
        self.names = names

    def moving_bound(self, var: str) -> None:
        """A loop whose bounds are read from memory that its body writes: it takes them once, at its beginning."""
        rng, size = self.moving, self.size
        at = rng.choice([*(f"{loop} % {size}" for loop in self.loops), *map(str, range(size))])
        top = self.literal(size if rng.random() < 0.6 else size - 3)
        bound = self.index32(rng.choice((f"T.max(T.min(X[{at}], {top}), {self.literal(0)})", f"X[{at}] % {top}")))
        far, form = str(size), rng.random()
        if form < 0.15 and not self.loops:
            # Each lane writes an element of its own, one of them that of the bound.
            self.line(f"for {var} in T.{rng.choice(('vectorized', 'parallel'))}({bound}):")
            self.nested(var, lambda: self.line(f"X[{var}] = {self.literal(self.hostile())}"))
            return
        if form < 0.35:
            bound = bound.replace(top, self.literal(size - 3))
            self.line(f"for {var} in T.unroll({bound}, {bound} + {rng.choice((1, 2, 3))}):")
        elif form < 0.55:
            self.line(f"for {var} in range({bound}, {far}):")
        else:
            name = bound
            if rng.random() < 0.3:
                name = self.name("b")
                self.line(f"{name}: T.int32 = {bound}")
            self.line(f"for {var} in range({name}):")

        def write() -> None:
            place = rng.choice((at, at, str(rng.randrange(size)), f"T.min({var}, {size - 1})"))
            parts = [
                lambda: self.line(f"X[{place}] = {self.value(1) if rng.random() < 0.5 else self.literal(self.hostile())}"),
                lambda: self.line(f"if {var} {rng.choice(('<', '>=', '=='))} {bound}:\n{'    ' * (self.depth + 1)}{self.moved('O', self.place())} = {self.moved('A', self.place())}"),
                lambda: self.body(1),
            ]  # fmt: skip
            for part in rng.sample(parts, rng.choice((2, 3))):
                part()

        self.nested(var, write)

    def extent_of_arrays(self) -> str:
        return "n" if self.symbolic else str(self.size)

    def index32(self, text: str) -> str:
        return text if self.dtype == "int32" else f'T.Cast("int32", {text})'

    def nested(self, var: str, write: object) -> None:
        self.depth += 1
        self.loops.append(var)
        assert callable(write)
        write()
        self.loops.pop()
        self.depth -= 1

    def apart(self, var: str) -> None:
        """What iterations may do at once: each fills its own element of O, from A, B and X."""
        rng = self.rng
        e = self.value(1).replace("O[", "A[")
        at = self.index(e)
        source = rng.choice("AB")
        form = rng.random()
        if form < 0.4:
            self.line(f"if {self.guard(e)}:")
            self.line(f"    O[{var}] = {source}[{at}]")
        elif form < 0.7:
            self.line(f"O[{var}] = T.if_then_else({self.guard(e)}, {source}[{at}], B[{var}])")
        elif form < 0.78:
            self.line(f"O[{var}] = {source}[{var}] + B[{self.size - 1} - {var}]")
        elif form < 0.90:
            # A condition on data and the iteration, as that of a tail, but data wraps.
            lane, op = self.converted(var, "int32"), rng.choice(("<", "<=", ">", ">="))
            self.line(f"if {self.value(0)} + {lane} {op} {self.value(0)}:")
            self.line(f"    O[{var}] = {source}[{var}]")
        else:
            self.line(f"O[{var}] = {source}[{at}]")

    def parallel(self, var: str) -> None:
        if self.loops:
            self.element()
            return
        self.line(f"for {var} in T.parallel({self.extent_of_arrays()}):")
        self.nested(var, lambda: self.apart(var))

    def vector(self, var: str) -> None:
        rng = self.rng
        if self.loops or rng.random() < 0.3:
            width = rng.choice((2, 4, 8))
            start = rng.choice(("0", str(self.size - width), self.index32(self.value(1))))
            if rng.random() < 0.5:
                self.line(f"O[{self.place_of(width)}] = A[{self.place_of(width)}]")
            else:
                self.line(f"for {var} in T.vectorized({width}):")
                self.line(f"    O[{var}] = A[{start} + {var}]")
            return
        width = self.size if rng.random() < 0.7 else rng.choice((3, 5, 7))
        self.line(f"for {var} in T.vectorized({width}):")
        self.nested(var, lambda: self.apart(var))

    def place_of(self, width: int) -> str:
        """A slice, mostly inside."""
        start = self.rng.randint(0, self.size - width)
        if self.rng.random() < 0.3:
            text = self.index32(self.value(1))
            return f"{text} : {text} + {width}"
        return f"{start} : {start + width}"

    def view(self) -> None:
        rng = self.rng
        name = self.name("V")
        source = rng.choice("AB")
        extent = rng.choice((2, 4, self.size))
        e = self.index32(self.value(1))
        strides = ""
        if rng.random() < 0.4:
            strides = f", strides=({rng.choice(('2', '1', '0', self.index32(self.value(0))))},)"
        offset = rng.choice((e, e, str(rng.randrange(self.size)), "-1"))
        of = f"{source}.data"
        if rng.random() < 0.25:
            pointer = self.name("q")
            self.line(f"{pointer} = T.bind({source}.data)")
            of = pointer
        self.line(f'{name} = T.decl_buffer(({extent},), "{self.data}", data={of}, elem_offset={offset}{strides})')
        at = str(rng.randrange(extent)) if rng.random() < 0.7 else f"{self.index32(self.value(1))}"
        if rng.random() < 0.5:
            self.line(f"O[{self.place()}] = {name}[{at}]")
        else:
            self.line(f"{name}[{at}] = B[{self.place()}]")
            self.line(f"O[{self.place()}] = {source}[{self.place()}]")

    def statement(self) -> None:
        rng = self.rng
        kind = rng.random()
        names = list(self.names)
        if kind < 0.45:
            self.access()
        elif kind < 0.6:
            self.element()
        elif kind < 0.85 and len(self.loops) < 2:
            self.loop()
        elif kind < 0.95:
            self.view()
        else:
            self.line(f"if {self.condition()}:")
            self.depth += 1
            self.statement()
            self.depth -= 1
        self.names = names

    def body(self, count: int) -> None:
        for _ in range(count):
            self.statement()

    # The program

    def program(self) -> Hostile:
        rng = self.rng
        extent = '"n"' if self.symbolic else str(self.size)
        params = [f"{name}: T.{dtype}" for name, dtype in zip(self.scalars, self.types, strict=True)]
        params.append(f'X: T.Buffer(({extent if rng.random() < 0.5 else self.size},), "{self.dtype}")')
        params += [f'{name}: T.Buffer(({extent},), "{self.data}")' for name in self.arrays]
        self.depth = 2 if self.call else 1
        self.body(rng.choice((1, 2, 2, 3)))
        head = []
        if self.call:
            kept, self.names, self.loops = self.scalars, ["x", "y"], []
            self.call = False
            value = f"({rng.choice(('x', 'y'))} {rng.choice('+-*')} {rng.choice(('y', self.literal(self.hostile())))})"
            head = [
                "@I.ir_module", "class Module:", "    @T.prim_func(private=True)",
                f"    def f(x: T.{self.dtype}, y: T.{self.dtype}) -> T.{self.dtype}:", f"        return {value}",
            ]  # fmt: skip
            self.scalars = kept
            head += ["    @T.prim_func", f"    def main({', '.join(params)}):"]
        else:
            head += ["@T.prim_func", f"def main({', '.join(params)}):"]
        text = "\n".join([*head, *self.lines]) + "\n"
        return Hostile(self.seed, text, tuple(self.calling() for _ in range(5)))

    def calling(self) -> Call:
        rng = self.rng
        size = self.size
        aliased = rng.random() < 0.35
        bases = [self.contents(self.dtype, size)]
        arguments = [Argument(base=0, length=size)]
        if aliased:
            length = size + rng.choice((0, 0, 1, 3))
            bases.append(self.contents(self.data, length))
            arguments += [Argument(base=1, start=rng.randint(0, length - size), length=size) for _ in self.arrays]
            if self.data == self.dtype and rng.random() < 0.4:
                arguments[0] = Argument(base=1, start=0, length=size)
        else:
            for at, _ in enumerate(self.arrays):
                bases.append(self.contents(self.data, size))
                arguments.append(Argument(base=at + 1, length=size))
        scalars = [Argument(scalar=self.scalar(dtype)) for dtype in self.types]
        ends = tuple(rng.random() < 0.5 for _ in bases)
        return Call(tuple(bases), ends, (*scalars, *arguments), aliased)

    def scalar(self, dtype: str) -> int:
        rng = self.rng
        low, high = limits(dtype)
        value = rng.choice(
            (0, 1, 2, 5, self.size - 1, self.size, high, high - 1, high - 3, high // 2 + 1, low, low + 2, -1, -4)
        )
        return max(low, min(high, value))

    def contents(self, dtype: str, length: int) -> Base:
        rng = self.rng
        if dtype == "float32":
            return Base(dtype, tuple(rng.randint(-50, 50) for _ in range(length)))
        hostile = rng.random() < 0.5
        return Base(
            dtype,
            tuple(
                self.scalar(dtype)
                if hostile and rng.random() < 0.4
                else max(limits(dtype)[0], rng.randint(-2, self.size + 1))
                for _ in range(length)
            ),
        )


def generate(seed: int) -> Hostile:
    """The program of a seed."""
    return _Writer(seed).program()
