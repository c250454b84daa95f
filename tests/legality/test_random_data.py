"""Random conditions and subscripts of scalar parameters and elements near the ends of their types.

Three ways: native code, the reference interpreter, and the evaluator below, which wraps as NumPy does and shares nothing
with the library. A run gives the same values in all three, or an IndexError in all three, whatever was proved.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import LegalityError
from tirlower.script import parse

BITS = {"int32": 32, "int64": 64}
ENDS = {
    "int32": [-(2**31), -(2**31) + 1, -(2**31) + 9, -(2**30), -65536, -9, -1, 0, 1, 2, 7, 15, 16, 65536, 2**28, 2**30,
              2**31 - 17, 2**31 - 2, 2**31 - 1],
    "int64": [-(2**63), -(2**63) + 1, -(2**62), -(2**32) - 1, -(2**31), -5, -1, 0, 1, 3, 15, 2**31 - 1, 2**32, 2**32 + 3,
              2**61, 2**63 - 2, 2**63 - 1],
}  # fmt: skip
SIZE = 16
LINES = [5, 7, 9, 11]
"""Where the statements stand in the text."""
LEAVES = {"int32": ["a", "b", "X[0]", "X[1]", "i"], "int64": ["c", "d", "Y[0]"]}


def wrap(value: int, kind: str) -> int:
    half = 1 << (BITS[kind] - 1)
    return (value + half) % (2 * half) - half


def _fit(value: int, kind: str, env: dict[str, int]) -> int:
    """A result in its type; ``env["outside"]`` counts those that had to wrap."""
    made = wrap(value, kind)
    if made != value and "outside" in env:
        env["outside"] += 1
    return made


def number(rng: random.Random, kind: str, depth: int) -> tuple[Any, ...]:
    """An expression: ("leaf", kind, text), ("const", kind, n), (operator, kind, operands…)."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.35:
            value = rng.choice([rng.randint(-20, 20), rng.choice(ENDS[kind])])
            return "const", kind, value
        return "leaf", kind, rng.choice(LEAVES[kind])
    what = rng.choice(
        ["+", "+", "-", "-", "*", "neg", "abs", "<<", ">>", "//", "%", "min", "max", "select", "cast", "&"]
    )
    sub = lambda k=kind: number(rng, k, depth - 1)
    if what in ("<<", ">>"):
        return what, kind, sub(), rng.randint(0, 6)
    if what in ("//", "%", "&"):
        return what, kind, sub(), rng.choice([1, 2, 3, 4, 7, 16, -1, -3]) if what != "&" else rng.choice([1, 7, 15])
    if what == "cast":
        return what, kind, sub("int64" if kind == "int32" else "int32")
    if what == "select":
        return what, kind, truth(rng, depth - 1), sub(), sub()
    if what in ("neg", "abs"):
        return what, kind, sub()
    return what, kind, sub(), sub()


def truth(rng: random.Random, depth: int) -> tuple[Any, ...]:
    what = rng.choice(["<", "<", "<=", ">", ">=", "==", "!=", "and", "and", "or", "not"])
    if what in ("and", "or") and depth > 0:
        return what, truth(rng, depth - 1), truth(rng, depth - 1)
    if what == "not" and depth > 0:
        return what, truth(rng, depth - 1)
    kind = rng.choice(["int32", "int32", "int32", "int64"])
    return what if what in "<=>==!=" else "<", number(rng, kind, depth), number(rng, kind, max(depth - 1, 0))


