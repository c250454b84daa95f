"""Random programs of names bound anew, as text that both the dialect and Python read.

The text uses only what means the same in both: loops over ``range``, ``while`` with a counter of its own, ``if``,
``break`` and ``continue``, assignments of int32 scalars and elements of arrays. :func:`run_as_python` runs it with
scalars that wrap as int32 does; a name read without a value raises there, as the dialect refuses it.
"""

from __future__ import annotations

import random
import textwrap
from typing import Any

import numpy as np

__all__ = ["Programs", "run_as_python"]

SIZE = 8


class Programs:
    """Makes programs: a generator of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.names = ["a", "b", "c", "d"]
        self.counters = 0
        self.sizes = 0

    def text(self) -> str:
        """A function of ``n`` (0 to 3), an array to read and one to write."""
        lines = [f"{name} = {self.atom([])}" for name in self.rng.sample(self.names, self.rng.randint(1, 3))]
        known = [line.split(" ")[0] for line in lines]
        body = lines + self.block(known, 0, False)
        body += [f"B[{k}] = {name}" for k, name in enumerate(dict.fromkeys(known[:SIZE]))]
        head = f'def f(A: T.Buffer(({SIZE},), "int32"), B: T.Buffer(({SIZE},), "int32"), n: T.int32):'
        return "\n".join([head, *[f"    {line}" for line in body]]) + "\n"

    def atom(self, known: list[str]) -> str:
        """A value without an operator."""
        kinds = ["literal", "load", "n"] + ["name"] * (3 if known else 0)
        kind = self.rng.choice(kinds)
        if kind == "literal":
            return str(self.rng.randint(-3, 5))
        if kind == "load":
            return f"A[{self.rng.randrange(SIZE)}]"
        return "n" if kind == "n" else self.rng.choice(known)

    def value(self, known: list[str]) -> str:
        """A value: of one operation, mostly."""
        a, b = self.atom(known), self.atom(known)
        operator = self.rng.choice(["+", "-", "*", ""])
        return f"{a} {operator} {b}" if operator else a

    def assignable(self, known: list[str]) -> list[str]:
        """Without the counters, by which loops end."""
        return [name for name in known if not name.startswith("w")]

    def condition(self, known: list[str]) -> str:
        """A condition."""
        # One side is of the program: a comparison of literals is decided while parsing, which Python does too.
        left = self.rng.choice([*known, "n", f"A[{self.rng.randrange(SIZE)}]"])
        return f"{left} {self.rng.choice(['<', '>', '==', '<='])} {self.atom(known)}"

    def block(self, known: list[str], depth: int, in_loop: bool) -> list[str]:
        """Some statements; ``known`` grows by what they surely assign."""
        found: list[str] = []
        for _ in range(self.rng.randint(1, 4)):
            self.sizes += 1
            if self.sizes > 24:
                break
            found += self.statement(known, depth, in_loop)
        return found or ["pass"]

    def statement(self, known: list[str], depth: int, in_loop: bool) -> list[str]:
        """One statement as lines."""
        rng = self.rng
        kind = rng.choice(
            ["assign"] * 4 + ["augment", "store", "tuple"] + (["if", "if", "for", "while"] if depth < 3 else [])
            + (["jump"] if in_loop else [])
        )  # fmt: skip
        # Now and then a name that may have no value: both sides must find that.
        readable = known if rng.random() < 0.97 else self.names
        if kind == "assign":
            name = rng.choice(self.names)
            line = f"{name} = {self.value(readable)}"
            known.append(name)
            return [line]
        if kind == "augment" and self.assignable(known):
            return [f"{rng.choice(self.assignable(known))} {rng.choice(['+', '-'])}= {self.atom(readable)}"]
        if kind == "tuple":
            x, y = rng.sample(self.names, 2)
            line = f"{x}, {y} = {self.value(readable)}, {self.value(readable)}"
            known += [x, y]
            return [line]
        if kind == "if":
            lines = [f"if {self.condition(known)}:", *self.indented(known, depth, in_loop)]
            if rng.random() < 0.5:
                lines += ["else:", *self.indented(known, depth, in_loop)]
            return lines
        if kind == "for":
            bound = rng.choice(["2", "3", "n", "0"])
            name = rng.choice(["i", "j", *self.names[:1]])
            inner = [*known, name]
            return [f"for {name} in range({bound}):", *self.indented(inner, depth, True)]
        if kind == "while":
            # Counted down at the head, so that `continue` ends too.
            self.counters += 1
            name = f"w{self.counters}"
            lines = self.indented([*known, name], depth, True)
            return [f"{name} = {rng.choice(['3', 'n'])}", f"while {name} > 0:", f"    {name} = {name} - 1", *lines]
        if kind == "jump":
            return [f"if {self.condition(known)}:", f"    {rng.choice(['break', 'continue'])}"]
        return [f"B[{rng.randrange(SIZE)}] = {self.value(readable)}"]

    def indented(self, known: list[str], depth: int, in_loop: bool) -> list[str]:
        """A body; what it assigns may be unknown after it."""
        return textwrap.indent("\n".join(self.block(list(known), depth + 1, in_loop)), "    ").split("\n")


class _Types:
    """What stands for ``T`` in annotations."""

    int32 = None

    @staticmethod
    def Buffer(*_: Any) -> None:
        """Nothing."""


class Int:
    """An int32 of Python: wraps."""

    def __init__(self, value: Any) -> None:
        self.value = (int(value) + 2**31) % 2**32 - 2**31

    def __add__(self, other: Any) -> Int:
        return Int(self.value + int(other))

    def __sub__(self, other: Any) -> Int:
        return Int(self.value - int(other))

    def __mul__(self, other: Any) -> Int:
        return Int(self.value * int(other))

    def __radd__(self, other: Any) -> Int:
        return Int(int(other) + self.value)

    def __rsub__(self, other: Any) -> Int:
        return Int(int(other) - self.value)

    def __rmul__(self, other: Any) -> Int:
        return Int(int(other) * self.value)

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __lt__(self, other: Any) -> bool:
        return self.value < int(other)

    def __gt__(self, other: Any) -> bool:
        return self.value > int(other)

    def __le__(self, other: Any) -> bool:
        return self.value <= int(other)

    def __ge__(self, other: Any) -> bool:
        return self.value >= int(other)

    def __eq__(self, other: object) -> bool:
        return self.value == int(other)  # type: ignore[call-overload, no-any-return]

    __hash__ = None  # type: ignore[assignment]


class _Array:
    """An array of int32 whose elements are read as :class:`Int`."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __getitem__(self, index: Any) -> Int:
        return Int(self.values[int(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[int(index)] = Int(value).value


def run_as_python(text: str, a: np.ndarray, b: np.ndarray, n: int) -> None:
    """Run the text with the arrays, which it changes. Raises UnboundLocalError where a name has no value."""
    space: dict[str, Any] = {"T": _Types}
    exec(compile(text, "<program>", "exec"), space)
    space["f"](_Array(a), _Array(b), Int(n))
