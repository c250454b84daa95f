"""Random programs of any form: nested statements whose every index is brought into its buffer by a remainder."""

from __future__ import annotations

import random

__all__ = ["Free", "Serial"]


class Free:
    """Writes a program as a script; every index is brought into its buffer by a remainder."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.ints: list[str] = ["n"]
        self.buffers: dict[str, tuple[int | str, ...]] = {"A": (6, 8), "B": (48,), "C": ("m", 4)}
        self.vector = False

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def index(self, depth: int = 2) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            return rng.choice([*self.ints, *self.ints, str(rng.randint(-3, 9))])
        a, b = self.index(depth - 1), self.index(depth - 1)
        return rng.choice(
            [
                f"({a} + {b})", f"({a} - {b})", f"({a} * {rng.randint(-2, 5)})", f"({a} // {rng.choice([2, 3, 4, 7])})",
                f"({a} % {rng.choice([2, 3, 5, 8])})", f"T.min({a}, {b})", f"T.max({a}, {b})",
            ]
        )  # fmt: skip

    def access(self) -> str:
        name = self.rng.choice(list(self.buffers))
        return self.access_of(name)

    def access_of(self, name: str) -> str:
        return f"{name}[{', '.join(f'{self.index()} % {extent}' for extent in self.buffers[name])}]"

    def condition(self) -> str:
        rng = self.rng
        a, b = self.index(1), self.index(1)
        simple = f"{a} {rng.choice(['<', '<=', '==', '!=', '>', '>='])} {b}"
        kind = rng.random()
        if kind < 0.2:
            return f"{simple} and {self.index(1)} < {self.index(1)}"
        if kind < 0.3:
            return f"not ({simple} or {self.index(1)} < 3)"
        return f"T.likely({simple})" if kind < 0.4 else simple

    def value(self, depth: int = 2) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return rng.choice([self.access(), self.access(), self.index(1), str(rng.randint(-5, 5))])
        a, b = self.value(depth - 1), self.value(depth - 1)
        return rng.choice(
            [
                f"({a} + {b})", f"({a} - {b})", f"({a} * 3)", f"T.min({a}, {b})", f"({a} // 3)", f"({a} % 5)",
                f"T.Select({self.condition()}, {self.index(1)}, {self.index(1)})", f"T.if_then_else({self.condition()}, {a}, {b})",
            ]
        )  # fmt: skip

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statements(self, depth: int, budget: int) -> None:
        ints, buffers = list(self.ints), dict(self.buffers)
        for _ in range(self.rng.randint(1, 3)):
            self.statement(depth, budget)
        self.ints, self.buffers = ints, buffers

    def statement(self, depth: int, budget: int) -> None:
        rng = self.rng
        kind = rng.random()
        if budget <= 0 or kind < 0.35:
            self.line(depth, f"{self.access()} = {self.value()}")
        elif kind < 0.6:
            self.loop(depth, budget)
        elif kind < 0.72:
            self.line(depth, f"if {self.condition()}:")
            self.statements(depth + 1, budget - 1)
            if rng.random() < 0.4:
                self.line(depth, "else:")
                self.statements(depth + 1, budget - 1)
        elif kind < 0.82:
            name = self.name("x")
            self.line(depth, f"{name}: T.int32 = {self.index() if rng.random() < 0.6 else self.value(1)}")
            self.ints.append(name)
        elif kind < 0.92:
            name = self.name("D")
            self.line(depth, f"{name} = T.alloc_buffer((3, 5), 'int32')")
            one, two = self.name("p"), self.name("p")
            self.line(depth, f"for {one}, {two} in T.grid(3, 5):")
            self.line(depth + 1, f"{name}[{one}, {two}] = {one} - {two}")
            self.buffers[name] = (3, 5)
        else:
            name = self.name("V")
            self.line(depth, f"{name} = T.decl_buffer((4, 12), 'int32', data=A.data)")
            self.buffers[name] = (4, 12)

    def loop(self, depth: int, budget: int) -> None:
        rng = self.rng
        name = self.name("i")
        extent = rng.choice([0, 1, 2, 3, 5])
        kind = rng.choice(["serial", "serial", "serial", "unroll", "vectorized"])
        if kind == "vectorized" and self.vector:
            kind = "serial"
        start = rng.choice(["0", "0", "0", "2", "-3", "n"])
        stop = f"{start} + {extent}"
        if kind == "serial" and rng.random() < 0.2:
            stop = f"{start} + n"
        self.line(depth, f"for {name} in T.{kind}({start}, {stop}):")
        outer, self.vector = self.vector, self.vector or kind == "vectorized"
        self.ints.append(name)
        self.statements(depth + 1, budget - 1)
        self.ints.remove(name)
        self.vector = outer

    def program(self) -> str:
        self.lines = [
            "@T.prim_func",
            "def main(A: T.Buffer((6, 8), 'int32'), B: T.Buffer((48,), 'int32'), c: T.handle, n: T.int32):",
            "    m = T.int32()",
            "    C = T.match_buffer(c, (m, 4), 'int32')",
        ]
        for _ in range(3):
            self.statements(1, 3)
        return "\n".join(self.lines)


class Serial(Free):
    """The statements of any form, with nothing that runs out of order."""

    def loop(self, depth: int, budget: int) -> None:
        mark = len(self.lines)
        super().loop(depth, budget)
        self.lines[mark] = self.lines[mark].replace("T.vectorized", "T.serial")
