"""``python -m bench.from_numba``: the kernels of :mod:`bench.numba_kernels` as prim funcs, beside Numba in the same run.

What a user changes is done by :func:`prim_func_text`: the decorator, and the signature, whose types Numba infers from
the call and a prim func states. The bodies are taken as they stand, character by character.
"""

from __future__ import annotations

import ast
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tirlower as tl
from bench.measure import Call, Candidate
from tirlower.ir import PrimFunc
from tirlower.machine.cpu import host_cpu
from tirlower.script import parse

KERNELS = Path(__file__).with_name("numba_kernels.py")

X, Y, OUT = "T.Buffer(('N',), 'float64')", "T.Buffer(('N',), 'float64')", "T.Buffer(('N',), 'float64')"
INTS = "T.Buffer(('N',), 'int64')"

SIGNATURES: dict[str, dict[str, str]] = {
    "dot": {"x": X, "y": Y, "return": "T.float64"},
    "axpy": {"x": X, "y": Y, "a": "T.float64"},
    "rms": {"x": X, "return": "T.float64"},
    "mean_and_variance": {"x": X, "out": "T.Buffer((2,), 'float64')"},
    "matmul": {
        "a": "T.Buffer(('N', 'K'), 'float64')",
        "b": "T.Buffer(('K', 'M'), 'float64')",
        "c": "T.Buffer(('N', 'M'), 'float64')",
    },
    "mandelbrot": {"out": "T.Buffer(('N', 'M'), 'int64')", "limit": "T.int64", "scale": "T.float64"},
    "newton_sqrt": {"x": X, "out": OUT, "tol": "T.float64"},
    "collatz": {"start": INTS, "steps": INTS},
    "insertion_sort": {"x": X},
    "gcd": {"x": INTS, "y": INTS, "out": INTS},
    "fibonacci": {"out": INTS},
    "running_sum": {"x": X, "out": OUT},
    "histogram": {"x": X, "bins": "T.Buffer(('B',), 'int64')", "lo": "T.float64", "hi": "T.float64"},
    "neighbours": {"grid": "T.Buffer(('N', 'M'), 'float64')", "out": "T.Buffer(('N', 'M'), 'float64')"},
    "argmax": {"x": X, "return": "T.int64"},
    "horner": {"coeffs": "T.Buffer(('K',), 'float64')", "x": X, "out": OUT},
    "pairwise_distance": {"points": "T.Buffer(('N', 'D'), 'float64')", "out": "T.Buffer(('N', 'N'), 'float64')"},
    "moving_average": {"x": X, "out": OUT, "width": "T.int64"},
    "gravity": {
        "pos": "T.Buffer(('N', 3), 'float64')",
        "mass": X,
        "acc": "T.Buffer(('N', 3), 'float64')",
        "soft": "T.float64",
    },
    "binary_search": {"table": "T.Buffer(('K',), 'float64')", "keys": X, "out": INTS},
}
"""The types that each kernel's signature states."""


def definitions(kernels: Path = KERNELS) -> dict[str, tuple[ast.FunctionDef, str]]:
    """The syntax trees and texts of a file's kernels by name."""
    text = kernels.read_text()
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {node.name: (node, ast.get_source_segment(text, node) or "") for node in nodes}


def prim_func_text(name: str, kernels: Path = KERNELS, signatures: Mapping[str, Mapping[str, str]] = SIGNATURES) -> str:
    """A kernel with the decorator and the signature of a prim func."""
    node, text = definitions(kernels)[name]
    types = dict(signatures[name])
    returns = types.pop("return", None)
    params = [arg.arg for arg in node.args.args]
    assert params == list(types), f"the signature of {name} states {list(types)}, the kernel has {params}"
    values = [None] * (len(params) - len(node.args.defaults)) + [ast.unparse(d) for d in node.args.defaults]
    stated = [f"{p}: {types[p]}" + (f" = {v}" if v is not None else "") for p, v in zip(params, values, strict=True)]
    body = text.split("\n", 1)[1]
    return f"@T.prim_func\ndef {name}({', '.join(stated)}){f' -> {returns}' if returns else ''}:\n{body}\n"


def prim_func(name: str, kernels: Path = KERNELS, signatures: Mapping[str, Mapping[str, str]] = SIGNATURES) -> PrimFunc:
    """A kernel as a prim func."""
    made = parse(prim_func_text(name, kernels, signatures), {"math": math, "np": np})
    assert isinstance(made, PrimFunc)
    return made


def plain_python(name: str, kernels: Path = KERNELS) -> Callable[..., Any]:
    """A kernel as Python runs it, without Numba."""
    _, text = definitions(kernels)[name]
    scope: dict[str, Any] = {"math": math, "np": np}
    exec(compile(text, str(kernels), "exec"), scope)
    found: Callable[..., Any] = scope[name]
    return found