def text(e: tuple[Any, ...]) -> str:
    what, *rest = e
    if what in ("and", "or"):
        return f"({text(rest[0])} {what} {text(rest[1])})"
    if what == "not":
        return f"(not {text(rest[0])})"
    if what in ("<", "<=", ">", ">=", "==", "!="):
        return f"({text(rest[0])} {what} {text(rest[1])})"
    kind, *ops = rest
    if what == "leaf":
        return str(ops[0])
    if what == "const":
        return f"T.{kind}({ops[0]})"
    if what == "cast":
        return f"T.Cast({kind!r}, {text(ops[0])})"
    if what == "select":
        return f"T.Select({text(ops[0])}, {text(ops[1])}, {text(ops[2])})"
    if what in ("neg", "abs"):
        return f"(-{text(ops[0])})" if what == "neg" else f"T.abs({text(ops[0])})"
    if what in ("min", "max"):
        return f"T.{what}({text(ops[0])}, {text(ops[1])})"
    right = f"T.{kind}({ops[1]})" if isinstance(ops[1], int) else text(ops[1])
    return f"({text(ops[0])} {what} {right})"


def value(e: tuple[Any, ...], env: dict[str, int]) -> int:
    what, *rest = e
    if what == "and":
        return value(rest[0], env) and value(rest[1], env)
    if what == "or":
        return value(rest[0], env) or value(rest[1], env)
    if what == "not":
        return not value(rest[0], env)
    if what in ("<", "<=", ">", ">=", "==", "!="):
        x, y = value(rest[0], env), value(rest[1], env)
        return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[what]
    kind, *ops = rest
    if what == "leaf":
        return env[ops[0]]
    if what == "const":
        return int(ops[0])
    if what == "select":
        return value(ops[1] if value(ops[0], env) else ops[2], env)
    # Numbers are indices, whose arithmetic is exact; beside data they are what the type holds of them.
    numbers = kind == "int32" and not _chosen(e)
    of = value if numbers else lambda part, env: wrap(value(part, env), part[1])
    x = value(ops[0], env) if what == "cast" else of(ops[0], env)
    if what == "cast":
        return wrap(x, kind)
    fit = (lambda number, kind, env: number) if numbers else _fit
    if what == "neg":
        return fit(-x, kind, env)
    if what == "abs":
        return fit(abs(x), kind, env)
    y = ops[1] if isinstance(ops[1], int) else of(ops[1], env)
    exact = {
        "+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "<<": lambda: x << y, ">>": lambda: x >> y,
        "//": lambda: x // y, "%": lambda: x % y, "&": lambda: x & y, "min": lambda: min(x, y), "max": lambda: max(x, y),
    }[what]()  # fmt: skip
    return fit(exact, kind, env)


