"""Random computations with names: sizes and subscripts that have one, beside data at the ends of its type, as the interpreter reads them,
as written and scheduled automatically. ``python -m tests.fuzz.named FIRST COUNT``

A name stands for an index, which is exact, in the middle of arithmetic on data, which wraps; what simplifies one as if it were the
other is found here.
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

import tirlower as tl
from tests.fuzz.seeds import run_seeds
from tirlower.diagnostics import TirError
from tirlower.ir import PrimFunc
from tirlower.script import parse

__all__ = ["program", "run_one"]

INDICES = (
    "n - 3", "i // 2", "n + i", "i * 2 - n", "n * n", "3 - n", "i - 4", "(i - 2) * (n - 1)", "n // 3 - 1", "(n + i) % 3 - 1",
    "T.max(n - 2, i)", "T.Select(n > 3, n - 5, i - 2)", "n", "7",
)  # fmt: skip
FURTHER = ("x + 1", "x - n", "2 * x", "x // 3")
NAMES = ("x", "y", "L[i]", "s")
ATOMS = (*NAMES, "M[i]", "i", "n", "2", "-3", "1", "L[j]", "2147483647", "(-2147483648)")
ENDS = (-(2**31), 2**31 - 1, 0, -1, 5, 1, -7, 2**31 - 3, 2 - 2**31)


def program(seed: int) -> str:
    """The program of a seed."""
    rng = random.Random(seed)
    kind = rng.choice(("int64", "int32", "int32", "float64"))
    first, second = rng.choice(INDICES), rng.choice((*INDICES, *FURTHER))
    values = [_value(rng, rng.choice((1, 2, 2, 3))) for _ in range(2)]
    stores = [f"B[{at}, i, j] = T.Cast('{kind}', {value})" for at, value in enumerate(values)]
    lines = [f"x = {first}", "for j in range(3):", f"    y = {second}", *(f"    {store}" for store in stores)]
    head = f'L: T.Buffer((6,), "int32"), M: T.Buffer((6,), "int32"), B: T.Buffer((2, 6, 3), "{kind}")'
    return "\n".join(
        [
            f'def f({head}, D: T.Buffer(("n",), "int8"), s: T.int32):',
            "    for i in range(6):",
            *("        " + line for line in lines),
        ]
    )


def _value(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(ATOMS if rng.random() < 0.6 else NAMES)
    kind = rng.randrange(14)
    a, b = _value(rng, depth - 1), _value(rng, depth - 1)
    if kind < 6:
        return f"({a} {'++--**'[kind]} {b})"
    if kind < 8:
        return f"T.{('min', 'max')[kind - 6]}({a}, {b})"
    if kind < 10:
        return f"({a} {('//', '%')[kind - 8]} {rng.choice(('2', '3', '7', '16'))})"
    condition = f"{a} {rng.choice(('<', '<=', '>', '>=', '==', '!='))} {b}"
    if kind < 12:
        return f"T.{('Select', 'if_then_else')[kind - 10]}({condition}, {_value(rng, depth - 1)}, {_value(rng, depth - 1)})"
    return f"T.Cast('int32', {condition})" if kind == 12 else f"T.Cast('int32', T.Cast('int64', {a}))"


def run_one(seed: int, counts: Counter[str] | None = None) -> None:
    """Run the program of a seed in all three ways. Raises AssertionError where they differ."""
    counts = Counter() if counts is None else counts
    text, rng = program(seed), random.Random(f"data {seed}")
    try:
        func = parse(text)
    except TirError:
        counts["no program"] += 1
        return
    assert isinstance(func, PrimFunc)
    drawn = [[rng.choice((*ENDS, rng.randrange(-(2**31), 2**31))) for _ in range(6)] for _ in range(2)]
    inputs = [np.array(values, "int32") for values in drawn]
    sizes, scalar = np.zeros(rng.choice((1, 2, 3, 7)), "int8"), rng.choice(ENDS)
    results: dict[str, bytes] = {}
    for way in ("interpreted", "none", "auto"):
        out = np.zeros((2, 6, 3), str(func.buffers[2].dtype))
        args = (*inputs, out, sizes, scalar)
        if way == "interpreted":
            tl.interpret(func, *args)
        else:
            tl.build(func, "llvm -num_threads=1", schedule=way)(*args)
        results[way] = out.tobytes()
    counts["run"] += 1
    different = [way for way, found in results.items() if found != results["interpreted"]]
    assert not different, f"{different} of\n{text}\nwith {drawn}, n = {len(sizes)}, s = {scalar}"


if __name__ == "__main__":
    raise SystemExit(run_seeds(run_one))
