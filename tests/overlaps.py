"""Random programs on arrays that overlap: what native code computes, beside the interpreter on the same memory.

``python -m tests.overlaps --count 2000 --seed 7`` runs more of them.
"""

from __future__ import annotations

import argparse

import numpy as np

import tirlower as tl
from tirlower.diagnostics import InterpreterError, LegalityError, TransformError
from tirlower.script import parse

__all__ = ["Outcome", "Program", "run_one"]

NAMES = "ABCD"


class Program:
    """The text of a function of some int32 arrays, and how many it has."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.count = int(rng.integers(2, 5))
        self.size = int(rng.integers(5, 40))
        self.symbolic = bool(rng.integers(0, 2))
        self.lines: list[str] = []
        self.fresh = 0
        for _ in range(int(rng.integers(1, 3))):
            self.loop(1, [], [])
        shape = '("n",)' if self.symbolic else f"({self.size},)"
        params = ", ".join(f'{name}: T.Buffer({shape}, "int32")' for name in NAMES[: self.count])
        self.text = "\n".join(["@T.prim_func", f"def f({params}):", *self.lines])

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, hint: str) -> str:
        self.fresh += 1
        return f"{hint}{self.fresh}"

    def array(self) -> str:
        return str(self.rng.choice(list(NAMES[: self.count])))

    def index(self, loops: list[str]) -> str:
        """A subscript that is certainly inside, or one that a condition or a guard has to look after."""
        n = "n" if self.symbolic else str(self.size)
        var = str(self.rng.choice(loops))
        pick = self.rng.integers(0, 10)
        if pick < 6:
            return var
        if pick < 8:
            return f"{n} - 1 - {var}"
        shift = int(self.rng.integers(1, 4))
        return f"T.min({var} + {shift}, {n} - 1)" if pick < 9 else f"T.max({var} - {shift}, 0)"

    def value(self, loops: list[str], names: list[str], depth: int = 0) -> str:
        pick = self.rng.integers(0, 8)
        if pick < 3 or depth > 2:
            return f"{self.array()}[{self.index(loops)}]"
        if pick == 3:
            return str(int(self.rng.integers(-5, 6)))
        if pick == 4:
            return str(self.rng.choice(loops))
        if pick == 5 and names:
            return str(self.rng.choice(names))
        if pick == 6:
            a, b = self.value(loops, names, depth + 1), self.value(loops, names, depth + 1)
            return f"T.if_then_else({self.value(loops, names, 3)} > 0, {a}, {b})"
        op = str(self.rng.choice(["+", "-", "*"]))
        return f"({self.value(loops, names, depth + 1)} {op} {self.value(loops, names, depth + 1)})"

    def loop(self, depth: int, loops: list[str], names: list[str]) -> None:
        var = self.name("i")
        n = "n" if self.symbolic else str(self.size)
        kinds = ["T.vectorized", "T.vectorized", "T.parallel", "T.serial", "T.serial"]
        kind = str(self.rng.choice(kinds if not loops else ["T.serial", "T.vectorized"]))
        extent = n if self.rng.integers(0, 4) else f"{n} - {int(self.rng.integers(1, 4))}"
        if kind == "T.serial" and loops and self.rng.integers(0, 2):
            extent = f"{loops[-1]} % 3 + 1"
        self.line(depth, f"for {var} in {kind}({extent}):")
        self.body(depth + 1, [*loops, var], list(names))

    def body(self, depth: int, loops: list[str], names: list[str]) -> None:
        for _ in range(int(self.rng.integers(1, 4))):
            pick = self.rng.integers(0, 12)
            if pick == 0 and len(loops) < 3:
                self.loop(depth, loops, names)
            elif pick == 1:
                made = self.name("t")
                self.line(depth, f"{made}: T.let[T.int32] = {self.value(loops, names)}")
                names.append(made)
            elif pick in (2, 3):
                self.line(depth, f"if {self.value(loops, names, 2)} > {self.value(loops, names, 2)}:")
                self.store(depth + 1, loops, names)
                if self.rng.integers(0, 2):
                    self.line(depth, "else:")
                    self.body(depth + 1, loops, list(names))
            elif pick in (4, 6):
                self.gather(depth, loops)
            elif pick == 5 and len(loops) < 3:
                made = self.name("m")
                self.line(depth, f'{made} = T.alloc_buffer((2,), "int32")')
                self.line(depth, f"{made}[0] = {self.value(loops, names)}")
                self.store(depth, loops, names)
                names.append(f"{made}[0]")
            else:
                self.store(depth, loops, names)

    def store(self, depth: int, loops: list[str], names: list[str]) -> None:
        self.line(depth, f"{self.array()}[{self.index(loops)}] = {self.value(loops, names)}")

    def gather(self, depth: int, loops: list[str]) -> None:
        """A condition on what memory has, a store, and an access that takes the condition for granted."""
        p, q, a, o = (self.array() for _ in range(4))
        n, i = "n" if self.symbolic else str(self.size), loops[-1]
        self.line(depth, f"if 0 <= {p}[{i}] and {p}[{i}] < {n}:")
        self.line(depth + 1, f"{q}[{i if self.rng.integers(0, 2) else self.index(loops)}] = {10**6}")
        self.line(depth + 1, f"{o}[{i}] = {a}[{p}[{i}]] + 1")


def views(rng: np.random.Generator, program: Program) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Memory, and the parts of it that the arrays of a call are: often the same, or shifted by a few elements."""
    size = program.size
    pool = rng.integers(-3, size + 2, size * 3).astype("int32")
    starts = []
    for at in range(program.count):
        pick = rng.integers(0, 4)
        if at and pick == 0:
            starts.append(starts[int(rng.integers(0, at))])
        elif pick < 3:
            starts.append(int(rng.integers(0, 6)))
        else:
            starts.append(int(rng.integers(0, size * 2 + 1)))
    return pool, [(start, start + size) for start in starts]


