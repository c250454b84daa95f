"""Which branches LLVM is told about: those that keep a record, and those that steer a search."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest

import tirlower as tl
from tirlower.script import parse

pytestmark = pytest.mark.by_day

HEAD = "@T.prim_func\ndef f(A: T.Buffer(('N',), 'float64'), I: T.Buffer(('N',), 'int64'), key: T.float64, O: T.Buffer((2,), 'int64')):\n"

ARGMAX = "best = A[0]\nat = 0\nfor i in range(1, N):\n if A[i] > best:\n  best = A[i]\n  at = i\nO[0] = at"
BISECT = "lo = 0\nhi = N\nwhile lo < hi:\n mid = (lo + hi) // 2\n if A[mid] < key:\n  lo = mid + 1\n else:\n  hi = mid\nO[0] = lo"

#: a body, and what its branch on data says
BODIES: dict[str, tuple[str, str]] = {
    "the greatest and its place": (ARGMAX, "record"),
    "the least, written the other way round": (ARGMAX.replace("A[i] > best", "best > A[i]"), "record"),
    "not strictly, of integers": (ARGMAX.replace("A[", "I[").replace("> best", ">= best"), "record"),
    "the greatest alone": (
        "best = A[0]\nfor i in range(1, N):\n if A[i] > best:\n  best = A[i]\nO[0] = T.cast(best, 'int64')",
        "",
    ),
    "something else is kept": (ARGMAX.replace("best = A[i]", "best = A[i] + 1.0"), ""),
    "something else is done otherwise": (ARGMAX.replace("  at = i", "  at = i\n else:\n  at = at - 1"), ""),
    "memory is written": (ARGMAX.replace("  at = i", "  at = i\n  O[1] = i"), ""),
    "outside of loops": (
        "best = A[0]\nat = 0\nif A[1] > best:\n best = A[1]\n at = 1\nO[0] = at + T.cast(best, 'int64')",
        "",
    ),
    "a search": (BISECT, "steers"),
    "a search for integers": (BISECT.replace("A[mid] < key", "I[mid] < 7"), "steers"),
    "an arm that does not end the search": (
        BISECT.replace("hi = mid", "other = mid").replace("lo = 0", "lo = 0\nother = 0"),
        "",
    ),
    "one arm": (BISECT.replace(" else:\n  hi = mid\n", " hi = hi - 1\n"), ""),
    "no memory": (BISECT.replace("A[mid] < key", "T.cast(mid, 'float64') < key"), ""),
    "an arm that reads memory": (BISECT.replace("hi = mid\n", "hi = T.cast(I[mid], 'int32')\n"), ""),
}


def func(body: str) -> tl.ir.PrimFunc:
    return parse(HEAD + "\n".join(f"    {line}" for line in body.split("\n")) + "\n")  # type: ignore[return-value]


def said(llvm: str) -> str:
    """What the branches to an arm say (guards, whose failure is unlikely, go elsewhere)."""
    lines = [line for line in llvm.splitlines() if re.search(r"br i1 .*label %then.*label %(else|endif)", line)]
    assert lines
    return " ".join(
        {"record" for line in lines if "!prof" in line} | {"steers" for line in lines if "!unpredictable" in line}
    )


@pytest.mark.parametrize("name", BODIES)
def test_what_is_said_of_a_branch(name: str) -> None:
    body, expected = BODIES[name]
    assert said(tl.build(func(body), tl.Target("llvm", num_threads=1), schedule="none").source("llvm")) == expected


def odds(llvm: str) -> list[str]:
    """The weights of the branches in conditions."""
    found = re.findall(r"br i1 %\S+, label %(?:then|choice)\S+ label %(?:else|choice)\S+ !prof (!\d+)", llvm)
    return [re.search(rf"^{node} = .*weights\", i32 (.*)}}$", llvm, re.M)[1] for node in found]  # type: ignore[index]


#: a condition in a loop, and the weights of its parts
GUARDS: dict[str, list[str]] = {
    "i < 7 and A[i] > key": ["4, i32 1"],
    "i > 7 or A[i] > key": ["1, i32 4"],
    "i > 7 or 2 < i and A[i] > key": ["1, i32 4", "4, i32 1"],
    "I[i] < 7 and A[i] > key": [],
    "i == 7 or A[i] > key": [],
    "key > 1.0 and A[i] > key": [],
    "i < 7 and i > 3": [],
}


@pytest.mark.parametrize("condition", GUARDS)
def test_what_a_guard_guards_is_mostly_evaluated(condition: str) -> None:
    assert (
        odds(tl.build(func(f"for i in range(N):\n if {condition}:\n  O[0] += 1"), schedule="none").source("llvm"))
        == GUARDS[condition]
    )
    outside = tl.build(func(f"i = N - 1\nif {condition}:\n O[0] += 1"), schedule="none").source("llvm")
    repeated = tl.build(func(f"i = 0\nwhile {condition}:\n i += 1\nO[0] = i"), schedule="none").source("llvm")
    assert odds(outside) == odds(repeated) == []


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names a processor of the x86 family")
@pytest.mark.parametrize(("body", "moves"), [(BISECT, True), (ARGMAX, False)])
def test_searches_move_and_records_jump(body: str, moves: bool) -> None:
    text = tl.build(func(body), tl.Target("llvm -mcpu=znver3", num_threads=1), schedule="none").source("asm")
    assert (len(re.findall(r"\bcmov", text)) >= 2) is moves


@pytest.mark.parametrize("order", ["rising", "falling", "random", "equal", "with NaN", "NaN first"])
def test_records_and_searches_are_what_python_finds(order: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.random(257)
    values = {"rising": np.sort(values), "falling": -np.sort(values), "equal": np.ones(257)}.get(order, values)
    if "NaN" in order:
        values[0 if order == "NaN first" else 100] = np.nan
    best, at = values[0], 0
    for i, value in enumerate(values):
        if value > best:
            best, at = value, i
    out, ints = np.zeros(2, np.int64), np.arange(257)
    tl.build(func(ARGMAX), schedule="none")(values, ints, 0.5, out)
    assert out[0] == at
    for key in (-1.0, 0.0, 0.3, values[200], 2.0):
        lo, hi = 0, 257
        while lo < hi:
            mid = (lo + hi) // 2
            lo, hi = (mid + 1, hi) if values[mid] < key else (lo, mid)
        tl.build(func(BISECT), schedule="none")(values, ints, key, out)
        assert out[0] == lo