class Program:
    """A few guarded reads and writes; ``statements`` are (condition, subscript or None, number of the output)."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.statements: list[tuple[Any, Any, Any]] = []
        lines = []
        for at in range(rng.randint(2, 4)):
            condition = truth(rng, 2)
            index = number(rng, rng.choice(["int32", "int32", "int64"]), rng.randint(0, 2))
            if rng.random() < 0.7:
                # As users guard: both ends of something like the subscript.
                kind = index[1]
                low = (">=", index if rng.random() < 0.7 else number(rng, kind, 1), ("const", kind, 0))
                high = (
                    "<",
                    index if rng.random() < 0.7 else ("+", kind, index, number(rng, kind, 0)),
                    ("const", kind, SIZE),
                )
                condition = ("and", low, high) if rng.random() < 0.6 else ("and", condition, ("and", low, high))
            stored = number(rng, "int32", 2)
            self.statements.append((condition, index, stored))
            lines += [f"        if {text(condition)}:", f"            O[{at}] = A[{text(index)}] + {text(stored)}"]
        trip = number(rng, "int32", 1)
        self.low, self.high = ("const", "int32", rng.randint(-1, 1)), ("min", "int32", trip, ("const", "int32", 3))
        self.text = "\n".join([
            'def f(a: T.int32, b: T.int32, c: T.int64, d: T.int64, X: T.Buffer((2,), "int32"), Y: T.Buffer((1,), "int64"),',
            '      A: T.Buffer((16,), "int32"), O: T.Buffer((4,), "int32")):',
            f"    for i in range({text(self.low)}, {text(self.high)}):",
            *lines,
        ]).replace("range(T.int32(", "range((").replace("for i in range((0), ", "for i in range(0, ")  # fmt: skip

    def expected(self, env: dict[str, int], data: np.ndarray) -> tuple[list[int], bool]:
        """What O holds, and whether an access is outside."""
        out = [-7] * 4
        env["i"] = 0  # the bounds do not use it
        for i in range(value(self.low, env), value(self.high, env)):
            env["i"] = i
            for at, (condition, index, stored) in enumerate(self.statements):
                if value(condition, env):
                    place = value(index, env)
                    if not 0 <= place < SIZE:
                        return out, True
                    out[at] = wrap(int(data[place]) + value(stored, env), "int32")
        return out, False


def check(seed: int, runs: int) -> str:
    """Build and run a program; returns how it ended."""
    one = Program(seed)
    if "i" in _leaves(one.high) or any(_index_overflows(part) for part in one.statements):
        return "skipped"
    rng = random.Random(seed + 1)
    func = parse(one.text)
    data = np.arange(SIZE, dtype="int32") * 37 + 5
    try:
        kernel = tl.build(func)
        refused = False
    except LegalityError as error:
        refused = True
        span = error.labels[0].span
        bad = next(at for at, line in enumerate(LINES) if span.line == line)
    for turn in range(runs):
        pick = {name: rng.choice(ENDS[kind]) for kind in ENDS for name in LEAVES[kind] if name != "i"}
        if turn % 2:  # values that get past conditions
            pick.update({name: rng.randint(-3, 20) for name in rng.sample(sorted(pick), 5)})
        want, outside = one.expected(dict(pick), data)
        if refused:
            assert want[bad] == -7, f"seed {seed}: statement {bad} is refused, and runs with {pick}\n{one.text}"
            continue
        for run in (kernel, lambda *args: tl.interpret(func, *args)):
            out = np.full(4, -7, "int32")
            args = [pick["a"], pick["b"], pick["c"], pick["d"], np.array([pick["X[0]"], pick["X[1]"]], "int32"),
                    np.array([pick["Y[0]"]], "int64"), data.copy(), out]  # fmt: skip
            failed = False
            try:
                run(*args)
            except (IndexError, tl.InterpreterError):
                failed = True
            assert failed == outside and out.tolist() == want, (
                f"seed {seed}: {'native' if run is kernel else 'interpreter'} with {pick}: {out.tolist()}, failed {failed}; "
                f"expected {want}, outside {outside}\n{one.text}"
            )
    return "refused" if refused else "ran"


def _leaves(e: Any) -> list[str]:
    if not isinstance(e, tuple):
        return []
    return [e[2]] if e[0] == "leaf" else [leaf for part in e for leaf in _leaves(part)]


def _chosen(e: Any) -> list[str]:
    """The leaves that say whether a value is data: not those of what chooses, and a conversion gives data."""
    if not isinstance(e, tuple):
        return []
    return (
        [e[2]]
        if e[0] in ("leaf", "cast")
        else [leaf for part in e[3 if e[0] == "select" else 0 :] for leaf in _chosen(part)]
    )


def _index_overflows(e: Any) -> bool:
    """Whether arithmetic on the loop variable alone leaves its type, which is left out here."""
    if not isinstance(e, tuple):
        return False
    if len(e) > 1 and e[1] in BITS and set(_leaves(e)) == {"i"}:
        for i in range(-1, 4):
            env = {"i": i, "outside": 0}
            value(e, env)
            if env["outside"]:
                return True
    return any(_index_overflows(part) for part in e)


def test_overflowing_indices_are_left_out():
    index, far = ("leaf", "int32", "i"), ("const", "int32", 2**30)
    assert _index_overflows(("<", ("*", "int32", index, far), far))
    assert not _index_overflows(("<", ("+", "int32", index, ("const", "int32", 9)), far))
    assert not _index_overflows(("*", "int32", ("leaf", "int32", "a"), far))


@pytest.mark.parametrize("block", range(4))
@pytest.mark.by_day
def test_arithmetic_on_data_wraps_and_nothing_outside_is_touched(block):
    ends = [check(seed, 12) for seed in range(block * 10, block * 10 + 10)]
    assert ends.count("ran") >= 5