Outcome = str
"""``"agrees"``, ``"faults"`` (both), ``"refused"`` (by legality), or what is wrong."""


def run_one(seed: int, calls: int = 3) -> tuple[Program, Outcome]:
    """Build a random program and call it on overlapping arrays, beside the interpreter."""
    rng = np.random.default_rng(seed)
    program = Program(rng)
    func = parse(program.text)
    try:
        kernel = tl.build(func)
    except LegalityError:
        return program, "refused"
    except TransformError as error:
        if "cannot vectorize" in str(error) or "vectorized" in str(error):
            return program, "refused"
        raise
    outcome = "agrees"
    for _ in range(calls):
        pool, parts = views(rng, program)
        expected, got = pool.copy(), pool.copy()
        faults = []
        for run, memory in ((tl.interpret, expected), (kernel, got)):
            arrays = [memory[a:b] for a, b in parts]
            try:
                run(func, *arrays) if run is tl.interpret else run(*arrays)
                faults.append("")
            except (InterpreterError, IndexError) as error:
                faults.append(type(error).__name__)
        if bool(faults[0]) != bool(faults[1]):
            return program, f"the interpreter {faults[0] or 'ran'}, native code {faults[1] or 'ran'}, on {parts}"
        if faults[0]:
            outcome = "faults"
        elif not np.array_equal(expected, got):
            return program, f"differs at {np.flatnonzero(expected != got)[:8]} on {parts}"
    return program, outcome


def main() -> int:
    """Run many, print what disagrees."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    tally: dict[str, int] = {}
    for seed in range(given.seed, given.seed + given.count):
        program, outcome = run_one(seed)
        known = outcome if outcome in ("agrees", "faults", "refused") else "wrong"
        tally[known] = tally.get(known, 0) + 1
        if known == "wrong":
            print(f"seed {seed}: {outcome}\n{program.text}\n")
    print(tally)
    return int("wrong" in tally)


if __name__ == "__main__":
    raise SystemExit(main())
