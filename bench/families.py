"""Programs of growing size, built: CPU seconds at n, 2n and 4n, and the growth for each doubling."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable

import tirlower as tl
from tirlower.script import parse

__all__ = ["FAMILIES", "report"]


def _head(n: int) -> str:
    return f"@T.prim_func\ndef f(A: T.Buffer(({n},), 'float32'), B: T.Buffer(({n},), 'float32')):\n"


def straight(n: int) -> str:
    """Statements in a row."""
    return _head(n) + "".join(
        f"    B[{k}] = A[{k * 7 % n}] * T.float32({k % 13 + 1}) + B[{k * 3 % n}]\n" for k in range(n)
    )


def unrolled(n: int) -> str:
    """One unrolled loop."""
    return _head(n) + f"    for i in T.unroll({n}):\n        B[i] = A[i] * T.float32(2)\n"


def arrays(n: int) -> str:
    """Local arrays, all alive at once."""
    made = "".join(f"    L{k} = T.alloc_buffer((16,), 'float32', scope='local')\n" for k in range(n))
    filled = "".join(f"    for i in range(16):\n        L{k}[i] = A[i] * T.float32({k})\n" for k in range(n))
    read = "".join(f"    for i in range(16):\n        B[i] = B[i] + L{k}[i]\n" for k in range(n))
    return _head(max(n, 16)) + made + filled + read


def lets(n: int) -> str:
    """Values, each of which uses the one before twice; the last is stored."""
    lines = "".join(f"    x{k + 1} = x{k} + x{k} * A[{k % 16}]\n" for k in range(n))
    return _head(16) + "    x0 = A[0]\n" + lines + f"    B[0] = x{n}\n"


def index_lets(n: int) -> str:
    """Integers, each of which uses the one before twice; the last is a subscript."""
    lines = "".join(f"        x{k + 1} = (x{k} + x{k} // 2) % 16\n" for k in range(n))
    return _head(16) + "    for x0 in range(16):\n" + lines + f"        B[x{n}] = A[x0]\n"


def divisions(n: int) -> str:
    """Divisions in one subscript, each of the one before."""
    index = "i"
    for k in range(n):
        index = f"({index} + i) // {k % 3 + 2}"
    return _head(64) + f"    for i in range(64):\n        B[{index} % 64] = A[i]\n"


def vector(n: int) -> str:
    """One slice assignment."""
    return _head(n) + f"    B[0:{n}] = A[0:{n}] + B[0:{n}]\n"


FAMILIES: dict[str, tuple[Callable[[int], str], int]] = {
    "straight statements": (straight, 500),
    "unrolled iterations": (unrolled, 500),
    "local arrays": (arrays, 50),
    "elements of a slice": (vector, 25000),
    "lets in a row": (lets, 40),
    "lets of a subscript": (index_lets, 40),
    "divisions in a subscript": (divisions, 20),
}


ROUNDS = 7
"""Each builds every size once, so that a slow moment of the machine does not meet one size alone."""


def _seconds(text: str) -> float:
    func = parse(text)
    start = time.process_time()
    tl.build(func, schedule="none")
    return time.process_time() - start


def report() -> str:
    """The table: at most 2.5 times a doubling is asked, and 2,000 statements at most 4.5 times 500."""
    os.environ["TIRLOWER_CACHE"] = "0"
    _seconds(straight(4))  # imports
    lines = [f"{'built, CPU seconds':24}{'n':>8}{'n':>9}{'2n':>9}{'4n':>9}   growth"]
    for name, (make, n) in FAMILIES.items():
        rounds = [[_seconds(make(n * times)) for times in (1, 2, 4)] for _ in range(ROUNDS)]
        taken = [min(sizes) for sizes in zip(*rounds, strict=True)]
        growth = ", ".join(f"{b / a:.2f}" for a, b in itertools.pairwise(taken))
        lines.append(f"{name:24}{n:8}" + "".join(f"{one:9.3f}" for one in taken) + f"   {growth}")
    return "\n".join(lines)
