"""Programs at the ends of their types, and their calls: what C leaves undefined, and TIR does not.

``python -m tests.c.extremes`` runs them compiled with the sanitizers of the compiler, which end the process at the first
thing that is undefined (start it with the sanitizers' library in LD_PRELOAD).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.c.batch import compile_all
from tests.script.forms import FORMS
from tirlower.script import parse

__all__ = ["PROGRAMS", "SANITIZE", "ends", "run_all"]

SANITIZE = ("-O1", "-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all")
WIDTHS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def ends(dtype: str) -> list[int]:
    """The numbers at which a type's arithmetic goes wrong."""
    info = np.iinfo(dtype)
    near = [info.min, info.min + 1, info.max - 1, info.max, -3, -1, 0, 1, 2, 7]
    return sorted({value for value in near if info.min <= value <= info.max})


def binary(dtype: str) -> str:
    """All that is computed of two integers; quotients where there are some."""
    values = ["x + y", "x - y", "x * y", "T.min(x, y)", "T.max(x, y)", "T.bitwise_xor(x, y)", "T.shift_left(x, y)", "T.shift_right(x, y)",
              "T.abs(x)", "T.bitwise_not(x)", "T.popcount(x)"]  # fmt: skip
    quotients = ["x // y", "x % y", "T.truncdiv(x, y)", "T.truncmod(x, y)"]
    lines = ["@T.prim_func", f'def f(x: T.{dtype}, y: T.{dtype}, O: T.Buffer((15,), "{dtype}")):']
    lines += [f"    O[{at}] = {value}" for at, value in enumerate(values)]
    lines.append(f"    if y != T.{dtype}(0):")
    lines += [f"        O[{len(values) + at}] = {value}" for at, value in enumerate(quotients)]
    return "\n".join(lines)


CASTS = "\n".join(
    ["@T.prim_func", 'def f(x: T.float64, B: T.Buffer((1,), "bool"), ' + ", ".join(f'O{i}: T.Buffer((1,), "{d}")' for i, d in enumerate(WIDTHS)) + "):", "    B[0] = T.Cast('bool', x)"]
    + [f"    O{i}[0] = T.Cast('{d}', x)" for i, d in enumerate(WIDTHS)]
)  # fmt: skip

PROGRAMS: dict[str, str] = {f"binary_{dtype}": binary(dtype) for dtype in WIDTHS} | {
    "casts": CASTS,
    "divide": "@T.prim_func\ndef f(x: T.int32, y: T.int32) -> T.int32:\n    return x // y",
    "aliased": """
@T.prim_func
def f(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "float32")):
    for i in range(n):
        B[i] = T.Cast("float32", A[i]) + T.float32(1)
""",
    "views": """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), O: T.Buffer((4,), "float32")):
    V = T.decl_buffer((4,), "float32", data=A.data)
    for i in range(4):
        V[i] = V[i] + T.float32(1)
        A[i] = A[i] + 1
        O[i] = V[i]
""",
    "floats": """
@T.prim_func
def f(x: T.float32, y: T.float32, O: T.Buffer((6,), "float32")):
    O[0] = T.min(x, y)
    O[1] = T.max(x, y)
    O[2] = x // y
    O[3] = x % y
    O[4] = x / y
    O[5] = -x
""",
    "sums": """
@T.prim_func
def f(n: T.int64, A: T.Buffer((n,), "int64"), S: T.Buffer((1,), "int64")):
    t = T.alloc_buffer((n + T.int64(1),), "int64")
    S[0] = T.int64(0)
    for i in range(n):
        t[i] = A[i]
        S[0] += t[i]
        if A[i] == T.int64(7):
            break
""",
}


def compiled(options: tuple[str, ...] = ("-O2",)) -> dict[str, Callable[..., Any]]:
    """The programs' kernels."""
    made = compile_all({name: parse(text) for name, text in PROGRAMS.items()}, options)
    found: dict[str, Callable[..., Any]] = {}
    for name, kernels in made.items():
        assert isinstance(kernels, Mapping), kernels
        (found[name],) = kernels.values()
    return found


def run_all(options: tuple[str, ...]) -> int:
    """Call every program, and every form of the dialect; gives how many calls were made."""
    kernels, calls = compiled(options), 0
    for dtype in WIDTHS:
        for x, y in itertools.product(ends(dtype), repeat=2):
            kernels[f"binary_{dtype}"](x, y, np.zeros(15, dtype))
            calls += 1
    for x in (0.0, -0.5, 1e10, -1e10, 1e300, -1e300, float("inf"), float("-inf"), float("nan")):
        kernels["casts"](x, np.zeros(1, bool), *[np.zeros(1, dtype) for dtype in WIDTHS])
        kernels["floats"](np.float32(min(max(x, -3e38), 3e38)), 0.0, np.zeros(6, "float32"))
        calls += 2
    memory = np.arange(4, dtype="int32")
    kernels["views"](memory, np.zeros(4, "float32"))
    for n in (0, 1, 9):
        kernels["sums"](n, np.arange(n, dtype="int64"), np.zeros(1, "int64"))
        kernels["aliased"](np.zeros(n, "int32"), np.zeros(n, "float32"))
    made = compile_all({name: form.func for name, form in FORMS.items()}, options)
    for name, form in FORMS.items():
        found = made[name]
        if isinstance(found, Mapping) and form.expected is not None:
            run = next(iter(found.values())) if len(found) == 1 else found[form.entry.attrs["global_symbol"]]
            run(*form.arguments())
            calls += 1
    return calls


if __name__ == "__main__":
    print(run_all(SANITIZE), "calls")