def arguments(name: str, large: bool = False) -> list[Any]:
    """Arguments for a kernel: of a size for timing, or small enough for Python."""
    rng = np.random.default_rng(len(name))
    n = 10_000 if large else 37
    side = 96 if large else 9
    x, y = rng.random(n) + 0.1, rng.random(n) - 0.3
    out = np.zeros(n)
    made: dict[str, list[Any]] = {
        "dot": [x, y],
        "axpy": [x, y],
        "rms": [x],
        "mean_and_variance": [x, np.zeros(2)],
        "matmul": [rng.random((side, side + 2)), rng.random((side + 2, side - 1)), np.zeros((side, side - 1))],
        "mandelbrot": [np.zeros((side, side - 2), np.int64), 60, 2.4 / side],
        "newton_sqrt": [x, out],
        "collatz": [np.arange(1, n // 4 + 2), np.zeros(n // 4 + 1, np.int64)],
        "insertion_sort": [rng.random(2_000 if large else side * 3)],
        "gcd": [rng.integers(1, 10**6, n), rng.integers(1, 10**6, n), np.zeros(n, np.int64)],
        "fibonacci": [np.zeros(90, np.int64)],
        "running_sum": [x, out],
        "histogram": [rng.random(n) * 1.2 - 0.1, np.zeros(17, np.int64)],
        "neighbours": [rng.random((side, side + 3)), np.zeros((side, side + 3))],
        "argmax": [x],
        "horner": [rng.random(7), x, out],
        "pairwise_distance": [rng.random((side, 3)), np.zeros((side, side))],
        "moving_average": [x, out],
        "gravity": [rng.random((side, 3)), rng.random(side), np.zeros((side, 3))],
        "binary_search": [np.sort(rng.random(257)), x, np.zeros(n, np.int64)],
    }
    return made[name]


def copies(values: Sequence[Any]) -> list[Any]:
    """The arguments, with arrays of their own."""
    return [v.copy() if isinstance(v, np.ndarray) else v for v in values]


def differing(ours: Sequence[Any], theirs: Sequence[Any], returned: Any, expected: Any) -> int:
    """How many elements (what was returned is one) differ by more than the order of a contraction explains."""
    assert (returned is None) == (expected is None), f"returned {returned!r} where {expected!r} is expected"
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if isinstance(a, np.ndarray)]
    pairs += [] if expected is None else [(returned, expected)]
    return sum(int(np.count_nonzero(~np.isclose(a, b, rtol=1e-12, atol=1e-13))) for a, b in pairs)


def agree(name: str, ours: Sequence[Any], theirs: Sequence[Any], returned: Any, expected: Any) -> None:
    """Raise where results differ by more than the order of a contraction explains."""
    wrong = differing(ours, theirs, returned, expected)
    assert not wrong, f"{name}: {wrong} elements differ"


#: turns of each candidate, next to one another in changing order, and the seconds of one: many short turns, since a shared
#: machine changes its speed from one moment to the next
ROUNDS, SLICE = 101, 0.004

#: kernels whose results tell a rounding apart: an orbit on the border of the set escapes some iterations sooner or later
CHAOTIC = frozenset({"mandelbrot"})

#: kernels that find nothing left to do in what they did already
RESTORED = frozenset({"insertion_sort"})


def compared(name: str, start: Sequence[Any], kernel: Callable[..., Any], peer: Callable[..., Any]) -> tuple[int, int]:
    """How many elements our result and Numba's have that differ from plain Python's.

    Without contraction ours has none, whatever the kernel; with it, chaotic kernels alone may have some.
    """
    expected = copies(start)
    wanted = plain_python(name)(*expected)
    found = []
    exact = tl.build(prim_func(name), tl.Target("llvm -fast-math-contract=0", num_threads=1))
    for one in (exact, kernel, peer):
        mine = copies(start)
        returned = one(*mine)
        found.append(differing(mine, expected, returned, wanted))
    assert not found[0], f"{name}: {found[0]} elements differ from Python's, without contraction"
    assert not found[1] or name in CHAOTIC, f"{name}: {found[1]} elements differ from Python's"
    return found[1], found[2]


def candidate(name: str, fn: Callable[..., Any], values: Sequence[Any], start: Sequence[Any]) -> Candidate:
    """A call to time, both on the same arrays; a sort gets its input back before each."""
    if name not in RESTORED:
        return Call(fn, tuple(values))

    def restored() -> None:
        for mine, first in zip(values, start, strict=True):
            mine[...] = first
        fn(*values)

    return restored


def processor() -> str:
    """The processor's name as its maker writes it, where the system says it, and LLVM's name of its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
    return f"{named} ({host_cpu().name})"


def main() -> int:
    """Compare every kernel with plain Python, then time it and Numba's in turn, in processor time of the one thread."""
    import bench.numba_kernels as theirs
    from bench.measure import human, interleave
    from bench.numba_kernels import njit  # noqa: F401  (says at once that Numba is missing)

    target = tl.Target("llvm", num_threads=1)
    faster = 0
    print(f"on {processor()}, load {os.getloadavg()[0]:.1f}")
    print(
        f"{'kernel':<20}{'tirlower':>12}{'Numba':>12}{'Numba / tirlower':>19}  elements unlike Python's: ours, Numba's"
    )
    for name in SIGNATURES:
        kernel, peer = tl.build(prim_func(name), target), getattr(theirs, name)
        start = arguments(name, large=True)
        differ = compared(name, start, kernel, peer)
        ours = copies(start)
        calls = {"ours": candidate(name, kernel, ours, start), "numba": candidate(name, peer, ours, start)}
        interleave(calls, rounds=4, slice_seconds=0.005, clock=time.thread_time)  # warm: caches, predictors, the clock
        timed = interleave(calls, rounds=ROUNDS, slice_seconds=SLICE, clock=time.thread_time)
        ratio = timed["numba"].ratio(timed["ours"])
        faster += ratio >= 1.0
        columns = f"{human(timed['ours'].median):>12}{human(timed['numba'].median):>12}{ratio:>18.3f}x"
        print(f"{name:<20}{columns}  {differ[0]}, {differ[1]}", flush=True)
    print(f"at least as fast as Numba: {faster} of {len(SIGNATURES)}; load {os.getloadavg()[0]:.1f}")
    return 0 if faster >= 18 else 1


if __name__ == "__main__":
    sys.exit(main())
